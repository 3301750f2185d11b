"""docker/volumes/serve.sh: the daemon that it waits for is one process, known by pid and start time."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from volbench.machine.volume.emulated.attachments import LOCK, process_start_ticks
from volbench.machine.volume.emulated.teardown import take_lock

SCRIPT = Path(__file__).parents[2] / "docker" / "volumes" / "serve.sh"


@pytest.mark.parametrize(("later", "lives"), [(0, True), (1, False)])
def test_the_daemon_is_known_by_its_start_time(later: int, lives: bool) -> None:
    """Of a process whose name holds a parenthesis and a blank, by the function as it stands in the script."""
    match = re.search(r"^lives\(\) \{\n.*?^\}\n", SCRIPT.read_text(), re.MULTILINE | re.DOTALL)
    assert match is not None
    process = subprocess.Popen(["sh", "-c", "printf 'a) b' >/proc/self/comm; read -r _"], stdin=subprocess.PIPE)
    try:
        started = process_start_ticks(process.pid)
        assert started is not None
        script = f"daemon={process.pid}\nstarted={started + later}\n{match[0]}\nlives"
        assert (subprocess.run(["sh", "-euc", script], check=False).returncode == 0) is lives
    finally:
        process.kill()
        process.communicate(timeout=60)
    script = f"daemon={process.pid}\nstarted={started}\n{match[0]}\nlives"
    assert subprocess.run(["sh", "-uc", script], check=False).returncode != 0


def test_the_script_parses() -> None:
    assert subprocess.run(["sh", "-n", SCRIPT], check=False).returncode == 0


def test_the_volume_of_another_container_is_not_removed(tmp_path: Path) -> None:
    """What a killed container left is removed at the start; a volume whose daemon lives is in use."""
    check = re.search(r"^flock .*?^\}\n", SCRIPT.read_text(), re.MULTILINE | re.DOTALL)
    assert check is not None
    (tmp_path / "b").mkdir()
    environment = {"PATH": os.environ["PATH"], "PLACE": str(tmp_path), "NAME": "b"}

    def exit_code() -> int:
        return subprocess.run(["sh", "-euc", check[0]], check=False, env=environment).returncode

    assert exit_code() == 0  # nothing was started there
    with (tmp_path / "b" / LOCK).open("wb") as lock:
        assert exit_code() == 0
        assert take_lock(lock)
        assert exit_code() == 4
