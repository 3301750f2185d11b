"""lab.json and the page beside it: one HTML file that needs nothing else."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from explain import intervals, scoring
from explain.conditions import Condition
from explain.observed import FAILED, NONE, NOTHING, Named, Observed
from score_files import rounded, template
from volbench.results.explain.calibration import CALIBRATION, Counted, Kind

HERE = Path(__file__).parent
SCHEMA = 1
_INTERVALS = {
    "tps": ("tps", "predicted_interval"),
    "p95": ("latency_ms_p95", "predicted_latency_interval"),
}
"""What was run of a pair, and what was stated for it."""


def data_of(
    runs: Mapping[str, Sequence[Observed]],
    conditions: Mapping[str, Condition],
    *,
    machine: Mapping[str, Any],
    rates: Mapping[str, Any],
    what_if: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything that the page shows, and each run.

    Args:
        runs: by split, and by what the rules were not shown.
        conditions: all, also those that were not run.
        machine: facts of the machine, version and commit.
        rates: of the verdicts, see `rates.verdict_rates`.
        what_if: pairs.json of tests/benchmarks/what_if.py.
    """
    kept = {label: rounded([dataclasses.asdict(run) for run in result]) for label, result in runs.items() if result}
    return {
        "schema": SCHEMA,
        **machine,
        "conditions": {name: _condition(value) for name, value in conditions.items()},
        "scores": {label: scores(runs_of({"runs": kept}, label)) for label in kept},
        "runs": kept,
        "calibration": CALIBRATION.model_dump(mode="json"),
        "verdict_rates": rates,
        "what_if": {
            **{name: what_if.get(name) for name in ("date", "server", "cpus")},
            "bar": _bar(scoring.what_if_bar(what_if["pairs"])),
            "pairs": [_deviation(what_if) for what_if in scoring.what_ifs(what_if["pairs"])],
            "held": {
                name: dataclasses.asdict(intervals.of_pairs(what_if["pairs"], *columns))
                for name, columns in _INTERVALS.items()
            },
        },
    }


def runs_of(data: Mapping[str, Any], label: str) -> list[Observed]:
    """The runs of lab.json that stand under a label; none where it has none."""
    return [
        Observed(
            **{
                **row,
                **{name: tuple(row[name]) for name in ("truth", "accepted", "invalid_reasons")},
                "named": tuple(Named(**item) for item in row["named"]),
            }
        )
        for row in data["runs"].get(label, [])
    ]


def scores(runs: Sequence[Observed]) -> dict[str, Any]:
    """All scores of one split."""
    pairs = scoring.judged(runs)
    rows, counted = scoring.reliability(pairs), scoring.counts(runs)
    valid = [run for run in runs if not run.invalid_reasons and not run.failure]
    return {
        "runs": len(runs),
        "seeds": sorted({run.lab_seed for run in runs}),
        "bars": [_bar(bar) for bar in scoring.bars(runs)],
        "top1_single": scoring.top1([run for run in runs if len(run.truth) == 1]),
        "top1_valid_cells": scoring.top1(valid),
        "confusion": {name: dict(row) for name, row in scoring.confusion(runs).items()},
        "right": {
            name: [sum(scoring.is_right(run) for run in result), len(result)] for name, result in _by(runs).items()
        },
        "also_named": [
            {"condition": condition, "cause": cause, "runs": count}
            for (condition, cause), count in sorted(scoring.spurious(runs).items())
        ],
        "caps": [_deviation(cap) for cap in scoring.caps(runs)],
        "knees": [_deviation(knee) for knee in scoring.knees(runs)],
        "forecasts": [_deviation(forecast) for forecast in scoring.forecasts(runs)],
        "forecasts_held": dataclasses.asdict(intervals.of_forecasts(runs)),
        "reliability": [dataclasses.asdict(row) for row in rows],
        "brier": scoring.brier(pairs),
        "calibration_error": scoring.calibration_error(rows),
        "findings_judged": len(pairs),
        "kinds": _rates(counted.kinds),
        "causes": _rates(counted.causes),
        "wall_s": scoring.costs(runs),
        "wall_total_s": sum(run.wall_s for run in runs),
        "invalid": [{"run": run, "reason": reason} for run, reason in scoring.invalid(runs)],
    }


def html(data: Mapping[str, Any]) -> str:
    """The page."""
    displayed = {
        split: {"columns": columns_of(item["confusion"], data["conditions"]), **item}
        for split, item in data["scores"].items()
    }
    return template(HERE).render(data=data, splits=displayed, confidences=_stated())


def _stated() -> dict[str, float]:
    return {kind: CALIBRATION.confidence(kind) for kind in get_args(Kind)}


def columns_of(confusion: Mapping[str, Mapping[str, int]], conditions: Mapping[str, Any]) -> list[str]:
    """Causes in the order of the conditions that make them, then others that were named, then no answer."""
    last = [NONE, NOTHING, FAILED]
    made = list(dict.fromkeys(cause for condition in conditions.values() for cause in condition["truth"]))
    named = Counter(cause for row in confusion.values() for cause in row)
    remaining = sorted(set(named) - set(made) - set(last))
    return [
        *(cause for cause in made if cause not in last),
        *remaining,
        *(item for item in last if item in named or item == NONE),
    ]


def _by(runs: Sequence[Observed]) -> dict[str, list[Observed]]:
    result: dict[str, list[Observed]] = {}
    for run in runs:
        result.setdefault(run.condition, []).append(run)
    return result


def _condition(item: Condition) -> dict[str, Any]:
    return {
        "text": item.text,
        "truth": list(item.truth),
        "accepted": list(item.accepted),
        "warmup_s": item.warmup_s,
        "measured_s": item.measured_s,
        "draw": item.draw,
    }


def _rates(counted: Mapping[Any, Counted]) -> dict[str, dict[str, Any]]:
    return {
        name: {**value.model_dump(), "interval": scoring.exact_interval(value.true, value.findings)}
        for name, value in counted.items()
    }


def _bar(bar: scoring.Bar) -> dict[str, Any]:
    return {**dataclasses.asdict(bar), "passed": bar.passed}


def _deviation(item: scoring.Deviation) -> dict[str, Any]:
    return {**dataclasses.asdict(item), "error": item.error}
