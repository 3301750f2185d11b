"""A contrast of sizes: fio with operations of another size, after what is measured.

It changes no figure of a step, and its failure is a note.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from volbench.core.base.units import MIB
from volbench.core.records.size_contrast import (
    END_S,
    RAMP_S,
    READ_BLOCKS_BYTES,
    READ_DEPTH,
    SAME_RATE,
    SizeContrast,
    contrast_blocks,
)
from volbench.errors import MissingPrerequisite, VolbenchError
from volbench.machine.volume.probe.fio import SETTLE_S_MAX, FioJob, FioResult, parse_point
from volbench.measure.workload.files import stored_bytes, tree_files
from volbench.measure.workload.fio_process import FIO, fio_output
from volbench.measure.workload.interface import Clock
from volbench.measure.workload.process import require_tool

FILE_BYTES_MIN = 4 << 20
"""Of a data file that is read: 64 reads of the largest size."""
STORED_MIN = 0.9
"""Of the file's bytes, that the filesystem has stored: the rest reads as zeros without any device."""
FILES_LOOKED_AT = 8
DEPTH_FACTOR = 2
"""Operations under way against those of the step: at a limit they change no rate. Where each takes a time of its
own, twice as many pass, and neither rate is the step's."""


@dataclass(frozen=True, kw_only=True)
class ContrastRunner:
    """What the loads of a contrast need.

    Args:
        clock: the cell's time.
        cancelled: ends a load early.
        cwd: a directory for the process.
        progress: called with a text before each load.
    """

    clock: Clock
    cancelled: threading.Event
    cwd: Path
    progress: Callable[[str], None]

    def load(self, job: FioJob, *, step: str) -> SizeContrast:
        """Run one load. Raise StepFailed, MissingPrerequisite."""
        where = f"the contrast of sizes, {job.pattern} of {job.block_bytes // 1024} KiB"
        self.progress(f"contrast of sizes: {job.pattern} of {job.block_bytes // 1024} KiB")
        output = fio_output(
            job,
            where=where,
            cwd=self.cwd,
            cancelled=self.cancelled,
            timeout_s=job.ramp_s + job.runtime_s + SETTLE_S_MAX,
        )
        ended_s = self.clock.now_s()
        point = parse_point(output, where=where)
        return SizeContrast(
            step=step,
            rw=job.pattern,
            block_size_bytes=job.block_bytes,
            in_flight=job.depth * job.jobs,
            window_s=(ended_s - job.runtime_s, ended_s - END_S),
            iops=point.iops,
            mib_per_s=point.moved_bytes_per_s / MIB,
        )


def contrast_of(
    points: Iterable[tuple[FioJob, FioResult]], *, step: str, seconds: float, runner: ContrastRunner
) -> tuple[tuple[SizeContrast, ...], str]:
    """Return the contrast of a step's points, of the deepest queue of each pattern, and why there is none.

    Raises StepFailed where the step is cancelled.
    """
    return _until_failure(_of_points(points, step=step, seconds=seconds, runner=runner), stop=runner.cancelled)


def contrast_of_reads(
    data_dir: Path, *, seconds: float, runner: ContrastRunner
) -> tuple[tuple[SizeContrast, ...], str]:
    """Return a contrast of reads of the largest data file, and why there is none.

    Args:
        data_dir: of a server that is stopped; nothing is written.
        seconds: of each load.
        runner: what they need.
    """
    return _until_failure(_of_reads(data_dir, seconds=seconds, runner=runner), stop=None)


def _of_points(
    points: Iterable[tuple[FioJob, FioResult]], *, step: str, seconds: float, runner: ContrastRunner
) -> Iterator[SizeContrast]:
    deepest: dict[str, tuple[FioJob, FioResult]] = {}
    for job, point in points:
        rival = deepest.get(job.pattern)
        if rival is None or job.depth * job.jobs >= rival[0].depth * rival[0].jobs:
            deepest[job.pattern] = (job, point)
    for job, point in deepest.values():
        for block_bytes in contrast_blocks(job.block_bytes):
            load = replace(
                job,
                block_bytes=block_bytes,
                depth=DEPTH_FACTOR * job.depth,
                runtime_s=seconds + END_S,
                ramp_s=RAMP_S,
            )
            contrast = runner.load(load, step=step)
            yield contrast
            if _is_rate_of(contrast, point):
                break


def _of_reads(data_dir: Path, *, seconds: float, runner: ContrastRunner) -> Iterator[SizeContrast]:
    require_tool(FIO)
    file, size_bytes = _largest_file(data_dir)
    for block_bytes in READ_BLOCKS_BYTES:
        job = FioJob(
            file=file,
            pattern="randread",
            block_bytes=block_bytes,
            depth=READ_DEPTH,
            extent_bytes=size_bytes // block_bytes * block_bytes,
            runtime_s=seconds + END_S,
            ramp_s=RAMP_S,
            direct=True,
        )
        yield runner.load(job, step="")


def _is_rate_of(contrast: SizeContrast, point: FioResult) -> bool:
    """Return whether one of both rates is that of the step."""
    pairs = ((contrast.iops, point.iops), (contrast.mib_per_s, point.moved_bytes_per_s / MIB))
    return any(min(pair) > 0 and max(pair) <= SAME_RATE * min(pair) for pair in pairs)


def _largest_file(data_dir: Path) -> tuple[Path, int]:
    """Return the largest data file that is stored in full, with its size. Raise MissingPrerequisite, OSError."""
    sizes = sorted(((path.stat().st_size, path) for path in tree_files(data_dir)), reverse=True)
    for size_bytes, path in sizes[:FILES_LOOKED_AT]:
        if size_bytes >= FILE_BYTES_MIN and stored_bytes(path) >= STORED_MIN * size_bytes:
            return path, size_bytes
    raise MissingPrerequisite(f"no data file has {FILE_BYTES_MIN // MIB} MiB, stored in full")


def _until_failure(
    loads: Iterable[SizeContrast], *, stop: threading.Event | None
) -> tuple[tuple[SizeContrast, ...], str]:
    """Return the loads that were run, and what ended them early; raise that where `stop` is set."""
    contrasts: list[SizeContrast] = []
    try:
        contrasts.extend(loads)  # those before a failure stay
    except (VolbenchError, OSError) as error:
        if stop is not None and stop.is_set():
            raise
        reason = error.what if isinstance(error, VolbenchError) else str(error)
        return tuple(contrasts), f"no contrast of sizes tells a limit of IOPS from one of bytes: {reason}"
    return tuple(contrasts), ""
