"""The lab of verdicts: what a report's verdict counts as, and that every run of a round is planned once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from verdicts import loops
from verdicts.__main__ import KINDS, ROUND, outcome, planned, table
from volbench.core.profile.limits import limits_of
from volbench.core.profile.resolve import resolve


def report(where: Path, verdict: str) -> Path:
    row = {"step": "s", "metric": "tps", "primary": True, "ratio": 0.5, "verdict": "worse"}
    foreign = [{"kind": "foreign_cpu", "size": 0.3}]
    cells = [{"cell_id": name, "valid": name == "1", "disturbances": foreign} for name in "12"]
    text = {"summary": {"verdict": verdict, "headline": "h"}, "cells": cells, "comparisons": [row]}
    (where / "run").mkdir()
    (where / "run/report.json").write_text(json.dumps(text))
    return where


@pytest.mark.parametrize(
    ("kind", "verdict", "right"),
    [
        ("demo-4", "candidate_worse", True),
        ("demo-4", "inconclusive", False),
        ("demo-2", "candidate_better", False),
        ("equal-2", "inconclusive", True),
        ("equal-2", "equivalent", True),
        ("equal-4", "candidate_worse", False),
        ("compare-1", "candidate_worse", True),
        ("compare-1", "equivalent", False),
    ],
)
def test_a_verdict_is_right_where_it_is_the_truth(tmp_path: Path, kind: str, verdict: str, right: bool) -> None:
    line = outcome(KINDS[kind], report(tmp_path, verdict))
    assert (line["right"], line["cells"], line["valid"], line["foreign_cpu_median"]) == (right, 2, 1, 0.3)


def test_a_run_without_a_report_is_wrong(tmp_path: Path) -> None:
    assert outcome(KINDS["equal-2"], tmp_path) == {"verdict": None, "right": False}


def test_ten_rounds_are_the_runs_that_are_asked() -> None:
    runs = list(planned(10))
    assert len(runs) == len(set(runs)) == 10 * len(ROUND)
    counts = {kind: sum(name == kind for _, name in runs) for kind in KINDS}
    assert counts == {
        "demo-2": 10,
        "demo-4": 10,
        "equal-2": 10,
        "equal-4": 10,
        "compare-1": 20,
        "short-0": 10,
        "short-2": 10,
    }


def test_the_table_counts_runs_in_time_and_right_ones() -> None:
    line = {
        "kind": "compare-1",
        "number": 1,
        "verdict": "candidate_worse",
        "right": True,
        "loadavg_before": 3.0,
        "loadavg_after": 5.0,
    }
    rows = list(table([{**line, "wall_s": 100.0}, {**line, "number": 2, "wall_s": 300.0}]))
    assert "2 of 2 | 0 | 200 (300); 1 of 2 within 120 | 3 to 5" in rows[2]


def test_the_pair_differs_by_its_limit_alone() -> None:
    profile = Path(loops.__file__).with_name("verdict-pair.yaml")
    full, slow = (limits_of(resolve(str(profile), {"iops": iops})).caps for iops in ("1000", "800"))
    assert ([cap.rate_per_s for cap in full], [cap.rate_per_s for cap in slow]) == ([1000.0], [800.0])


def test_a_loop_ends_when_the_process_that_started_it_is_not_its_parent() -> None:
    done = subprocess.run([sys.executable, loops.__file__, "1", str(os.getpid() + 10**6)], timeout=60, check=False)
    assert done.returncode == 0
