"""Two real servers, and a replay: a query that became three times slower is named and no other; data that grow.

The log of the queries is the source's own, of what was sent to it at real rates.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from busy_loops import busy_loops
from mysql_container import mysql_container
from sales import LOST_COLUMN, OF_A_STATE, SCHEMA, arrivals, fill, production, run

import volbench
from volbench.engine.connection import Account

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]
SECONDS, PER_S = 12.0, 90.0
ATTEMPTS = 3
"""A replay that other work on the machine left undecided is made again, with a new log."""
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


def validated(pair: Pair, out: Path, log: Path, *more: str, disposable: bool = False) -> Any:
    plan = out / "plan.yaml"
    plan.write_text(
        f"schema: 1\nsource: {{socket: {pair.source.socket}}}\n"
        f"candidate: {{socket: {pair.candidate.socket}, disposable: {str(disposable).lower()}}}\n"
        f"schemas: [{SCHEMA}]\ndata: false\nreplay: {{slow_log: {log}, late_max: 20%}}\n" + "\n".join(more)
    )
    # A process of its own, to which this one's busy loops are foreign.
    ended = subprocess.run(
        [sys.executable, "-c", "from volbench.cli.main import main; main()", "validate", str(plan),
         "--out", str(out / "out")],
        env={**os.environ, "PYTHONPATH": str(Path(volbench.__file__).parents[1])},
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert (out / "out" / "validation.json").exists(), ended.stdout + ended.stderr
    return json.loads((out / "out" / "validation.json").read_text())


def judged(pair: Pair, out: Path, wanted: list[str]) -> Any:
    """A replay of the source's log; once more with a new log, while the machine is too busy to name those wanted.

    None but those wanted is named at any time: a busy machine leaves open what it cannot tell.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            pair.log()
        place = out / str(attempt)
        place.mkdir()
        found = validated(pair, place, pair.directory / LOG)
        assert set(slower(found)) <= set(wanted), check_of(found)
        if slower(found) == wanted and check_of(found)["decision"] != "undecided":
            break
    return found


def too_busy(found: Any) -> bool:
    """Whether the replay is undecided, and says that the machine was too busy; any other doubt is a failure."""
    check = check_of(found)
    if check["decision"] != "undecided":
        return False
    assert any(why in check["text"] for why in ("too busy to judge", "by the client's own fault")), check
    assert found["replay"]["foreign_cpu_ratio"] > 0
    return True


def slower(found: Any) -> list[str]:
    return [one["fingerprint"] for one in found["replay"]["classes"] if one["slower"]]


def check_of(found: Any, check: str = "replay") -> Any:
    return next(row for row in found["checks"] if row["check"] == check)


def test_on_a_twin_no_class_is_slower(tmp_path: Path, pair: Pair) -> None:
    found = judged(pair, tmp_path, [])
    assert too_busy(found) or check_of(found)["decision"] == "go", check_of(found)


def test_beside_busy_loops_a_twin_is_never_called_slower(tmp_path: Path, pair: Pair) -> None:
    """The log is of a quieter time: with two loops for each CPU the replay is undecided at most."""
    with busy_loops(2 * (os.cpu_count() or 1)):
        found = validated(pair, tmp_path, pair.directory / LOG)
    assert slower(found) == [], check_of(found)
    assert too_busy(found) or check_of(found)["decision"] == "go", check_of(found)
    assert found["replay"]["foreign_cpu_ratio"] > 0.1


def test_a_class_three_times_slower_is_named_and_no_other(tmp_path: Path, pair: Pair) -> None:
    run(pair.candidate, LOST_COLUMN)
    found = judged(pair, tmp_path, [OF_A_STATE])
    if too_busy(found):
        return
    row = next(one for one in found["replay"]["classes"] if one["fingerprint"] == OF_A_STATE)
    if not row["slower"] and row["service_ms_p95"] < 2 * row["logged_ms_p95"]:
        return  # other work slowed the source down while it wrote each of the logs: the replay was not slower
    assert slower(found) == [OF_A_STATE], found["replay"]["classes"]
    assert check_of(found)["decision"] == "no-go"
    assert OF_A_STATE in check_of(found)["details"][0]
    (one,) = (row for row in found["replay"]["classes"] if row["fingerprint"] == OF_A_STATE)
    assert 2.2 < one["service_ms_p50"] / one["logged_ms_p50"] < 4.2
