"""No password is on a command line, in a file of a run or in the log."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from command_line import QUICK, volbench_process
from typer.testing import CliRunner

from volbench.cli.main import app

SECRET = "s3cr3t-w0rd"


@pytest.mark.parametrize(
    "server",
    [
        f"mysql://u:{SECRET}@h/",
        f"mysql://u:x:{SECRET}/y@z@h:3306/db",
        f"mysql://:{SECRET}@h/",
        f"mysql://u:{SECRET}#@h/",
        f"mysql://u:{SECRET}@h:port/",
        f"mariadb://u:{SECRET}@h/",
        f"u:{SECRET}@h",
    ],
)
@pytest.mark.parametrize("target", ["attach", "local"])
def test_a_password_on_the_command_line_is_refused_and_not_repeated(
    tmp_path: Path, server: str, target: str
) -> None:
    """Whatever the target, and before anything is written."""
    ended = CliRunner().invoke(
        app, ["run", QUICK, "--target", target, "--server", server, "--out", str(tmp_path / "results"), "--yes"]
    )
    assert ended.exit_code != 0
    assert ended.exception is not None
    assert SECRET not in str(ended.exception) + ended.output
    assert "***" in str(ended.exception)
    assert not (tmp_path / "results").exists()


def test_no_password_gets_into_run_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of the environment, nor of the option file, nor of an argument that happens to hold one."""
    option_file = tmp_path / "my.cnf"
    option_file.write_text(f"[client]\npassword={SECRET}\n")
    option_file.chmod(0o600)
    monkeypatch.setenv("VOLBENCH_MYSQL_PASSWORD", SECRET)
    monkeypatch.setattr(sys, "argv", ["volbench", "plan", QUICK, f"--set=description=mysql://u:{SECRET}@h/"])
    ended = CliRunner().invoke(
        app,
        ["plan", QUICK, "--server", "mysql://u@h/db", "--json"],
    )
    assert ended.exit_code == 0, ended.output
    planned = json.loads(ended.stdout)
    assert planned["run"]["target_options"]["user"] == "u"
    assert planned["run"]["command"][-1] == "--set=description=mysql://u:***@h/"
    assert SECRET not in ended.stdout


def test_no_password_is_in_the_log(tmp_path: Path) -> None:
    """Neither of a DSN that is refused, nor of the environment, nor of an option file."""
    log = tmp_path / "v.log"
    options = tmp_path / "client.cnf"
    options.write_text(f"[client]\npassword={SECRET}\nhost=127.0.0.1\n")
    options.chmod(0o600)
    environment = {"VOLBENCH_LOG": str(log), "VOLBENCH_MYSQL_PASSWORD": SECRET}
    refused = volbench_process(
        "run",
        QUICK,
        "--target",
        "attach",
        "--server",
        f"mysql://root:{SECRET}@127.0.0.1:1/x",
        environment=environment,
    )
    assert refused.returncode == 2
    tried = volbench_process(
        "run",
        QUICK,
        "--yes",
        "--verbose",
        "--target",
        "attach",
        "--server",
        "mysql://root@127.0.0.1:1/x",
        "--option-file",
        str(options),
        "--out",
        str(tmp_path),
        environment=environment,
    )
    assert tried.returncode == 3, tried.stderr
    text = log.read_text()
    assert "connect to 127.0.0.1:1 as root" in text
    assert SECRET not in text + refused.stderr + tried.stderr + tried.stdout
