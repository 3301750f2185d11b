"""A directory of what other tools recorded, explained as one step: which files there are, and what they tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from volbench.core.base import safe_files
from volbench.core.records.report import FindingRow
from volbench.errors import UsageError
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.device import device_of
from volbench.results.explain.evidence.episodes import Episode, Level, find_episode, levels
from volbench.results.explain.findings import Explanation, explain_case, finding_rows
from volbench.results.explain.recordings.clients import client_count, queue_of_clients, without_acquittal
from volbench.results.explain.rules.stretch import SAMPLES_MIN
from volbench.results.recorded.clocks import VOLUME_SOURCES, on_one_clock
from volbench.results.recorded.cloudwatch import looks_like_cloudwatch, parse_cloudwatch
from volbench.results.recorded.iostat import looks_like_iostat, parse_iostat
from volbench.results.recorded.nvme_log import looks_like_nvme_log, parse_nvme_recording
from volbench.results.recorded.parsed import Recorded
from volbench.results.recorded.pt_diskstats import looks_like_pt_diskstats, parse_pt_diskstats
from volbench.results.recorded.pt_stalk import READ, Collection, kind_of, parse_collection
from volbench.results.recorded.sar import looks_like_sar, merged_by_device, parse_sar
from volbench.results.recorded.slow_log import COMMANDS, is_slow_log
from volbench.results.recorded.sysbench import looks_like_sysbench, parse_sysbench
from volbench.results.recorded.window import DayWindow, clock_text
from volbench.results.stats.grid import Floats, Grid, align, interval_s
from volbench.results.store.series import Series, SeriesKey

FILES_MAX = 200
FILE_BYTES_MAX = 64 << 20
STEP = "recorded"
STALL = "storage.stall"
"""Named for some seconds; what the volume did in the rest of an episode says more."""
_KINDS: dict[str, tuple[Callable[[str], bool], Callable[[str], Recorded]]] = {
    "pt-diskstats": (looks_like_pt_diskstats, parse_pt_diskstats),
    "cloudwatch": (looks_like_cloudwatch, parse_cloudwatch),
    "nvme": (looks_like_nvme_log, parse_nvme_recording),
    "iostat": (looks_like_iostat, parse_iostat),
    "sysbench": (looks_like_sysbench, parse_sysbench),
    "sar": (looks_like_sar, parse_sar),
}


@dataclass(frozen=True, kw_only=True)
class RecordedExplanation:
    """Findings of a directory; `files` says as what each was read, `notes` what is missing or to be known.

    `clocked`: times are seconds since midnight of the first day, else since the first sample. `window_s` is what
    was compared with the time before it, the window that was asked for or an episode that stands out (`episode`);
    `levels` are the figures of both.
    """

    findings: tuple[FindingRow, ...]
    files: dict[str, str]
    notes: tuple[str, ...]
    clocked: bool = False
    window_s: tuple[float, float] | None = None
    episode: Episode | None = None
    levels: tuple[Level, ...] = ()


def explain_recorded(
    source: Path | Sequence[Path], *, device: str = "", window: DayWindow | None = None, zone: str = ""
) -> RecordedExplanation:
    """Findings from a directory of recordings, or from one file or several.

    Files with a time of day share a clock (`clocks.on_one_clock`); one without (a sysbench log) is used only when
    no other has one.

    Args:
        source: a directory, a file, or several files.
        device: kernel name of the volume's device; empty: the one with the most operations.
        window: the part of the day to explain; None: all of it, or where nothing can be named in that, the episode
            in which the volume was worse than before.
        zone: time zone of the files that state none; empty: the one that fits CloudWatch's times.

    Raises UsageError when nothing in it is known, or nothing of the device or the window.
    """
    sources = [source] if isinstance(source, Path) else list(source)
    material = _material(sources)
    recordings = {name: recording for name, recording in material.recordings.items() if recording.series}
    logs = [path.name for each in sources for path in _files(each) if is_slow_log(path)]
    if not recordings:
        raise _unreadable(sources[0], logs)
    clocked = any(recording.clocked for recording in recordings.values())
    if window is not None and not clocked:
        raise UsageError("a window of the day needs recordings with times of day", where=f"--window {window.text}")
    used, notes = _on_shared_clock(recordings, logs, clocked=clocked, zone=zone)
    case = _of_device(_case(list(used.values()), clocked=clocked, collection=material.collection), device)
    span = None if window is None else window.within(*case.window_s)
    explained_case, explained, episode = _explained(case, span)
    if episode is not None and span is None:
        span = (episode.t0_s, episode.t1_s)
        bounds = (clock_text(bound_s) if clocked else f"{bound_s:g} s" for bound_s in span)
        notes.append(f"the volume was slower from {' to '.join(bounds)} than in the rest (p {episode.p_value:.3g})")
    device_name = explained_case.device.entity if explained_case.device is not None else ""
    rows = finding_rows(device_name or sources[0].name, STEP, {sources[0].name: explained})
    queue = queue_of_clients(explained_case, client_count(recordings.values()))
    if queue is not None and queue.has_most_clients and not any(row.cause.startswith("storage.") for row in rows):
        notes.append(queue.text)
    notes += [*_which_device(explained_case), *explained.notes, *_not_recorded(explained_case)]
    return RecordedExplanation(
        findings=without_acquittal(rows, queue),
        files=material.kinds,
        notes=tuple(dict.fromkeys(notes)),
        clocked=clocked,
        window_s=span,
        episode=episode,
        levels=() if span is None else tuple(_levels(case, span)),
    )


@dataclass(frozen=True, slots=True)
class _Material:
    """What was read: the recordings by name, the kind of each file, and pt-stalk's first collection."""

    recordings: Mapping[str, Recorded]
    kinds: dict[str, str]
    collection: Collection | None


def _material(sources: Sequence[Path]) -> _Material:
    collections = list(_collections(sources[0]))
    collected = {f"{prefix}-{kind}" for prefix, collection in collections for kind in collection.used}
    read = {
        name: file
        for each in sources
        for name, file in _read(each)
        if name not in collected and not _needless(name)
    }
    read |= {prefix: ("pt-stalk", collection.recorded) for prefix, collection in collections}
    return _Material(
        recordings={name: recording for name, (_, recording) in read.items()},
        kinds={name: kind for name, (kind, _) in read.items()} | dict.fromkeys(sorted(collected), "pt-stalk"),
        collection=collections[0][1] if collections else None,
    )


def _unreadable(source: Path, logs: Sequence[str]) -> UsageError:
    if logs:
        return UsageError(
            "a slow query log is no recording of a volume or a host",
            where=str(source),
            evidence=", ".join(logs),
            next_step=f"give text of sar, iostat -x or pt-stalk; {COMMANDS}",
        )
    return UsageError(
        "nothing here that can be read",
        where=str(source),
        next_step="give a directory with text of sar -d, sar -b, iostat -x, sysbench, pt-stalk or"
        " pt-diskstats, or JSON of CloudWatch",
    )


def _on_shared_clock(
    recordings: Mapping[str, Recorded], logs: Sequence[str], *, clocked: bool, zone: str
) -> tuple[Mapping[str, Recorded], list[str]]:
    """The recordings that share a clock, and the notes on them and on what is left out."""
    used = {name: recording for name, recording in recordings.items() if recording.clocked == clocked}
    notes = [note for recording in used.values() for note in recording.notes]
    shifted, of_clocks = on_one_clock(used, zone)
    notes += of_clocks
    notes += [f"{log} is a slow query log and was not read: {COMMANDS}" for log in logs]
    notes += [
        f"{name} is left out: it has no time of day, other files have"
        for name in recordings.keys() - shifted.keys()
    ]
    return shifted, notes


def _of_device(case: Case, device: str) -> Case:
    if not device:
        return case
    devices = {key.entity for key in case.grid.columns if key.metric in ("reads_per_s", "operations_per_s")}
    if device not in devices:
        raise UsageError(
            f"the recording has no device {device!r}", evidence=f"devices: {', '.join(sorted(devices - {''}))}"
        )
    return replace(case, disk=device)


def _which_device(case: Case) -> Iterator[str]:
    """Says which of several devices was taken for the volume."""
    device = case.device
    if case.disk is not None or device is None:
        return
    entities = {
        entity
        for metric in ("reads_per_s", "operations_per_s")
        for entity in case.grid.entities(device.source, metric)
    }
    if len(entities) > 1:
        yield (
            f"{device.entity} is taken for the volume, since it has the most operations of {len(entities)} devices"
            " (--device names another)"
        )


def _explained(case: Case, span: tuple[float, float] | None) -> tuple[Case, Explanation, Episode | None]:
    """The case as it was explained: its window, else all of it, else the episode where all of it names nothing."""
    if span is not None:
        windowed = replace(case, grid=case.whole.within(*span))
        return windowed, explain_case(windowed), None
    explained = explain_case(case)
    latency = next(
        (percentile for name in ("p95", "p99", "p50") if (percentile := case.at(f"latency_ms_{name}")) is not None),
        None,
    )
    waits = None if case.device is None else case.device.await_ms
    episode = find_episode(case.grid, waits if latency is None else latency)
    if episode is None or any(finding.cause != STALL for finding in explained.findings):
        return case, explained, episode
    windowed = replace(case, grid=case.whole.within(episode.t0_s, episode.t1_s))
    if len(windowed.grid) < SAMPLES_MIN:
        return case, explained, episode
    of_episode = explain_case(windowed)
    return (windowed, of_episode, episode) if of_episode.findings else (case, explained, episode)


def _levels(case: Case, span: tuple[float, float]) -> Iterator[Level]:
    middle = case.whole.t_s - case.whole.width_s / 2
    during = (middle > span[0]) & (middle <= span[1])
    if not during.any():
        return
    user, system = case.at("user_ratio", "cpu"), case.at("system_ratio", "cpu")
    columns = {
        "transactions": (case.at("tps"), "1/s"),
        "p95": (case.at("latency_ms_p95"), "ms"),
        "CPUs busy": (None if user is None or system is None else 100 * (user + system), "%"),
        "waiting for I/O": (_percent(case.at("iowait_ratio", "cpu")), "%"),
    }
    yield from levels(case.whole, device_of(case.whole, case.disk), during, columns)


def _percent(values: Floats | None) -> Floats | None:
    return None if values is None else 100 * values


def _not_recorded(case: Case) -> Iterator[str]:
    """What no file tells, and what is not known for that."""
    if case.grid.column("client", "tps") is None:
        yield "no log of the client: what users waited for is not known"
    if case.budget is None:
        yield "no statement times of the server: shares of latency are not known"
    if case.cpu_busy is None:
        yield "no CPU times: whether the CPUs were saturated is not known"


def _case(used: list[Recorded], *, clocked: bool, collection: Collection | None) -> Case:
    series = merged_by_device(used)
    grid = align(series, width_s=(width := _width_s(series)), window_s=_edges_s(series, width))
    threads = grid.column("client", "threads_running")
    zero_s = 86_400.0 if clocked else 0.0  # a whole day: shows as the time of day
    return Case(
        name=STEP,
        grid=grid,
        whole=grid,
        volume_grid=_volume_grid(series),
        kind="oltp" if grid.column("client", "tps") is not None else STEP,
        disk=None if collection is None else collection.disk,
        variables={} if collection is None else collection.variables,
        threads=None if threads is None or not math.isfinite(threads[0]) else int(threads[0]),
        clock_zero_s=zero_s,
        recorded=True,
    )


def _width_s(series: Mapping[SeriesKey, Series]) -> float | None:
    """The coarsest clock of the volume's sources rules: a finer one would only repeat its samples.

    A clock is of all metrics of a device together: some waiting times exist only where such operations were.
    """
    sources = ("diskstats", *VOLUME_SOURCES)
    intervals = [interval_s(t_s) for (source, _), t_s in _clocks(series).items() if source in sources]
    return max((interval for interval in intervals if interval is not None), default=None)


def _clocks(series: Mapping[SeriesKey, Series]) -> dict[tuple[str, str], Floats]:
    """All times of each entity of a source, ascending."""
    times: dict[tuple[str, str], list[Floats]] = {}
    for key, values in series.items():
        times.setdefault((key.source, key.entity), []).append(values.t_s)
    return {entity: np.unique(np.concatenate(lists)) for entity, lists in times.items()}


def _edges_s(series: Mapping[SeriesKey, Series], width_s: float | None) -> tuple[float, float] | None:
    """Start and end of a grid whose edges are those of the coarsest source; None: of the earliest sample."""
    of_width = [float(t_s[0]) for t_s in _clocks(series).values() if interval_s(t_s) == width_s]
    if width_s is None or not of_width:
        return None
    first_s = min(float(values.t_s[0]) for values in series.values())
    last_s = max(float(values.t_s[-1]) for values in series.values())
    before = max(0, math.ceil((min(of_width) - first_s) / width_s))
    start_s = min(of_width) - (before + 1) * width_s
    return start_s, start_s + width_s * math.ceil((last_s - start_s) / width_s)


def _volume_grid(series: Mapping[SeriesKey, Series]) -> Grid | None:
    """What the volume itself counted, on its own clock; None where no file tells of it."""
    own = {key: values for key, values in series.items() if key.source in VOLUME_SOURCES}
    return align(own) if own else None


def _collections(source: Path) -> Iterator[tuple[str, Collection]]:
    """What pt-stalk collected, by prefix; of several only the first, which has a day of its own."""
    files: dict[str, dict[str, Path]] = {}
    for path in sorted(_entries(source))[:FILES_MAX] if source.is_dir() else ():
        named = kind_of(path.name)
        if named is not None and named[1] in READ and path.is_file():
            files.setdefault(named[0], {})[named[1]] = path
    for prefix, paths in files.items():
        if "diskstats" in paths:
            try:
                yield prefix, parse_collection(prefix, {kind: _text(path) for kind, path in paths.items()})
            except ValueError as error:
                raise UsageError(
                    "looks like pt-stalk, but cannot be read", where=str(source / prefix), evidence=str(error)
                ) from error
            return


def _entries(directory: Path) -> list[Path]:
    """Return what is in a directory. Raise UsageError."""
    try:
        return list(directory.iterdir())
    except OSError as error:
        raise UsageError(
            "the directory cannot be read", where=str(directory), evidence=error.strerror or str(error)
        ) from error


def _needless(name: str) -> bool:
    """Of a collection, and either read with it or not needed."""
    return kind_of(name) is not None


def _read(source: Path) -> Iterator[tuple[str, tuple[str, Recorded]]]:
    """Each file that is known, with its kind."""
    if not source.exists():
        raise UsageError("there is no such file or directory", where=str(source))
    for path in _files(source):
        if is_slow_log(path):  # of any size
            continue
        text = _text(path)
        for kind, (looks_like, parse) in _KINDS.items():
            if looks_like(text):
                try:
                    yield path.name, (kind, parse(text))
                except (ValueError, KeyError, StopIteration) as error:
                    raise UsageError(
                        f"looks like {kind}, but cannot be read", where=str(path), evidence=str(error)
                    ) from error
                break


def _files(source: Path) -> list[Path]:
    """Return the file, or the first files of the directory."""
    if not source.is_dir():
        return [source]
    return sorted(path for path in _entries(source) if path.is_file())[:FILES_MAX]


def _text(path: Path) -> str:
    try:
        return safe_files.read_given(path, bytes_max=FILE_BYTES_MAX).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(
            "the file cannot be read",
            where=str(path),
            evidence=error.strerror or str(error),
            next_step=f"give a regular file of {FILE_BYTES_MAX >> 20} MiB at most",
        ) from error
