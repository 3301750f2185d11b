"""Figures of a run computed anew from its raw files, with nothing of volbench: for tests that try to refute it.

`result.json` of each cell has its metrics and whether they are valid; `histograms.parquet` has the latencies of
each interval, `series.parquet` what each source counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    metrics: dict[str, float]
    window_s: tuple[float, float] | None
    directory: Path


def raw_steps(run: Path) -> list[RawStep]:
    """Every step of every cell that is done."""
    plan = {cell["cell_id"]: cell for cell in json.loads((run / "run.json").read_text())["cells"]}
    return [
        RawStep(
            cell=result["cell_id"],
            volume=plan[result["cell_id"]]["volume"],
            block=plan[result["cell_id"]]["block"],
            step=step["step"],
            valid=step.get("valid", True) and result["status"] == "done",
            bounded=False,
            metrics={name: value["value"] for name, value in step.get("metrics", {}).items()},
            window_s=tuple(step["window_s"]) if step.get("window_s") else None,
            directory=directory,
        )
        for directory, result in _results(run)
        for step in result["steps"]
    ]


def _results(run: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(run.glob("cells/*/result.json")):
        yield path.parent, json.loads(path.read_text())


def figure(steps: Sequence[RawStep], volume: str, step: str, metric: str) -> float:
    """The median of the valid cells; where none is, of all."""
    measured = [one for one in steps if (one.volume, one.step) == (volume, step) and metric in one.metrics]
    return median(one.metrics[metric] for one in ([one for one in measured if one.valid] or measured))


def ratios(steps: Sequence[RawStep], baseline: str, candidate: str, step: str, metric: str) -> tuple[float, ...]:
    """Ratios of the geometric means, candidate / baseline: of all valid cells, and of those with a neighbour."""
    logs = {
        volume: {
            one.block: math.log(one.metrics[metric])
            for one in steps
            if (one.volume, one.step) == (volume, step) and one.valid and metric in one.metrics
        }
        for volume in (baseline, candidate)
    }
    shared = logs[baseline].keys() & logs[candidate].keys()
    every = math.exp(fmean(logs[candidate].values()) - fmean(logs[baseline].values()))
    paired = [logs[candidate][block] - logs[baseline][block] for block in shared]
    return (every, math.exp(fmean(paired))) if paired else (every,)


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
