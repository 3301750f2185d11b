"""One state has one daemon, and a start that is refused leaves nothing, on the real kernel."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import volbench
from emulated_volumes import volume
from hostile_user import RUNNER
from waiting import INTERVAL_S, wait_for

from volbench.core.base.marker import MARKER
from volbench.machine.volume.emulated.attachments import attachments
from volbench.machine.volume.emulated.requirements import find_daemon
from volbench.machine.volume.emulated.status import list_volumes

pytestmark = pytest.mark.emulator
STARTS = 4
ROUNDS = 3
KILLS = 12
KILL_STEP_S = 0.04


def begin(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "volbench", "volume", *arguments],
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(RUNNER)},
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


def ended_here(*arguments: str) -> tuple[int, str]:
    """A command in this process, which has imported what it needs; a start has to be a process, to be killed."""
    done = volbench("volume", *arguments, environment={"COLUMNS": "200"})
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("profile", ["ebs-gp3", "efs-elastic"])
def test_a_second_daemon_of_the_same_state_is_refused(root: Path, profile: str) -> None:
    """Its configuration names another directory and another path to the backing."""
    with volume(root, profile) as first:
        config = json.loads((first.directory / "config.json").read_text())
        second = root / "other"
        (second / "mount").mkdir(parents=True)
        (second / "backing").symlink_to(config["backing"])
        config |= {"directory": str(second), "mount": str(second / "mount"), "backing": str(second / "backing")}
        (second / "config.json").write_text(json.dumps(config))
        daemon = find_daemon()
        assert daemon is not None
        done = subprocess.run(
            [daemon, "run", second / "config.json"], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, "another daemon serves this volume" in done.stderr) == (1, True)
        assert not (second / "mount").is_mount()
        assert first.state()["phase"] == "ready"
        for entry in ("backing", "config.json"):
            (second / entry).unlink()
        (second / "mount").rmdir()
        second.rmdir()
    first.remove()


def test_of_simultaneous_starts_one_wins_and_keeps_its_volume(root: Path) -> None:
    """Who comes too late says so, and does not take down what the first one started."""
    for number in range(ROUNDS):
        name = f"v{number}"
        spec = "emulated:ebs-gp3?size=1GiB"
        starts = [begin("emulate", spec, "--dir", str(root), "--name", name) for _ in range(STARTS)]
        results = [ended(process) for process in starts]
        codes = sorted(code for code, _ in results)
        assert codes == [0, 4, 4, 4], results
        (listed,) = [volume for volume in list_volumes(root) if volume.name == name]
        assert listed.status == "running"
        assert (root / name / "data").is_mount()
        assert len(attachments(root / name).daemons) == 1
        assert ended(begin("remove", str(root / name)))[0] == 0
    assert list(root.iterdir()) == []


def test_a_start_and_a_removal_at_once_end_in_one_or_the_other(root: Path) -> None:
    """Never in a daemon whose bytes somebody else has erased."""
    for _ in range(ROUNDS):
        assert ended(begin("emulate", "emulated:efs-elastic", "--dir", str(root), "--name", "v"))[0] == 0
        assert ended(begin("stop", str(root / "v")))[0] == 0
        processes = [
            begin("remove", str(root / "v")),
            begin("emulate", "emulated:efs-elastic", "--dir", str(root), "--name", "v"),
        ]
        results = [ended(process) for process in processes]
        volumes = list_volumes(root)
        if volumes:
            assert volumes[0].status in ("running", "stopped"), results
            if volumes[0].status == "running":
                (root / "v" / "data" / "file").write_text("x")
                assert (root / "v" / "backing" / "tree" / "file").read_text() == "x"
            assert ended(begin("remove", str(root / "v")))[0] == 0
        assert list(root.iterdir()) == []


def test_a_refused_emulate_leaves_nothing(root: Path) -> None:
    """The disk below is too small for the image: neither the volume's directory nor its new parent stays."""
    small = root / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "volbench-test", small], check=True, timeout=60)
    try:
        code, output = ended(begin("emulate", "emulated:ebs-gp3?size=50GiB", "--dir", str(small / "new")))
        assert (code, "too little free space" in output) == (3, True)
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True, timeout=60)
        small.rmdir()


@pytest.mark.parametrize("spec", ["emulated:ebs-gp3?size=1GiB", "emulated:efs-elastic"])
def test_a_start_that_is_killed_at_any_moment_is_known_and_can_be_removed(root: Path, spec: str) -> None:
    """The next command detaches what is attached, `list` has what is there, `remove` leaves nothing of it."""
    result = 0
    for number in range(KILLS):
        process = begin("emulate", spec, "--dir", str(root), "--name", "v")
        wait_for((root / "v").is_dir, "the start made nothing", interval_s_max=INTERVAL_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(number * KILL_STEP_S)
        process.kill()
        ended(process)
        if (root / "v" / MARKER).exists():
            result += 1
            code, listed = ended_here("list", "--dir", str(root))
            assert (code, f"{root / 'v'}" in listed) == (0, True), listed
        else:  # killed before the marker: nothing says whose it is, and the next start takes it
            code, output = ended(begin("emulate", spec, "--dir", str(root), "--name", "v"))
            assert code == 0, output
        code, output = ended_here("remove", str(root / "v"))
        assert code == 0, output
        assert list(root.iterdir()) == []
        assert not attachments(root / "v")
    assert result > 0
