"""Commands of the set-up leave a log, and a failure shows its end."""

import sys
from pathlib import Path

import pytest

from bootstrap.command import run
from volbench.errors import MissingPrerequisite


def test_output_and_command_are_logged(tmp_path: Path) -> None:
    run([sys.executable, "-c", "print('done')"], log=tmp_path / "log", label="a step", timeout_s=60)
    text = (tmp_path / "log").read_text()
    assert text.startswith(f"$ {sys.executable} -c")
    assert text.endswith("done\n")


def test_failure_carries_exit_code_and_last_lines(tmp_path: Path) -> None:
    script = "import sys; [print('line', i) for i in range(100)]; sys.exit(7)"
    with pytest.raises(MissingPrerequisite, match=r"a step failed \(exit code 7\)[\s\S]*line 99") as caught:
        run([sys.executable, "-c", script], log=tmp_path / "log", label="a step", timeout_s=60)
    assert "line 80" not in str(caught.value)


def test_time_limit_ends_the_command(tmp_path: Path) -> None:
    with pytest.raises(MissingPrerequisite, match=r"not done after 0\.2 s"):
        run(["sleep", "30"], log=tmp_path / "log", label="a step", timeout_s=0.2)


def test_program_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(MissingPrerequisite, match="No such file"):
        run(["no-such-program-anywhere"], log=tmp_path / "log", label="a step", timeout_s=1)
