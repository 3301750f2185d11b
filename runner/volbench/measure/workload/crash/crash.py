"""The crash step: acknowledged commits lost by a power cut or a killed server, and the recovery after it."""

from __future__ import annotations

import random
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from volbench.core.base.text import counted
from volbench.core.records.metrics import metric
from volbench.core.records.steps.crash import KIND, CrashStep
from volbench.errors import MissingPrerequisite, StepFailed
from volbench.machine.engine.connection import quoted_name
from volbench.machine.volume.emulated.power import PowerOfAll
from volbench.measure.workload.crash import ledger
from volbench.measure.workload.crash.ledger import LedgerSpec, RecoveryCheck, Writer
from volbench.measure.workload.failures import with_server_cause
from volbench.measure.workload.interface import StepContext, StepOutcome, Workload
from volbench.measure.workload.schema_data import table_names
from volbench.measure.workload.scratch import acknowledge_lost_writes
from volbench.measure.workload.state import LAST_WRITE

_TICK_S = 0.1
_LOG_LINES_MAX = 40
_RECOVERY_LINE = re.compile(
    r"recover|crash|not shut ?down|rollback|rolled back|prepared|corrupt|checksum|torn|doublewrite|error|binlog",
    re.IGNORECASE,
)
_RECOVERY_CAUSES = frozenset({"server_crashed", "server_failed"})
"""Causes of a failed start that come from the data on the volume. Others fail the cell: a recovery that takes more
time than `engine.start_timeout` is no loss of data."""
DURABILITY_VARIABLES = ("innodb_flush_log_at_trx_commit", "sync_binlog", "innodb_doublewrite", "log_bin")
Fault = Literal["power_cut", "kill_server"]


@dataclass(frozen=True, kw_only=True)
class Cut:
    """One cut and its recovery."""

    committed_s: float
    recovery_s: float | None
    first_query_ms: float | None
    dropped: dict[str, int]
    verification: RecoveryCheck
    log: tuple[str, ...]
    not_recovered: str = ""
    """Why the server did not start again; empty: it did."""

    def details(self) -> dict[str, Any]:
        """Return the cut as details of the step."""
        return {
            **{name: value for name, value in vars(self).items() if name != "verification"},
            **asdict(self.verification),
        }


class Crash(Workload[CrashStep]):
    """Commits, cuts, recovers and counts, as many times as the step says."""

    kind = "crash"

    def check(self, step: CrashStep, ctx: StepContext) -> None:
        """Check that volbench may kill the server, and the power switch. Raise MissingPrerequisite."""
        ctx.server.own(KIND.own_server, where=f"step {step.name}")
        if fault_of(step, ctx) == "power_cut":
            _power(step, ctx).check()

    def run(self, step: CrashStep, ctx: StepContext) -> StepOutcome:
        """Run all cuts; a server that does not start again is a result, and ends the cell."""
        fault = fault_of(step, ctx)
        ledger_spec = LedgerSpec(seed=ctx.seed, rows_per_commit=step.rows_per_commit, row_bytes=step.row_bytes)
        moments = random.Random(f"{ctx.seed}/{step.name}")
        settings = {
            name: value for name, value in ctx.server.facts().variables.items() if name in DURABILITY_VARIABLES
        }
        ledger.create(ctx.server, ledger_spec)
        begun_s = ctx.clock.now_s()
        cuts = []
        for number in range(1, step.cuts + 1):
            ctx.progress(f"crash test, cut {number} of {step.cuts}", (number - 1) / step.cuts)
            after_s = step.after_s * moments.uniform(0.5, 1.5)
            cuts.append(_cut(step, ctx, ledger_spec, number, after_s))
            if cuts[-1].not_recovered:
                break
        ended_s = ctx.clock.now_s()
        lost_server = cuts[-1].not_recovered
        damaged = () if lost_server else _check_tables(step, ctx)
        if not lost_server:
            ledger.drop(ctx.server)
        ctx.state[LAST_WRITE] = ctx.clock.now_s()
        return StepOutcome(
            window_s=(begun_s, ended_s),
            metrics={name: metric(name, value) for name, value in _metrics(cuts, damaged).items()},
            notes=tuple(_notes(fault, cuts, damaged, settings)),
            details={
                "fault": fault,
                "volume_durability": _power(step, ctx).durability() if all(_sockets(ctx).values()) else None,
                "settings": settings,
                "cuts": [cut.details() for cut in cuts],
                "damaged_tables": list(damaged),
            },
            ends_cell=f"the server did not start again after a cut: {lost_server}" if lost_server else "",
        )


def fault_of(step: CrashStep, ctx: StepContext) -> Fault:
    """Return the step's fault; `auto`: cut the power of an emulated volume, else kill the server."""
    if step.fault != "auto":
        return step.fault
    return "power_cut" if all(_sockets(ctx).values()) else "kill_server"


def _sockets(ctx: StepContext) -> dict[str, Path | None]:
    """Return the control socket of each volume of the server, by the directory on it; None: not emulated."""
    own = {ctx.volume_facts.path or "a volume": ctx.emulator_socket}
    layout = {
        component.volume_dir: Path(component.emulator_socket) if component.emulator_socket else None
        for component in ctx.layout
    }
    return {**own, **layout}


def _power(step: CrashStep, ctx: StepContext) -> PowerOfAll:
    sockets = _sockets(ctx)
    real = [directory for directory, socket in sockets.items() if socket is None]
    if real:
        raise MissingPrerequisite(
            "a power cut needs emulated volumes, for the data and for each component of a layout",
            where=f"step {step.name}",
            evidence=f"not emulated: {', '.join(real)}",
            next_step="use fault: kill_server, or volumes emulated:PROFILE",
        )
    return PowerOfAll([socket for socket in sockets.values() if socket is not None])


def _cut(step: CrashStep, ctx: StepContext, ledger_spec: LedgerSpec, number: int, after_s: float) -> Cut:
    """Commit for a time, cut, recover, compare."""
    power = _power(step, ctx) if fault_of(step, ctx) == "power_cut" else None
    dropped: dict[str, int] = {}
    if power is not None:
        power.settle()
    with ctx.outage():
        with ledger.writing(ctx, ledger_spec, number, step.threads) as writers:
            begun = time.monotonic()
            _let_commit(ctx, writers, after_s)
            committed_s = time.monotonic() - begun
            if power is not None:
                dropped = power.cut()
            ctx.server.kill()
        if power is not None:
            power.restore()
            for directory in (ctx.volume_dir, *(Path(component.volume_dir) for component in ctx.layout)):
                acknowledge_lost_writes(directory)
    ctx.progress(f"recovering after cut {number} of {step.cuts}", None)
    cut = partial(Cut, committed_s=committed_s, dropped=dropped)
    try:
        recovery_s = ctx.server.start()
    except StepFailed as error:
        if error.cause not in _RECOVERY_CAUSES:
            raise
        return cut(
            recovery_s=None,
            first_query_ms=None,
            verification=ledger.judge(ledger_spec, number, writers, {}),
            log=recovery_log_lines(ctx.server.log_since_start()),
            not_recovered=f"{error.what} ({error.evidence})",
        )
    return cut(
        recovery_s=recovery_s,
        first_query_ms=_timed_ms(lambda: ledger.query_first_row(ctx.server, number)),
        verification=ledger.read_back(ctx.server, ledger_spec, number, writers),
        log=recovery_log_lines(ctx.server.log_since_start()),
    )


def _let_commit(ctx: StepContext, writers: Sequence[Writer], after_s: float) -> None:
    """Wait for the moment of the cut. Raise StepFailed if the clients end before it or commit nothing."""
    until = time.monotonic() + after_s
    while (left_s := until - time.monotonic()) > 0:
        if ctx.cancelled.wait(min(_TICK_S, left_s)):
            raise StepFailed("the crash test was cancelled", where="crash test")
        ended = next((writer.ended_by for writer in writers if writer.ended_by), "")
        if ended:
            failure = StepFailed("a client failed before the cut", where="crash test", evidence=ended)
            raise with_server_cause(failure, ctx)
    if not any(writer.acknowledged for writer in writers):
        raise StepFailed(
            f"no commit was acknowledged in {after_s:.1f} s before the cut",
            where="crash test",
            next_step="give the step more time: `after`",
        )


def _check_tables(step: CrashStep, ctx: StepContext) -> tuple[str, ...]:
    tables = [ledger.TABLE]
    if step.check_tables:
        schema = ctx.dataset.schema_name
        tables += [f"`{schema}`.{quoted_name(table)}" for table in table_names(ctx.server, schema)]
    ctx.progress("checking tables after recovery", None)
    return ledger.damaged_tables(ctx.server, tables)


def _timed_ms(query: Callable[[], object]) -> float:
    begun = time.monotonic()
    query()
    return (time.monotonic() - begun) * 1000


def recovery_log_lines(log: str) -> tuple[str, ...]:
    """Return the log's lines about the recovery, at most _LOG_LINES_MAX. Pure."""
    lines = [line.strip() for line in log.splitlines() if _RECOVERY_LINE.search(line)]
    return tuple(lines[:_LOG_LINES_MAX])


def _metrics(cuts: Sequence[Cut], damaged: Sequence[str]) -> dict[str, float]:
    """Return sums over the cuts, medians of times, the longest lost work. Metrics without a value are absent."""
    recovered = [cut for cut in cuts if not cut.not_recovered]
    times = {
        "recovery_s": [cut.recovery_s for cut in recovered if cut.recovery_s is not None],
        "first_query_ms": [cut.first_query_ms for cut in recovered if cut.first_query_ms is not None],
    }
    acknowledged = sum(cut.verification.acknowledged for cut in cuts)
    return {
        "commits_per_s": acknowledged / sum(cut.committed_s for cut in cuts),
        "acknowledged_commits": acknowledged,
        "lost_commits": sum(cut.verification.lost for cut in cuts),
        "lost_s": max(cut.verification.lost_s for cut in cuts),
        "unacknowledged_commits": sum(cut.verification.unacknowledged for cut in cuts),
        "torn_commits": sum(cut.verification.torn for cut in cuts),
        "damaged_rows": sum(cut.verification.damaged_rows for cut in cuts),
        "damaged_tables": len(damaged),
        "failed_recoveries": len(cuts) - len(recovered),
        **{name: statistics.median(values) for name, values in times.items() if values},
    }


def _notes(fault: Fault, cuts: Sequence[Cut], damaged: Sequence[str], settings: dict[str, str]) -> list[str]:
    acknowledged, lost = (
        sum(cut.verification.acknowledged for cut in cuts),
        sum(cut.verification.lost for cut in cuts),
    )
    event_text = "power cut" if fault == "power_cut" else "the server killed"
    times = "once" if len(cuts) == 1 else f"{len(cuts)} times"
    settings_text = ", ".join(f"{name}={value}" for name, value in settings.items())
    notes = [f"{event_text} {times}: {lost} of {acknowledged} acknowledged commits were lost ({settings_text})"]
    if cuts[-1].not_recovered:
        notes.append("the server did not start again: only a backup would help; no later step was run")
    torn = sum(cut.verification.torn + cut.verification.damaged_rows for cut in cuts)
    if torn or damaged:
        notes.append(f"{torn} transactions or rows are torn or damaged; damaged tables: {len(damaged)}")
    torn_writes = sum(cut.dropped.get("torn", 0) for cut in cuts)
    if torn_writes:
        notes.append(f"the power cuts tore {counted(torn_writes, 'write')} under way: a part is on the volume")
    early = sum(cut.dropped.get("early", 0) for cut in cuts)
    if early:
        notes.append(
            f"{early:,} writes were durable earlier than the volume promises, for lack of memory of the emulator: a"
            " real volume may lose more"
        )
    if fault == "kill_server":
        notes.append("after a kill the page cache survives: only a power cut tests the volume")
    return notes
