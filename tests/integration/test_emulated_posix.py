"""Public suites on emulated volumes: fsx (random operations on one file) and pjdfstest (what POSIX says of calls).

Both come by `make posix-suites`. Nothing may fail. What is skipped needs what no filesystem of Linux has, such as
NFSv4 ACLs, or a limit that this one does not tell, such as the largest number of links.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from emulated_volumes import volume, without_delay

CACHE = Path(os.environ.get("VOLBENCH_CACHE", Path.home() / ".cache" / "volbench")) / "posix-suites" / "bin"
SUITES = {name: shutil.which(name, path=f"{CACHE}:{os.environ.get('PATH', '')}") for name in ("fsx", "pjdfstest")}
pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(None in SUITES.values(), reason="needs fsx and pjdfstest (mend: make posix-suites)"),
]

KINDS = [("fsx-openzfs", {}), ("fsx-openzfs", {"mode": "async"}), ("ebs-gp3", {"filesystem": "xfs"})]
IDS = ["files", "files-async", "block"]
PJDFSTEST = """
[features]
posix_fallocate = {}
[settings]
naptime = 0.01
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"""
FSX = """
[weights]
close_open = 1
invalidate = 1
fsync = 1
fdatasync = 1
posix_fallocate = 1
punch_hole = 1
copy_file_range = 1
sendfile = 1
truncate = 1
read = 4
write = 4
mapread = 2
mapwrite = 2
"""


def run_suite(name: str, *arguments: str | Path) -> str:
    """What a suite says, in full when it fails."""
    argv = [str(SUITES[name]), *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


@pytest.mark.parametrize(("profile", "options"), KINDS, ids=IDS)
def test_calls_do_what_posix_says(root: Path, profile: str, options: dict[str, str]) -> None:
    config = root / "pjdfstest.toml"
    config.write_text(PJDFSTEST)
    root.chmod(0o755)  # the suite changes to other users
    subject = volume(root, profile, **options)
    subject.resolved = without_delay(subject.resolved)
    with subject:
        subject.directory.chmod(0o755)
        suite = run_suite("pjdfstest", "-c", config, "-p", subject.data)
        counted = re.search(r"Summary: (\d+) failed, (\d+) skipped, (\d+) passed", suite)
        assert counted is not None
        failed, skipped, passed = map(int, counted.groups())
        assert (failed, passed > 340) == (0, True), suite[-3000:]
        assert skipped < 50
    config.unlink()
    subject.remove()


@pytest.mark.parametrize("transport", ["io_uring"], indirect=True)
def test_a_block_volume_over_io_uring_holds_what_random_operations_left(root: Path, transport: str) -> None:
    test_a_file_holds_what_random_operations_left(root, "ebs-gp3", {"filesystem": "ext4"}, 3000)


@pytest.mark.parametrize("operations", [3000, pytest.param(200_000, marks=pytest.mark.slow)], ids=["short", "long"])
@pytest.mark.parametrize(("profile", "options"), KINDS, ids=IDS)
def test_a_file_holds_what_random_operations_left(
    root: Path, profile: str, options: dict[str, str], operations: int
) -> None:
    config = root / "fsx.toml"
    config.write_text(FSX)
    subject = volume(root, profile, **options)
    subject.resolved = without_delay(subject.resolved)
    with subject:
        suite = run_suite("fsx", "-f", config, "-N", str(operations), "-S", "7", "-P", root, subject.data / "file")
        assert "A-OK" in suite
    config.unlink()
    subject.remove()
