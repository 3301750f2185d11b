"""Where a history comes from: a plain series, a cell of a run, or what sysstat, iostat and CloudWatch recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from volbench.core.base import safe_files
from volbench.core.profile.limits import Floats
from volbench.core.records.sources import device_sources
from volbench.errors import UsageError
from volbench.results.credits.history import SLOW_MS, Assumed, History, read_plain_series
from volbench.results.credits.work import Clock, Work, from_points, stretches
from volbench.results.recorded.clocks import on_one_clock
from volbench.results.recorded.cloudwatch import SOURCE as CLOUDWATCH
from volbench.results.recorded.cloudwatch import VOLUME, looks_like_cloudwatch, parse_cloudwatch
from volbench.results.recorded.cloudwatch_live import SCHEME, fetch
from volbench.results.recorded.iostat import looks_like_iostat, parse_iostat
from volbench.results.recorded.parsed import Recorded
from volbench.results.recorded.sar import looks_like_sar, merged_by_device, parse_sar
from volbench.results.recorded.slow_log import is_slow_log
from volbench.results.recorded.window import DayWindow
from volbench.results.store.run_directory import RUN_FILE, SERIES_FILE
from volbench.results.store.series import Series, SeriesKey, read_series

FILES_MAX = 400
FILE_BYTES_MAX = 256 << 20
_KINDS: Mapping[str, tuple[Callable[[str], bool], Callable[[str], Recorded]]] = {
    "CloudWatch": (looks_like_cloudwatch, parse_cloudwatch),
    "iostat": (looks_like_iostat, parse_iostat),
    "sar": (looks_like_sar, parse_sar),
}
_SOURCES = device_sources("volume", "exporter", "block", "vendor", "files", "group")
_RATES = ("reads_per_s", "writes_per_s")
_TOTAL = "operations_per_s"
_TRAFFIC = ("read_mib_per_s", "write_mib_per_s")
_WAITS = ("await_ms", "r_await_ms", "w_await_ms")
_BALANCE = "balance_percent"
_BALANCE_BYTES = "balance_bytes"
_ALL_TRAFFIC = "total_mib_per_s"
_SAR_BINARY = (b"\x96\xd5", b"\xd5\x96")
"""The magic number that begins sysstat's data files since version 8, in either byte order (sa.h)."""
_CLOCK_SLACK_S = 1e-3
Found = Mapping[SeriesKey, Series]


def read_history(
    path: Path, assumed: Assumed, *, device: str = "", window: DayWindow | None = None, zone: str = ""
) -> History:
    """The load that a file or a directory tells of.

    Args:
        path: a file; a directory of files that other tools recorded; the directory of a run or of one of its cells.
        assumed: what is taken for what it does not tell.
        device: which device of several; empty: the only one.
        window: the part of the day that counts, of a recording with times of day; None: all of it.
        zone: time zone of the files that state none; empty: the one that fits CloudWatch's times.

    Raises UsageError for what is no history, saying what is wrong with it.
    """
    if str(path).startswith(SCHEME):
        read = [("CloudWatch", parse_cloudwatch(json.dumps(fetch(str(path)))))]
        return _of_recorded(read, assumed, device, where=path, window=window, zone=zone)
    if not path.exists():
        raise UsageError("there is no such file or directory", where=f"--from {path}")
    if path.is_dir() and ((path / SERIES_FILE).exists() or (path / RUN_FILE).exists()):
        _refuse_window(window)
        cell = _cell(path)
        return _history(read_series(cell / SERIES_FILE), assumed, device, where=cell, kind="sampled", clock="none")
    files = sorted(entry for entry in path.iterdir() if entry.is_file()) if path.is_dir() else [path]
    if (
        not path.is_dir()
        and path.suffix in {".csv", ".json"}
        and not looks_like_cloudwatch(_content(path).decode("utf-8", "replace"))
    ):
        _refuse_window(window)
        return read_plain_series(path, assumed)
    logs = {file for file in files[:FILES_MAX] if is_slow_log(file)}
    recorded = (_recorded(file) for file in files[:FILES_MAX] if file not in logs)  # a log may have any size
    read = [recognised for recognised in recorded if recognised is not None]
    if not read and logs:
        raise UsageError(
            "a slow query log has no operations of a volume",
            where=str(path),
            next_step="give text of sar -d, sar -b or iostat -x of the same hours, or JSON of CloudWatch",
        )
    if not read:
        raise UsageError(
            "nothing here that can be read as a history",
            where=str(path),
            next_step="give text of sar -d, sar -b, iostat -x, JSON of CloudWatch, a CSV with t,iops, a run's cell",
        )
    return _of_recorded(read, assumed, device, where=path, window=window, zone=zone)


def _refuse_window(window: DayWindow | None) -> None:
    if window is not None:
        raise UsageError("a window of the day needs a recording with times of day", where=f"--window {window.text}")


def _of_recorded(
    read: list[tuple[str, Recorded]],
    assumed: Assumed,
    device: str,
    *,
    where: Path,
    window: DayWindow | None,
    zone: str,
) -> History:
    clocked = any(recorded.clocked for _, recorded in read)
    used = [(kind, recorded) for kind, recorded in read if recorded.clocked == clocked]
    with_series = {str(at): recorded for at, (_, recorded) in enumerate(used) if recorded.series}
    one_clock, of_clocks = on_one_clock(with_series, zone)
    notes = tuple(dict.fromkeys([*(note for _, recorded in used for note in recorded.notes), *of_clocks]))
    series = merged_by_device(one_clock.values())
    if not clocked:
        _refuse_window(window)
    history = _history(
        series if window is None else _within(series, window),
        assumed,
        device,
        where=where,
        kind=" and ".join(sorted({kind for kind, _ in used})),
        clock="day" if clocked else "none",
    )
    return replace(history, warnings=(*notes, *history.warnings))


def _within(series: Found, window: DayWindow) -> dict[SeriesKey, Series]:
    """The samples that end in the window."""
    times = [samples.t_s for samples in series.values() if len(samples.t_s)]
    span = window.within(min(float(t_s[0]) for t_s in times), max(float(t_s[-1]) for t_s in times))
    cut = {}
    for key, samples in series.items():
        inside = (samples.t_s > span[0]) & (samples.t_s <= span[1])
        if inside.any():
            cut[key] = Series(t_s=samples.t_s[inside], value=samples.value[inside])
    return cut


def _recorded(path: Path) -> tuple[str, Recorded] | None:
    """A file as its tool wrote it; None for a file of no known tool."""
    content = _content(path)
    if content[:2] in _SAR_BINARY:
        raise UsageError(
            "this is sar's binary file, whose layout changes from version to version",
            where=str(path),
            next_step=f"have the sar that wrote it make text of it: LC_ALL=C sar -d -b -f {path.name}",
        )
    text = content.decode("utf-8", "replace")
    for kind, (looks_like, parse) in _KINDS.items():
        if looks_like(text):
            try:
                return kind, parse(text)
            except (ValueError, KeyError, StopIteration) as error:
                raise UsageError(
                    f"looks like {kind}, but cannot be read", where=str(path), evidence=str(error)
                ) from error
    return None


def _content(path: Path) -> bytes:
    try:
        return safe_files.read_given(path, bytes_max=FILE_BYTES_MAX)
    except OSError as error:
        raise UsageError(
            "the file cannot be read",
            where=str(path),
            evidence=error.strerror or str(error),
            next_step=f"give a regular file of {FILE_BYTES_MAX >> 20} MiB at most",
        ) from error


def _cell(path: Path) -> Path:
    """The cell's directory: the one given, or the only one of a run."""
    if (path / SERIES_FILE).exists():
        return path
    cells = sorted(file.parent for file in path.glob(f"cells/*/{SERIES_FILE}"))
    if len(cells) != 1:
        raise UsageError(
            f"the run has {len(cells)} cells with samples",
            where=str(path),
            evidence=", ".join(cell.name for cell in cells[:10]),
            next_step="give the directory of one, such as RUN/cells/CELL",
        )
    return cells[0]


def _history(series: Found, assumed: Assumed, device: str, *, where: Path, kind: str, clock: Clock) -> History:
    series, guessed = _with_operations(series, assumed)
    source, entity = _device(series, device, where)

    def column(metric: str) -> Series | None:
        return series.get(SeriesKey(source=source, metric=metric, entity=entity))

    by_metric = {metric: column(metric) for metric in (*_RATES, _TOTAL, *_TRAFFIC)}
    recorded = {metric: series for metric, series in by_metric.items() if series is not None}
    t_s = np.unique(np.concatenate([recorded[metric].t_s for metric in (*_RATES, _TOTAL) if metric in recorded]))
    columns = {metric: _at(series, t_s) for metric, series in recorded.items()}
    rates, warnings = _rates(columns, assumed)
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
    balance = column(_BALANCE) or series.get(SeriesKey(source=CLOUDWATCH, metric=_BALANCE, entity=VOLUME))
    balance_bytes = column(_BALANCE_BYTES)
    observed = () if balance is None else zip((balance.t_s - begin_s).tolist(), balance.value / 100.0, strict=True)
    return History(
        work=work,
        text=f"{where.name} ({kind}, {entity or source}, {len(t_s)} points)",
        warnings=(*guessed, *warnings),
        observed_bytes=()
        if balance_bytes is None
        else tuple(zip((balance_bytes.t_s - begin_s).tolist(), balance_bytes.value, strict=True)),
        observed=tuple(observed),
        slow=_slow([series for name in _WAITS for series in [column(name)] if series is not None], work, begin_s),
    )


def _with_operations(series: Found, assumed: Assumed) -> tuple[dict[SeriesKey, Series], tuple[str, ...]]:
    """Of EFS without counts of samples only bytes are known: operations are taken to be of the assumed size."""
    made = dict(series)

    def cloudwatch(metric: str) -> SeriesKey:
        return SeriesKey(source=CLOUDWATCH, metric=metric, entity=VOLUME)

    total = made.get(cloudwatch(_ALL_TRAFFIC))
    notes = []
    if total is not None and not any(cloudwatch(name) in made for name in _TRAFFIC):
        shares = (assumed.read_share, 1.0 - assumed.read_share)
        for name, share in zip(_TRAFFIC, shares, strict=True):
            made[cloudwatch(name)] = Series(t_s=total.t_s, value=total.value * share)
        notes.append(
            f"it tells bytes of reads and writes only together: {assumed.read_share:.0%} are taken as read"
        )
    if not any(cloudwatch(name) in made for name in _RATES) and any(cloudwatch(name) in made for name in _TRAFFIC):
        for rate, traffic in zip(_RATES, _TRAFFIC, strict=True):
            moved = made.get(cloudwatch(traffic))
            if moved is not None:
                made[cloudwatch(rate)] = Series(t_s=moved.t_s, value=moved.value * 2**20 / assumed.io_bytes)
        notes.append(f"it tells no operations: they are taken to be of {assumed.io_bytes / 1024:g} KiB each")
    return made, tuple(notes)


def _slow(waits: list[Series], work: Work, begin_s: float) -> tuple[tuple[float, float], ...]:
    """The stretches in which any of these waiting times was SLOW_MS or more."""
    slow = np.zeros(work.interval_s.shape, dtype=bool)
    ends_s = work.ends_s
    for series in waits:
        late_s = series.t_s[series.value >= SLOW_MS] - begin_s
        slow[np.minimum(np.searchsorted(ends_s, late_s - _CLOCK_SLACK_S), len(ends_s) - 1)] = True
    return tuple(stretches(slow, ends_s))


def _device(series: Found, device: str, where: Path) -> tuple[str, str]:
    """Source and entity of the device that is meant."""
    usable = [key for key in series if key.metric in {*_RATES, _TOTAL} and key.source in _SOURCES]
    source = next((name for name in _SOURCES if any(key.source == name for key in usable)), None)
    if source is None:
        raise UsageError("there are no operations per second of a device in it", where=str(where))
    entities = sorted({key.entity for key in usable if key.source == source})
    if device in entities or (len(entities) == 1 and not device):
        return source, device or entities[0]
    raise UsageError(
        f"it has no device {device!r}" if device else "it has several devices",
        where=str(where),
        evidence=f"devices: {', '.join(entities)}",
        next_step=f"give --device {entities[0]}",
    )


def _at(series: Series, t_s: Floats) -> Floats:
    """Values at these times; NaN where there is none."""
    values = np.full(t_s.shape, np.nan)
    indices = np.searchsorted(t_s, series.t_s)
    inside = indices < len(t_s)
    exact = inside & (t_s[np.minimum(indices, len(t_s) - 1)] == series.t_s)
    values[indices[exact]] = series.value[exact]
    return values


def _rates(columns: Mapping[str, Floats], assumed: Assumed) -> tuple[list[Floats], tuple[str, ...]]:
    """Reads and writes per second; where only their sum is known, split as their bytes are."""
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


def _same_size(columns: Mapping[str, Floats], rates: list[Floats]) -> list[Floats | None]:
    """Traffic of reads and writes when requests of both have one mean size; None where no bytes are known."""
    if not all(name in columns for name in _TRAFFIC):
        return [None, None]
    both = (columns[_TRAFFIC[0]] + columns[_TRAFFIC[1]]) * 2**20
    total = columns[_TOTAL]
    usable = total > 0
    size = np.where(usable, both / np.where(usable, total, 1.0), np.nan)
    return [rate * size for rate in rates]
