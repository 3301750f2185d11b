"""Figures of a run computed anew from its raw files, with nothing of volbench: for tests that try to refute it.

`result.json` of each cell has its metrics and whether they are valid; `histograms.parquet` has the latencies of
each interval, `series.parquet` what each source counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pyarrow.parquet as pq


@dataclass(frozen=True, kw_only=True)
class RawStep:
    """One step of one cell as its files have it."""

    cell: str
    volume: str
    block: int
    step: str
    valid: bool
    bounded: bool
    delayed_share: float
    metrics: dict[str, float]
    window_s: tuple[float, float] | None
    directory: Path
    setting: dict[str, Any]
    """Values of a sweep's factors; empty for a run without a sweep."""


def raw_steps(run: Path) -> list[RawStep]:
    """Every step of every cell that is done; a total over parts is as valid as its least part."""
    return _totals_judged(_read(run))


def _read(run: Path) -> list[RawStep]:
    plan = {cell["cell_id"]: cell for cell in json.loads((run / "run.json").read_text())["cells"]}
    return [
        RawStep(
            cell=result["cell_id"],
            volume=plan[result["cell_id"]]["volume"],
            block=plan[result["cell_id"]]["block"],
            step=step["step"],
            valid=step.get("valid", True) and result["status"] == "done",
            bounded=_is_bounded(step),
            delayed_share=sum(each["delayed_share_max"] for each in step.get("disturbances", ())),
            metrics={name: value["value"] for name, value in step.get("metrics", {}).items()},
            window_s=tuple(step["window_s"]) if step.get("window_s") else None,
            directory=directory,
            setting=plan[result["cell_id"]].get("parameters", {}),
        )
        for directory, result in _results(run)
        for step in result["steps"]
    ]


def _totals_judged(steps: list[RawStep]) -> list[RawStep]:
    judged = []
    for step in steps:
        parts = [other for other in steps if other.cell == step.cell and other.step.startswith(f"{step.step}/")]
        bad = [part for part in parts if not part.valid and not part.step.endswith("/read_warm")]
        totals = [value for name, value in step.metrics.items() if name.endswith("_total_s")]
        if bad and totals and step.valid:
            shares = [part.delayed_share * (part.window_s[1] - part.window_s[0]) for part in bad if part.window_s]
            bounded, share = all(part.bounded for part in bad), sum(shares) / totals[0]
            if not bounded or share > 0.01:
                step_judged = replace(step, valid=False, bounded=bounded, delayed_share=share)
                judged.append(step_judged)
                continue
        judged.append(step)
    return judged


def _is_bounded(step: dict[str, Any]) -> bool:
    """Whether nothing but other work, which delays by a share that is known, makes the step invalid."""
    outside = set(step.get("outside_reasons", ()))
    shares = [each["delayed_share_max"] for each in step.get("disturbances", ())]
    return bool(shares) and set(step["invalid_reasons"]) <= outside and sum(shares) < 1


def _results(run: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(run.glob("cells/*/result.json")):
        if ".attempt-" not in path.parent.name:
            yield path.parent, json.loads(path.read_text())


def figure(steps: Sequence[RawStep], volume: str, step: str, metric: str) -> float:
    """The median of the valid cells; where none is, of those with a bound, else of all."""
    measured = [item for item in steps if (item.volume, item.step) == (volume, step) and metric in item.metrics]
    valid, bounded = ([item for item in measured if test(item)] for test in (_valid, _bounded))
    return median(row.metrics[metric] for row in valid or bounded or measured)


def _valid(step: RawStep) -> bool:
    return step.valid


def _bounded(step: RawStep) -> bool:
    return step.bounded


def _valid_or_bounded(step: RawStep) -> bool:
    return step.valid or step.bounded


def ratios(steps: Sequence[RawStep], baseline: str, candidate: str, step: str, metric: str) -> tuple[float, ...]:
    """Ratios of the geometric means, candidate / baseline: of all valid cells, and of those with a neighbour.

    Where other work delayed cells: the median of the ratios of all pairs of valid and delayed cells, too.
    """
    logs, delayed = (
        {
            volume: {
                item.block: math.log(item.metrics[metric])
                for item in steps
                if (item.volume, item.step) == (volume, step) and test(item) and metric in item.metrics
            }
            for volume in (baseline, candidate)
        }
        for test in (_valid, _valid_or_bounded)
    )
    results = []
    if delayed != logs:
        results += [
            math.exp(median(y - x for x in delayed[baseline].values() for y in delayed[candidate].values()))
        ]
    if logs[baseline] and logs[candidate]:
        results += [math.exp(fmean(logs[candidate].values()) - fmean(logs[baseline].values()))]
    if paired := [
        logs[candidate][at] - logs[baseline][at] for at in logs[baseline].keys() & logs[candidate].keys()
    ]:
        results += [math.exp(fmean(paired))]
    return tuple(results)


def client_figures(step: RawStep) -> dict[str, float]:
    """Throughput and quantiles of a step from its histograms; a quantile is the bin in which its event lies."""
    rows = [
        row
        for row in pq.read_table(step.directory / "histograms.parquet").to_pylist()
        if row["step"] == step.step and row["source"] == "client" and row["measured"]
    ]
    counts: dict[int, int] = {}
    for row in rows:
        for number, count in zip(row["bin"], row["count"], strict=True):
            counts[number] = counts.get(number, 0) + count
    events = sum(counts.values())
    mult, deduct = rows[0]["edge_mult"], rows[0]["edge_deduct"]

    def quantile(level: float) -> float:
        below = 0
        for number in sorted(counts):
            below += counts[number]
            if below >= level * events:
                return float(math.exp(number / mult + deduct))
        raise ValueError("no event")

    return {
        "tps": events / sum(row["interval_s"] for row in rows),
        "latency_ms_p95": quantile(0.95),
        "latency_ms_p99": quantile(0.99),
    }


def series(step: RawStep, source: str, *metrics: str) -> list[float]:
    """The sum of some metrics of a source, at each time of the step's window that has all of them."""
    low, high = step.window_s or (-math.inf, math.inf)
    table = pq.read_table(step.directory / "series.parquet").to_pylist()
    by_time: dict[tuple[float, str], dict[str, float]] = {}
    for row in table:
        if row["source"] == source and row["metric"] in metrics and low < row["t_s"] <= high:
            by_time.setdefault((row["t_s"], row["entity"]), {})[row["metric"]] = row["value"]
    return [sum(values.values()) for _, values in sorted(by_time.items()) if len(values) == len(metrics)]
