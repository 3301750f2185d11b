"""The probe: measures a volume in about a minute, in a marked directory that is removed afterwards."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from volbench.core.base import ownership, safe_files
from volbench.core.records.facts import VolumeFacts
from volbench.errors import MissingPrerequisite, Refused, StepFailed, UsageError
from volbench.machine.host.task_account import CpuWatch, socket_peer
from volbench.machine.volume.emulated.control import ask
from volbench.machine.volume.facts.discovery import discover
from volbench.machine.volume.interface import OpenVolume
from volbench.machine.volume.kinds.path import check_directory
from volbench.machine.volume.probe.figures import LARGE_BYTES, PAGE_BYTES, RANDOM_DEPTH, SMALL_BYTES, STREAM_DEPTH
from volbench.machine.volume.probe.files import measure_files
from volbench.machine.volume.probe.fio import FioJob, JobResult, Pattern, run_job
from volbench.machine.volume.probe.judgement import (
    _DROP_RATIO,
    _SATURATED,
    DELAYED_SHARE_MAX,
    STEADY_RATIO,
    RateDrop,
    delayed_share,
    find_fall,
    is_throttled_alone,
)
from volbench.machine.volume.space import free_bytes
from volbench.machine.volume.trouble import volume_failure

DIRECTORY = "volbench-probe"
SECONDS_MIN = 5.0
SECONDS_MAX = 3600.0
FILE_BYTES_MAX = 1 << 30
FILE_BYTES_MIN = 64 << 20
_EXTENT_BYTES_MIN = 8 << 20
_RESERVE_BYTES = 64 << 20


PHASE_TRIES = 3
"""A disturbed phase is repeated, up to this number of tries; the least disturbed try counts.

All repetitions together take no longer than the probe itself."""

# Shares of the probe's time.
_FILL_SHARE = 0.2
_LATENCY_SHARE = 0.05
_IOPS_SHARE = 0.12
_STREAM_SHARE = 0.08
_SYNC_SHARE = 0.06
_FILES_SHARE = 0.08

_Figures = TypeVar("_Figures")
Watch = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """The figures of a probe, and the volume.

    Args:
        figures: name of probe_figures.FIGURES to its value; if a rate fell, the value before.
        direct: measured with O_DIRECT; else through the page cache.
        operations, moved_bytes: of the whole probe, which may have used burst credits.
        unsaturated: rates that the queue depth limited, not the volume.
        uneven: rates whose mean is far below the typical half second in `figures`, with that mean: it stalled.
        late_share: of an emulated volume's operations; None for others.
        delayed: phases that other work on this machine delayed, also when repeated, and an upper bound of the
            delayed share of the time. Their figures are this machine's, not the volume's.
        foreign_cpu_ratio: other processes' share of all CPUs in the worst of these phases.
        throttled_alone: `read` or `write`, where one operation at a time met the limit already: the tail of its
            latency is the limit's, not the volume's.
    """

    spec: str
    facts: VolumeFacts
    figures: Mapping[str, float]
    fall: RateDrop | None
    direct: bool
    file_bytes: int
    seconds: float
    operations: int
    moved_bytes: int
    unsaturated: tuple[str, ...]
    uneven: Mapping[str, float]
    late_share: float | None
    delayed: Mapping[str, float] = field(default_factory=dict)
    foreign_cpu_ratio: float = 0.0
    throttled_alone: tuple[str, ...] = ()


def check_seconds(seconds: float) -> None:
    """Raise UsageError for a time that is too short or too long for a probe."""
    if not SECONDS_MIN <= seconds <= SECONDS_MAX:
        raise UsageError(
            f"a probe takes {SECONDS_MIN:g} to {SECONDS_MAX:g} seconds", where=f"--seconds {seconds:g}"
        )


def measure(opened: OpenVolume, *, fio: str, seconds: float, watch: Watch) -> Probe:
    """Measure a volume that is open.

    Args:
        fio: the program.
        seconds: for the whole probe, without starting and ending its phases.
        watch: called with the name of each phase.

    Raises MissingPrerequisite (space, not reachable), Refused (another probe, no marker), StepFailed.
    """
    if opened.host_path is None:
        raise MissingPrerequisite(
            "the volume has no path on this machine",
            where=f"probe of {opened.spec.text}",
            next_step="probe as root on the machine of the Docker engine, or mount the volume and use path:",
        )
    with _directory(opened.host_path) as directory:
        return _Measurement(opened, directory, fio=fio, seconds=seconds, watch=watch).run()


class _Measurement:
    """One probe: the phases in their order, each with its share of the time."""

    def __init__(self, opened: OpenVolume, directory: Path, *, fio: str, seconds: float, watch: Watch) -> None:
        self._opened = opened
        self._directory = directory
        self._fio = fio
        self._seconds = seconds
        self._watch = watch
        self._file = directory / "probe.dat"
        where = str(opened.host_path)
        self._direct = _supports_direct_io(directory, where)
        self._extent_bytes = min(FILE_BYTES_MAX, _file_bytes_max(directory, where))
        self._figures: dict[str, float] = {}
        self._results: list[JobResult] = []
        self._alone: dict[str, JobResult] = {}
        self._throttled_alone: list[str] = []
        self._falls: list[RateDrop] = []
        self._unsaturated: list[str] = []
        self._uneven: dict[str, float] = {}
        self._delayed: dict[str, float] = {}
        self._foreign_cpu_ratio = 0.0
        self._spare_s = seconds
        self._daemon = socket_peer(opened.emulator_socket) if opened.emulator_socket is not None else None

    def run(self) -> Probe:
        self._fill()
        for operation in ("read", "write"):
            for size, name in ((SMALL_BYTES, "4k"), (PAGE_BYTES, "16k")):
                self._latency(operation, size, name)
        for operation in ("read", "write"):
            self._iops(operation)
        for operation in ("read", "write"):
            self._stream(operation)
        self._sync()
        self._small_files()
        return Probe(
            spec=self._opened.spec.text,
            facts=self._opened.facts or discover(self._directory),
            figures=self._figures,
            fall=self._falls[0] if self._falls else None,
            direct=self._direct,
            file_bytes=self._extent_bytes,
            seconds=self._seconds,
            operations=sum(result.operations for result in self._results),
            moved_bytes=sum(result.moved_bytes for result in self._results),
            unsaturated=tuple(self._unsaturated),
            uneven=self._uneven,
            late_share=_late_share(self._opened),
            delayed=self._delayed,
            foreign_cpu_ratio=self._foreign_cpu_ratio,
            throttled_alone=tuple(self._throttled_alone),
        )

    def _undisturbed(self, phase: str, measure_once: Callable[[], _Figures]) -> _Figures:
        """Measure a phase, and repeat it while other work on this machine delays it; record a delay that stays."""
        tries: list[tuple[float, float, _Figures]] = []
        while len(tries) < PHASE_TRIES:
            watch, begun_s = CpuWatch([os.getpid()], server=self._daemon), time.monotonic()
            with watch.watching():
                figures = measure_once()
            tries.append((*delayed_share(watch.share), figures))
            if len(tries) > 1:
                self._spare_s -= time.monotonic() - begun_s
            if tries[-1][0] <= DELAYED_SHARE_MAX or self._spare_s <= 0:
                break
            if len(tries) < PHASE_TRIES:
                self._watch(f"repeated, since other work on this machine delayed it: {phase}")
        delayed, foreign, figures = min(tries, key=lambda attempt: attempt[0])
        if delayed > DELAYED_SHARE_MAX:
            self._delayed[phase] = delayed
            self._foreign_cpu_ratio = max(self._foreign_cpu_ratio, foreign)
        return figures

    def _fill(self) -> None:
        """Write the file: reads of unwritten blocks mean nothing. A slow volume gets a smaller file."""
        self._watch(f"writing a file of up to {self._extent_bytes >> 20} MiB")
        filled = self._job("write", LARGE_BYTES, STREAM_DEPTH, _FILL_SHARE, once=True).moved_bytes
        if filled < self._extent_bytes:
            # With several writes in flight the last ones may have holes between them.
            self._extent_bytes = (filled - STREAM_DEPTH * LARGE_BYTES) // LARGE_BYTES * LARGE_BYTES
        if self._extent_bytes < _EXTENT_BYTES_MIN:
            raise StepFailed(
                "the volume is too slow for a probe of this length",
                where=f"probe of {self._opened.spec.text}",
                evidence=f"{filled >> 20} MiB were written in {_FILL_SHARE * self._seconds:.0f} s",
                next_step=f"--seconds {self._seconds * 4:.0f}",
            )
        os.truncate(self._file, self._extent_bytes)

    def _latency(self, operation: str, size_bytes: int, name: str) -> None:
        self._watch(f"latency of random {operation}s of {size_bytes >> 10} KiB")
        result = self._job(_random(operation), size_bytes, 1, _LATENCY_SHARE)
        self._figures[f"{operation}_{name}_ms"] = result.latency_ms
        if size_bytes == SMALL_BYTES:
            self._alone[operation] = result
            self._figures[f"{operation}_{name}_ms_p99"] = result.latency_ms_p99

    def _iops(self, operation: str) -> None:
        figure = f"{operation}_iops"
        self._watch(f"IOPS of random {operation}s, {RANDOM_DEPTH} at a time")
        result = self._job(_random(operation), SMALL_BYTES, RANDOM_DEPTH, _IOPS_SHARE)
        self._rate(figure, result, scale=1.0)
        alone = self._alone[operation]
        fall = find_fall(figure, result.iops_series)
        if fall is not None:
            self._falls.append(fall)
            self._figures[figure] = fall.first
        elif result.iops_typical < _DROP_RATIO * alone.iops_typical:
            early = RateDrop(figure=figure, first=alone.iops_typical, last=result.iops_typical, after_s=None)
            self._falls.append(early)
        elif is_throttled_alone(alone, result):
            self._throttled_alone.append(operation)
        elif RANDOM_DEPTH / result.iops_typical * 1e3 < _SATURATED * alone.latency_ms:
            self._unsaturated.append(figure)

    def _stream(self, operation: str) -> None:
        self._watch(f"throughput of sequential {operation}s")
        pattern: Pattern = "read" if operation == "read" else "write"
        result = self._job(pattern, LARGE_BYTES, STREAM_DEPTH, _STREAM_SHARE)
        self._rate(f"{operation}_mib_per_s", result, scale=LARGE_BYTES / (1 << 20))

    def _rate(self, figure: str, result: JobResult, *, scale: float) -> None:
        self._figures[figure] = result.iops_typical * scale
        if result.iops < STEADY_RATIO * result.iops_typical:
            self._uneven[figure] = result.iops * scale

    def _sync(self) -> None:
        self._watch("fdatasync")
        result = self._job("write", SMALL_BYTES, 1, _SYNC_SHARE, sync=True)
        if result.sync_ms is not None and result.sync_ms_p99 is not None:
            self._figures["fdatasync_ms"] = result.sync_ms
            self._figures["fdatasync_ms_p99"] = result.sync_ms_p99

    def _small_files(self) -> None:
        self._watch("small files")
        directory = self._directory / "files"
        try:
            directory.mkdir()
            self._figures |= self._undisturbed(
                "small files", lambda: measure_files(directory, seconds=_FILES_SHARE * self._seconds)
            )
        except OSError as error:
            raise volume_failure(error, phase="probe, small files") from error

    def _job(
        self, pattern: Pattern, size_bytes: int, depth: int, share: float, *, sync: bool = False, once: bool = False
    ) -> JobResult:
        job = FioJob(
            file=self._file,
            pattern=pattern,
            block_bytes=size_bytes,
            depth=depth,
            extent_bytes=self._extent_bytes,
            runtime_s=share * self._seconds,
            direct=self._direct,
            sync_every=int(sync),
            once=once,
        )
        if once:  # it fills the file: its time is no figure
            return self._run_job(job)
        phase = f"{'fdatasync' if sync else pattern} of {size_bytes >> 10} KiB, depth {depth}"
        return self._undisturbed(phase, lambda: self._run_job(job))

    def _run_job(self, job: FioJob) -> JobResult:
        """Run a job; a discarded try counts too, since it used burst credits."""
        result = run_job(self._fio, job)
        self._results.append(result)
        return result


@contextmanager
def _directory(volume: Path) -> Iterator[Path]:
    """Yield an empty marked directory on the volume, for one probe at a time; remove it at the end."""
    check_directory(volume, where=f"probe of {volume}")
    directory = volume / DIRECTORY
    ownership.claim(directory, purpose="probe")
    with ownership.open_owned(directory) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Refused(
                "another probe is measuring this volume",
                where=str(directory),
                evidence=str(error),
                next_step="wait for its end",
            ) from error
        ownership.erase_contents(directory)  # what a killed probe has left
        try:
            # Also after a rename the probe measures the directory that was checked.
            yield safe_files.pinned_path(descriptor)
        finally:
            ownership.remove(directory)


def _file_bytes_max(directory: Path, where: str) -> int:
    """Return half of the free space minus a reserve, in whole MiB.

    Raises MissingPrerequisite if that is too little.
    """
    free = free_bytes(directory)
    affordable = max(0, free - _RESERVE_BYTES) // 2 // LARGE_BYTES * LARGE_BYTES
    if affordable < FILE_BYTES_MIN:
        raise MissingPrerequisite(
            "the volume has too little free space for a probe",
            where=where,
            evidence=f"{free >> 20} MiB free, {(2 * FILE_BYTES_MIN + _RESERVE_BYTES) >> 20} MiB needed",
            next_step="free some space on the volume",
            cause="volume_full",
        )
    return affordable


def _supports_direct_io(directory: Path, where: str) -> bool:
    """Return whether the file system supports O_DIRECT.

    Raises MissingPrerequisite, StepFailed if it takes no file.
    """
    file = directory / "direct"
    try:
        file.touch()
        os.close(os.open(file, os.O_RDWR | os.O_DIRECT))
    except OSError as error:
        if file.exists():
            return False
        raise volume_failure(error, phase=f"probe of {where}") from error
    finally:
        file.unlink(missing_ok=True)
    return True


def _late_share(opened: OpenVolume) -> float | None:
    if opened.emulator_socket is None:
        return None
    return float(ask(opened.emulator_socket.parent, {"do": "counters"})["counters"]["fidelity"]["late_share"])


def _random(operation: str) -> Pattern:
    return "randread" if operation == "read" else "randwrite"
