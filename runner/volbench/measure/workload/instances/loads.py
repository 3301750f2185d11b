"""The loads of several servers at once: a sysbench for each, begun together."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from volbench.core.records.metric import LATENCY_NAMES
from volbench.core.records.series import HistogramRow, SeriesRow
from volbench.core.records.steps.instances import InstancesStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import VolbenchError
from volbench.machine.engine.server import Server
from volbench.measure.workload.instances.sharing import Loaded
from volbench.measure.workload.interface import Recorder, StepContext, StepOutcome, no_progress
from volbench.measure.workload.oltp.oltp import Oltp

CANCEL_S = 0.2


@dataclass(frozen=True, kw_only=True)
class OfOneServer:
    """Passes on what a load records, with the row and the server that it is of.

    Args:
        row: name of the row of results.
        entity: of its series; empty for the first server, whose series are named as those of any load.
    """

    inner: Recorder
    row: str
    entity: str

    def series(self, rows: Iterable[SeriesRow]) -> None:
        """Pass rows on."""
        self.inner.series([replace(row, entity=self.entity) for row in rows] if self.entity else rows)

    def histogram(self, row: HistogramRow) -> None:
        """Pass a row on."""
        self.inner.histogram(replace(row, step=self.row))


def load_of(step: InstancesStep, number: int) -> OltpStep:
    """Return the load of a server, counted from 1."""
    noisy = number > 1 and step.neighbour_threads is not None
    return OltpStep.model_validate(
        {
            "name": step.name,
            "test": step.test,
            "threads": step.neighbour_threads if noisy else step.threads,
            "rate": None if noisy else step.rate,
            "rand_type": step.rand_type,
            "warmup": step.warmup_s,
            "duration": step.duration_s,
        }
    )


def run_loads(
    step: InstancesStep, ctx: StepContext, servers: Sequence[tuple[int, Server]], *, row: str
) -> list[StepOutcome]:
    """Run the load of each of these servers at once; return the outcomes in their order.

    Args:
        servers: with their numbers, counted from 1.
        row: name of the row of results.

    Raises what the first load that failed raised, with its server's number; the others are ended.
    """
    ended = threading.Event()
    with ThreadPoolExecutor(max_workers=len(servers), thread_name_prefix="instance") as pool:
        loads = [pool.submit(_run, step, ctx, ended, number, server, row) for number, server in servers]
        try:
            running: set[Future[StepOutcome]] = set(loads)
            while running and not ctx.cancelled.is_set():
                done, running = wait(running, timeout=CANCEL_S, return_when=FIRST_EXCEPTION)
                for load in done:
                    load.result()
        finally:
            ended.set()
        return [load.result() for load in loads]


def _run(
    step: InstancesStep, ctx: StepContext, ended: threading.Event, number: int, server: Server, row: str
) -> StepOutcome:
    entity = f"server {number}" if number > 1 else ""
    of_server = replace(
        ctx,
        server=server,
        seed=ctx.seed + number - 1,
        record=OfOneServer(inner=ctx.record, row=row, entity=entity),
        progress=ctx.progress if number == 1 else no_progress,
        cancelled=ended,
        state={},
        is_last=False,
        before_load=False,
    )
    try:
        return Oltp().run(load_of(step, number), of_server)
    except VolbenchError as error:
        error.where = f"step {step.name}: server {number}"
        raise


def loaded(outcome: StepOutcome) -> Loaded:
    """Return the figures of a server's load."""
    values = {name: value.value for name, value in outcome.metrics.items()}
    return Loaded(
        tps=values["tps"],
        latency_ms_mean=values.get("latency_ms_mean"),
        latency_ms_p95=values.get("latency_ms_p95"),
    )


def details_of(outcomes: Sequence[tuple[int, StepOutcome]], *, cpus: float) -> dict[str, Any]:
    """Return what the loads did, one by one, and what validity rules look at: of all clients together."""
    client_cpu_s = [outcome.details.get("client_cpu_s") for _, outcome in outcomes]
    usable = min(cpus, sum(outcome.details.get("client_cpus_usable", 0.0) for _, outcome in outcomes))
    wall_s = max(outcome.window_s[1] - outcome.window_s[0] for _, outcome in outcomes)
    details: dict[str, Any] = {
        "servers": [
            {
                "server": number,
                "transactions": outcome.details.get("transactions"),
                "errors": outcome.details.get("errors"),
                **{
                    name: value.value
                    for name, value in outcome.metrics.items()
                    if name == "tps" or name in LATENCY_NAMES
                },
            }
            for number, outcome in outcomes
        ]
    }
    readings = [seconds for seconds in client_cpu_s if seconds is not None]
    if len(readings) == len(outcomes) and usable > 0 and wall_s > 0:
        details |= {"client_cpu_s": sum(readings), "client_cpu_ratio": sum(readings) / (wall_s * usable)}
    offered = [outcome.details for _, outcome in outcomes if "offered_ratio" in outcome.details]
    if offered:  # the generator that fell behind most decides
        least = min(offered, key=lambda of_load: float(of_load["offered_ratio"]))
        details |= {name: least[name] for name in ("offered_ratio", "offered_due")}
    return details


def notes_of(outcomes: Sequence[tuple[int, StepOutcome]]) -> tuple[str, ...]:
    """Return the loads' notes; of a row with several servers with the number of each."""
    if len(outcomes) == 1:
        return outcomes[0][1].notes
    notes = [f"server {number}: {note}" for number, outcome in outcomes for note in outcome.notes]
    return tuple(dict.fromkeys(notes))
