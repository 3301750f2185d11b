"""The fio step: fills a file, then measures one load after another on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from volbench.core.base.units import MIB
from volbench.core.records.base import Scalar
from volbench.core.records.metrics import MetricValue, metric
from volbench.core.records.size_contrast import SizeContrast
from volbench.core.records.steps.fio import FioStep
from volbench.machine.volume.probe.fio import SETTLE_S_MAX, FioJob, FioResult, fio_arguments, parse_point
from volbench.measure.workload.files import require_step_space
from volbench.measure.workload.fio_process import FIO, fio_output
from volbench.measure.workload.interface import StepContext, StepOutcome, SubResult, Workload
from volbench.measure.workload.process import require_tool, tool_version
from volbench.measure.workload.scratch import require_own_volume, scratch_on_volume
from volbench.measure.workload.size_contrast import ContrastRunner, contrast_of

_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_PREFILL_BLOCK_BYTES = 1 << 20
_PREFILL_DEPTH = 8
_PREFILL_S_MAX = 4 * 3600.0


class Fio(Workload[FioStep]):
    """Runs every combination of a step's lists."""

    kind = "fio"

    def check(self, step: FioStep, ctx: StepContext) -> None:
        """Check fio, that volbench started the server, and the free space. Raise MissingPrerequisite."""
        require_own_volume(step.name, ctx)
        require_tool(FIO)
        require_step_space(ctx.volume_dir, step.temporary_bytes(), purpose=f"the file of step {step.name}")

    def run(self, step: FioStep, ctx: StepContext) -> StepOutcome:
        """Prefill, then measure the points; the server runs again afterwards. Raise StepFailed."""
        if step.server == "stopped":
            ctx.progress("stopping the server", None)
            ctx.server.stop()
        try:
            with scratch_on_volume(ctx, step.name) as directory:
                return _measured(step, ctx, directory / "data")
        finally:
            if not ctx.server.alive():
                ctx.progress("starting the server", None)
                ctx.server.start()


def _measured(step: FioStep, ctx: StepContext, file: Path) -> StepOutcome:
    begun_s = ctx.clock.now_s()
    metrics: dict[str, MetricValue] = {}
    notes = ["the server was shut down" if step.server == "stopped" else "the server was idle"]
    if step.prefill:
        ctx.progress(f"fio: writing {step.size_bytes / MIB:.0f} MiB first", None)
        _run(_prefill(step, file), ctx, step, timeout_s=_PREFILL_S_MAX)
        metrics["fio_prefill_s"] = metric("fio_prefill_s", ctx.clock.now_s() - begun_s)
    else:
        notes.append("the file was not filled first: reads of unwritten blocks may need no I/O")
    points: list[tuple[FioJob, FioResult]] = []
    sub_results = []
    for number, job in enumerate(_jobs(step, file)):
        ctx.progress(f"fio: {_suffix(job)}, {job.depth} x {job.jobs} at a time", number / step.points())
        point = _point(job, ctx, step)
        sub_results.append(_sub_result(job, point, step, ended_s=ctx.clock.now_s()))
        points.append((job, point))
    window_s = (begun_s, ctx.clock.now_s())
    contrasts, failure = _contrasts(points, ctx, step)
    return StepOutcome(
        window_s=window_s,
        metrics=metrics,
        notes=(*notes, *([failure] if failure else [])),
        details={"tool_version": tool_version(FIO)},
        sub_results=tuple(sub_results),
        size_contrasts=contrasts,
    )


def _contrasts(
    points: Iterable[tuple[FioJob, FioResult]], ctx: StepContext, step: FioStep
) -> tuple[tuple[SizeContrast, ...], str]:
    """Run the contrast of sizes, if the step has one; return its loads, and why one is missing."""
    if not step.contrast_s:
        return (), ""
    runner = ContrastRunner(
        clock=ctx.clock,
        cancelled=ctx.cancelled,
        cwd=ctx.scratch_dir,
        progress=lambda text: ctx.progress(text, None),
    )
    return contrast_of(points, step=step.name, seconds=step.contrast_s, runner=runner)


def _jobs(step: FioStep, file: Path) -> Iterator[FioJob]:
    """Yield the points in their order: the longest queue of a pattern is the last."""
    combinations = itertools.product(step.rw, step.block_size_bytes, step.numjobs, step.iodepth)
    for pattern, block_bytes, jobs, depth in combinations:
        yield FioJob(
            file=file,
            pattern=pattern,
            block_bytes=block_bytes,
            depth=depth,
            jobs=jobs,
            extent_bytes=step.size_bytes,
            runtime_s=step.duration_s,
            ramp_s=step.ramp_s,
            direct=step.direct,
            sync_every=step.fdatasync,
            read_share=step.read_share,
        )


def _prefill(step: FioStep, file: Path) -> FioJob:
    return FioJob(
        file=file,
        pattern="write",
        block_bytes=min(_PREFILL_BLOCK_BYTES, step.size_bytes),
        depth=_PREFILL_DEPTH if step.direct else 1,
        extent_bytes=step.size_bytes,
        runtime_s=_PREFILL_S_MAX,
        direct=step.direct,
        once=True,
    )


def _point(job: FioJob, ctx: StepContext, step: FioStep) -> FioResult:
    """Measure one point. Raise StepFailed."""
    return parse_point(
        _run(job, ctx, step, timeout_s=job.ramp_s + job.runtime_s + SETTLE_S_MAX),
        where=f"step {step.name}, {_suffix(job)}",
    )


def _sub_result(job: FioJob, point: FioResult, step: FioStep, *, ended_s: float) -> SubResult:
    values = {
        "fio_iops": point.iops,
        "fio_mib_per_s": point.moved_bytes_per_s / MIB,
        **_latencies(point),
    }
    return SubResult(
        suffix=_suffix(job),
        kind=step.kind,
        parameters=_parameters(job, step),
        outcome=StepOutcome(
            window_s=(ended_s - job.runtime_s, ended_s),
            warmup_s=job.ramp_s,
            metrics={name: metric(name, value) for name, value in values.items()},
            details={"operations": point.operations, "command": [FIO, *fio_arguments(job)]},
        ),
    )


def _latencies(point: FioResult) -> dict[str, float]:
    latencies = {f"latency_ms_{name}": point.quantile_ms(level) for name, level in _QUANTILES.items()}
    return latencies | {"latency_ms_mean": point.latency_ms_mean, "latency_ms_max": point.latency_ms_max}


def _run(job: FioJob, ctx: StepContext, step: FioStep, *, timeout_s: float) -> str:
    """Run fio with one load; return its output. Raise StepFailed with its error output."""
    where = f"step {step.name}, {_suffix(job)}"
    return fio_output(job, where=where, cwd=ctx.scratch_dir, cancelled=ctx.cancelled, timeout_s=timeout_s)


def _suffix(job: FioJob) -> str:
    size = f"{job.block_bytes >> 20}MiB" if job.block_bytes % MIB == 0 else f"{job.block_bytes / 1024:g}KiB"
    return f"{job.pattern}-{size}"


def _parameters(job: FioJob, step: FioStep) -> dict[str, Scalar]:
    parameters: dict[str, Scalar] = {
        "rw": job.pattern,
        "block_size_bytes": job.block_bytes,
        "iodepth": job.depth,
        "numjobs": job.jobs,
    }
    if not step.direct:
        parameters["direct"] = False
    if step.fdatasync:
        parameters["fdatasync"] = step.fdatasync
    return parameters
