"""The restored step: an emulated volume whose blocks are fetched at first touch, a warm-up plan, then a load."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from volbench.core.plan.step_needs import not_from_snapshot
from volbench.core.records.base import Scalar
from volbench.core.records.metric import LATENCY_NAMES
from volbench.core.records.metrics import metric
from volbench.core.records.series import HistogramRow, SeriesRow
from volbench.core.records.steps.oltp import OltpStep
from volbench.core.records.steps.restored import KIND, RestoredStep, WarmUpPlan
from volbench.errors import StepFailed
from volbench.machine.volume.emulated.control import ask_socket
from volbench.measure.workload.cold.cold_files import make_cold
from volbench.measure.workload.cold.file_reader import read_files
from volbench.measure.workload.cold.table_scan import scan_cold
from volbench.measure.workload.interface import Recorder, StepContext, StepOutcome, Workload
from volbench.measure.workload.oltp.oltp import Oltp
from volbench.measure.workload.schema_data import table_names

EMPTY_POOL: dict[str, Scalar] = {"innodb_buffer_pool_load_at_startup": "OFF"}
LOADED_POOL: dict[str, Scalar] = {"innodb_buffer_pool_load_at_startup": "ON"}
NORMAL_TIMES = 1.2
"""Times p95 of the end, up to which p95 is normal."""
SMOOTHED = 5
"""Seconds of which the median counts: one slow second is none that is not warm yet."""
FIRST_S = 10
_P95 = "latency_ms_p95"
_TPS = "tps"
_POOL_STATUS = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_load_status'"
_DUMP_STATUS = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_dump_status'"
_PAGES_STATUS = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_data'"
_DUMP_PCT = "SELECT @@GLOBAL.innodb_buffer_pool_dump_pct"
_FAILED = re.compile(r"^(cannot|error|unable)|aborted", re.IGNORECASE)
"""How the server says that it does not go on with a dump or a load (buf0dump.cc, of MySQL and of MariaDB)."""
_ASK_S = 0.5


@dataclass(frozen=True)
class _P95Kept:
    """Passes on what a load records, and keeps p95 of its seconds; that of one without transactions is infinite."""

    inner: Recorder
    rows: list[tuple[float, float]] = field(default_factory=list)

    def series(self, rows: Iterable[SeriesRow]) -> None:
        """Pass the rows of an interval on."""
        given_rows = list(rows)
        values = {row.metric: row for row in given_rows if row.source == "client"}
        if _TPS in values:  # every interval has it, and a latency only one in which transactions ended
            p95 = values.get(_P95)
            self.rows.append((values[_TPS].t_s, math.inf if p95 is None else p95.value))
        self.inner.series(given_rows)

    def histogram(self, row: HistogramRow) -> None:
        """Pass a row on."""
        self.inner.histogram(row)


@dataclass(frozen=True, kw_only=True)
class PoolDump:
    """What the dump was made of, by the server: pages that the pool held, and the percent of them that it lists."""

    pages: int
    percent: float


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """What users had at first and at the end, and when that became normal.

    Args:
        normal_ms: p95 at the end.
        first_ms: p95 in the first ten seconds; None: in most of them no transaction ended.
        normal_from_s: on the clock of the rows; None: p95 did not stay within the limit, or still falls.
    """

    normal_ms: float
    first_ms: float | None
    normal_from_s: float | None


class Restored(Workload[RestoredStep]):
    """Forgets what was touched, restarts the server, warms by the plan, runs the load."""

    kind = "restored"

    def __init__(self) -> None:
        self._load = Oltp()

    def check(self, step: RestoredStep, ctx: StepContext) -> None:
        """Check the volume, the server and the load. Raise MissingPrerequisite, UsageError."""
        ctx.server.own(KIND.own_server, where=f"step {step.name}")
        if ctx.emulator_socket is None or not _parameters(ctx).get("first_touch"):
            evidence = f"the data directory is on {ctx.volume_dir}, whose blocks are all there"
            raise not_from_snapshot(step, evidence=evidence)
        self._load.check(_load(step), ctx)

    def run(self, step: RestoredStep, ctx: StepContext) -> StepOutcome:
        """Run plan and load. Raises StepFailed."""
        tables = table_names(ctx.server, ctx.dataset.schema_name)
        dump = _dump_pool(step, ctx) if step.plan == "pool" else None
        ctx.server.stop()
        try:
            make_cold(ctx.server.data_dir)
            ask_socket(_socket(ctx), {"do": "fault", "fault": {"kind": "first_touch"}})
            begun_s = ctx.clock.now_s()
            until = time.monotonic() + step.timeout_s
            _PLANS[step.plan](step, ctx, tables, until)
        finally:
            if not ctx.server.alive():
                ctx.server.start(EMPTY_POOL)
        plan_s = ctx.clock.now_s() - begun_s
        pages = _pool_pages(ctx)
        recorder = _P95Kept(ctx.record)
        outcome = self._load.run(_load(step), replace(ctx, record=recorder))
        warm_up = warm_up_of(recorder.rows)
        values = {"plan_s": plan_s, **({} if pages is None else {"pool_pages": float(pages)})}
        notes = [*outcome.notes, *(() if dump is None else _dump_notes(dump, pages))]
        if warm_up is None:
            notes.append("too few seconds with transactions to say when p95 became normal")
        else:
            values["normal_p95_ms"] = warm_up.normal_ms
            if warm_up.first_ms is None:
                notes.append(f"no transaction ended in most of the first {FIRST_S} seconds, so they have no p95")
            else:
                values["first_p95_ms"] = warm_up.first_ms
            if warm_up.normal_from_s is None:
                notes.append("p95 was not steady at the load's end: its normal level is not known")
            else:
                values["normal_after_s"] = warm_up.normal_from_s - begun_s
        latencies = {name: value for name, value in outcome.metrics.items() if name in LATENCY_NAMES}
        return replace(
            outcome,
            metrics={**latencies, **{name: metric(name, value) for name, value in values.items()}},
            notes=tuple(notes),
            details={
                **outcome.details,
                "restored_at_s": begun_s,
                "plan": step.plan,
                **({} if dump is None else {"pool_pages_at_dump": dump.pages, "dump_pct": dump.percent}),
            },
        )


def warm_up_of(rows: Iterable[tuple[float, float]]) -> WarmUp | None:
    """Return when p95 of a load became normal; None for fewer than 3 x SMOOTHED seconds, and without a normal p95.

    Normal is the median of the last third, if its halves differ by less than NORMAL_TIMES. Seconds in which no
    transaction ended are slow ones: left out, a stall would be the one slow second in which it ends.

    Args:
        rows: end of each second and its p95 in ms, infinite where no transaction ended.
    """
    ordered = sorted(rows)
    if len(ordered) < 3 * SMOOTHED:
        return None
    times, p95_ms = (np.array(column) for column in zip(*ordered, strict=True))
    smooth = np.array([np.median(p95_ms[max(0, at - SMOOTHED + 1) : at + 1]) for at in range(len(p95_ms))])
    last_third = p95_ms[-(len(p95_ms) // 3) :]
    normal_ms, first_ms = float(np.median(last_third)), float(np.median(p95_ms[:FIRST_S]))
    if not math.isfinite(normal_ms):
        return None
    earlier, later = (float(np.median(half)) for half in np.array_split(last_third, 2))
    slow = np.flatnonzero(smooth > NORMAL_TIMES * normal_ms)
    is_steady = max(earlier, later) <= NORMAL_TIMES * min(earlier, later)
    first_normal = 0 if not len(slow) else int(slow[-1]) + 1
    is_known = is_steady and first_normal < len(times) - len(last_third) // 2
    return WarmUp(
        normal_ms=normal_ms,
        first_ms=first_ms if math.isfinite(first_ms) else None,
        normal_from_s=float(times[first_normal]) if is_known else None,
    )


def _load(step: RestoredStep) -> OltpStep:
    return OltpStep(
        name=step.name,
        test=step.test,
        threads=step.threads,
        rand_type=step.rand_type,
        warmup_s=0.0,
        duration_s=step.duration_s,
    )


def _socket(ctx: StepContext) -> Path:
    if ctx.emulator_socket is None:
        raise StepFailed("the volume is not emulated", where=str(ctx.volume_dir))
    return ctx.emulator_socket


def _parameters(ctx: StepContext) -> Mapping[str, object]:
    return dict(ask_socket(_socket(ctx), {"do": "parameters"})["parameters"])


def _no_plan(step: RestoredStep, ctx: StepContext, tables: list[str], until: float) -> None:
    del step, tables, until
    ctx.server.start(EMPTY_POOL)


def _read_files(step: RestoredStep, ctx: StepContext, tables: list[str], until: float) -> None:
    del tables
    directory = ctx.server.data_dir / ctx.dataset.schema_name
    paths = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    ctx.progress("reading all files of the schema", None)
    read_files(
        paths,
        readers=step.readers,
        block_size_bytes=1 << 20,
        timeout_s=max(1.0, until - time.monotonic()),
        cancelled=ctx.cancelled,
        on_progress=lambda _: None,
    )
    make_cold(directory)
    ctx.server.start(EMPTY_POOL)


def _read_tables(step: RestoredStep, ctx: StepContext, tables: list[str], until: float) -> None:
    del step
    ctx.server.start(EMPTY_POOL)
    scan_cold(ctx, tables, first_row=1, until_monotonic_s=until)


def _load_pool(step: RestoredStep, ctx: StepContext, tables: list[str], until: float) -> None:
    del step, tables
    ctx.server.start(LOADED_POOL)
    _until(ctx, _POOL_STATUS, until, "the buffer pool's pages were not loaded")


_PLANS: Mapping[WarmUpPlan, Callable[[RestoredStep, StepContext, list[str], float], None]] = {
    "none": _no_plan,
    "files": _read_files,
    "tables": _read_tables,
    "pool": _load_pool,
}


def _dump_pool(step: RestoredStep, ctx: StepContext) -> PoolDump:
    """List the pool's pages in the server's file; the restart that follows undoes the setting. Raise StepFailed."""
    if step.dump_pct is not None:
        ctx.server.query(f"SET GLOBAL innodb_buffer_pool_dump_pct = {step.dump_pct}")
    percent = float(str(ctx.server.query(_DUMP_PCT)[0][0]))
    pages = _pool_pages(ctx)
    ctx.server.query("SET GLOBAL innodb_buffer_pool_dump_now = ON")
    _until(
        ctx,
        _DUMP_STATUS,
        time.monotonic() + step.timeout_s,
        "the buffer pool's pages were not listed",
    )
    return PoolDump(pages=pages or 0, percent=percent)


def _dump_notes(dump: PoolDump, pages: int | None) -> Iterator[str]:
    """Yield what the plan `pool` brought back, where it is not the whole pool."""
    if dump.percent < 100:
        after = "" if pages is None else f", and the pool held {pages:,} as the load began"
        yield (
            f"the dump lists {dump.percent:g} % of the pool's {dump.pages:,} pages, the most recently used ones"
            f" (innodb_buffer_pool_dump_pct){after}; `dump_pct: 100` lists all"
        )


def _pool_pages(ctx: StepContext) -> int | None:
    """Return the pages in the buffer pool, by the server; None where it does not say."""
    rows = ctx.server.query(_PAGES_STATUS)
    return int(str(rows[0][1])) if rows else None


def _until(ctx: StepContext, status: str, until: float, failure: str) -> None:
    """Wait until the server says that a dump or load of the buffer pool is completed. Raise StepFailed."""
    progress_text = ""
    while time.monotonic() < until:
        rows = ctx.server.query(status)
        progress_text = str(rows[0][1]) if rows else ""
        if "completed" in progress_text:
            return
        if _FAILED.search(progress_text):
            raise StepFailed(failure, where="buffer pool", evidence=progress_text)
        if ctx.cancelled.wait(_ASK_S):
            break
    raise StepFailed(f"{failure} in time", where="buffer pool", evidence=progress_text)
