"""Where a history comes from: a plain series, a cell of a run, or what sysstat, iostat and CloudWatch recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np

from volbench.core.base.text import counted, part_of, percent
from volbench.core.profile.arrays import Floats
from volbench.core.records.sources import device_sources
from volbench.errors import UsageError
from volbench.results.credits.history import SLOW_MS, Defaults, History, read_plain_series
from volbench.results.credits.work import Clock, Work, from_points, stretches
from volbench.results.recorded.cloudwatch import SOURCE as CLOUDWATCH
from volbench.results.recorded.cloudwatch import parse_cloudwatch
from volbench.results.recorded.cloudwatch_live import SCHEME, fetch
from volbench.results.recorded.cloudwatch_metrics import VOLUME
from volbench.results.recorded.files import RecordedFile, read_files, unreadable
from volbench.results.recorded.formats import ACCEPTED
from volbench.results.recorded.one_volume import of_one_volume
from volbench.results.recorded.parsed import all_times
from volbench.results.recorded.sar import merged_by_device
from volbench.results.recorded.table import Timeline, moment_text
from volbench.results.recorded.timelines import Choice, sort_files
from volbench.results.recorded.window import DayWindow
from volbench.results.store.run_directory import RUN_FILE, SERIES_FILE
from volbench.results.store.series import Series, SeriesKey, read_series, series_within

_KIND_TEXT = {"cloudwatch": "CloudWatch"}
_SOURCES = device_sources("volume", "exporter", "block", "vendor", "files", "group")
_RATES = ("reads_per_s", "writes_per_s")
_TOTAL = "operations_per_s"
_TRAFFIC = ("read_mib_per_s", "write_mib_per_s")
_WAITS = ("await_ms", "r_await_ms", "w_await_ms")
_BALANCE = "balance_percent"
_BALANCE_BYTES = "balance_bytes"
_ALL_TRAFFIC = "total_mib_per_s"
_CLOCK_SLACK_S = 1e-3
SeriesByKey = Mapping[SeriesKey, Series]


def read_history(
    path: Path,
    assumed: Defaults,
    *,
    device: str = "",
    window: DayWindow | None = None,
    zone: str = "",
    choice: Choice | None = None,
    interval_s: float | None = None,
) -> History:
    """Return the load that a file or a directory tells of.

    Args:
        path: a file; a directory of files that other tools recorded; the directory of a run or of one of its cells.
        assumed: what is taken for what it does not tell.
        device: which device of several; empty: the only one.
        window: the part of the day that counts, of a recording with times of day; None: all of it.
        zone: time zone of the files that state none; empty: the one that fits CloudWatch's times.
        choice: of host, device, volume and day, in place of `device` and `zone`; None: these alone.
        interval_s: of samples without times; None: not known.

    Raises UsageError for what is no history, saying what is wrong with it.
    """
    choice = choice or Choice(device=device, zone=zone)
    if str(path).startswith(SCHEME):
        recorded = parse_cloudwatch(json.dumps(fetch(str(path))))
        live = RecordedFile(name=str(path), kind="cloudwatch", recordings=(recorded,) if recorded.series else ())
        return _of_files((live,), assumed, choice, where=path, window=window)
    if not path.exists():
        raise UsageError("there is no such file or directory", where=f"--from {path}")
    if path.is_dir() and ((path / SERIES_FILE).exists() or (path / RUN_FILE).exists()):
        _refuse_window(window)
        cell = _cell(path)
        series = read_series(cell / SERIES_FILE)
        return _history(series, assumed, choice.device, where=cell, kind="sampled", clock="none")
    files = read_files([path], interval_s)
    is_plain = len(files) == 1 and PurePosixPath(files[0].name).suffix in {".csv", ".json"}
    if not path.is_dir() and is_plain and not files[0].kind:
        _refuse_window(window)
        return read_plain_series(path, assumed)
    if files and all(file.slow_log for file in files):
        raise UsageError(
            "a slow query log has no operations of a volume",
            where=str(path),
            next_step="give text of sar -d, sar -b or iostat -x of the same hours, or JSON of CloudWatch",
        )
    if not any(file.recordings for file in files):
        raise unreadable(
            path,
            files,
            "nothing here that can be read as a history",
            f"give {ACCEPTED}, a CSV with t,iops, a run's cell",
        )
    return _of_files(files, assumed, choice, where=path, window=window)


def _refuse_window(window: DayWindow | None) -> None:
    if window is not None:
        raise UsageError("a window of the day needs a recording with times of day", where=f"--window {window.text}")


def _of_files(
    files: Sequence[RecordedFile], assumed: Defaults, choice: Choice, *, where: Path, window: DayWindow | None
) -> History:
    """Return the history of the only timeline of the files that has operations of the device."""
    sorted_files = sort_files(files, choice)
    timelines = [timeline for timeline in sorted_files.timelines if any(_counts(timeline, choice.device))]
    hosts = sorted({timeline.host for timeline in timelines} - {""})
    if len(hosts) > 1:
        raise UsageError(
            "these are recordings of several hosts, and a history is of one volume",
            where=str(where),
            evidence=f"hosts: {', '.join(hosts)}",
            next_step=f"give --host {hosts[0]}",
        )
    timeline = _only_timeline(timelines, sorted_files.timelines, where, choice)
    if not all(recorded.interval_known for recorded in timeline.recordings.values()):
        raise UsageError(
            "no line tells the interval of its samples, and credits are a sum over time",
            where=", ".join(timeline.recordings),
            next_step="give --interval, such as --interval 60s for `iostat -x 60`, or record with times (-t)",
        )
    if not timeline.clocked:
        _refuse_window(window)
    series, of_volumes = of_one_volume(
        merged_by_device(timeline.recordings.values()),
        device=choice.device,
        volume=choice.volume,
        take_busiest=False,
    )
    kinds = {row.kind for row in sorted_files.rows if row.file in timeline.recordings}
    history = _history(
        series if window is None else _within(series, window),
        assumed,
        choice.device if any(_counts(timeline, choice.device)) else "",
        where=where,
        kind=" and ".join(sorted(_KIND_TEXT.get(kind, kind) for kind in kinds)),
        clock="day" if timeline.clocked else "none",
    )
    notes = [
        *sorted_files.notes,
        *(note for recording in timeline.recordings.values() for note in recording.notes),
        *of_volumes,
    ]
    notes += [f"{row.file} is not used: {row.why_not}" for row in sorted_files.rows if row.why_not]
    notes += [
        f"{name} is not used: it has no operations of the device at these times"
        for further in sorted_files.timelines
        if further is not timeline
        for name in further.recordings
    ]
    return replace(history, warnings=(*dict.fromkeys(notes), *history.warnings))


def _counts(timeline: Timeline, device: str) -> Iterator[SeriesKey]:
    """Yield operations a second of a device, or of any.

    Of a file system whose operations are not counted its bytes.
    """
    for recorded in timeline.recordings.values():
        for key in recorded.series:
            is_load = key.metric in {*_RATES, _TOTAL, _ALL_TRAFFIC, *_TRAFFIC} and key.source in _SOURCES
            if is_load and (not device or device == key.entity or device in key.entity.split()):
                yield key


def _only_timeline(
    timelines: Sequence[Timeline], of_all: Sequence[Timeline], where: Path, choice: Choice
) -> Timeline:
    """Return the timeline that a history is made of. Raises UsageError where there is none, or several."""
    if len(timelines) == 1:
        return timelines[0]
    if not timelines:
        entities = {key.entity for timeline in of_all for key in _counts(timeline, "")} - {""}
        raise UsageError(
            f"it has no device {choice.device!r}"
            if entities
            else "there are no operations per second of a device in it",
            where=str(where),
            evidence=f"devices: {', '.join(sorted(entities))}" if entities else "",
        )
    stretches = [
        f"{', '.join(timeline.recordings)} from {moment_text(timeline.extent_s[0], timeline.first_day)} to"
        f" {moment_text(timeline.extent_s[1], timeline.first_day)}"
        for timeline in timelines
    ]
    days = [timeline.first_day for timeline in timelines if timeline.first_day is not None]
    raise UsageError(
        "these never meet, and a history is of one stretch of time",
        where=str(where),
        evidence="; ".join(stretches),
        next_step=f"give --date {days[0]}, or one of the files" if len(set(days)) > 1 else "give one of the files",
    )


def _within(series: SeriesByKey, window: DayWindow) -> dict[SeriesKey, Series]:
    """Return the samples that end in the window."""
    times = [samples.t_s for samples in series.values() if len(samples.t_s)]
    span = window.within(min(float(t_s[0]) for t_s in times), max(float(t_s[-1]) for t_s in times))
    return series_within(series, *span)


def _cell(path: Path) -> Path:
    """Return the cell's directory: the one given, or the only one of a run."""
    if (path / SERIES_FILE).exists():
        return path
    cells = sorted(file.parent for file in path.glob(f"cells/*/{SERIES_FILE}"))
    if len(cells) != 1:
        raise UsageError(
            f"the run has {counted(len(cells), 'cell')} with samples",
            where=str(path),
            evidence=", ".join(cell.name for cell in cells[:10]),
            next_step="give the directory of one, such as RUN/cells/CELL",
        )
    return cells[0]


def _history(
    series: SeriesByKey, assumed: Defaults, device: str, *, where: Path, kind: str, clock: Clock
) -> History:
    series, guessed = _with_operations(series, assumed)
    source, entity = _device(series, device, where)

    def column(metric: str) -> Series | None:
        return series.get(SeriesKey(source=source, metric=metric, entity=entity))

    by_metric = {metric: column(metric) for metric in (*_RATES, _TOTAL, *_TRAFFIC)}
    recorded = {metric: series for metric, series in by_metric.items() if series is not None}
    t_s = all_times([recorded[metric] for metric in (*_RATES, _TOTAL) if metric in recorded])
    columns = {metric: _at(series, t_s) for metric, series in recorded.items()}
    rates, warnings = _rates(columns, assumed)
    rates, missing = _without_holes(rates)
    warnings = (*warnings, *missing)
    traffic = [columns[name] * 2**20 if name in columns else None for name in _TRAFFIC]
    if _TOTAL in columns and _RATES[0] not in columns:
        traffic = _same_size(columns, rates)
    work = from_points(
        t_s=t_s,
        reads_per_s=rates[0],
        writes_per_s=rates[1],
        read_bytes_per_s=traffic[0],
        write_bytes_per_s=traffic[1],
        io_bytes=assumed.io_bytes,
        clock=clock,
        where=str(where),
    )
    begin_s = float(t_s[0] - work.interval_s[0])
    balance, balance_bytes = column(_BALANCE) or _of_vendor(series, _BALANCE), column(_BALANCE_BYTES)
    observed = () if balance is None else zip((balance.t_s - begin_s).tolist(), balance.value / 100.0, strict=True)
    return History(
        work=work,
        text=f"{where.name} ({kind}, {entity or source}, {counted(len(t_s), 'point')})",
        warnings=(*guessed, *warnings),
        observed_bytes=()
        if balance_bytes is None
        else tuple(zip((balance_bytes.t_s - begin_s).tolist(), balance_bytes.value, strict=True)),
        observed=tuple(observed),
        slow=_slow([series for name in _WAITS for series in [column(name)] if series is not None], work, begin_s),
    )


def _of_vendor(series: SeriesByKey, metric: str) -> Series | None:
    """Return what the vendor says of the only volume that it says it of."""
    matching = [samples for key, samples in series.items() if key.source == CLOUDWATCH and key.metric == metric]
    return matching[0] if len(matching) == 1 else None


def _with_operations(series: SeriesByKey, assumed: Defaults) -> tuple[dict[SeriesKey, Series], tuple[str, ...]]:
    """Return the series, with operations of the assumed size where only bytes are known, as of EFS."""
    made = dict(series)

    entities = {
        key.entity for key in series if key.source == CLOUDWATCH and key.metric in {*_TRAFFIC, _ALL_TRAFFIC}
    }
    entity = entities.pop() if len(entities) == 1 else VOLUME

    def cloudwatch(metric: str) -> SeriesKey:
        return SeriesKey(source=CLOUDWATCH, metric=metric, entity=entity)

    total = made.get(cloudwatch(_ALL_TRAFFIC))
    notes = []
    if total is not None and not any(cloudwatch(name) in made for name in _TRAFFIC):
        shares = (assumed.read_share, 1.0 - assumed.read_share)
        for name, share in zip(_TRAFFIC, shares, strict=True):
            made[cloudwatch(name)] = Series(t_s=total.t_s, value=total.value * share)
        notes.append(
            f"it tells bytes of reads and writes only together: {percent(assumed.read_share)} are taken as read"
        )
    if not any(cloudwatch(name) in made for name in _RATES) and any(cloudwatch(name) in made for name in _TRAFFIC):
        for rate, traffic in zip(_RATES, _TRAFFIC, strict=True):
            moved = made.get(cloudwatch(traffic))
            if moved is not None:
                made[cloudwatch(rate)] = Series(t_s=moved.t_s, value=moved.value * 2**20 / assumed.io_bytes)
        notes.append(f"it tells no operations: they are taken to be of {assumed.io_bytes / 1024:g} KiB each")
    return made, tuple(notes)


def _slow(waits: list[Series], work: Work, begin_s: float) -> tuple[tuple[float, float], ...]:
    """Return the stretches in which any of these waiting times was SLOW_MS or more."""
    slow = np.zeros(work.interval_s.shape, dtype=bool)
    ends_s = work.ends_s
    for series in waits:
        late_s = series.t_s[series.value >= SLOW_MS] - begin_s
        slow[np.minimum(np.searchsorted(ends_s, late_s - _CLOCK_SLACK_S), len(ends_s) - 1)] = True
    return tuple(stretches(slow, ends_s))


def _device(series: SeriesByKey, device: str, where: Path) -> tuple[str, str]:
    """Source and entity of the device that is meant."""
    usable = [key for key in series if key.metric in {*_RATES, _TOTAL} and key.source in _SOURCES]
    of_device = [key for key in usable if device and device in (key.entity, *key.entity.split())]
    if device and of_device:
        named = min(of_device, key=lambda key: _SOURCES.index(key.source))
        return named.source, named.entity
    source = next((name for name in _SOURCES if any(key.source == name for key in usable)), None)
    if source is None:
        raise UsageError("there are no operations per second of a device in it", where=str(where))
    entities = sorted({key.entity for key in usable if key.source == source})
    if len(entities) == 1 and not device:
        return source, entities[0]
    raise UsageError(
        f"it has no device {device!r}" if device else "it has several devices",
        where=str(where),
        evidence=f"devices: {', '.join(entities)}",
        next_step=f"give --device {entities[0]}",
    )


def _at(series: Series, t_s: Floats) -> Floats:
    """Return values at these times; NaN where there is none."""
    values = np.full(t_s.shape, np.nan)
    indices = np.searchsorted(t_s, series.t_s)
    inside = indices < len(t_s)
    exact = inside & (t_s[np.minimum(indices, len(t_s) - 1)] == series.t_s)
    values[indices[exact]] = series.value[exact]
    return values


def _rates(columns: Mapping[str, Floats], assumed: Defaults) -> tuple[list[Floats], tuple[str, ...]]:
    """Return reads and writes per second; where only their sum is known, split as their bytes are."""
    if all(name in columns for name in _RATES):
        return [columns[name] for name in _RATES], ()
    if _TOTAL not in columns:
        missing = next(name for name in _RATES if name not in columns)
        raise UsageError(f"there is no {missing} in the history", next_step="record reads and writes")
    share = np.full(columns[_TOTAL].shape, assumed.read_share)
    if all(name in columns for name in _TRAFFIC):
        read, write = (np.nan_to_num(columns[name]) for name in _TRAFFIC)
        both = read + write
        share = np.where(both > 0, read / np.where(both > 0, both, 1.0), share)
    note = "it tells reads and writes only together; they are split as their bytes are"
    return [columns[_TOTAL] * share, columns[_TOTAL] * (1.0 - share)], (note,)


def _without_holes(rates: list[Floats]) -> tuple[list[Floats], tuple[str, ...]]:
    """Return reads and writes, 0 where only the other one has a value.

    And a sentence for each that lacks points.
    """
    reads, writes = rates
    notes, filled = [], []
    for name, own, opposite in (("reads", reads, writes), ("writes", writes, reads)):
        holes = ~np.isfinite(own) & np.isfinite(opposite)
        filled.append(np.where(holes, 0.0, own))
        if holes.any():
            some = part_of(int(holes.sum()), len(own), ("point", "points"), ("has", "have"))
            notes.append(f"{some} no {name}: taken as none")
    return filled, tuple(notes)


def _same_size(columns: Mapping[str, Floats], rates: list[Floats]) -> list[Floats | None]:
    """Return traffic of reads and writes when requests of both have one mean size.

    None where no bytes are known.
    """
    if not all(name in columns for name in _TRAFFIC):
        return [None, None]
    both = (columns[_TRAFFIC[0]] + columns[_TRAFFIC[1]]) * 2**20
    total = columns[_TOTAL]
    usable = total > 0
    size = np.where(usable, both / np.where(usable, total, 1.0), np.nan)
    return [rate * size for rate in rates]
