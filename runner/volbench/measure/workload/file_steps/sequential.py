"""The sequential step: writes and reads one large file from start to end, as dd does, in several modes."""

from __future__ import annotations

import errno
import mmap
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from volbench.core.base import safe_files
from volbench.core.base.units import MIB
from volbench.core.records.metrics import metric
from volbench.core.records.steps.sequential import SEQUENTIAL_MODES, SequentialMode, SequentialStep
from volbench.errors import StepFailed
from volbench.measure.workload.cold.cold_files import cold_details, difference, label_of, make_cold, why_not_cold
from volbench.measure.workload.files import require_step_space
from volbench.measure.workload.interface import StepContext, StepOutcome, SubResult, Workload
from volbench.measure.workload.scratch import require_own_volume, scratch_on_volume
from volbench.measure.workload.timed import Timed, timed_operations

_CONTENT_BYTES = 8 << 20
_MEMORY: dict[SequentialMode, str] = {
    "write": "unsynced_write_mib_per_s",
    "read_warm": "warm_read_mib_per_s",
}
"""Modes that measure memory, with metrics of their own, which no verdict uses."""
_NOTES: dict[SequentialMode, str] = {
    "write": "not synced: some data may be in the page cache only",
    "write_fsync": "the time includes the fsync at the end",
    "read_warm": "a second read: the page cache's speed, not the volume's",
}


class Sequential(Workload[SequentialStep]):
    """Writes, reads and removes a file next to the data directory while the server is idle."""

    kind = "sequential"

    def check(self, step: SequentialStep, ctx: StepContext) -> None:
        """Check that volbench started the server, and the free space. Raise MissingPrerequisite."""
        require_own_volume(step.name, ctx)
        require_step_space(ctx.volume_dir, step.temporary_bytes(), purpose=f"the file of step {step.name}")

    def run(self, step: SequentialStep, ctx: StepContext) -> StepOutcome:
        """Run each mode with each size. Raises StepFailed."""
        begun_s = ctx.clock.now_s()
        sub_results: list[SubResult] = []
        notes = ["the server was idle"]
        with scratch_on_volume(ctx, step.name) as directory:
            for size in map(_whole_pages, step.size_bytes):
                large_file = _LargeFile(step=step, ctx=ctx, directory=directory, size=size)
                for mode in SEQUENTIAL_MODES:
                    if mode not in step.modes:
                        continue
                    try:
                        sub_results.append(large_file.run_mode(mode))
                    except OSError as error:
                        if error.errno != errno.EINVAL or not mode.endswith("_direct"):
                            raise StepFailed(
                                "an operation on the large file failed",
                                where=f"step {step.name}, {mode}",
                                evidence=str(error),
                            ) from error
                        notes.append(f"{mode} was skipped: the filesystem does not support O_DIRECT")
            ended_s = ctx.clock.now_s()
        return StepOutcome(
            window_s=(begun_s, ended_s),
            metrics={},
            notes=tuple(dict.fromkeys(notes)),
            sub_results=tuple(sub_results),
        )


@dataclass(kw_only=True)
class _LargeFile:
    """The file of one size. Buffers are aligned to pages, which O_DIRECT requires."""

    step: SequentialStep
    ctx: StepContext
    directory: Path
    size: int
    path: Path = field(init=False)

    def __post_init__(self) -> None:
        self.path = self.directory / "large"

    def run_mode(self, mode: SequentialMode) -> SubResult:
        """Run one mode. Raises OSError, StepFailed."""
        details: dict[str, Any] = {}
        notes = [_NOTES[mode]] if mode in _NOTES else []
        invalid: tuple[str, ...] = ()
        cold = None
        if mode.startswith("read") and not self.path.exists():
            self._write("write_fsync")
        if mode in ("read_cold", "read_direct"):
            cold = make_cold(self.directory)
        before = self.ctx.device_read_bytes()
        timed = self._read(mode) if mode.startswith("read") else self._write(mode)
        delivered = difference(before, self.ctx.device_read_bytes())
        if cold is not None:
            label = label_of(cold, self.ctx.volume_facts, read_bytes=self.size, device_bytes=delivered)
            subject = f"{mode} of a large file"
            notes.append(f"{subject}: {label.label} ({label.reason})")
            invalid = why_not_cold(label, subject=subject) if mode == "read_cold" else ()
            details = cold_details(
                cold, label, read_bytes=self.size, device_bytes=delivered, relative_to=self.directory
            )
        if mode.startswith("write"):
            safe_files.sync_path(self.path)  # so that one mode's bytes are not written back in the next one's time
        return self._sub_result(mode, timed, tuple(notes), invalid, details)

    def _write(self, mode: SequentialMode) -> Timed:
        """Write a new file block by block."""
        self.path.unlink(missing_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | (os.O_DIRECT if mode == "write_direct" else 0)
        with _buffer(_CONTENT_BYTES + self.step.block_size_bytes) as content:
            content[:] = random.Random(self.ctx.seed).randbytes(len(content))
            descriptor = os.open(self.path, flags, 0o644)
            try:

                def write(block: tuple[int, int]) -> None:
                    at, length = block
                    start = at % _CONTENT_BYTES // mmap.PAGESIZE * mmap.PAGESIZE
                    while length > 0:
                        done = os.write(descriptor, content[start : start + length])
                        start, length = start + done, length - done

                return self._timed(
                    mode, write, finish=(lambda: os.fsync(descriptor)) if mode == "write_fsync" else lambda: None
                )
            finally:
                os.close(descriptor)

    def _read(self, mode: SequentialMode) -> Timed:
        descriptor = os.open(self.path, os.O_RDONLY | (os.O_DIRECT if mode == "read_direct" else 0))
        try:
            with _buffer(self.step.block_size_bytes) as block:

                def read(_: tuple[int, int]) -> None:
                    os.readv(descriptor, [block])

                return self._timed(mode, read)
        finally:
            os.close(descriptor)

    def _timed(self, mode: SequentialMode, operation: Any, *, finish: Any = lambda: None) -> Timed:
        size, block = self.size, self.step.block_size_bytes
        return timed_operations(
            [(at, min(block, size - at)) for at in range(0, size, block)],
            [operation],
            label=f"{self.step.name}: {mode}",
            timeout_s=self.step.timeout_s,
            cancelled=self.ctx.cancelled,
            on_progress=lambda share: self.ctx.progress(f"large file: {mode}", share),
            finish=finish,
        )

    def _sub_result(
        self,
        mode: SequentialMode,
        timed: Timed,
        notes: tuple[str, ...],
        invalid: tuple[str, ...],
        details: dict[str, Any],
    ) -> SubResult:
        values = {_MEMORY.get(mode, "sequential_mib_per_s"): self.size / MIB / timed.seconds}
        if mode not in _MEMORY:
            values["sequential_s"] = timed.seconds
        return SubResult(
            suffix=mode,
            kind=self.step.kind,
            parameters={"size_bytes": self.size, "block_size_bytes": self.step.block_size_bytes},
            outcome=StepOutcome(
                window_s=(self.ctx.clock.at_s(timed.window_ns[0]), self.ctx.clock.at_s(timed.window_ns[1])),
                metrics={name: metric(name, value) for name, value in values.items()},
                notes=notes,
                details=details,
                invalid_reasons=invalid,
            ),
        )


def _whole_pages(size: int) -> int:
    """Return the size rounded up to whole pages, which O_DIRECT requires."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


@contextmanager
def _buffer(size: int) -> Iterator[memoryview]:
    with mmap.mmap(-1, size) as pages, memoryview(pages) as view:
        yield view
