"""lab.json and its page: figures, families, confusion, calibration, each run."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from causes import scoring
from causes.conditions import Condition
from causes.observed import Run, as_data, run_from
from explain.scoring import Bar, reliability
from score_files import template

HERE = Path(__file__).parent
SCHEMA = 1


def data_of(
    readings: Mapping[str, Sequence[Run]],
    conditions: Mapping[str, Condition],
    *,
    machine: Mapping[str, Any],
    counted_on: Mapping[str, Sequence[Run]] | None = None,
) -> dict[str, Any]:
    """Everything that the page shows, and each run.

    Args:
        readings: runs, by what the rules were shown of them.
        conditions: all, also those that were not run.
        machine: facts of the machine, version and commit.
        counted_on: by reading, the runs that its confidences are counted on; None: on its own.
    """
    return {
        "schema": SCHEMA,
        **machine,
        "conditions": {name: dataclasses.asdict(value) for name, value in conditions.items()},
        "readings": {
            label: scores(_as_kept(runs), _as_kept((counted_on or {}).get(label, ())))
            for label, runs in readings.items()
            if runs
        },
        "runs": {label: [as_data(run) for run in runs] for label, runs in readings.items()},
    }


def _as_kept(runs: Sequence[Run]) -> list[Run]:
    """Runs with the digits that lab.json has, so that its scores can be made from it again."""
    return [run_from(as_data(run)) for run in runs]


def scores(runs: Sequence[Run], counted_on: Sequence[Run] = ()) -> dict[str, Any]:
    """All scores of one reading, its confidences counted on some runs or, without any, on its own."""
    counted = [run for run in runs if run.injected]
    confidence = scoring.left_out(runs, counted_on)
    families = list(dict.fromkeys(run.family for run in runs))
    by_family = {family: [run for run in runs if run.family == family] for family in families}
    return {
        "runs": len(runs),
        "figures": [_bar(bar) for bar in scoring.figures(runs, confidence)],
        "figures_stated": [_bar(bar) for bar in scoring.figures(runs)],
        "families": {family: scoring.family_row(result, confidence) for family, result in by_family.items()},
        "confusion": {
            family: {row: dict(named) for row, named in scoring.confusion(_injected(result), _condition).items()}
            for family, result in by_family.items()
        },
        "right_names": {run.condition: sorted(scoring.true_causes(run)) for run in runs},
        "accepted_names": {run.condition: sorted(run.accepted) for run in runs},
        "reliability": {
            "stated": [dataclasses.asdict(row) for row in reliability(scoring.judged(counted, scoring.stated))],
            "left_out": [dataclasses.asdict(row) for row in reliability(scoring.judged(counted, confidence))],
        },
        "not_scored": [
            {"run": run.name, "reason": run.failure or "; ".join(run.missing)} for run in runs if not run.injected
        ],
        "onsets": [
            {"run": run.name, "true": run.onset_s, "error": scoring.onset_error(run)}
            for run in counted
            if scoring.has_onset(run)
        ],
        "caps": [
            {"run": run.name, "of": run.cap_of, "true": run.measured["cap"], "error": scoring.cap_error(run)}
            for run in counted
            if "cap" in run.measured and run.cap_of
        ],
    }


def html(data: Mapping[str, Any]) -> str:
    """The page."""
    columns = {label: columns_of(item["confusion"]) for label, item in data["readings"].items()}
    return template(HERE).render(data=data, columns=columns)


def columns_of(confusion: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[str]:
    """All causes that were named first, the most frequent first, no answer last."""
    counted: Counter[str] = Counter()
    for rows in confusion.values():
        for named in rows.values():
            counted.update(named)
    named_first = [cause for cause, _ in counted.most_common() if cause not in (scoring.NONE, scoring.NOTHING)]
    return [*named_first, *(item for item in (scoring.NONE, scoring.NOTHING) if item in counted)]


def _injected(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.injected]


def _condition(run: Run) -> str:
    return run.condition


def _bar(bar: Bar) -> dict[str, Any]:
    return {**dataclasses.asdict(bar), "passed": bar.passed}
