"""The query table beside pt-query-digest's, on logs that servers wrote: the same classes, counts and times."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from volbench.core.sql.fingerprint import fingerprint
from volbench.measure.workload.replay.slowlog import slow_log

LOGS = Path(__file__).parents[1] / "fixtures" / "slowlog"
pytestmark = pytest.mark.skipif(shutil.which("pt-query-digest") is None, reason="pt-query-digest is not installed")
COMMON_MIN = 0.7
LOST_AT_BANNER_MAX = 6
"""Statements around a banner in the middle of a log, which it takes for text of the statement before."""


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_classes_counts_and_times_are_those_of_pt_query_digest(server: str) -> None:
    """But for entries that a client forged in a literal, which it reads as statements, as `DROP TABLE notes`.

    Times are compared on MySQL alone: of MariaDB's verbose entries it takes other ones (0.000453 s for nine whose
    `Query_time` in the file sum to 0.000528 s).
    """
    log = LOGS / server / "slow.log"
    counts, times_s = Counter[str](), defaultdict[str, float](float)
    with slow_log(log) as statements:
        for statement in statements:
            shape = canonical(fingerprint(statement.sql))
            counts[shape] += 1
            times_s[shape] += statement.query_s
    digest = {canonical(row["fingerprint"]): row for row in classes(log)}
    common = counts.keys() & digest.keys()
    assert sum(counts[shape] for shape in common) >= COMMON_MIN * counts.total()
    lost = {shape: counts[shape] - digest[shape]["query_count"] for shape in common}
    assert min(lost.values()) == 0, "none has more statements there than here"
    assert sum(lost.values()) <= LOST_AT_BANNER_MAX
    for shape in common:
        if not lost[shape] and server.startswith("mysql"):
            logged_s = float(digest[shape]["metrics"]["Query_time"]["sum"])
            assert times_s[shape] == pytest.approx(logged_s, rel=0.01, abs=1e-5), shape
    assert any(shape.startswith("droptable") for shape in digest), "the forged entries are still in the log"
    assert not any(shape.startswith("droptable") for shape in counts)


def classes(log: Path) -> list[dict[str, Any]]:
    """All classes of pt-query-digest's report; it prints progress before the JSON."""
    command = ("pt-query-digest", "--output", "json", "--limit", "100%", "--no-version-check", str(log))
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    report = json.JSONDecoder().raw_decode(printed[printed.index("{") :])[0]
    rows: list[dict[str, Any]] = report["classes"]
    return rows


def canonical(shape: str) -> str:
    """A fingerprint as both would write it: theirs has `in(?+)`, `?` for numbers in names, CALLs without values."""
    text = re.sub(r"[`\s]", "", shape)
    return re.sub(r"\d+", "?", re.sub(r"^(call[^(]*).*", r"\1", text))
