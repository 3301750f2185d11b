"""The replica step: how far a replica on the volume lags under load, and how fast it catches up after a pause."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from volbench.core.records.cell import COUNTED_AS_SLOWEST, NO_CATCH_UP
from volbench.core.records.metrics import MetricValue, metric
from volbench.core.records.steps.replica import ASSUMED_TRANSACTION_BYTES, ReplicaStep
from volbench.errors import MissingPrerequisite, StepFailed, VolbenchError
from volbench.machine.engine.differences import ServerIdentity
from volbench.machine.engine.server import Server
from volbench.measure.workload.failures import with_server_cause
from volbench.measure.workload.files import tree_bytes
from volbench.measure.workload.interface import StepContext, StepOutcome, SubResult, Workload
from volbench.measure.workload.oltp.oltp import Oltp
from volbench.measure.workload.replica.dialect import dialect_of
from volbench.measure.workload.replica.heartbeat import BEAT_S, POLL_S, Floats, Heartbeat
from volbench.measure.workload.replica.load import Load, LoadFigures, loaded_s_max, oltp_step, settling_s
from volbench.measure.workload.replica.replication import Replication
from volbench.measure.workload.replica.series import lag_rows
from volbench.measure.workload.replica.source import replica_of, require_separate_place, running_source
from volbench.measure.workload.state import LAST_WRITE

CAUGHT_UP_S = 1.0
"""A replica has caught up when its lag is no longer: when Seconds_Behind_Source would be 0."""
_CATCH_UP_S_MIN = 2.0
"""The end of a shorter one is known to 1 or 2 % at best, and few intervals of the samplers are in it."""
_BEGIN_TIMEOUT_S = 60.0
_WAIT_S = 0.02
_STATUS_INTERVAL_S = 0.5
_MYSQL_MIN = (8, 0, 26)
_NOTE = (
    f"a lag is that of a row written every {BEAT_S * 1e3:.0f} ms, read on the replica every {POLL_S * 1e3:.0f} ms;"
    " the source is a second server on the same machine, off the volume, without syncs"
)


class Replica(Workload[ReplicaStep]):
    """Makes the cell's server a replica of a second server, for the time of the step."""

    kind = "replica"

    def check(self, step: ReplicaStep, ctx: StepContext) -> None:
        """Check server, place and space of the source, and sysbench. Raise MissingPrerequisite, UsageError."""
        where = f"step {step.name}"
        server = replica_of(ctx.server, where=where)
        _require_version(server.identity, where)
        logs_bytes = round(step.rate * loaded_s_max(step)) * ASSUMED_TRANSACTION_BYTES
        require_separate_place(server, ctx.volume_facts, tree_bytes(server.data_dir) + logs_bytes, where=where)
        Oltp().check(oltp_step(step), ctx)

    def run(self, step: ReplicaStep, ctx: StepContext) -> StepOutcome:
        """Run all phases, compare source and replica, and leave a server that is no replica. Raises StepFailed."""
        replica = replica_of(ctx.server, where=f"step {step.name}")
        dialect = dialect_of(replica.identity)
        options = {**dialect.options, **dialect.source_options}
        with running_source(replica, ctx, options=options, replica_options=dialect.options) as source:
            try:
                outcome = _Run(step, ctx, source, replica).measure()
            except StepFailed as failure:
                raise with_cause_of_either(failure, ctx, source, where=f"step {step.name}") from failure
        replica.stop()
        replica.start()
        ctx.state[LAST_WRITE] = ctx.clock.now_s()
        return outcome


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Loaded:
    """The time under load.

    Args:
        window_s: begin and end, seconds of CLOCK_MONOTONIC.
        lag_s: of the replica at the end.
        kept_up: whether it had shown, in as long again, what was committed until the end.
        applied_per_s: transactions that it applied in the window, by GTIDs.
    """

    window_s: tuple[float, float]
    lag_s: float
    kept_up: bool
    applied_per_s: float


class _Run:
    """The phases of one step."""

    def __init__(self, step: ReplicaStep, ctx: StepContext, source: Server, replica: Server) -> None:
        self.step = step
        self.ctx = ctx
        self.where = f"step {step.name}"
        self.source = source
        self.replication = Replication(source, replica, ctx, where=self.where)
        self.heartbeat = Heartbeat(source, replica)
        self.load = Load(step, ctx, source)
        self._status_due_s = 0.0

    def measure(self) -> StepOutcome:
        """Return the outcome of all phases. Source and replica have proved equal, if the replica applied all."""
        self.replication.begin(self.step.workers)
        try:
            results, left = self._phases()
        finally:
            self.ctx.record.series(lag_rows(self.heartbeat.beats(), self.ctx.clock))
        if not left:
            left = self._drain()  # of the heartbeats' table, which is gone by now
        tables = {} if left else self.replication.compare()
        self.replication.end()
        self.heartbeat.clean_replica()
        return self._outcome(results, tables, left)

    def _phases(self) -> tuple[list[SubResult], int]:
        """Return the rows, and how many transactions the replica had not applied when the step gave it up."""
        with self.heartbeat.running():
            with self.load.running(self.source):
                self._begin()
                loaded = self._under_load()
                catch_up = self._catch_up() if self.step.pause_s and loaded.kept_up else None
            self.heartbeat.stop_beating()
            begin_s = time.monotonic()
            left = self._drain()
            if self.step.pause_s and catch_up is None:
                catch_up = self._no_catch_up((begin_s, time.monotonic()))
            return [self._load_result(loaded), *([catch_up] if catch_up else [])], left

    def _begin(self) -> None:
        """Wait for the first heartbeat and the first report of sysbench, then for the end of the warm-up."""
        self._report("starting the replica")
        begun = self._until(lambda: self.heartbeat.visible_beats() > 0 and self.load.started(), _BEGIN_TIMEOUT_S)
        if not begun:
            raise StepFailed(
                f"the replica applied nothing within {_BEGIN_TIMEOUT_S:.0f} s of its start",
                where=self.where,
                evidence=self.replication.connection_error() or "its connection to the source has no error",
                cause="replica_stopped",
            )
        self._report("warm-up")
        self._sleep(self.step.warmup_s)

    def _under_load(self) -> _Loaded:
        """Load for the step's time. A replica that lags then has as long again to show that it keeps up."""
        self._report("load")
        begin_s, applied = time.monotonic(), self.replication.applied()
        self._sleep(self.step.duration_s)
        end_s, applied = time.monotonic(), self.replication.applied() - applied
        lag_s, committed = self.heartbeat.lag_s(), self.heartbeat.committed_beats()
        kept_up = self._until(lambda: self.heartbeat.visible_beats() >= committed, settling_s(self.step))
        return _Loaded(
            window_s=(begin_s, end_s), lag_s=lag_s, kept_up=kept_up, applied_per_s=applied / (end_s - begin_s)
        )

    def _load_result(self, loaded: _Loaded) -> SubResult:
        """Return the row of the load. Called when a replica that did not keep up has had its time to drain."""
        beats = self.heartbeat.beats()
        lags_ms, unseen = beats.lags_ms(*loaded.window_s), beats.unseen(*loaded.window_s)
        metrics = lag_metrics(lags_ms) | {"applied_per_s": metric("applied_per_s", loaded.applied_per_s)}
        extra_s = None if loaded.kept_up else settling_s(self.step)
        return self._sub_result(
            "load",
            loaded.window_s,
            metrics,
            {"heartbeats": len(lags_ms), "heartbeats_not_shown": unseen},
            load_notes(loaded.lag_s, extra_s, unseen, len(lags_ms), oldest_s=self.heartbeat.lag_s()),
        )

    def _no_catch_up(self, window_s: tuple[float, float]) -> SubResult:
        """Return a row without figures, so that a comparison counts the cell among those that have none."""
        return SubResult(
            suffix="catch_up",
            kind=self.step.kind,
            parameters={"phase": "catch_up", **self.step.parameters()},
            outcome=StepOutcome(
                window_s=self._in_cell(window_s),
                metrics={},
                notes=(f"{NO_CATCH_UP}: the replica did not keep up without one",),
            ),
        )

    def _catch_up(self) -> SubResult:
        self.replication.stop()
        self._report(f"replica paused for {self.step.pause_s:g} s")
        self._sleep(self.step.pause_s)
        before = (self.replication.committed(), self.replication.applied())
        begin_s = time.monotonic()
        self.replication.start()
        self._report("catching up")
        caught_up = self._until(lambda: self.heartbeat.lag_s() <= CAUGHT_UP_S, self.step.timeout_s)
        caught_up_s = time.monotonic() - begin_s
        after = (self.replication.committed(), self.replication.applied())
        end_s = time.monotonic()
        committed, applied = (now - then for now, then in zip(after, before, strict=True))
        values = {"applied_per_s": applied / (end_s - begin_s)}
        if committed:
            values["catch_up_ratio"] = applied / committed
        if caught_up:
            values["catch_up_s"] = caught_up_s
        lag_s = self.heartbeat.lag_s()
        return self._sub_result(
            "catch_up",
            (begin_s, end_s),
            {name: metric(name, value) for name, value in values.items()},
            {"behind_at_start": before[0] - before[1], "applied": applied, "committed": committed},
            catch_up_notes(caught_up, caught_up_s, lag_s),
        )

    def _drain(self) -> int:
        """Wait until the replica has applied all; return how many transactions it had not after `timeout`."""
        self._report("waiting for the replica's last transactions")
        self._until(lambda: not self._left() and self.heartbeat.all_shown(), self.step.timeout_s)
        return self._left()

    def _left(self) -> int:
        return max(0, self.replication.committed() - self.replication.applied())

    def _sub_result(
        self,
        suffix: str,
        window_s: tuple[float, float],
        metrics: dict[str, MetricValue],
        details: Mapping[str, Any],
        notes: tuple[str, ...],
    ) -> SubResult:
        cell_window_s = self._in_cell(window_s)
        before_s = self.step.pause_s if suffix == "catch_up" else 0.0  # a catch-up may be shorter than a report
        figures = self.load.figures(cell_window_s[0] - before_s, cell_window_s[1])
        return SubResult(
            suffix=suffix,
            kind=self.step.kind,
            parameters={"phase": suffix, **self.step.parameters()},
            outcome=StepOutcome(
                window_s=cell_window_s,
                metrics=metrics,
                details={**figures.details, **details},
                notes=notes,
                invalid_reasons=figures.invalid_reasons,
            ),
        )

    def _outcome(self, results: list[SubResult], tables: Mapping[str, Any], left: int) -> StepOutcome:
        begin_s = results[0].outcome.window_s[0]
        end_s = max(result.outcome.window_s[1] for result in results if result.outcome.metrics)
        under_load: LoadFigures = self.load.figures(*results[0].outcome.window_s)
        return StepOutcome(
            window_s=(begin_s, end_s),
            warmup_s=self.step.warmup_s,
            metrics={"source_tps": metric("source_tps", under_load.tps)},
            notes=(_NOTE, *left_notes(left, self.step.timeout_s)),
            details={**under_load.details, "tables": tables, "transactions_left": left},
            invalid_reasons=under_load.invalid_reasons,
            sub_results=tuple(results),
        )

    def _in_cell(self, window_s: tuple[float, float]) -> tuple[float, float]:
        begin_s, end_s = (self.ctx.clock.at_s(round(at * 1e9)) for at in window_s)
        return begin_s, end_s

    def _report(self, text: str) -> None:
        self.ctx.progress(text, None)

    def _sleep(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        self._until(lambda: time.monotonic() >= end_s, seconds + 1)

    def _until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition; return False at the time-out. Raise what goes wrong meanwhile."""
        until_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() >= until_s:
                return False
            self._check()
            self.ctx.cancelled.wait(_WAIT_S)
        return True

    def _check(self) -> None:
        if self.ctx.cancelled.is_set():
            raise StepFailed("the step was cancelled", where=self.where)
        self.load.check()
        self.heartbeat.check()
        if time.monotonic() >= self._status_due_s:
            self.replication.check()
            self._status_due_s = time.monotonic() + _STATUS_INTERVAL_S


def with_cause_of_either(failure: StepFailed, ctx: StepContext, source: Server, *, where: str) -> VolbenchError:
    """Return the failure, or why one of both servers is down if that caused it."""
    if failure.cause:
        if not failure.where.startswith(where) and not source.alive():  # a connection to it, which names no server
            failure.where = f"{where}: source"
        return failure
    failure.where = where
    of_source = with_server_cause(failure, dataclasses.replace(ctx, server=source))
    if of_source is failure:
        return with_server_cause(failure, ctx)
    of_source.where = f"{where}: source"
    return of_source


def lag_metrics(lags_ms: Floats) -> dict[str, MetricValue]:
    """Return quantiles and the highest of the lags; empty without any."""
    if not len(lags_ms):
        return {}
    with np.errstate(invalid="ignore"):  # between two infinite lags
        p50, p95 = np.quantile(lags_ms, [0.5, 0.95])
    values = {"lag_ms_p50": float(p50), "lag_ms_p95": float(p95), "lag_ms_max": float(lags_ms.max())}
    return {name: metric(name, value) for name, value in values.items() if np.isfinite(value)}


def load_notes(lag_s: float, extra_s: float | None, unseen: int, beats: int, *, oldest_s: float) -> tuple[str, ...]:
    """Return what a reader must know of a replica that lagged; empty if it did not.

    Args:
        lag_s: at the end of the load.
        extra_s: how long the replica then had, and did not show what was committed by the end; None if it did.
        unseen, beats: heartbeats of the load that it never showed, and all.
        oldest_s: how old the oldest of these was at the step's end.
    """
    notes = []
    if lag_s > CAUGHT_UP_S:
        notes.append(
            f"the replica lagged by {lag_s:.1f} s at the end of the load; where it cannot keep up, more the longer"
            " the load is"
        )
    if extra_s is not None:
        notes.append(
            f"the replica did not keep up: in {extra_s:g} s more under load it did not show what the source had"
            " committed by the end of the measured time"
        )
    if unseen:
        notes.append(
            f"the replica never showed {unseen} of {beats} heartbeats, the oldest {oldest_s:.0f} s old at the"
            f" step's end: {COUNTED_AS_SLOWEST}, and one that lies among them is missing"
        )
    return tuple(notes)


def left_notes(left: int, timeout_s: float) -> tuple[str, ...]:
    """Return that the replica was given up with so many transactions to apply; empty if it applied all."""
    if not left:
        return ()
    return (
        f"{left} transactions were not applied {timeout_s:g} s after the load's end, so rows and checksums were not"
        " compared with the source's: a higher `timeout` lets the replica finish",
    )


def catch_up_notes(caught_up: bool, seconds: float, lag_s: float) -> tuple[str, ...]:
    """Return what a reader must know of a catch-up that took so long, or that was given up after so long."""
    if not caught_up:
        return (f"the replica did not catch up within {seconds:.0f} s: its lag was {lag_s:.1f} s then",)
    if seconds < _CATCH_UP_S_MIN:
        return (f"the catch-up took {seconds:.2f} s: with a longer pause, its rate would be known better",)
    return ()


def _require_version(identity: ServerIdentity, where: str) -> None:
    if identity.flavor == "mysql" and identity.number < _MYSQL_MIN:
        raise MissingPrerequisite(
            "the replica step needs MySQL 8.0.26 or later",
            where=where,
            evidence=f"{identity.binary} is MySQL {identity.version}",
            next_step="set engine.version to a later one",
        )
