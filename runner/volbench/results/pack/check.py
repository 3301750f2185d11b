"""Checks a pack: what its records claim is computed again from its tables, and what limits its worth is said.

The check finds a pack that was changed or whose figures do not follow from its tables. A maker who invents tables
that agree with each other is not found; who made a pack is for its SHA-256, published by its maker, to prove.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volbench import __version__
from volbench.core.base.text import counted, number, part_of, percent
from volbench.core.records.cell import CellResult, StepResult
from volbench.core.records.facts import HostFacts
from volbench.core.records.pack import PackRecord
from volbench.core.records.report import Report
from volbench.core.records.run import RunRecord
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import Refused
from volbench.results.pack.read import opened_pack
from volbench.results.report.build import report_of
from volbench.results.report.rows.verdict.caveats import raised_limits
from volbench.results.store.histograms import MergedHistograms
from volbench.results.store.loaded_run import LoadedRun, load_run

RATE_TOLERANCE = 0.005
"""Between a step's transactions per second and those of its table: intervals are added up in another order."""
QUANTILE_BINS = 2
"""Between a step's percentile and that of its table: so many bins of the histogram."""
_QUANTILES = {"latency_ms_p50": 0.5, "latency_ms_p95": 0.95, "latency_ms_p99": 0.99, "latency_ms_p999": 0.999}
IN_FLIGHT_MAX = 1.1
"""Little's law: transactions in flight a client thread. The middle of a bin is up to 5 % off."""
IN_FLIGHT_MIN = 0.7
"""Of a closed loop, where a thread is always in a transaction; less was seen with clients short of CPU only."""
_NOT_THE_LOAD = frozenset({"name", "description", "repeats", "seed", "scale", "forecast", "pricing", "comparison"})
"""Keys of a suite that do not change what a cell measures."""


@dataclass(frozen=True, kw_only=True)
class CheckedPack:
    """A pack whose figures follow from its tables.

    Args:
        digest: SHA-256 of the file.
        recomputed: figures that were computed again and agree, of `figures`.
        marks: what limits the pack's worth, a sentence each; empty: nothing was found.
        suite_digest: of everything that decides what a cell measures: packs of one digest may stand side by side.
    """

    path: Path
    record: PackRecord
    digest: str
    report: Report
    host: HostFacts
    recomputed: int
    figures: int
    marks: tuple[str, ...]
    suite_digest: str


def check_pack(path: Path) -> CheckedPack:
    """Return a pack, checked.

    Raises RunUnreadable for a file that is no pack or of another version; Refused for one that was changed, or
    whose figures do not follow from its tables; MissingPrerequisite where it cannot be read.
    """
    with opened_pack(path) as (record, directory, digest):
        loaded = load_run(directory)
        if loaded.run.run_id != record.run_id or not loaded.results:
            raise _contradiction(path, "pack.json and run.json name different runs, or no cell is done")
        recomputed = sum(_recomputed(loaded, result, path) for result in loaded.results)
        report = report_of(loaded)
    figures = sum(len(step.metrics) for result in loaded.results for step in result.steps)
    host = loaded.results[0].host
    return CheckedPack(
        path=path,
        record=record,
        digest=digest,
        report=report,
        host=host,
        recomputed=recomputed,
        figures=figures,
        marks=tuple(_marks(loaded, report, host, recomputed)),
        suite_digest=suite_digest(loaded.run),
    )


def suite_digest(run: RunRecord) -> str:
    """Return the SHA-256 of the part of a suite that decides what a cell measures."""
    suite = run.suite.model_dump(mode="json", exclude=set(_NOT_THE_LOAD))
    return hashlib.sha256(json.dumps(suite, sort_keys=True).encode()).hexdigest()


def _recomputed(loaded: LoadedRun, result: CellResult, path: Path) -> int:
    """Return how many figures of a cell were computed again. Raise Refused for one that differs."""
    merged = loaded.histograms(result.cell_id).merged(measured=True)
    tables = {key.step: table for key, table in merged.items() if key.source == "client"}
    names = [step.step for step in result.steps]
    agree = 0
    for step in result.steps:
        if step.step in tables and names.count(step.step) == 1 and "tps" in step.metrics:
            agree += _agreeing(loaded.run, result, step, tables[step.step], path)
    return agree


def _agreeing(run: RunRecord, result: CellResult, step: StepResult, table: MergedHistograms, path: Path) -> int:
    where = f"{result.cell_id}, {step.step}"
    stated = {name: value.value for name, value in step.metrics.items()}
    events, seconds = int(table.events.sum()), float(table.seconds.sum())
    rate = events / seconds if seconds else 0.0
    if abs(stated["tps"] - rate) > RATE_TOLERANCE * max(rate, stated["tps"]):
        raise _contradiction(
            path, f"{where}: tps {number(stated['tps'])}, and {number(rate)} by the table of latencies"
        )
    agree = 1
    offered = _load_of(run, step)
    if (
        offered is not None and offered.rate is None and events
    ):  # at a rate, transactions without an answer count too
        for name, level in _QUANTILES.items():
            agree += _check_quantile(table, stated.get(name), level, f"{where}: {name}", path)
        in_flight = rate * _mean_ms(table) / 1000 / max(1, _threads(step))
        if in_flight > IN_FLIGHT_MAX:
            raise _contradiction(
                path,
                f"{where}: {number(rate)} transactions a second of {number(_mean_ms(table))} ms need"
                f" {number(in_flight)} times the {counted(_threads(step), 'thread')} that there were",
            )
    return agree


def _check_quantile(table: MergedHistograms, stated: float | None, level: float, where: str, path: Path) -> int:
    computed = _quantile_ms(table, level)
    if stated is None or computed is None or stated <= 0:
        return 0
    if abs(math.log(stated / computed)) > (QUANTILE_BINS + 0.01) / table.key.edge_mult:
        raise _contradiction(path, f"{where} {number(stated)} ms, and {number(computed)} by the table of latencies")
    return 1


def _quantile_ms(table: MergedHistograms, level: float) -> float | None:
    counts = table.counts.sum(axis=0)
    below, total = int(table.below.sum()), int(table.below.sum() + counts.sum() + table.above.sum())
    position = np.searchsorted(np.cumsum(counts) + below, level * total)
    return math.exp(position / table.key.edge_mult + table.key.edge_deduct) if position < len(counts) else None


def _mean_ms(table: MergedHistograms) -> float:
    counts = table.counts.sum(axis=0)
    values = np.exp(np.arange(len(counts)) / table.key.edge_mult + table.key.edge_deduct)
    return float((counts * values).sum() / counts.sum()) if counts.sum() else 0.0


def _load_of(run: RunRecord, step: StepResult) -> OltpStep | None:
    return next(
        (
            step_spec
            for step_spec in run.suite.steps
            if step_spec.name == step.step and isinstance(step_spec, OltpStep)
        ),
        None,
    )


def _threads(step: StepResult) -> int:
    threads = step.parameters.get("threads")
    return threads if isinstance(threads, int) else 1


def _marks(loaded: LoadedRun, report: Report, host: HostFacts, recomputed: int) -> Iterator[str]:
    run = loaded.run
    for volume in report.volumes:
        if volume.emulated:
            yield f"{volume.name} is an emulated volume ({volume.profile or volume.spec}): no vendor's product"
    if not host.cpu_model or not (host.cloud_instance_type or host.virtualization is not None):
        yield "the machine is not stated: its processor or its type is missing"
    if run.volbench_version != __version__:
        yield f"volbench {run.volbench_version} measured it, this is {__version__}"
    if not report.complete:
        yield "the run is not complete"
    if run.suite.underpowered:
        yield "the suite has too few or too short cells for firm verdicts, on purpose"
    invalid = sum(not cell.valid for cell in report.cells)
    if invalid:
        text = part_of(invalid, len(report.cells), ("step", "steps"), ("is invalid", "are invalid"))
        yield f"{text} and not in the figures"
    if raised_limits(run):
        yield "limits of validity were raised"
    if not recomputed:
        yield "no figure of it has a table to compute it from: they are as its maker states them"
    yield from _idle_clients(loaded)


def _idle_clients(loaded: LoadedRun) -> Iterator[str]:
    """Yield closed loops whose threads were not in a transaction for a large part of the time."""
    shares: list[float] = []
    for result in loaded.results:
        for key, table in loaded.histograms(result.cell_id).merged(measured=True).items():
            step = next((step for step in result.steps if step.step == key.step), None)
            load = _load_of(loaded.run, step) if step is not None else None
            if key.source == "client" and step is not None and load is not None and load.rate is None:
                seconds = float(table.seconds.sum()) * _threads(step)
                shares.append(int(table.events.sum()) * _mean_ms(table) / 1000 / seconds if seconds else 0.0)
    idle = [share for share in shares if share < IN_FLIGHT_MIN]
    if idle:
        yield (
            f"in {len(idle)} of {counted(len(shares), 'load')} the client's threads were in a transaction for as"
            f" little as {percent(min(idle))} of the time: the client, or whoever made the tables, was slow"
        )


def _contradiction(path: Path, evidence: str) -> Refused:
    return Refused(
        "the pack's figures do not follow from its tables",
        where=str(path),
        evidence=evidence,
        next_step="do not use it; ask its maker for the run's directory",
    )
