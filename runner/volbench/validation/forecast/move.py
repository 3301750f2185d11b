"""The time of a move: dump, copy, restore and checks, predicted from runs on the candidate's volume.

The time is proportional to the data (clustered indexes, as both servers estimate them). Other kinds of rows, more
secondary indexes, or data beyond memory take longer; the details have the ratio of predicted to measured data.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from volbench.core.base.text import counted, duration, number
from volbench.core.records.cell import CellResult
from volbench.core.records.goals.gate import Decision
from volbench.core.records.validation.plan import MovePlan
from volbench.core.records.validation.result import CheckRow, MoveEstimate
from volbench.machine.engine.answers import reads_answers, whole_number
from volbench.results.stats.linear import t_quantile
from volbench.validation.catalog.objects import quoted
from volbench.validation.source.server import SqlReader
from volbench.validation.verdict import decide_check, undecided

ALPHA = 0.05
EXTRAPOLATION_EXPONENT = 0.4
"""Repeats with one data size do not show the effect of size: both ends widen by the ratio of sizes to this power.

Measured in results/examples/validation: restores of 6 times the data took up to 6^1.35 times as long.
"""
EXTRAPOLATION_FACTOR_MAX = 10.0
"""A prediction for more than this many times the measured data is an extrapolation, and no go."""
_PAIRS = {"mysqldump": "mysql", "mydumper": "myloader"}


@dataclass(frozen=True, kw_only=True)
class RunCells:
    """A run's cells, and the volume of each."""

    run_id: str
    results: tuple[CellResult, ...]
    volume_of: Mapping[str, str]
    emulated: Collection[str] = ()


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A dump and its restore in one cell."""

    data_bytes: int
    dump_bytes: float
    dump_s: float
    restore_s: float


def bytes_statement(schemas: Sequence[str]) -> str:
    """Return the query for the bytes of clustered and of secondary indexes."""
    schema_list = ", ".join(quoted(schema) for schema in schemas)
    return (
        "SELECT COALESCE(SUM(data_length), 0), COALESCE(SUM(index_length), 0) FROM information_schema.tables "
        f"WHERE table_schema IN ({schema_list})"
    )


@reads_answers("the size of its data")
def source_bytes(source: SqlReader, schemas: Sequence[str]) -> int:
    """Return bytes of the clustered indexes, as the server estimates them."""
    return whole_number(source.query(bytes_statement(schemas))[0][0])


def estimates(
    runs: Iterable[RunCells], volumes: Collection[str], data_bytes: int, checks_s: float | None, plan: MovePlan
) -> tuple[MoveEstimate, ...]:
    """Return an estimate for each run, volume and measured pair of tools, the shortest first."""
    per_combination = [
        _estimate(run, volume, tools, pairs, data_bytes, checks_s, plan)
        for run in runs
        for (volume, tools), pairs in pairs_of(run).items()
        if volume in volumes
    ]
    return tuple(sorted(per_combination, key=lambda estimate: estimate.total_s))


def pairs_of(run: RunCells) -> dict[tuple[str, str], list[Pair]]:
    """Return valid dumps with the restore that followed, by volume and tools."""
    pairs: defaultdict[tuple[str, str], list[Pair]] = defaultdict(list)
    for result in run.results:
        if result.status != "done":
            continue
        dumps: dict[str, tuple[int, float, float]] = {}
        for step in result.steps:
            tool = str(step.parameters.get("tool", ""))
            metrics, data = step.metrics, step.details.get("data_bytes")
            if not step.valid or "/" in step.step:  # the time of a dump during a load does not predict one alone
                continue
            if {"dump_s", "dump_bytes"} <= metrics.keys() and isinstance(data, int) and data > 0:
                dumps[_PAIRS.get(tool, "")] = (data, metrics["dump_bytes"].value, metrics["dump_s"].value)
            elif "restore_s" in metrics and tool in dumps:
                data, dumped, dump_s = dumps[tool]
                dump_tool = next(name for name, restore_tool in _PAIRS.items() if restore_tool == tool)
                tools = f"{dump_tool} and {tool}"
                pairs[run.volume_of[result.cell_id], tools].append(
                    Pair(data_bytes=data, dump_bytes=dumped, dump_s=dump_s, restore_s=metrics["restore_s"].value)
                )
    return dict(pairs)


def move_check(candidates: Sequence[MoveEstimate], plan: MovePlan, logs: Mapping[str, str]) -> CheckRow:
    """Return go when even the long end of the shortest estimate fits the window, or where the plan has no window.

    Args:
        candidates: estimates, the shortest first.
        plan: with the window.
        logs: the source's variables on binary logs, for a cut-over by replication.
    """
    if not candidates:
        text = "no run of the candidate's volume has a dump and its restore: see suites/backup-restore.yaml"
        return undecided("move", text)
    best = candidates[0]
    text = (
        f"{_span(best)} with {best.tools}, most of it {best.dominated_by}; "
        f"clients wait that long, or about {duration(plan.switch_s)} with a replica that has caught up"
    )
    if plan.window_s is None:
        text += "; the plan has no window, so any time will do"
    return decide_check(
        "move",
        compared=1 if best.source_bytes > 0 else 0,
        text=text,
        faults=[text] if _decision(best, plan) == "no-go" else [],
        doubts=[_doubt(best)] if _decision(best, plan) == "undecided" else [],
        notes=[*(text for estimate in candidates for text in _details(estimate)), *_replication(best, logs)],
        nothing="the source has no data in the schemas, so there is nothing to predict from",
    )


def _estimate(
    run: RunCells, volume: str, tools: str, pairs: Sequence[Pair], data: int, checks_s: float | None, plan: MovePlan
) -> MoveEstimate:
    # The dump is copied; its size relative to the data depends on the tool and the rows.
    copied = [pair.dump_bytes / pair.data_bytes / plan.copy_per_s if plan.copy_per_s else 0.0 for pair in pairs]
    seconds_per_byte = [
        (pair.dump_s + pair.restore_s) / pair.data_bytes + copy for pair, copy in zip(pairs, copied, strict=True)
    ]
    phase_s = {
        "the dump": median(pair.dump_s / pair.data_bytes for pair in pairs) * data,
        "the copy": median(copied) * data,
        "the restore": median(pair.restore_s / pair.data_bytes for pair in pairs) * data,
        "the checks": checks_s or 0.0,
    }
    low, high = _prediction(seconds_per_byte)
    measured = median(pair.data_bytes for pair in pairs)
    extrapolation = max(data / measured, measured / max(data, 1)) ** EXTRAPOLATION_EXPONENT
    return MoveEstimate(
        tools=tools,
        run_id=run.run_id,
        volume=volume,
        cells=len(pairs),
        measured_bytes=round(measured),
        source_bytes=data,
        dump_s=phase_s["the dump"],
        copy_s=phase_s["the copy"] if plan.copy_per_s else None,
        restore_s=phase_s["the restore"],
        checks_s=checks_s,
        total_s=sum(phase_s.values()),
        total_s_low=None if low is None else low * data / extrapolation + (checks_s or 0.0),
        total_s_high=None if high is None else high * data * extrapolation + (checks_s or 0.0),
        dominated_by=max(phase_s, key=lambda name: phase_s[name]),
        emulated=volume in run.emulated,
    )


def _prediction(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the prediction interval of the next of lognormal values: mean of logs +- t s sqrt(1 + 1/n).

    Source: Hahn and Meeker, Statistical Intervals, section 4.8.
    """
    if len(values) < 2 or min(values) <= 0:
        return None, None
    logs = [math.log(value) for value in values]
    half_width = t_quantile(1 - ALPHA / 2, len(logs) - 1) * stdev(logs) * math.sqrt(1 + 1 / len(logs))
    return math.exp(fmean(logs) - half_width), math.exp(fmean(logs) + half_width)


def _decision(estimate: MoveEstimate, plan: MovePlan) -> Decision:
    if plan.window_s is None:
        return "go"
    if estimate.total_s_high is not None and estimate.total_s_high <= plan.window_s:
        # An extrapolation, or an estimate without the copy, cannot be a go.
        return (
            "go"
            if estimate.copy_s is not None
            and estimate.source_bytes <= EXTRAPOLATION_FACTOR_MAX * estimate.measured_bytes
            else "undecided"
        )
    return "no-go" if estimate.total_s_low is not None and estimate.total_s_low > plan.window_s else "undecided"


def _doubt(estimate: MoveEstimate) -> str:
    """Return why an estimate does not decide whether the move fits the window."""
    if estimate.total_s_high is None:
        return "one cell gives no interval: repeat the run's cells"
    if estimate.copy_s is None:
        return "the time of the copy is not included"
    if estimate.source_bytes > EXTRAPOLATION_FACTOR_MAX * estimate.measured_bytes:
        return "the runs had much less data than the source"
    return "the interval spans the window"


def _details(estimate: MoveEstimate) -> Iterator[str]:
    phase_s = {
        "dump": estimate.dump_s,
        "copy": estimate.copy_s,
        "restore": estimate.restore_s,
        "checks": estimate.checks_s,
    }
    phases = ", ".join(f"{name} {duration(value)}" for name, value in phase_s.items() if value is not None)
    rehearsal = ", on an emulated volume" if estimate.emulated else ""
    source = f"from {counted(estimate.cells, 'cell')}{rehearsal}"
    yield f"{estimate.tools} on {estimate.volume}: {_span(estimate)} ({phases}), {source}"
    if estimate.copy_s is None:
        yield "the time of the copy between the machines is not included: give move.copy"
    factor = estimate.source_bytes / estimate.measured_bytes
    if factor > EXTRAPOLATION_FACTOR_MAX:
        yield f"the source has {number(factor)} times the data of the runs: measure with more data"


def _replication(best: MoveEstimate, logs: Mapping[str, str]) -> Iterator[str]:
    """Yield what a cut-over by replication lacks: a replica needs the logs since its dump began."""
    if logs.get("log_bin", "").upper() not in {"ON", "1"}:
        yield "the source writes no binary log, so a cut-over by replication is not possible"
        return
    retention_s = _number(logs, "binlog_expire_logs_seconds") or 86400 * _number(logs, "expire_logs_days")
    needed_s = best.total_s_high or best.total_s
    if 0 < retention_s < needed_s:
        yield (
            f"the retention of binary logs is {duration(retention_s)}: too short for a replica that starts from "
            "the dump"
        )


def _number(variables: Mapping[str, str], name: str) -> float:
    """Return a variable's number; 0 where it has none."""
    try:
        return float(whole_number(variables.get(name, "").partition(".")[0]))
    except ValueError:
        return 0.0


def _span(estimate: MoveEstimate) -> str:
    if estimate.total_s_low is None or estimate.total_s_high is None:
        return f"{duration(estimate.total_s)} (no interval)"
    return f"{duration(estimate.total_s)} [{duration(estimate.total_s_low)}, {duration(estimate.total_s_high)}]"
