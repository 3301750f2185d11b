"""sysbench on the source, in the background, until it is ended."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from volbench.core.records.steps.oltp import OltpStep
from volbench.core.records.steps.replica import ReplicaStep
from volbench.errors import StepFailed
from volbench.machine.engine.server import Server
from volbench.machine.engine.sysbench.config import sysbench_files
from volbench.measure.workload.failures import tool_failure, with_server_cause
from volbench.measure.workload.interface import StepContext
from volbench.measure.workload.oltp.load_meter import Observed, client_cpu
from volbench.measure.workload.oltp.sysbench import (
    LINE_PREFIX,
    TEST_VARIABLE,
    LineParser,
    ReportInterval,
    hooks_file,
    run_seconds,
    sysbench_argv,
)
from volbench.measure.workload.process import run_tool, tool_version, usable_cpus
from volbench.measure.workload.replica.series import source_row

_SPARE_S = 120.0
_SHORTFALL_MAX = 0.05


def settling_s(step: ReplicaStep) -> float:
    """Return how long the load goes on at most for a replica that lags at the end of the measured time."""
    return min(step.timeout_s, step.duration_s)


def loaded_s_max(step: ReplicaStep) -> float:
    """Return how long the source is under load at most."""
    return step.warmup_s + step.duration_s + settling_s(step) + step.pause_s + step.timeout_s


def oltp_step(step: ReplicaStep) -> OltpStep:
    """Return the load as a step of sysbench, longer than all phases together."""
    return OltpStep.model_validate(
        {
            "name": step.name,
            "test": step.test,
            "threads": step.threads,
            "rate": step.rate,
            "warmup": step.warmup_s,
            "duration": loaded_s_max(step) - step.warmup_s + _SPARE_S,
        }
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadFigures:
    """What the source's clients did in a time.

    Args:
        tps: committed transactions a second.
        details: of sysbench and its CPU time.
        invalid_reasons: why the source, and not the replica, was the limit.
    """

    tps: float
    details: dict[str, Any]
    invalid_reasons: tuple[str, ...]


class Load:
    """A running sysbench; `check` regularly."""

    def __init__(self, step: ReplicaStep, ctx: StepContext, source: Server) -> None:
        self._step = step
        self._stopped = threading.Event()
        self._source_ctx = dataclasses.replace(ctx, server=source, cancelled=self._stopped)
        self._observed: list[Observed] = []
        self._future: Future[None] | None = None

    @contextmanager
    def running(self, source: Server) -> Iterator[None]:
        """Run sysbench during the block."""
        schema = self._source_ctx.dataset.schema_name
        with sysbench_files(source.account, schema) as files, ThreadPoolExecutor(1, "load") as pool:
            load = oltp_step(self._step)
            argv = sysbench_argv(
                load,
                dataset=self._source_ctx.dataset,
                cell_seed=self._source_ctx.seed,
                config_file=files.config,
                hooks=hooks_file(),
            )
            self._future = pool.submit(self._follow, argv, files.directory, sum(run_seconds(load)) + _SPARE_S)
            try:
                yield
            finally:
                self._stopped.set()
        self.check()

    def started(self) -> bool:
        """Return whether sysbench has reported once."""
        return bool(self._observed)

    def check(self) -> None:
        """Raise the failure that ended sysbench."""
        if self._future is not None and self._future.done():
            self._future.result()

    def figures(self, begin_s: float, end_s: float) -> LoadFigures:
        """Return what was done in that time, seconds of the cell. Raise StepFailed without a report of it."""
        clock = self._source_ctx.clock
        chosen = [
            observed
            for observed in self._observed
            if clock.at_s(observed.interval.start_ns) > begin_s - 0.5
            and clock.at_s(observed.interval.end_ns) < end_s + 0.5
        ]
        if not chosen:
            raise StepFailed("sysbench reported no interval of the measured time", where=f"step {self._step.name}")
        length_s = sum(observed.interval.interval_s for observed in chosen)
        events = sum(observed.interval.events for observed in chosen)
        return LoadFigures(
            tps=events / length_s,
            details={
                "sysbench_version": tool_version("sysbench"),
                "transactions": events,
                "errors": sum(observed.interval.errors for observed in chosen),
                **client_cpu(chosen, threads=self._step.threads, cpus=usable_cpus()),
            },
            invalid_reasons=shortfall(events, self._step.rate * length_s),
        )

    def _follow(self, argv: list[str], directory: Path, timeout_s: float) -> None:
        parser, where = LineParser(), f"step {self._step.name}: source"
        with run_tool(
            argv,
            timeout_s=timeout_s,
            cancelled=self._stopped,
            cwd=directory,
            env={TEST_VARIABLE: self._step.test},
            records_prefix=LINE_PREFIX,
        ) as sysbench:
            try:
                for line in sysbench.lines():
                    record = parser.feed(line)
                    if isinstance(record, ReportInterval):
                        self._observed.append(Observed(interval=record, cpu_s=sysbench.cpu_s()))
                        self._source_ctx.record.series([source_row(record, self._source_ctx.clock)])
                code = sysbench.wait()
            except StepFailed as failure:
                if self._stopped.is_set():
                    return
                failure.where = where  # else the volume's server would be taken for it
                raise with_server_cause(failure, self._source_ctx) from failure
            if not self._stopped.is_set():
                raise tool_failure(sysbench, code, self._source_ctx, where=where)


def shortfall(events: int, due: float) -> tuple[str, ...]:
    """Return why the source did not reach its rate, beyond the chance of Poisson arrivals; empty if it did."""
    least = due * (1 - _SHORTFALL_MAX) - 3 * math.sqrt(due)
    if events >= least:
        return ()
    return (
        f"the source was the limit: it committed {100 * events / due:.0f} % of the rate"
        f" (limit {100 * (1 - _SHORTFALL_MAX):.0f} %)",
    )
