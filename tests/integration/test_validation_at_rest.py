"""What a validation leaves on the disk: no value of a row where the plan says so, whatever differs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from scratch_server import ScratchServer, scratch_server
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.errors import StepFailed

pytestmark = pytest.mark.mysqld
SECRET = "sesame9731"
ROWS = (
    "CREATE DATABASE kept",
    "CREATE TABLE kept.people (name VARCHAR(40) PRIMARY KEY, n VARCHAR(40))",
    f"INSERT INTO kept.people VALUES ('{SECRET} a', '{SECRET} b'), ('other', '1')",
)
LOG = "".join(
    f"# Time: 2026-11-21T10:00:0{second}.000000Z\n# User@Host: app[app] @ localhost []  Id: 7\n"
    f"# Query_time: 0.001  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 1\nuse kept;\n"
    f"SET timestamp=179526300{second};\n{sql};\n"
    for second, sql in enumerate(
        (
            f"SELECT name, n FROM people WHERE name LIKE '{SECRET}%'",
            "SELECT COUNT(*) FROM people",
            f"INSERT INTO people VALUES ('{SECRET} a', 'again')",
        )
    )
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScratchServer, ScratchServer]]:
    with (
        scratch_server(tmp_path_factory.mktemp("a")) as source,
        scratch_server(tmp_path_factory.mktemp("b")) as candidate,
    ):
        for server in (source, candidate):
            for statement in ROWS:
                server.query(statement)
        candidate.query(f"UPDATE kept.people SET n = '{SECRET} c' WHERE name = '{SECRET} a'")
        yield source, candidate


def left(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer], at_rest: str, *options: str
) -> tuple[int, str, dict[str, bytes]]:
    """Exit code, everything printed, and every file below the working directory."""
    (tmp_path / "slow.log").write_text(LOG)
    work = tmp_path / "work"
    work.mkdir()
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"schema: 2\nsource: {{socket: {pair[0].socket}, allow_privileged: true}}\n"
        f"candidate: {{socket: {pair[1].socket}, disposable: true}}\n"
        f"schemas: [kept]\nat_rest: {at_rest}\nqueries: {{slow_log: {tmp_path / 'slow.log'}}}\n"
        f"replay: {{slow_log: {tmp_path / 'slow.log'}}}\n"
    )
    ended = CliRunner().invoke(app, ["validate", str(plan), "--out", str(work / "out"), *options])
    files = {path.name: path.read_bytes() for path in work.rglob("*") if path.is_file()}
    assert all(path.stat().st_mode & 0o077 == 0 for path in work.rglob("*") if path.is_file())
    return ended.exit_code, ended.output, files


def test_plain_reports_name_rows_and_their_values(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer]
) -> None:
    """Without this the other tests would prove nothing."""
    code, printed, files = left(tmp_path, pair, "plain")
    assert code == 1, printed
    for text in (printed.encode(), *files.values()):
        assert SECRET.encode() in text
    assert f"Duplicate entry '{SECRET} a'" in files["validation.json"].decode()


def test_with_none_no_value_is_in_any_report_or_on_the_terminal(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer]
) -> None:
    code, printed, files = left(tmp_path, pair, "none")
    assert code == 1, printed
    assert sorted(files) == ["validation.html", "validation.json", "validation.junit.xml", "validation.md"]
    for text in (printed.encode(), *files.values()):
        assert SECRET.encode() not in text
    document = json.loads(files["validation.json"])
    output = {row["check"]: row["details"] for row in document["checks"]}
    assert output["checksums"] == ["kept.people: 1 row that differs is not named: keys are not stored"]
    assert output["queries"][0].endswith("row 1")
    assert document["replay"]["errors"] == {"1062": 1}


def test_with_none_a_failure_tells_the_server_s_code_alone(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise StepFailed("a query failed", evidence=f"1366 (22007): Incorrect value: '{SECRET}'; select ?")

    monkeypatch.setattr("volbench.cli.migration.validate.run_validation", fails)
    for at_rest, is_shown in (("plain", True), ("none", False)):
        directory = tmp_path / at_rest
        directory.mkdir()
        with pytest.raises(StepFailed) as raised:
            raise_of(directory, pair, at_rest)
        assert (SECRET in str(raised.value)) == is_shown
        assert "1366 (22007)" in str(raised.value)


def raise_of(directory: Path, pair: tuple[ScratchServer, ScratchServer], at_rest: str) -> None:
    (directory / "plan.yaml").write_text(
        f"schema: 2\nsource: {{socket: {pair[0].socket}, allow_privileged: true}}\n"
        f"candidate: {{socket: {pair[1].socket}}}\n"
        f"at_rest: {at_rest}\n"
    )
    command = ["validate", str(directory / "plan.yaml"), "--out", str(directory / "out")]
    CliRunner().invoke(app, command, catch_exceptions=False)


def test_percona_s_checksum_tool_is_not_run_since_it_writes_the_source(
    tmp_path: Path, pair: tuple[ScratchServer, ScratchServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is installed; no table of it is made."""
    tools, run = tmp_path / "tools", tmp_path / "was-run"
    tools.mkdir()
    (tools / "pt-table-checksum").write_text(f"#!/bin/sh\ntouch {run}\n")
    (tools / "pt-table-checksum").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    code, printed, _ = left(tmp_path, pair, "plain")
    assert code == 1, printed
    assert not run.exists()
    assert pair[0].query("SHOW DATABASES LIKE 'percona'") == []
