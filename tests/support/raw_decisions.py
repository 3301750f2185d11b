"""What a report decides of figures, made anew with nothing of volbench: prices, frontiers, fits and backup windows.

Cells are those of report.json or of result.json, prices those of suites/prices/aws.yaml.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

MONTH_S = 730 * 3600
UNITS = {"": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40, "MB": 1e6, "GB": 1e9, "TB": 1e12}
DEFAULTS: dict[str, dict[str, float | str]] = {
    "ebs-gp3": {"iops": 3000.0, "throughput": 125.0},
    "efs-bursting": {"zone": "regional"},
    "efs-elastic": {"zone": "regional"},
    "fsx-openzfs": {"deployment": "single-az"},
}
"""What a volume has that was not asked for, by the vendors' documentation."""
BURSTING = ("ebs-gp2", "ebs-st1", "efs-bursting")
"""Profiles whose speed depends on credits, at the sizes of the examples."""
SLOWEST = "percentiles take them as slower than all others"
"""In the note of a cell whose percentile lies among answers that never came."""

Cell = Mapping[str, Any]
"""A row of report.json's cells, or one that `cells_of` makes of a result.json."""


def cells_of(run: Path) -> list[Cell]:
    """Each step of each cell of a run's directory, with what its agent recorded."""
    plan = {cell["cell_id"]: cell["volume"] for cell in json.loads((run / "run.json").read_text())["cells"]}
    results = [json.loads(path.read_text()) for path in sorted(run.glob("cells/*/result.json"))]
    return [
        {"valid": True, "notes": (), "details": {}, "bounds": {}, **step, "cell_id": result["cell_id"]}
        | {"volume": plan[result["cell_id"]]}
        for result in results
        for step in result["steps"]
    ]


def population(cells: Iterable[Cell]) -> list[Cell]:
    """The valid cells; where none is, those that are known within bounds, else all."""
    rows = list(cells)
    return [cell for cell in rows if cell["valid"]] or [cell for cell in rows if cell["bounds"]] or rows


def values(cells: Iterable[Cell], metric: str) -> list[float]:
    """A metric of each cell that has it; of a percentile among missing answers infinity."""
    rows = list(cells)
    measured = [float(cell["metrics"][metric]["value"]) for cell in rows if metric in cell["metrics"]]
    endless = [cell for cell in rows if metric not in cell["metrics"] and metric.startswith("latency_ms_")]
    return [*measured, *(math.inf for cell in endless if any(SLOWEST in note for note in cell["notes"]))]


def middle(numbers: Sequence[float]) -> float | None:
    """The median; None of nothing, or where it is not known."""
    return median(numbers) if numbers and math.isfinite(median(numbers)) else None


# Storage classes


@dataclass(frozen=True, kw_only=True)
class StorageClass:
    """One volume: speed, price, and what takes it out of a comparison."""

    name: str
    tps: float
    low: float
    high: float
    p95_ms: float | None
    cells: int
    month: float
    per_million: float
    without: frozenset[str]
    has_credits: bool
    acknowledged: int
    lost: int


def amount(text: object) -> float | str:
    """`100GiB` -> 107374182400.0; what is no number stays a text."""
    match = re.fullmatch(r"([\d.]+)(\w*)", str(text))
    return float(match[1]) * UNITS[match[2]] if match and match[2] in UNITS else str(text)


def options_of(spec: str) -> tuple[str, dict[str, float | str]]:
    """`emulated:ebs-io2?size=100GiB&iops=6000` -> the profile, and what it has."""
    profile, _, text = spec.removeprefix("emulated:").partition("?")
    pairs = (pair.partition("=") for pair in text.split("&") if pair)
    return profile, {**DEFAULTS.get(profile, {}), **{key: amount(value) for key, _, value in pairs}}


def month_of(spec: str, prices: Mapping[str, Any], moved: Mapping[str, float]) -> tuple[float, frozenset[str]]:
    """What a volume costs a month, and what that leaves out. `moved`: bytes a second, by `read` and `write`."""
    profile, options = options_of(spec)
    total, without = 0.0, set[str]()
    for price in prices["volumes"][profile]:
        assert all(options[key] == value for key, value in price.get("only", {}).items()), (spec, price)
        without |= {price["without"]} if "without" in price else set()
        if "disks" in price:
            each, of_disk = month_of(str(options[price["disks"]]).replace(",", "&"), prices, {})
            total += each * float(options[price["number"]])
            without |= of_disk
            continue
        charged = (
            moved[price["traffic"]] * MONTH_S if "traffic" in price else float(options.get(price["parameter"], 0.0))
        )
        over = price.get("over", 0.0) + price.get("over_per_gib", 0.0) * float(options.get("size", 0.0)) / 2**30
        charged = max(0.0, min(charged, price.get("up_to", math.inf)) - over)
        total += charged / float(amount(price.get("per", 1))) * price["price"]
    return total, frozenset(without)


def storage_classes(
    report: Mapping[str, Any], specs: Mapping[str, str], prices: Mapping[str, Any], *, step: str
) -> dict[str, StorageClass]:
    """Each volume of a report.json, from its cells and its traffic.

    Args:
        specs: what each volume is.
        prices: the list.
        step: whose transactions are priced.
    """
    classes = {}
    for name, spec in specs.items():
        cells = population(c for c in report["cells"] if (c["volume"], c["step"]) == (name, step))
        speeds = values(cells, "tps")
        moved = {
            way: 1024.0 * median(speeds) * row["value"]
            for way, metric in (("read", "device_read_kib"), ("write", "device_written_kib"))
            for row in report["transactions"]
            if (row["volume"], row["step"], row["metric"]) == (name, step, metric)
        }
        month, without = month_of(spec, prices, moved)
        of_volume = [cell for cell in report["cells"] if cell["volume"] == name]
        profile, options = options_of(spec)
        classes[name] = StorageClass(
            name=name,
            tps=median(speeds),
            low=min(speeds),
            high=max(speeds),
            p95_ms=middle(values(cells, "latency_ms_p95")),
            cells=len(speeds),
            month=month,
            per_million=1e6 * month / (median(speeds) * MONTH_S),
            without=without,
            has_credits=profile in BURSTING and options.get("credits") != 0,
            acknowledged=round(sum(values(of_volume, "acknowledged_commits"))),
            lost=round(sum(values(of_volume, "lost_commits"))),
        )
    return classes


def dominating(row: StorageClass, classes: Iterable[StorageClass]) -> list[StorageClass]:
    """Volumes as fast and as cheap, and better in one of both, whose speed and price are as sure as the row's."""
    return [
        rival
        for rival in classes
        if not rival.lost
        and (row.has_credits or not rival.has_credits)
        and rival.without <= row.without
        and (rival.tps, -rival.month) != (row.tps, -row.month)
        and rival.tps >= row.tps
        and rival.month <= row.month
    ]


def is_faster_in_every_cell(rival: StorageClass, row: StorageClass) -> bool:
    """Whether the slowest cell of one is faster than the fastest of another, of several each."""
    return rival.cells > 1 and row.cells > 1 and rival.low > row.high


# Backups


def backups(cells: Iterable[Cell], alone_of: Mapping[str, str]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Volume, step and tool -> what a backup took, and what the load beside it felt; of valid cells.

    Args:
        cells: of a run.
        alone_of: the step with the same load and nothing beside it, by the step with a backup.
    """
    valid = [cell for cell in cells if cell["valid"]]
    by_backup: dict[tuple[str, str, str], dict[str, Any]] = {}
    for cell in valid:
        step, _, phase = cell["step"].partition("/beside-")
        if not phase or "dump_s" not in cell["metrics"]:
            continue
        volume = cell["volume"]
        by_backup[volume, step, phase] = _backup(
            [row for row in valid if row["volume"] == volume], step, cell["step"], alone_of.get(step, "")
        )
    return by_backup


def _backup(cells: Sequence[Cell], step: str, name: str, alone: str) -> dict[str, Any]:
    def of(row: str, metric: str) -> list[float]:
        return values((cell for cell in cells if cell["step"] == row), metric)

    times, quiet = of(name, "dump_s"), alone if of(alone, "tps") else f"{step}/alone"
    return {
        "cells": len(times),
        "dump_s": median(times),
        "dump_s_max": max(times),
        "latency_ms_p95_alone": middle(of(quiet, "latency_ms_p95")),
        "latency_ms_p95_during": middle(of(f"{step}/during", "latency_ms_p95")),
        "tps_alone": middle(of(quiet, "tps")),
        "tps_during": middle(of(f"{step}/during", "tps")),
        "recommended_window_s": 60.0 * math.ceil(1.5 * max(times) / 60),
    }


# Several servers on one volume


@dataclass(frozen=True, kw_only=True)
class Level:
    """So many servers at once: medians over cells of what each server did there and alone."""

    servers: int
    tps: float
    least: float
    mean: float
    jain: float
    slowdown: float
    p95_ms: float | None
    fits: frozenset[bool]
    operations: float


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """Several servers in one step of one volume."""

    tps_alone: float
    p95_ms_alone: float
    operations_alone: float
    levels: tuple[Level, ...]

    @property
    def fit(self) -> int:
        """How many fit, with each smaller number that was tried: in every cell."""
        most = 1
        for level in self.levels:
            if level.fits != {True}:
                break
            most = level.servers
        return most

    @property
    def breaks_at(self) -> int | None:
        """The smallest number that was tried and does not fit."""
        return next((level.servers for level in self.levels if level.fits != {True}), None)

    def carried(self, limit_per_s: float) -> int:
        """How many an open load may be, by the share of the limit that one uses: their sum is at most all of it."""
        return math.floor(limit_per_s / self.operations_alone + 1e-9)


def sharing(cells: Iterable[Cell], step: str, *, keeps: float, p95_ms: float) -> Sharing:
    """What servers of an open load kept, from the figures of each of them.

    Args:
        cells: of one volume of a run.
        step: the step's name.
        keeps, p95_ms: the objective.
    """
    by_cell: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if cell["step"].startswith(f"{step}/"):
            by_cell.setdefault(cell["cell_id"], {})[cell["step"].rpartition("/")[2]] = cell
    whole = [rows for rows in by_cell.values() if all(row["valid"] for row in rows.values())] or [*by_cell.values()]
    alone = [_servers(rows["alone"])[0] for rows in whole]
    counts = sorted({int(suffix) for rows in whole for suffix in rows if suffix.isdigit()})
    return Sharing(
        tps_alone=median(server["tps"] for server in alone),
        p95_ms_alone=median(server["latency_ms_p95"] for server in alone),
        operations_alone=median(_operations(rows["alone"]) for rows in whole),
        levels=tuple(_level(count, whole, keeps=keeps, p95_ms=p95_ms) for count in counts),
    )


def _servers(cell: Cell) -> list[dict[str, Any]]:
    return list(cell["details"]["servers"])


def _operations(cell: Cell) -> float:
    return float(
        sum(cell["metrics"][name]["value"] for name in ("iops_read", "iops_write") if name in cell["metrics"])
    )


def _level(count: int, cells: Sequence[Mapping[str, Cell]], *, keeps: float, p95_ms: float) -> Level:
    kept, slower, slowest, sums, fits = [], [], [], [], set[bool]()
    for rows in cells:
        own, servers = _servers(rows["alone"])[0], _servers(rows[str(count)])
        shares = [server["tps"] / own["tps"] for server in servers]
        p95s = [server.get("latency_ms_p95") for server in servers]
        kept.append(shares)
        slower.append(max(server["latency_ms_mean"] / own["latency_ms_mean"] for server in servers))
        slowest.append(max(math.inf if value is None else float(value) for value in p95s))
        sums.append(sum(server["tps"] for server in servers))
        fits.add(min(shares) >= keeps and slowest[-1] <= p95_ms)
    return Level(
        servers=count,
        tps=median(sums),
        least=median(min(shares) for shares in kept),
        mean=median(fmean(shares) for shares in kept),
        jain=median(sum(shares) ** 2 / (count * sum(share**2 for share in shares)) for shares in kept),
        slowdown=median(slower),
        p95_ms=None if math.inf in slowest else median(slowest),
        fits=frozenset(fits),
        operations=median(_operations(rows[str(count)]) for rows in cells),
    )


# Tables


def table(text: str, first: str) -> Iterator[list[str]]:
    """Yield the rows of a Markdown table whose first heading begins so."""
    inside = False
    for line in text.splitlines():
        row = [cell.strip() for cell in line.split("|")[1:-1]]
        if row and row[0].startswith(first):
            inside = True
        elif not row:
            inside = False
        elif inside and set(line) - set("|-: "):
            yield row
