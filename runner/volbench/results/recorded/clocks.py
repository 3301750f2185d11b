"""One time axis for recordings: CloudWatch and NVMe logs have UTC, sar and iostat their host's time without a zone.

The zone of the host's times is given, or it is the one shift at which both sides count the same operations: what a
host sends to its volume, the volume counts. A shift counts only where the others do clearly worse, so a steady load
fits nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from volbench.errors import UsageError
from volbench.results.recorded.parsed import DAY_S, Recorded
from volbench.results.stats.grid import Floats, interval_s
from volbench.results.store.series import Series, SeriesKey

HOST_SOURCES, VOLUME_SOURCES = ("diskstats",), ("cloudwatch", "ebs_nvme")
TOTAL = "operations_per_s"
"""What `sar -d` tells: reads and writes together."""
RATES = ("writes_per_s", "reads_per_s", "write_mib_per_s", "read_mib_per_s")
STEP_S = 900.0
"""All zones in use differ from UTC by a multiple of a quarter of an hour."""
_WEST_S, _EAST_S = -12 * 3600.0, 14 * 3600.0
INTERVALS_MIN = 8
SAME = 0.1
"""Two counts of one interval are the same within this share: both sides' intervals end at other moments."""
FITS_MIN, LEAD_MIN = 0.7, 0.3
"""Share of intervals that agree at a shift, and how much smaller it is at every other one."""
ALL_MIN, LEAD_OF_ALL, LEAD_INTERVALS = 0.95, 0.1, 5
"""The same where nearly all agree: a load that changes slowly agrees with itself a quarter of an hour later."""
_OFFSET = re.compile(r"(?:UTC)?([+-])(\d{1,2}):?(\d{2})?")


@dataclass(frozen=True, kw_only=True)
class ClockShift:
    """A shift, in seconds, from a volume's times to its host's, and the intervals that agree there."""

    shift_s: float
    agreeing: int
    intervals: int
    metric: str


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Recordings on one time axis: `t_s` counts from midnight of `first_day`, None where no file tells a date.

    `zone` is what its times of day are of, empty: the hosts' own, which no file names. `apart` has the recordings
    that have no place on it, with the reason.
    """

    recordings: Mapping[str, Recorded]
    first_day: date | None
    zone: str
    notes: tuple[str, ...]
    apart: Mapping[str, str] = field(default_factory=dict)


def on_one_axis(recordings: Mapping[str, Recorded], zone: str = "", day: date | None = None) -> Axis:
    """Put recordings on one time axis, by the dates and zones that they tell.

    Args:
        recordings: by the names of their files, each with a clock.
        zone: of the times that state none, such as `Asia/Tokyo` or `+09:00`; empty: the zone that fits.
        day: of the recordings that tell no date; None: the only day of the others.

    Raises UsageError for a zone that is not known.
    """
    zoned = {name: recording for name, recording in recordings.items() if recording.midnight_epoch_s is not None}
    local = {name: recording for name, recording in recordings.items() if name not in zoned}
    chosen = _chosen_dates(local.values(), zoned.values())
    dated = {name: recording for name, recording in local.items() if recording.dates}
    undated = {name: recording for name, recording in local.items() if not recording.dates}
    days = {chosen(recording).toordinal() for recording in dated.values()} | _days_of(zoned.values())
    apart: dict[str, str] = {}
    if undated and day is None and (len(days) > 1 and (dated or len(days) > _DAYS_TOUCHED)):
        apart = dict.fromkeys(undated, "its times have no date, and the other files have several: --date states it")
        undated = {}
    base = min(days | ({day.toordinal()} if day is not None and undated else set()), default=None)
    undated_day = day.toordinal() if day is not None else base
    on_axis = {
        name: recording.shifted(DAY_S * (chosen(recording).toordinal() - (base or 0)))
        for name, recording in dated.items()
    }
    on_axis |= {
        name: recording.shifted(DAY_S * ((undated_day or 0) - (base or 0))) for name, recording in undated.items()
    }
    zero_s = DAY_S * ((base or _EPOCH_DAY) - _EPOCH_DAY)
    in_utc = {
        name: recording.shifted((recording.midnight_epoch_s or 0.0) - zero_s) for name, recording in zoned.items()
    }
    shift_s, zone_name = 0.0, ""
    notes: tuple[str, ...] = ()
    if zoned:
        days_open = () if not undated else (-1, 0, 1)
        shift_s, zone_name, notes = _zone(list(on_axis.values()), list(in_utc.values()), zone, zero_s, days_open)
    placed = on_axis | {name: recording.shifted(shift_s) for name, recording in in_utc.items()}
    if placed and not undated:  # the zone may have moved the first time into another day
        first = int(_extent(list(placed.values()))[0] // DAY_S)
        placed = (
            {name: recording.shifted(-first * DAY_S) for name, recording in placed.items()} if first else placed
        )
        base = base + first if base is not None and 0 < base + first < date.max.toordinal() else base
    return Axis(
        recordings={name: placed[name] for name in recordings if name in placed},
        first_day=None if base is None else date.fromordinal(base),
        zone=zone_name or zone,
        notes=notes,
        apart=apart,
    )


_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAYS_TOUCHED = 2
"""Days of UTC that one day of any zone touches."""


def _days_of(zoned: Iterable[Recorded]) -> set[int]:
    """Return the days of UTC that recordings have points of."""
    days = set()
    for recording in zoned:
        first_s, last_s = (
            _EPOCH_DAY * DAY_S + (recording.midnight_epoch_s or 0.0) + t_s for t_s in _extent([recording])
        )
        days |= {int(first_s // DAY_S), int((last_s - 1) // DAY_S)}
    return {day for day in days if 0 < day < date.max.toordinal()}


def _chosen_dates(local: Iterable[Recorded], zoned: Iterable[Recorded]) -> Callable[[Recorded], date]:
    """Return which of the readings of a date is taken: that at which all recordings lie nearest together.

    Which reading is the likelier hangs on the tool: of one day, it may be the first of one file and the second of
    another one. So the earlier or the later reading of all is tried as well.
    """
    dated = [recording for recording in local if recording.dates]
    other_days = _days_of(zoned)

    def span(choose: Callable[[Recorded], date]) -> int:
        days = {choose(recording).toordinal() for recording in dated} | other_days
        return max(days) - min(days)

    return min(_READINGS, key=span) if dated else _READINGS[0]


_READINGS: tuple[Callable[[Recorded], date], ...] = (
    lambda recording: recording.dates[0],
    lambda recording: recording.dates[-1],
    lambda recording: min(recording.dates),
    lambda recording: max(recording.dates),
)


def _zone(
    local: list[Recorded], in_utc: list[Recorded], zone: str, zero_s: float, days_open: tuple[int, ...]
) -> tuple[float, str, tuple[str, ...]]:
    """Return seconds to add to times in UTC, the zone that they are of then, and notes on both.

    Args:
        local: recordings of the hosts, on the axis.
        in_utc: those in UTC, on it as well.
        zone: as stated.
        zero_s: the axis' zero, seconds since the epoch.
        days_open: by how many days the hosts' may be others, where they tell no date.
    """
    if zone:
        shift_s = utc_offset_s(zone, zero_s)
        days_s = _whole_days(local, in_utc, shift_s) if days_open else 0.0
        return shift_s + days_s, zone, (f"times are of {zone}; CloudWatch's were UTC",)
    if not local:
        return 0.0, "UTC", ("times are UTC, as the files state them",)
    fit = fitting_shift(local, in_utc, days_open or (0,))
    if fit is not None:
        noun = fit.metric.removesuffix("_per_s").replace("_mib", " throughput")
        text = (
            f"the other files' times fit CloudWatch's, which are UTC, at {_zone_text(fit.shift_s)}: host and volume"
            f" count the same {noun} in {fit.agreeing} of {fit.intervals} intervals there, at no other time zone"
        )
        return fit.shift_s, _zone_text(fit.shift_s), (text,)
    host, volume = _extent(local), _extent(in_utc)
    of_vendor = any(key.source in VOLUME_SOURCES for recording in in_utc for key in recording.series)
    whose = "CloudWatch's times are UTC" if of_vendor else "some files' times are UTC"
    if not days_open and (host[0] > volume[1] or volume[0] > host[1]):
        near = max(host[0] - volume[1], volume[0] - host[1]) <= _EAST_S
        return 0.0, "", (f"{whose}, and the zone of the others is not known: --timezone states it",) if near else ()
    return (
        (_whole_days(local, in_utc, 0.0) if days_open else 0.0),
        "",
        (
            f"{whose}, and so are taken those of the other files, since no time zone fits better:"
            " --timezone states theirs",
        ),
    )


def utc_offset_s(zone: str, epoch_s: float) -> float:
    """Seconds that a zone is ahead of UTC at a moment. Raises UsageError for one that is not known."""
    matched = _OFFSET.fullmatch(zone)
    if matched is not None and int(matched[2]) <= 14 and int(matched[3] or 0) < 60:
        seconds = int(matched[2]) * 3600.0 + int(matched[3] or 0) * 60.0
        return -seconds if matched[1] == "-" else seconds
    try:
        offset = datetime.fromtimestamp(epoch_s, tz=UTC).astimezone(ZoneInfo(zone)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            "this time zone is not known",
            where=f"--timezone {zone}",
            next_step="give a name such as Asia/Tokyo, or an offset such as +09:00",
        ) from error
    return 0.0 if offset is None else offset.total_seconds()


def fitting_shift(
    local: list[Recorded], in_utc: list[Recorded], days: tuple[int, ...] = (-1, 0, 1)
) -> ClockShift | None:
    """The shift at which host and volume count the same; None where none does, or more than one.

    Args:
        local: recordings of hosts, in their own time.
        in_utc: recordings of volumes.
        days: whole days that a shift may have beside the zone's.
    """
    fits = [
        fit
        for metric in (*RATES, TOTAL)
        for host in _of(local, HOST_SOURCES, metric)
        for volume in _of(in_utc, VOLUME_SOURCES, metric)
        if (fit := _best(host, volume, metric, days)) is not None
    ]
    if len({fit.shift_s for fit in fits}) != 1:
        return None
    return max(fits, key=lambda fit: fit.agreeing)


def _best(host: Series, volume: Series, metric: str, days: tuple[int, ...]) -> ClockShift | None:
    shifts = [day * DAY_S + quarter for day in days for quarter in np.arange(_WEST_S, _EAST_S + 1, STEP_S)]
    scores = {shift: _agreement(host, volume, shift) for shift in dict.fromkeys(map(float, shifts))}
    # A few quiet intervals are alike at many shifts: with less than half of the overlap that there can be, the rest
    # counts as not agreeing.
    least = max(INTERVALS_MIN, max(intervals for _, intervals in scores.values()) / 2)
    ranked = sorted(scores.items(), key=lambda pair: pair[1][0] / max(pair[1][1], least), reverse=True)
    (shift, (agreeing, intervals)), (_, (next_agreeing, _)) = ranked[0], ranked[1]
    share, next_share = agreeing / max(intervals, least), next_agreeing / max(scores[ranked[1][0]][1], least)
    lead = LEAD_OF_ALL if share >= ALL_MIN and (share - next_share) * intervals >= LEAD_INTERVALS else LEAD_MIN
    if share < FITS_MIN or share - next_share < lead:
        return None
    return ClockShift(shift_s=shift, agreeing=agreeing, intervals=intervals, metric=metric)


def _agreement(host: Series, volume: Series, shift_s: float) -> tuple[int, int]:
    """Intervals of the coarser side in which both rates are the same, and intervals that both know."""
    host_s, volume_s = interval_s(host.t_s) or 0.0, interval_s(volume.t_s) or 0.0
    margin_s = host_s + volume_s
    first_s, last_s = volume.t_s[0] + shift_s, volume.t_s[-1] + shift_s
    if last_s < host.t_s[0] - margin_s or first_s > host.t_s[-1] + margin_s:
        return 0, 0  # at most shifts the two do not overlap
    shifted = volume.shifted(shift_s)
    coarse, fine, width_s = (host, shifted, host_s) if host_s >= volume_s else (shifted, host, volume_s)
    means = _means(fine, coarse.t_s - width_s, coarse.t_s)
    is_known = np.isfinite(means) & np.isfinite(coarse.value) & (coarse.value > 0)
    ratio = means[is_known] / coarse.value[is_known]
    return int((np.abs(ratio - 1) <= SAME).sum()), int(is_known.sum())


def _means(series: Series, start_s: Floats, end_s: Floats) -> Floats:
    """Means of a rate between moments, NaN where it is not known all along; a sample is about the time before."""
    width_s = interval_s(series.t_s)
    if width_s is None:
        return np.full(len(start_s), np.nan)
    edges = np.concatenate([[series.t_s[0] - width_s], series.t_s])
    total = np.concatenate([[0.0], np.cumsum(series.value * np.diff(edges))])
    means = (np.interp(end_s, edges, total) - np.interp(start_s, edges, total)) / (end_s - start_s)
    slack_s = 0.1 * float(np.median(end_s - start_s))
    inside = (start_s >= edges[0] - slack_s) & (end_s <= edges[-1] + slack_s)
    return np.where(inside, means, np.nan)


def _of(recordings: list[Recorded], sources: tuple[str, ...], metric: str) -> Iterator[Series]:
    """Series of a metric that are long enough to be compared; of TOTAL also the sum of reads and writes."""
    for recording in recordings:
        if metric == TOTAL:
            yield from _sums(recording, sources)
        for key, series in recording.series.items():
            if key.source in sources and key.metric == metric and len(series.t_s) >= INTERVALS_MIN:
                yield series


def _sums(recording: Recorded, sources: tuple[str, ...]) -> Iterator[Series]:
    """The operations of each entity whose reads and writes have the same times."""
    for key, reads in recording.series.items():
        writes = recording.series.get(SeriesKey(source=key.source, metric="writes_per_s", entity=key.entity))
        is_long = key.source in sources and key.metric == "reads_per_s" and len(reads.t_s) >= INTERVALS_MIN
        if is_long and writes is not None and np.array_equal(writes.t_s, reads.t_s):
            yield Series(t_s=reads.t_s, value=reads.value + writes.value)


def _whole_days(local: list[Recorded], in_utc: list[Recorded], shift_s: float) -> float:
    """Whole days that bring the shifted times nearest to the host's, whose first day is not known."""
    if not local:
        return -DAY_S * ((_extent(in_utc)[0] + shift_s) // DAY_S)
    host, volume = _extent(local), _extent(in_utc)

    def overlap_s(days: int) -> float:
        moved_s = shift_s + days * DAY_S
        return min(host[1], volume[1] + moved_s) - max(host[0], volume[0] + moved_s)

    return DAY_S * max((0, -1, 1), key=overlap_s)


def _extent(recordings: list[Recorded]) -> tuple[float, float]:
    times = [series.t_s for recording in recordings for series in recording.series.values()]
    return min(float(t_s[0]) for t_s in times), max(float(t_s[-1]) for t_s in times)


def _zone_text(shift_s: float) -> str:
    """`UTC+09:00`: the shift without whole days."""
    of_day = (shift_s - _WEST_S) % DAY_S + _WEST_S
    minutes = round(abs(of_day) / 60)
    return f"UTC{'-' if of_day < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
