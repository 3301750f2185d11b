"""The crash step: what a power cut or a killed server costs in acknowledged commits, and the recovery after it."""

from __future__ import annotations

import random
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

from volbench.engine.attached import AttachedServer
from volbench.errors import EnvironmentLacks, StepFailed
from volbench.records.metrics import metric
from volbench.records.steps import CrashStep
from volbench.volume.power import Power
from volbench.workload import ledger
from volbench.workload.failures import server_or
from volbench.workload.interface import StepContext, StepOutcome
from volbench.workload.ledger import Kept, Shape, Writer
from volbench.workload.schema_data import table_names
from volbench.workload.scratch import acknowledge_lost_writes
from volbench.workload.state import LAST_WRITE

_TICK_S = 0.1
_LOG_LINES_MAX = 40
_TELLING = re.compile(
    r"recover|crash|not shut ?down|rollback|rolled back|prepared|corrupt|checksum|torn|doublewrite|error|binlog",
    re.IGNORECASE,
)
_OF_RECOVERY = frozenset({"server_crashed", "server_failed", "start_timeout"})
"""Causes of a start that fails because of what lies on the volume; others are the machine's, and fail the cell."""
DURABILITY_VARIABLES = ("innodb_flush_log_at_trx_commit", "sync_binlog", "innodb_doublewrite", "log_bin")
How = Literal["power_cut", "kill_server"]


@dataclass(frozen=True, kw_only=True)
class Cut:
    """One cut and its recovery."""

    committed_s: float
    recovery_s: float | None
    first_query_ms: float | None
    dropped: dict[str, int]
    kept: Kept
    log: tuple[str, ...]
    not_recovered: str = ""
    """Why the server did not come back; empty: it did."""

    def details(self) -> dict[str, Any]:
        """As the step's evidence."""
        return {
            **{name: value for name, value in vars(self).items() if name != "kept"},
            **asdict(self.kept),
        }


class Crash:
    """Commits, cuts, recovers and counts, as often as the step says."""

    def check(self, step: CrashStep, ctx: StepContext) -> None:
        """Before anything runs: a server that may be killed, and a power switch. Raises EnvironmentLacks."""
        if isinstance(ctx.server, AttachedServer):
            raise EnvironmentLacks(
                "a crash test kills the server, and this one is not volbench's own",
                where=f"step {step.name}",
                next_step="leave the step out, or run the suite with --target local or docker",
            )
        if how_of(step, ctx) == "power_cut":
            _power(step, ctx).check()

    def run(self, step: CrashStep, ctx: StepContext) -> StepOutcome:
        """Run all cuts, or until the server does not come back after one: that is a result, and the cell's last."""
        how = how_of(step, ctx)
        shape = Shape(seed=ctx.seed, parts=step.rows_per_commit, row_bytes=step.row_bytes)
        moments = random.Random(f"{ctx.seed}/{step.name}")  # noqa: S311 - not for secrets
        settings = {
            name: value for name, value in ctx.server.facts().variables.items() if name in DURABILITY_VARIABLES
        }
        ledger.create(ctx.server, shape)
        begun_s = ctx.clock.now_s()
        cuts = []
        for number in range(1, step.cuts + 1):
            ctx.progress(f"crash test, cut {number} of {step.cuts}", (number - 1) / step.cuts)
            after_s = step.after_s * moments.uniform(0.5, 1.5)
            cuts.append(_cut(step, ctx, shape, number, after_s))
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
            notes=tuple(_notes(how, cuts, damaged, settings)),
            details={
                "how": how,
                "volume_promises": _power(step, ctx).promise() if ctx.emulator_socket else None,
                "settings": settings,
                "cuts": [cut.details() for cut in cuts],
                "damaged_tables": list(damaged),
            },
            ends_cell=f"the server did not come back after a cut: {lost_server}" if lost_server else "",
        )


def how_of(step: CrashStep, ctx: StepContext) -> How:
    """What the step says, or: an emulated volume loses its power, elsewhere the server is killed."""
    if step.how != "auto":
        return step.how
    return "power_cut" if ctx.emulator_socket is not None else "kill_server"


def _power(step: CrashStep, ctx: StepContext) -> Power:
    if ctx.emulator_socket is None:
        raise EnvironmentLacks(
            "only an emulated volume has a power that can be cut",
            where=f"step {step.name}",
            evidence=f"the data is on {ctx.volume_facts.path or 'a volume'}",
            next_step="use how: kill_server, or a volume emulated:PROFILE",
        )
    return Power(ctx.emulator_socket)


def _cut(step: CrashStep, ctx: StepContext, shape: Shape, number: int, after_s: float) -> Cut:
    """Commit for a while, cut, recover, compare."""
    power = _power(step, ctx) if how_of(step, ctx) == "power_cut" else None
    dropped: dict[str, int] = {}
    if power is not None:
        power.settle()
    with ctx.outage():
        with ledger.writing(ctx, shape, number, step.threads) as writers:
            begun = time.monotonic()
            _let_commit(ctx, writers, after_s)
            committed_s = time.monotonic() - begun
            if power is not None:
                dropped = power.cut()
            ctx.server.kill()
        if power is not None:
            power.restore()
            acknowledge_lost_writes(ctx.volume_dir)
    ctx.progress(f"recovering after cut {number} of {step.cuts}", None)
    cut = partial(Cut, committed_s=committed_s, dropped=dropped)
    try:
        recovery_s = ctx.server.start()
    except StepFailed as error:
        if error.cause not in _OF_RECOVERY:
            raise
        return cut(
            recovery_s=None,
            first_query_ms=None,
            kept=ledger.judge(shape, number, writers, {}),
            log=telling_lines(ctx.server.log_since_start()),
            not_recovered=f"{error.what} ({error.evidence})",
        )
    return cut(
        recovery_s=recovery_s,
        first_query_ms=_timed_ms(lambda: ledger.look(ctx.server, number)),
        kept=ledger.read_back(ctx.server, shape, number, writers),
        log=telling_lines(ctx.server.log_since_start()),
    )


def _let_commit(ctx: StepContext, writers: Sequence[Writer], after_s: float) -> None:
    """Until the moment of the cut. Raises StepFailed when the clients end by themselves or commit nothing."""
    until = time.monotonic() + after_s
    while (left_s := until - time.monotonic()) > 0:
        if ctx.cancelled.wait(min(_TICK_S, left_s)):
            raise StepFailed("the crash test was cancelled", where="crash test")
        ended = next((one.ended_by for one in writers if one.ended_by), "")
        if ended:
            failure = StepFailed("a client failed before the cut", where="crash test", evidence=ended)
            raise server_or(failure, ctx)
    if not any(one.acknowledged for one in writers):
        raise StepFailed(
            f"no commit was acknowledged in {after_s:.1f} s before the cut",
            where="crash test",
            next_step="give the step more time: `after`",
        )


def _check_tables(step: CrashStep, ctx: StepContext) -> tuple[str, ...]:
    tables = [ledger.TABLE]
    if step.check_tables:
        schema = ctx.dataset.schema_name
        tables += [f"`{schema}`.`{table}`" for table in table_names(ctx.server, schema)]
    ctx.progress("checking tables after recovery", None)
    return ledger.damaged_tables(ctx.server, tables)


def _timed_ms(query: Callable[[], object]) -> float:
    begun = time.monotonic()
    query()
    return (time.monotonic() - begun) * 1000


def telling_lines(log: str) -> tuple[str, ...]:
    """The lines of a server's log that tell of its recovery, the first ones of very many. Pure."""
    lines = [line.strip() for line in log.splitlines() if _TELLING.search(line)]
    return tuple(lines[:_LOG_LINES_MAX])


def _metrics(cuts: Sequence[Cut], damaged: Sequence[str]) -> dict[str, float]:
    """Sums over the cuts; of times the median, of lost work the longest. What was never seen is left out."""
    recovered = [cut for cut in cuts if not cut.not_recovered]
    times = {
        "recovery_s": [cut.recovery_s for cut in recovered if cut.recovery_s is not None],
        "first_query_ms": [cut.first_query_ms for cut in recovered if cut.first_query_ms is not None],
    }
    acknowledged = sum(cut.kept.acknowledged for cut in cuts)
    return {
        "commits_per_s": acknowledged / sum(cut.committed_s for cut in cuts),
        "acknowledged_commits": acknowledged,
        "lost_commits": sum(cut.kept.lost for cut in cuts),
        "lost_s": max(cut.kept.lost_s for cut in cuts),
        "unacknowledged_commits": sum(cut.kept.unacknowledged for cut in cuts),
        "torn_commits": sum(cut.kept.torn for cut in cuts),
        "damaged_rows": sum(cut.kept.damaged_rows for cut in cuts),
        "damaged_tables": len(damaged),
        "failed_recoveries": len(cuts) - len(recovered),
        **{name: statistics.median(values) for name, values in times.items() if values},
    }


def _notes(how: How, cuts: Sequence[Cut], damaged: Sequence[str], settings: dict[str, str]) -> list[str]:
    acknowledged, lost = sum(cut.kept.acknowledged for cut in cuts), sum(cut.kept.lost for cut in cuts)
    what = "power cut" if how == "power_cut" else "the server killed"
    times = "once" if len(cuts) == 1 else f"{len(cuts)} times"
    shown = ", ".join(f"{name}={value}" for name, value in settings.items())
    notes = [f"{what} {times}: {lost} of {acknowledged} acknowledged commits lost ({shown})"]
    if cuts[-1].not_recovered:
        notes.append("the server did not come back: a backup would have to be restored; no later step was run")
    torn = sum(cut.kept.torn + cut.kept.damaged_rows for cut in cuts)
    if torn or damaged:
        notes.append(f"{torn} transactions or rows are torn or damaged; tables that are not well: {len(damaged)}")
    if how == "kill_server":
        notes.append("a killed server leaves what the operating system holds: only a power cut tests the volume")
    return notes
