"""The probe: what a volume does, measured in about a minute in a directory of ours that is removed afterwards."""

from __future__ import annotations

import fcntl
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from volbench.base import safe_files
from volbench.errors import EnvironmentLacks, Refused, StepFailed, UsageError
from volbench.records.facts import VolumeFacts
from volbench.volume import ownership
from volbench.volume.emulated_control import ask
from volbench.volume.facts import discover
from volbench.volume.interface import OpenVolume
from volbench.volume.path import check_directory
from volbench.volume.probe_figures import LARGE_BYTES, PAGE_BYTES, RANDOM_DEPTH, SMALL_BYTES, STREAM_DEPTH
from volbench.volume.probe_files import measure_files
from volbench.volume.probe_fio import Job, JobResult, Pattern, run_job
from volbench.volume.space import free_bytes
from volbench.volume.task_account import CpuShare, CpuWatch, socket_peer
from volbench.volume.trouble import volume_failure

DIRECTORY = "volbench-probe"
SECONDS_MIN = 5.0
SECONDS_MAX = 3600.0
FILE_BYTES_MAX = 1 << 30
FILE_BYTES_MIN = 64 << 20
_EXTENT_BYTES_MIN = 8 << 20
_RESERVE_BYTES = 64 << 20
_FALL = 0.75
"""A phase whose last quarter does less than this of its first has fallen."""
_SATURATED = 1.5
"""A queue makes latency this many times longer, or it is no limit that was reached."""

_EVEN = 0.9

FOREIGN_CPU_MAX = 0.1
"""Of all CPUs: others that use less do not count."""
HELD_MAX = 0.1
"""A phase that waited for a CPU for more of its time says more of the machine than of the volume."""
PHASE_TRIES = 3
"""A phase that was disturbed is measured again, so often in all; the least disturbed counts.

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
class Fall:
    """That a rate fell while it was measured: a burst that ended.

    Args:
        figure: read_iops or write_iops.
        first, last: median of its first and last quarter; or what one operation at a time did before, and what many
            at a time do now.
        after_s: since the start of that phase; None: before it.
    """

    figure: str
    first: float
    last: float
    after_s: float | None


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What was measured, on what.

    Args:
        figures: name of probe_figures.FIGURES to its value; where a rate fell, the value before.
        direct: measured with O_DIRECT; else through the page cache.
        operations, moved_bytes: that the probe has spent, of whatever budget of bursts there is.
        unsaturated: rates that the queue depth limited, not the volume.
        uneven: rates whose mean is far below the typical half second that `figures` has, and that mean: it stalled.
        late_share: of an emulated volume's operations; None for others.
        held: phases in which this machine's other work held the measurement back, also when it was repeated, and
            the share of the time for which it did at most. Their figures are this machine's, not the volume's.
        foreign_cpu_ratio: of all CPUs, what others used in the worst of these phases.
        throttled_alone: `read` or `write`, where one operation at a time met the limit already: the tail of its
            latency is the limit's, not the volume's.
    """

    spec: str
    facts: VolumeFacts
    figures: Mapping[str, float]
    fall: Fall | None
    direct: bool
    file_bytes: int
    seconds: float
    operations: int
    moved_bytes: int
    unsaturated: tuple[str, ...]
    uneven: Mapping[str, float]
    late_share: float | None
    held: Mapping[str, float] = field(default_factory=dict)
    foreign_cpu_ratio: float = 0.0
    throttled_alone: tuple[str, ...] = ()


def check_seconds(seconds: float) -> None:
    """Raise UsageError for a time in which nothing can be measured, or that is no probe any more."""
    if not SECONDS_MIN <= seconds <= SECONDS_MAX:
        raise UsageError(
            f"a probe takes {SECONDS_MIN:g} to {SECONDS_MAX:g} seconds", where=f"--seconds {seconds:g}"
        )


def measure(opened: OpenVolume, *, fio: str, seconds: float, watch: Watch) -> Probe:
    """Measure a volume that is open.

    Args:
        fio: the program.
        seconds: for all of it; starting and ending the phases takes some more.
        watch: told each phase.

    Raises EnvironmentLacks (space, not reachable), Refused (another probe, not ours), StepFailed.
    """
    if opened.host_path is None:
        raise EnvironmentLacks(
            "the volume cannot be reached by a path of this machine",
            where=f"probe of {opened.spec.text}",
            next_step="run it as root on the machine of the Docker engine, or mount the volume and use path:",
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
        place = str(opened.host_path)
        self._direct = _takes_direct(directory, place)
        self._extent_bytes = min(FILE_BYTES_MAX, _affordable_bytes(directory, place))
        self._figures: dict[str, float] = {}
        self._results: list[JobResult] = []
        self._alone: dict[str, JobResult] = {}
        self._throttled_alone: list[str] = []
        self._falls: list[Fall] = []
        self._unsaturated: list[str] = []
        self._uneven: dict[str, float] = {}
        self._held: dict[str, float] = {}
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
            held=self._held,
            foreign_cpu_ratio=self._foreign_cpu_ratio,
            throttled_alone=tuple(self._throttled_alone),
        )

    def _undisturbed(self, phase: str, measure_once: Callable[[], _Figures]) -> _Figures:
        """Measure a phase, again while other work on this machine held it back; that is noted when it stays so."""
        tries: list[tuple[float, float, _Figures]] = []
        while len(tries) < PHASE_TRIES:
            watch, begun_s = CpuWatch([os.getpid()], server=self._daemon), time.monotonic()
            with watch.watching():
                figures = measure_once()
            tries.append((*_held_share(watch.share), figures))
            if len(tries) > 1:
                self._spare_s -= time.monotonic() - begun_s
            if tries[-1][0] <= HELD_MAX or self._spare_s <= 0:
                break
            if len(tries) < PHASE_TRIES:
                self._watch(f"again, since other work on this machine held it back: {phase}")
        held, foreign, figures = min(tries, key=lambda one: one[0])
        if held > HELD_MAX:
            self._held[phase] = held
            self._foreign_cpu_ratio = max(self._foreign_cpu_ratio, foreign)
        return figures

    def _fill(self) -> None:
        """Write the file: reads of what was never written say nothing. A slow volume gets a smaller file."""
        self._watch(f"writing a file of up to {self._extent_bytes >> 20} MiB")
        filled = self._job("write", LARGE_BYTES, STREAM_DEPTH, _FILL_SHARE, once=True).moved_bytes
        if filled < self._extent_bytes:
            # With several writes under way the last ones may have holes between them.
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
        elif result.iops_typical < _FALL * alone.iops_typical:
            early = Fall(figure=figure, first=alone.iops_typical, last=result.iops_typical, after_s=None)
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
        if result.iops < _EVEN * result.iops_typical:
            self._uneven[figure] = result.iops * scale

    def _sync(self) -> None:
        self._watch("fdatasync")
        result = self._job("write", SMALL_BYTES, 1, _SYNC_SHARE, sync=True)
        if result.sync_ms is not None and result.sync_ms_p99 is not None:
            self._figures["fdatasync_ms"] = result.sync_ms
            self._figures["fdatasync_ms_p99"] = result.sync_ms_p99

    def _small_files(self) -> None:
        self._watch("small files")
        place = self._directory / "files"
        try:
            place.mkdir()
            self._figures |= self._undisturbed(
                "small files", lambda: measure_files(place, seconds=_FILES_SHARE * self._seconds)
            )
        except OSError as error:
            raise volume_failure(error, phase="probe, small files") from error

    def _job(
        self, pattern: Pattern, size_bytes: int, depth: int, share: float, *, sync: bool = False, once: bool = False
    ) -> JobResult:
        job = Job(
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

    def _run_job(self, job: Job) -> JobResult:
        """What it moved counts also when it is not the one that is taken: it spent bursts."""
        result = run_job(self._fio, job)
        self._results.append(result)
        return result


def _held_share(share: CpuShare | None) -> tuple[float, float]:
    """At most this share of the time was the measurement held back by others, and what they used of all CPUs.

    They held it back only while they ran, and only while a task of ours (or of an emulated volume's daemon) waited
    for a CPU; 0 where they used little, or where nothing is known.
    """
    if share is None or share.foreign_ratio <= FOREIGN_CPU_MAX:
        return 0.0, 0.0
    delay = share.own.delay_s + (share.server.delay_s if share.server is not None else 0.0)
    return min(1.0, share.foreign_cpus, delay), share.foreign_ratio


def is_throttled_alone(alone: JobResult, many: JobResult) -> bool:
    """Whether one operation at a time did as much as many at a time, in bursts with waits between them.

    One stream does 1 / mean latency operations a second, which is less than 1 / median where a limiter lets some
    pass at once and makes others wait (the kernel's throttle works in slices of 100 ms).

    Args:
        alone: one operation at a time.
        many: the same operations with a queue.
    """
    mean_ms = 1e3 / alone.iops_typical
    return alone.iops_typical >= _FALL * many.iops_typical and mean_ms >= _SATURATED * alone.latency_ms


def find_fall(figure: str, series: tuple[tuple[float, float], ...]) -> Fall | None:
    """Where a rate fell for good: its last quarter is far below its first, and its middle below what it began with.

    Args:
        series: time in seconds and rate, on an even grid.
    """
    rates = [rate for _, rate in series]
    quarter = len(rates) // 4
    if quarter < 2:
        return None
    first, last = statistics.median(rates[:quarter]), statistics.median(rates[-quarter:])
    if last >= _FALL * first:
        return None
    middle = (first + last) / 2
    after_s = next(
        t_s for number, (t_s, _) in enumerate(series) if max(rates[number:]) < middle or number + 1 == len(series)
    )
    return Fall(figure=figure, first=first, last=last, after_s=after_s)


@contextmanager
def _directory(volume: Path) -> Iterator[Path]:
    """A marked directory on the volume, empty, for one probe at a time; removed at the end."""
    check_directory(volume, where=f"probe of {volume}")
    directory = volume / DIRECTORY
    ownership.claim(directory, purpose="probe")
    with ownership.held(directory) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Refused(
                "another probe is measuring this volume", where=str(directory), evidence=str(error),
                next_step="wait for its end",
            ) from error  # fmt: skip
        ownership.erase_contents(directory)  # what a killed probe has left
        try:
            # Whatever is renamed meanwhile: what is measured is the directory that was checked.
            yield safe_files.pinned_path(descriptor)
        finally:
            ownership.remove(directory)


def _affordable_bytes(directory: Path, where: str) -> int:
    """Half of the free space but a reserve, in whole MiB. Raises EnvironmentLacks when that is too little."""
    free = free_bytes(directory)
    affordable = max(0, free - _RESERVE_BYTES) // 2 // LARGE_BYTES * LARGE_BYTES
    if affordable < FILE_BYTES_MIN:
        raise EnvironmentLacks(
            "the volume has too little free space for a probe",
            where=where,
            evidence=f"{free >> 20} MiB free, {(2 * FILE_BYTES_MIN + _RESERVE_BYTES) >> 20} MiB needed",
            next_step="free space on it",
            cause="volume_full",
        )
    return affordable


def _takes_direct(directory: Path, where: str) -> bool:
    """Whether the file system takes O_DIRECT. Raises EnvironmentLacks, StepFailed when it takes no file at all."""
    place = directory / "direct"
    try:
        place.touch()
        os.close(os.open(place, os.O_RDWR | os.O_DIRECT))
    except OSError as error:
        if place.exists():
            return False
        raise volume_failure(error, phase=f"probe of {where}") from error
    finally:
        place.unlink(missing_ok=True)
    return True


def _late_share(opened: OpenVolume) -> float | None:
    if opened.emulator_socket is None:
        return None
    return float(ask(opened.emulator_socket.parent, {"do": "counters"})["counters"]["fidelity"]["late_share"])


def _random(operation: str) -> Pattern:
    return "randread" if operation == "read" else "randwrite"
