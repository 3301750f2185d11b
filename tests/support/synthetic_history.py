"""Many runs for tests of the history: the committed demo's report, its figures drawn anew for each run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from stored_files import REPORT, stored_text

EXAMPLE = Path(__file__).parents[2] / "results" / "examples" / "quick" / REPORT
NOISE = 0.02
STARTED = datetime(2026, 1, 1, 3, 0, tzinfo=UTC)
SCALED = {"tps": -1, "latency_ms_p95": 1, "latency_ms_p99": 1}
"""Primary metrics, and which way a slower level moves them."""
Level = Callable[[int], float]


def stable(_: int) -> float:
    """The same level in each run."""
    return 1.0


def slower_from(first: int, factor: float) -> Level:
    """Latencies multiplied from one run on, throughput divided."""
    return lambda number: factor if number >= first else 1.0


def write_history(
    results: Path,
    runs: int,
    *,
    levels: Mapping[str, Level] | None = None,
    suite: str = "quick",
    seed: int = 1,
    first: int = 0,
) -> list[str]:
    """Write so many reports, a day apart; the names of their directories.

    Args:
        levels: volume -> its level in each run; others are stable.
        first: number of the first run, to add to an earlier history of the same seed.
    """
    content = json.loads(stored_text(EXAMPLE))
    names = []
    for number in range(first, first + runs):
        random = np.random.default_rng([seed, number])
        name = f"{(STARTED + timedelta(days=number)).strftime('%Y%m%dT%H%M%SZ')}-{suite}-{number:06x}"
        report = {**content, "run_id": name, "suite": suite, "cells": _cells(content, random, number, levels or {})}
        report["started_at"] = (STARTED + timedelta(days=number)).isoformat().replace("+00:00", "Z")
        (results / name).mkdir(parents=True)
        (results / name / "report.json").write_text(json.dumps(report))
        names.append(name)
    return names


def _cells(
    content: Mapping[str, Any], random: np.random.Generator, number: int, levels: Mapping[str, Level]
) -> list[dict[str, Any]]:
    cells = []
    run_offset = {volume["name"]: random.normal(0, NOISE) for volume in content["volumes"]}
    for cell in content["cells"]:
        metrics = {name: dict(metric) for name, metric in cell["metrics"].items()}
        for name, direction in SCALED.items():
            level = levels.get(cell["volume"], stable)(number) ** direction
            noise = run_offset[cell["volume"]] + random.normal(0, NOISE)
            metrics[name]["value"] = _typical(content, cell["volume"], name) * level * float(np.exp(noise))
        cells.append({**cell, "metrics": metrics})
    return cells


def _typical(content: Mapping[str, Any], volume: str, name: str) -> float:
    return float(
        np.median([cell["metrics"][name]["value"] for cell in content["cells"] if cell["volume"] == volume])
    )
