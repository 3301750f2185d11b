"""One time axis for recordings: CloudWatch and NVMe logs have UTC, sar and iostat their host's time without a zone.

The zone of the host's times is given, or it is the one shift at which both sides count the same operations: what a
host sends to its volume, the volume counts. A shift counts only where the others do clearly worse, so a steady load
fits nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from volbench.errors import UsageError
from volbench.results.recorded.parsed import DAY_S, Recorded
from volbench.results.stats.grid import Floats, interval_s
from volbench.results.store.series import Series, SeriesKey

HOST_SOURCES, VOLUME_SOURCES = ("diskstats",), ("cloudwatch", "ebs_nvme")
RATES = ("writes_per_s", "reads_per_s", "write_mib_per_s", "read_mib_per_s")
STEP_S = 900.0
"""All zones in use differ from UTC by a multiple of a quarter of an hour."""
_WEST_S, _EAST_S = -12 * 3600.0, 14 * 3600.0
INTERVALS_MIN = 8
SAME = 0.1
"""Two counts of one interval are the same within this share: both sides' intervals end at other moments."""
FITS_MIN, LEAD_MIN = 0.7, 0.3
"""Share of intervals that agree at a shift, and how much smaller it is at every other one."""
_OFFSET = re.compile(r"(?:UTC)?([+-])(\d{1,2}):?(\d{2})?")


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A shift, in seconds, from a volume's times to its host's, and the intervals that agree there."""

    shift_s: float
    agreeing: int
    intervals: int
    metric: str


def on_one_clock(recordings: Mapping[str, Recorded], zone: str = "") -> tuple[dict[str, Recorded], tuple[str, ...]]:
    """Recordings whose times of day are of one zone, and what a reader must know of that.

    Args:
        recordings: by the names of their files, each with a clock.
        zone: of the times that state none, such as `Asia/Tokyo` or `+09:00`; empty: the zone that fits.

    Raises UsageError for a zone that is not known.
    """
    zoned = {name: recording for name, recording in recordings.items() if recording.midnight_epoch_s is not None}
    if not zoned:
        return dict(recordings), ()
    first_s = min(recording.midnight_epoch_s or 0.0 for recording in zoned.values())
    in_utc = {name: _moved(one, (one.midnight_epoch_s or 0.0) - first_s) for name, one in zoned.items()}
    local = {name: recording for name, recording in recordings.items() if name not in zoned}
    shift_s, note = _shift(list(local.values()), list(in_utc.values()), zone, first_s)
    moved = {name: _moved(recording, shift_s) for name, recording in in_utc.items()}
    return {name: moved.get(name, recording) for name, recording in recordings.items()}, (note,)


def _shift(local: list[Recorded], in_utc: list[Recorded], zone: str, first_s: float) -> tuple[float, str]:
    """Seconds to add to the volume's times, and why."""
    if zone:
        shift_s = utc_offset_s(zone, first_s)
        return shift_s + _whole_days(local, in_utc, shift_s), f"times are of {zone}; CloudWatch's were UTC"
    if not local:
        return 0.0, "CloudWatch's times are UTC"
    fit = fitting_shift(local, in_utc)
    if fit is None:
        return _whole_days(local, in_utc, 0.0), (
            "CloudWatch's times are UTC, and so are taken those of the other files, since no time zone fits better:"
            " --timezone states theirs"
        )
    noun = fit.metric.removesuffix("_per_s").replace("_mib", " throughput")
    text = (
        f"the other files' times fit CloudWatch's, which are UTC, at {_zone_text(fit.shift_s)}: host and volume"
        f" count the same {noun} in {fit.agreeing} of {fit.intervals} intervals there, and at no other time zone"
    )
    return fit.shift_s, text


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


def fitting_shift(local: list[Recorded], in_utc: list[Recorded]) -> Fit | None:
    """The shift at which host and volume count the same; None where none does, or more than one."""
    fits = [
        fit
        for metric in RATES
        for host in _of(local, HOST_SOURCES, metric)
        for volume in _of(in_utc, VOLUME_SOURCES, metric)
        if (fit := _best(host, volume, metric)) is not None
    ]
    if len({fit.shift_s for fit in fits}) != 1:
        return None
    return max(fits, key=lambda fit: fit.agreeing)


def _best(host: Series, volume: Series, metric: str) -> Fit | None:
    shifts = [day * DAY_S + quarter for day in (-1, 0, 1) for quarter in np.arange(_WEST_S, _EAST_S + 1, STEP_S)]
    scores = {shift: _agreement(host, volume, shift) for shift in dict.fromkeys(map(float, shifts))}
    ranked = sorted(scores.items(), key=lambda pair: pair[1][0] / max(pair[1][1], INTERVALS_MIN), reverse=True)
    (shift, (agreeing, intervals)), (_, (next_agreeing, next_intervals)) = ranked[0], ranked[1]
    share, next_share = agreeing / max(intervals, INTERVALS_MIN), next_agreeing / max(next_intervals, INTERVALS_MIN)
    if share < FITS_MIN or share - next_share < LEAD_MIN:
        return None
    return Fit(shift_s=shift, agreeing=agreeing, intervals=intervals, metric=metric)


def _agreement(host: Series, volume: Series, shift_s: float) -> tuple[int, int]:
    """Intervals of the coarser side in which both rates are the same, and intervals that both know."""
    host_s, volume_s = interval_s(host.t_s) or 0.0, interval_s(volume.t_s) or 0.0
    margin_s = host_s + volume_s
    first_s, last_s = volume.t_s[0] + shift_s, volume.t_s[-1] + shift_s
    if last_s < host.t_s[0] - margin_s or first_s > host.t_s[-1] + margin_s:
        return 0, 0  # at most shifts the two do not overlap
    shifted = Series(t_s=volume.t_s + shift_s, value=volume.value)
    coarse, fine, width_s = (host, shifted, host_s) if host_s >= volume_s else (shifted, host, volume_s)
    means = _means(fine, coarse.t_s - width_s, coarse.t_s)
    known = np.isfinite(means) & np.isfinite(coarse.value) & (coarse.value > 0)
    ratio = means[known] / coarse.value[known]
    return int((np.abs(ratio - 1) <= SAME).sum()), int(known.sum())


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
    """Series of a metric that are long enough to be compared."""
    for recording in recordings:
        for key, series in recording.series.items():
            if key.source in sources and key.metric == metric and len(series.t_s) >= INTERVALS_MIN:
                yield series


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


def _moved(recording: Recorded, seconds: float) -> Recorded:
    series: dict[SeriesKey, Series] = {
        key: Series(t_s=samples.t_s + seconds, value=samples.value) for key, samples in recording.series.items()
    }
    return replace(recording, series=series)


def _zone_text(shift_s: float) -> str:
    """`UTC+09:00`: the shift without whole days."""
    of_day = (shift_s - _WEST_S) % DAY_S + _WEST_S
    minutes = round(abs(of_day) / 60)
    return f"UTC{'-' if of_day < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
