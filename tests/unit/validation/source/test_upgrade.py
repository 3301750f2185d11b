"""MySQL Shell's upgrade checker, by a stand-in that prints what MySQL's manual documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from volbench.core.records.validation.result import ServerSide
from volbench.machine.engine.connection import Account
from volbench.validation.source.upgrade import OWN_STATEMENTS, upgrade_check, upgrade_row

ACCOUNT = Account(user="checker", password="not in argv", host="db-old", port=3307)
SOURCE = ServerSide(address="db-old:3307", flavor="mysql", version="8.0.45", user="checker")
CANDIDATE = ServerSide(address="db-new:3306", flavor="mysql", version="9.7.0-commercial", user="root")
REPORT: dict[str, Any] = {
    "serverAddress": "db-old:3307",
    "serverVersion": "8.0.45",
    "targetVersion": "9.7.0",
    "errorCount": 1,
    "warningCount": 1,
    "noticeCount": 0,
    "summary": "1 errors were found.",
    "checksPerformed": [
        {"id": "oldTemporalCheck", "title": "Usage of old temporal type", "status": "OK", "detectedProblems": []},
        {
            "id": "reservedKeywordsCheck",
            "title": "Names that are reserved words",
            "status": "OK",
            "description": "Objects have names of reserved words.",
            "detectedProblems": [{"level": "Warning", "dbObject": "shop.manual", "description": "Column name"}],
        },
        {
            "id": "authMethodUsage",
            "title": "Removed authentication methods",
            "status": "OK",
            "detectedProblems": [{"level": "Error", "dbObject": "app@%", "description": "mysql_native_password"}],
        },
    ],
    "manualChecks": [{"id": "defaultAuthenticationPlugin", "title": "New default authentication plugin"}],
}


def stand_in(directory: Path, printed: str, *, code: int = 0, message: str = "") -> None:
    tool = directory / "mysqlsh"
    (directory / "printed").write_text(printed)
    tool.write_text(
        f'#!/bin/sh\nfor one in "$@"; do echo "$one" >> {directory}/argv; done\n/bin/cat > {directory}/stdin\n'
        f"echo '{message}' >&2\n/bin/cat {directory}/printed\nexit {code}\n"
    )
    tool.chmod(0o755)


def test_errors_are_a_no_go_and_told_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, "WARNING: a line before\n" + json.dumps(REPORT, indent=4) + "\n", code=1)
    monkeypatch.setenv("PATH", str(tmp_path))
    row = upgrade_check(ACCOUNT, SOURCE, CANDIDATE)
    assert (row.check, row.decision) == ("upgrade", "no-go")
    assert row.text == "1 error and 1 warning or notice of 3 checks for 9.7.0"
    assert row.details == (
        "error: app@%: Removed authentication methods: mysql_native_password",
        "warning: shop.manual: Names that are reserved words: Column name",
        "check by hand: New default authentication plugin",
        OWN_STATEMENTS,
    )
    argv = (tmp_path / "argv").read_text()
    assert "--target-version=9.7.0\n" in argv
    assert "--host=db-old\n--port=3307\n" in argv
    assert ACCOUNT.password not in argv
    assert (tmp_path / "stdin").read_text() == f"{ACCOUNT.password}\n"


def test_warnings_alone_are_a_go_and_a_check_that_did_not_run_is_open() -> None:
    warned = {**REPORT, "errorCount": 0, "checksPerformed": REPORT["checksPerformed"][:2]}
    assert upgrade_row(warned).decision == "go"
    failed = {"id": "x", "title": "Partitions", "status": "ERROR", "description": "access denied"}
    open_row = upgrade_row({**warned, "checksPerformed": [*warned["checksPerformed"], failed]})
    assert open_row.decision == "undecided"
    assert "not checked: Partitions: access denied" in open_row.details


@pytest.mark.parametrize("printed", ["", "not json {", "[1]", '{"errorCount": 2}', '{"checksPerformed": 7}'])
def test_what_is_not_as_documented_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str
) -> None:
    stand_in(tmp_path, printed, code=2, message="Target version is newer than the shell")
    monkeypatch.setenv("PATH", str(tmp_path))
    row = upgrade_check(ACCOUNT, SOURCE, CANDIDATE)
    assert row.decision == "undecided"
    if "{" not in printed or "not json" in printed:
        assert row.details == ("Target version is newer than the shell",)


def test_without_the_tool_or_for_mariadb_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not installed" in upgrade_check(ACCOUNT, SOURCE, CANDIDATE).text
    maria = SOURCE.model_copy(update={"flavor": "mariadb"})
    assert "supports MySQL only" in upgrade_check(ACCOUNT, maria, CANDIDATE).text
