"""Fresh runs of the lab as the rules named them that were made before: scored once, kept without their series.

python -m causes.first_sight RUNS FILE READING   adds a reading of the runs below RUNS with the rules as they are

A reading is a name of the rules. That of FIRST is never made again: from then on the runs are known.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

from stored_files import store_text, stored_text

from causes.observed import Run, as_data, read_runs, run_from
from causes.scoring import is_named, is_right
from score_files import say, scored_on
from volbench.results.explain.calibration import OUTCOMES, CheckOutcome, Counted, Left, LeftCounts

FIRST_SIGHT = Path(__file__).parents[2] / "fixtures" / "first-sight"
FILES = (FIRST_SIGHT / "seed-703.json.xz", FIRST_SIGHT / "seed-704.json.xz")
"""Confidences are counted on them."""
LATEST = FIRST_SIGHT / "seed-705.json.xz"
"""Confidences were counted before it, and are held against it."""
FIRST, CLAIMED, STOPPED = "at first sight", "with p95 by claim", "with p95 by stops"
"""Readings: rules that no run was known to, those since p95 is computed from what a finding claims, and those since
it is from what stops transactions. LATEST was not looked at before the last of them were committed."""
KEPT_EVIDENCE = ("checks", "check", "decided_by")


def add(file: Path, reading: str, runs: Sequence[Run], commit: str) -> None:
    """Add a reading of some runs to a file; one of that name is replaced.

    Args:
        file: its name ends with .json.xz.
        reading: its name.
        runs: as they are read.
        commit: of the rules.
    """
    data = json.loads(stored_text(file)) if file.is_file() else {}
    data[reading] = {"commit": commit, "runs": [_row_of(run) for run in runs]}
    store_text(file, json.dumps(data, indent=1) + "\n")


def _row_of(run: Run) -> dict[str, object]:
    data = as_data(run) | {"place": "", "invalid_reasons": [], "metrics": {}}
    for finding in data["findings"]:
        finding["evidence"] = {
            name: finding["evidence"][name] for name in KEPT_EVIDENCE if name in finding["evidence"]
        }
    return data


def runs_of(file: Path, reading: str = FIRST) -> list[Run]:
    """Read the runs of one reading of a file."""
    return [run_from(row) for row in json.loads(stored_text(file))[reading]["runs"]]


def named_first(runs: Iterable[Run]) -> Iterator[tuple[Left, bool]]:
    """Yield what the check left of each first finding of proven runs that name a cause, and whether it is right."""
    for run in runs:
        if run.injected and is_named(run):
            yield cast(Left, run.findings[0].evidence["check"]), is_right(run)


def counted(named: Iterable[tuple[Left, bool]], source: str) -> LeftCounts:
    """Count first findings by the outcome of the check.

    Args:
        named: what the check left of each, and whether it is right.
        source: of the runs.
    """
    by_outcome: dict[CheckOutcome, list[bool]] = {outcome: [] for outcome in OUTCOMES.values()}
    for left, right in named:
        by_outcome[OUTCOMES[left]].append(right)
    counts = {outcome: Counted(true=sum(right), findings=len(right)) for outcome, right in by_outcome.items()}
    return LeftCounts(source=source, left=counts)


def right_by_p95(named: Iterable[tuple[Left, bool]]) -> tuple[Counted, Counted]:
    """Count findings whose p95 follows, and findings whose p95 does not."""
    listed = list(named)
    follows, differs = ([right for left, right in listed if left == name] for name in ("rebuilt", "not rebuilt"))
    return Counted(true=sum(follows), findings=len(follows)), Counted(true=sum(differs), findings=len(differs))


def fisher_p(first: Counted, second: Counted) -> float:
    """Probability of two counts that differ as much or more where both come true as often (Fisher's exact test)."""
    true, findings = first.true + second.true, first.findings + second.findings

    def combinations(count: int) -> int:
        return math.comb(first.findings, count) * math.comb(second.findings, true - count)

    every = [combinations(count) for count in range(max(0, true - second.findings), min(true, first.findings) + 1)]
    return sum(number for number in every if number <= combinations(first.true)) / math.comb(findings, true)


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("reading")
    options = parser.parse_args()
    add(options.file, options.reading, read_runs(options.runs.absolute()), scored_on()["commit"])
    say(str(options.file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
