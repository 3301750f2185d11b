"""How long a move takes: dump, copy, restore and checks, from what runs on the candidate's volume measured.

Seconds are taken in proportion to the data (clustered indexes, as both servers estimate them): a dump and a restore
of one kind of rows take so long a byte. Rows of another kind, more secondary indexes, or data beyond memory, where
the runs' was within, take longer; the factor between measured and predicted is told.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from volbench.analysis.linear import t_quantile
from volbench.records.cell import CellResult
from volbench.records.gate import Decision
from volbench.records.validation import CheckRow, MoveEstimate, MovePlan
from volbench.validation.objects import quoted
from volbench.validation.source import Reads

ALPHA = 0.05
GROWTH = 0.4
"""Repeats of one size say nothing of another: both ends are moved by the factor between the sizes to this power.

results/examples/validation has what was measured: restores of 6 times the data took up to 6^1.35 times as long.
"""
FAR = 10.0
"""A prediction for so many times the measured data is called one."""
_PAIRS = {"mysqldump": "mysql", "mydumper": "myloader"}


@dataclass(frozen=True, kw_only=True)
class Given:
    """A run's cells, and the volume that each was on."""

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
    """What the source is asked: data without and secondary indexes."""
    wanted = ", ".join(quoted(schema) for schema in schemas)
    return (
        "SELECT COALESCE(SUM(data_length), 0), COALESCE(SUM(index_length), 0) FROM information_schema.tables "  # noqa: S608 - names of its own schemas, quoted
        f"WHERE table_schema IN ({wanted})"
    )


def source_bytes(source: Reads, schemas: Sequence[str]) -> int:
    """Bytes of the clustered indexes, as the server estimates them."""
    return int(source.query(bytes_statement(schemas))[0][0])


def estimates(
    runs: Iterable[Given], volumes: Collection[str], data_bytes: int, checks_s: float | None, plan: MovePlan
) -> tuple[MoveEstimate, ...]:
    """One for each run, volume and pair of tools that was measured, the shortest first."""
    found = [
        _estimate(run, volume, tools, pairs, data_bytes, checks_s, plan)
        for run in runs
        for (volume, tools), pairs in pairs_of(run).items()
        if volume in volumes
    ]
    return tuple(sorted(found, key=lambda one: one.total_s))


def pairs_of(run: Given) -> dict[tuple[str, str], list[Pair]]:
    """Valid dumps with the restore that followed, by volume and tools."""
    pairs: defaultdict[tuple[str, str], list[Pair]] = defaultdict(list)
    for result in run.results:
        if result.status != "done":
            continue
        dumps: dict[str, tuple[int, float, float]] = {}
        for step in result.steps:
            tool = str(step.parameters.get("tool", ""))
            metrics, data = step.metrics, step.details.get("data_bytes")
            if not step.valid or "/" in step.step:  # a dump beside a load says nothing of one alone
                continue
            if {"dump_s", "dump_bytes"} <= metrics.keys() and isinstance(data, int) and data > 0:
                dumps[_PAIRS.get(tool, "")] = (data, metrics["dump_bytes"].value, metrics["dump_s"].value)
            elif "restore_s" in metrics and tool in dumps:
                data, dumped, dump_s = dumps[tool]
                tools = f"{next(one for one, other in _PAIRS.items() if other == tool)} and {tool}"
                pairs[run.volume_of[result.cell_id], tools].append(
                    Pair(data_bytes=data, dump_bytes=dumped, dump_s=dump_s, restore_s=metrics["restore_s"].value)
                )
    return dict(pairs)


def move_check(found: Sequence[MoveEstimate], plan: MovePlan, logs: Mapping[str, str]) -> CheckRow:
    """go when even the long end of the shortest way fits the window; without a window it is told only.

    Args:
        logs: the source's variables, for what a cut-over by replication needs.
    """
    if not found:
        text = "no run of the candidate's volume has a dump and its restore: see suites/backup-restore.yaml"
        return CheckRow(check="move", decision="undecided", text=text)
    best = found[0]
    text = (
        f"{_span(best)} with {best.tools}, most of it {best.dominated_by}; "
        f"clients wait as long, or about {spoken_s(plan.switch_s)} with a replica that has caught up"
    )
    decision = _decision(best, plan)
    details = [text for one in found for text in _details(one)]
    return CheckRow(check="move", decision=decision, text=text, details=(*details, *_replication(best, logs)))


def _estimate(
    run: Given, volume: str, tools: str, pairs: Sequence[Pair], data: int, checks_s: float | None, plan: MovePlan
) -> MoveEstimate:
    # What is left to copy is the dump, whose size to the data's is the tool's and the rows'.
    copied = [one.dump_bytes / one.data_bytes / plan.copy_per_s if plan.copy_per_s else 0.0 for one in pairs]
    each = [(one.dump_s + one.restore_s) / one.data_bytes + copy for one, copy in zip(pairs, copied, strict=True)]
    parts = {
        "the dump": median(one.dump_s / one.data_bytes for one in pairs) * data,
        "the copy": median(copied) * data,
        "the restore": median(one.restore_s / one.data_bytes for one in pairs) * data,
        "the checks": checks_s or 0.0,
    }
    low, high = _prediction(each)
    measured = median(one.data_bytes for one in pairs)
    apart = max(data / measured, measured / max(data, 1)) ** GROWTH
    return MoveEstimate(
        tools=tools, run_id=run.run_id, volume=volume, cells=len(pairs),
        measured_bytes=round(measured), source_bytes=data, dump_s=parts["the dump"],
        copy_s=parts["the copy"] if plan.copy_per_s else None, restore_s=parts["the restore"], checks_s=checks_s,
        total_s=sum(parts.values()),
        total_s_low=None if low is None else low * data / apart + (checks_s or 0.0),
        total_s_high=None if high is None else high * data * apart + (checks_s or 0.0),
        dominated_by=max(parts, key=lambda name: parts[name]), emulated=volume in run.emulated,
    )  # fmt: skip


def _prediction(each: Sequence[float]) -> tuple[float | None, float | None]:
    """Where the next one lies, of lognormal values: mean of logs +- t s sqrt(1 + 1/n).

    Source: Hahn and Meeker, Statistical Intervals, section 4.8.
    """
    if len(each) < 2 or min(each) <= 0:
        return None, None
    logs = [math.log(value) for value in each]
    half = t_quantile(1 - ALPHA / 2, len(logs) - 1) * stdev(logs) * math.sqrt(1 + 1 / len(logs))
    return math.exp(fmean(logs) - half), math.exp(fmean(logs) + half)


def _decision(best: MoveEstimate, plan: MovePlan) -> Decision:
    if plan.window_s is None:
        return "go"
    if best.total_s_high is not None and best.total_s_high <= plan.window_s:
        # Beyond what was measured, or without the way between the machines, it may only be told.
        return "go" if best.copy_s is not None and best.source_bytes <= FAR * best.measured_bytes else "undecided"
    return "no-go" if best.total_s_low is not None and best.total_s_low > plan.window_s else "undecided"


def _details(one: MoveEstimate) -> Iterator[str]:
    parts = {"dump": one.dump_s, "copy": one.copy_s, "restore": one.restore_s, "checks": one.checks_s}
    told = ", ".join(f"{name} {spoken_s(value)}" for name, value in parts.items() if value is not None)
    rehearsal = ", on an emulated volume" if one.emulated else ""
    yield f"{one.tools} on {one.volume}: {_span(one)} ({told}), from {one.cells} cells{rehearsal}"
    if one.copy_s is None:
        yield "the copy between the machines is not in it: give move.copy"
    factor = one.source_bytes / one.measured_bytes
    if factor > FAR:
        yield f"the source has {factor:.3g} times the data of the runs: measure with more of it"


def _replication(best: MoveEstimate, logs: Mapping[str, str]) -> Iterator[str]:
    """A replica needs the logs of all the time since its dump began."""
    if logs.get("log_bin", "").upper() not in {"ON", "1"}:
        yield "the source writes no binary log, so there can be no cut-over by replication"
        return
    kept_s = float(logs.get("binlog_expire_logs_seconds") or 0) or 86400 * float(logs.get("expire_logs_days") or 0)
    needed_s = best.total_s_high or best.total_s
    if 0 < kept_s < needed_s:
        yield f"binary logs are kept for {spoken_s(kept_s)} only: too short for a replica that begins with the dump"


def _span(one: MoveEstimate) -> str:
    if one.total_s_low is None or one.total_s_high is None:
        return f"{spoken_s(one.total_s)} (no interval)"
    return f"{spoken_s(one.total_s)} [{spoken_s(one.total_s_low)}, {spoken_s(one.total_s_high)}]"


def spoken_s(seconds: float) -> str:
    """A time as one says it."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h" if seconds < 7 * 86400 else f"{seconds / 86400:.3g} days"
