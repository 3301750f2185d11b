"""Counts of the examples' pages, from the reports that are kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

from printed_counts import ROOT
from stored_files import REPORT, stored_text

EXAMPLES = ROOT / "results/examples"


@cache
def report(name: str) -> dict[str, Any]:
    """The report of an example."""
    loaded: dict[str, Any] = json.loads(stored_text(EXAMPLES / name / REPORT))
    return loaded


def valid(name: str) -> str:
    """`69 of 80 step results are valid`."""
    cells = report(name)["cells"]
    return f"{sum(cell['valid'] for cell in cells)} of {len(cells)} step results are valid"


def met(name: str) -> str:
    """`6 of 8`: predictions that were measured and no inputs, and those within what they state."""
    rows = [row for row in report(name)["predictions"] if row["measured"] is not None and not row["input"]]
    return f"{sum(bool(row['within_tolerance']) for row in rows)} of {len(rows)}"


def efs_small_files() -> Iterator[str]:
    """Steps of three runs."""
    cells = report("efs-small-files")["cells"]
    yield f"{sum(not cell['valid'] for cell in cells)} of {len(cells)} step results are still marked"
    yield f"Forecasts: {met('efs-small-files')} met"
    yield valid("efs-small-files/parallel")
    yield f"{met('efs-small-files/parallel')} predictions were met"
    cells = report("efs-small-files/full")["cells"]
    reasons = Counter(frozenset(_kinds(cell["invalid_reasons"])) for cell in cells if not cell["valid"])
    foreign, late = frozenset({"other work"}), frozenset({"late"})
    assert set(reasons) == {foreign, late, foreign | late}
    yield (
        f"{sum(reasons.values())} of {len(cells)} step results are invalid, {reasons[foreign]} for other work,"
        f" {reasons[late]} of EBS because operations of the volume came late, and"
        f" {reasons[foreign | late]} for both"
    )
    assert met("efs-small-files/full") == "8 of 8"
    yield "all 8 were met"


def _kinds(reasons: list[str]) -> Iterator[str]:
    for reason in reasons:
        yield "late" if "operations came late" in reason else "other work"


def fargate() -> Iterator[str]:
    """Steps of two runs."""
    yield valid("fargate-efs-cold-read")
    yield f"Forecasts: {met('fargate-efs-cold-read')} met"
    yield valid("fargate-efs-cold-read/full")


def fsx() -> Iterator[str]:
    """Steps of the run."""
    yield valid("fsx-async-writes")


def lost_of_fsx() -> Iterator[str]:
    """Commits that both exports lost."""
    by_name = {row["volume"]: row for row in report("fsx-async-writes")["durability"]}
    for row in (by_name["fsx"], by_name["fsx.mode-sync"]):
        yield f"{row['lost_commits']:,} of {row['acknowledged_commits']:,}"


def rook() -> Iterator[str]:
    """Steps of two runs, and what is open."""
    yield valid("rook-ceph-replicas")
    yield f"Forecasts: {met('rook-ceph-replicas')} met"
    yield valid("rook-ceph-replicas/full")
    primary = [row["verdict"] for row in report("rook-ceph-replicas")["comparisons"] if row["primary"]]
    still_open, equal = primary.count("inconclusive"), primary.count("equivalent")
    yield f"{still_open} of {len(primary)} primary differences"
    assert equal == 2
    yield f"{len(primary) - still_open - equal} are decided, two are equal within the margin"


def storage_classes() -> Iterator[str]:
    """Steps of the run, and commits that each volume lost."""
    yield valid("storage-classes")
    for row in report("storage-classes")["durability"]:
        yield f"{row['lost_commits']:,} of {row['acknowledged_commits']:,} |"
