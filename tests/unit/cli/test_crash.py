"""The net under all commands: exit code 70, one message, a file for a bug report without secrets."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from volbench.cli import main as command_line
from volbench.cli.crash import crashed, report_text
from volbench.errors import EXIT_CRASHED

SECRET = "s3cr3t-w0rd"
ARGUMENTS = ["run", "suites/quick.yaml", "--server", f"mysql://u:{SECRET}@h/x", "--api-token", SECRET]


def fault() -> ZeroDivisionError:
    try:
        raise ZeroDivisionError(f"mysql://u:{SECRET}@h/x password={SECRET}")
    except ZeroDivisionError as error:
        return error


def test_a_fault_is_no_no_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipeline takes exit code 1 for a gate's answer."""

    def broken(**_: object) -> None:
        raise fault()

    monkeypatch.setattr(command_line, "app", broken)
    monkeypatch.setattr(sys, "argv", ["volbench", *ARGUMENTS])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == EXIT_CRASHED == 70
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("volbench:") == 1
    assert "Traceback" not in captured.err
    (file,) = tmp_path.iterdir()
    assert str(file) in re.sub(r"\s+", "", captured.err)
    assert file.stat().st_mode & 0o077 == 0
    text = file.read_text()
    assert "Traceback" in text
    assert "command: volbench run suites/quick.yaml" in text
    assert SECRET not in text + captured.err


def test_secrets_of_the_environment_are_left_out() -> None:
    """Whatever they are called, and wherever the traceback has them."""
    environment = {"VOLBENCH_MYSQL_PASSWORD": "open-sesame", "AWS_SECRET_ACCESS_KEY": "akia-x", "HOME": "/root"}
    error = ValueError("refused: open-sesame, akia-x, /root")
    text = report_text(error, ["plan", "--password=open-sesame"], environment)
    assert "open-sesame" not in text
    assert "akia-x" not in text
    assert "/root" in text


def test_the_message_names_the_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where no file can be written."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    result = crashed(fault(), ARGUMENTS)
    assert result.exit_code == EXIT_CRASHED
    assert "could not write a file" in result.next_step
    assert SECRET not in str(result)


def test_the_working_directory_is_no_secret() -> None:
    """PWD is the shell's; a traceback whose paths are masked helps nobody."""
    environment = {"PWD": "/home/dba/volbench", "OLDPWD": "/home/dba", "MYSQL_PWD": "open-sesame"}
    error = ValueError("/home/dba/volbench/runner/volbench/x.py, open-sesame")
    text = report_text(error, ["plan"], environment)
    assert "/home/dba/volbench/runner/volbench/x.py" in text
    assert "open-sesame" not in text
