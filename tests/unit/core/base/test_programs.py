"""Every program that volbench starts is in the log, and no secret is."""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from volbench.core.base import programs
from volbench.core.base.redact import redact, without_literals

PACKAGE = Path("runner/volbench")
SECRET = "hunter2-s3cret"


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("volbench").propagate = True
    caplog.set_level(logging.DEBUG, "volbench")


def test_a_program_is_logged_with_arguments_exit_code_and_duration(caplog: pytest.LogCaptureFixture) -> None:
    done = programs.run(
        [sys.executable, "-c", "import sys; sys.stderr.write('no such thing'); sys.exit(3)"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3
    (line,) = [record.getMessage() for record in caplog.records]
    assert "sys.exit(3)" in line
    assert "exit code 3 after" in line
    assert line.endswith("no such thing")


def test_one_that_is_missing_or_takes_too_long_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(FileNotFoundError):
        programs.run(["no-such-program-here"])
    with pytest.raises(FileNotFoundError):
        programs.Popen(["no-such-program-here"])
    with pytest.raises(subprocess.TimeoutExpired):
        programs.run(["sleep", "60"], timeout=0.2)
    text = caplog.text
    assert text.count("FileNotFoundError") == 2
    assert "TimeoutExpired" in text


def test_one_that_runs_on_is_logged_at_its_start_and_once_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    process = programs.Popen([sys.executable, "-c", "print('x')"], stdout=subprocess.PIPE)
    assert process.communicate()[0] == b"x\n"
    assert process.wait() == process.poll() == 0
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert "started" in messages[0]
    assert f"process {process.pid}, exit code 0" in messages[1]


@pytest.mark.parametrize(
    "text",
    [
        f"--server mysql://app:{SECRET}@db:3306/shop",
        f"--server mysql://app:{SECRET}@more@db:3306/shop",
        f"--password={SECRET} --host=db",
        f"--password {SECRET}".replace(" ", "="),
        f'password = "{SECRET} and more"',
        f"CREATE USER 'a'@'b' IDENTIFIED BY '{SECRET}'",
        f"ALTER USER a IDENTIFIED WITH caching_sha2_password BY '{SECRET}'",
        f"{{'Authorization': 'Bearer {SECRET}'}}",
        f"GET /x?token={SECRET}",
        f"MYSQL_ROOT_PASSWORD={SECRET}",
    ],
)
def test_a_secret_is_masked(text: str) -> None:
    assert SECRET not in redact(text, {})
    assert "***" in redact(text, {})


def test_a_secret_of_the_environment_is_masked_wherever_it_stands() -> None:
    assert redact(f"it said {SECRET}!", {"VOLBENCH_MYSQL_PASSWORD": SECRET}) == "it said ***!"
    assert redact("a plain text: mysqld --port=3306", {}) == "a plain text: mysqld --port=3306"


def test_texts_of_a_statement_are_left_out() -> None:
    assert without_literals("SELECT 'it''s', \"x\\\"y\", 5 FROM t") == "SELECT '?', '?', 5 FROM t"
    assert without_literals("SELECT 'a', 'that is cut") == "SELECT '?', '?'"


def test_no_module_starts_a_program_past_the_log() -> None:
    """`programs.run` and `programs.Popen` instead of those of subprocess; the log is then complete."""
    faults = [
        f"{path}:{node.lineno}: {ast.unparse(node.func)}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / "core/base/programs.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func)
        in {f"subprocess.{name}" for name in ("run", "Popen", "call", "check_call", "check_output")}
        | {"os.system", "os.popen"}
    ]
    assert faults == []
