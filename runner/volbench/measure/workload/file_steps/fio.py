"""The fio step: fills a file, then measures one load after another on it."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path

from volbench.core.base.units import MIB
from volbench.core.records.base import Scalar
from volbench.core.records.metrics import MetricValue, metric
from volbench.core.records.steps.fio import FioStep
from volbench.errors import StepFailed
from volbench.machine.volume.probe.fio import SETTLE_S_MAX, Job, Point, fio_arguments, parse_point
from volbench.measure.workload.files import require_step_space
from volbench.measure.workload.interface import StepContext, StepOutcome, SubResult, Workload
from volbench.measure.workload.process import require_tool, run_tool, tool_version
from volbench.measure.workload.scratch import require_own_volume, scratch_on_volume

FIO = "fio"
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
    points = step.points()
    sub_results = []
    for number, job in enumerate(_jobs(step, file)):
        ctx.progress(f"fio: {_suffix(job)}, {job.depth} x {job.jobs} at a time", number / points)
        sub_results.append(_sub_result(job, ctx, step))
    return StepOutcome(
        window_s=(begun_s, ctx.clock.now_s()),
        metrics=metrics,
        notes=tuple(notes),
        details={"tool_version": tool_version(FIO)},
        sub_results=tuple(sub_results),
    )


def _jobs(step: FioStep, file: Path) -> Iterator[Job]:
    """Yield the points in their order: the longest queue of a pattern is the last."""
    combinations = itertools.product(step.rw, step.block_size_bytes, step.numjobs, step.iodepth)
    for pattern, block_bytes, jobs, depth in combinations:
        yield Job(
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


def _prefill(step: FioStep, file: Path) -> Job:
    return Job(
        file=file,
        pattern="write",
        block_bytes=min(_PREFILL_BLOCK_BYTES, step.size_bytes),
        depth=_PREFILL_DEPTH if step.direct else 1,
        extent_bytes=step.size_bytes,
        runtime_s=_PREFILL_S_MAX,
        direct=step.direct,
        once=True,
    )


def _sub_result(job: Job, ctx: StepContext, step: FioStep) -> SubResult:
    point = parse_point(
        _run(job, ctx, step, timeout_s=job.ramp_s + job.runtime_s + SETTLE_S_MAX),
        where=f"step {step.name}, {_suffix(job)}",
    )
    ended_s = ctx.clock.now_s()
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


def _latencies(point: Point) -> dict[str, float]:
    latencies = {f"latency_ms_{name}": point.quantile_ms(level) for name, level in _QUANTILES.items()}
    return latencies | {"latency_ms_mean": point.latency_ms_mean, "latency_ms_max": point.latency_ms_max}


def _run(job: Job, ctx: StepContext, step: FioStep, *, timeout_s: float) -> str:
    """Run fio with one load; return its output. Raise StepFailed with its error output."""
    argv = [FIO, *fio_arguments(job)]
    lines: list[str] = []
    with run_tool(
        argv, timeout_s=timeout_s, cancelled=ctx.cancelled, cwd=ctx.scratch_dir, stdout=subprocess.PIPE
    ) as tool:
        lines += tool.lines()
        code = tool.wait()
        if code != 0:
            raise StepFailed(
                f"fio ended with exit code {code}",
                where=f"step {step.name}, {_suffix(job)}",
                evidence=tool.error_output(),
                next_step="look for errors of the device in dmesg"
                if step.direct
                else "look for errors of the volume in the server's log and dmesg",
            )
    return "\n".join(lines)


def _suffix(job: Job) -> str:
    size = f"{job.block_bytes >> 20}MiB" if job.block_bytes % MIB == 0 else f"{job.block_bytes / 1024:g}KiB"
    return f"{job.pattern}-{size}"


def _parameters(job: Job, step: FioStep) -> dict[str, Scalar]:
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
