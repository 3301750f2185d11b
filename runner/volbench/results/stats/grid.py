"""One grid for all sources of a cell: client, server, storage, host. A gap stays a gap (NaN)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from volbench.errors import UsageError
from volbench.results.store.series import Series, SeriesKey

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

BUCKETS_MAX = 1_000_000
KEPT_BYTES_MAX = 32 << 20
"""Of columns that are placed when they are asked for: all of an ordinary cell's, some of a day's."""
_PLACES_KEPT = 16
"""Sources of a cell; series of one have the same times."""
_SHORT = 2000
"""Values that are sorted faster than np.quantile begins."""
_GAP = 1.6
"""Intervals without a sample after which the time before the next sample is not known."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """All series on one clock.

    Bucket i is about the time `t_s[i] - width_s` .. `t_s[i]`; every column has shape (buckets,), NaN where nothing
    is known.
    """

    t_s: Floats
    width_s: float
    columns: Mapping[SeriesKey, Floats]

    def __len__(self) -> int:
        return len(self.t_s)

    def column(self, source: str, metric: str, entity: str = "") -> Floats | None:
        """Return one series, or None when it was not sampled or has no value here."""
        values = self.columns.get(SeriesKey(source=source, metric=metric, entity=entity))
        return None if values is None or np.isnan(values).all() else values

    def entities(self, source: str, metric: str) -> tuple[str, ...]:
        """Return the entities that a metric has values of, sorted."""
        keys = sorted(key for key in self.columns if key.source == source and key.metric == metric)
        return tuple(key.entity for key in keys if not np.isnan(self.columns[key]).all())

    def window_of(self, mask: Mask) -> tuple[float, float]:
        """Return when the first bucket of a mask of shape (buckets,) begins, and when its last one ends."""
        chosen = np.flatnonzero(mask)
        return float(self.t_s[chosen[0]]) - self.width_s, float(self.t_s[chosen[-1]])

    def within(self, t0_s: float, t1_s: float) -> Grid:
        """Return the buckets that lie in t0_s .. t1_s, by their middle."""
        middle = self.t_s - self.width_s / 2
        return self.where((middle > t0_s) & (middle <= t1_s))

    def where(self, mask: Mask) -> Grid:
        """Return the buckets of a mask of shape (buckets,); neighbouring ones share the memory of this grid."""
        chosen = np.flatnonzero(mask)
        adjoining = len(chosen) > 0 and chosen[-1] - chosen[0] + 1 == len(chosen)
        rows = slice(chosen[0], chosen[-1] + 1) if adjoining else mask
        return replace(self, t_s=self.t_s[rows], columns=_Chosen(self.columns, rows))


class _Chosen(Mapping[SeriesKey, Floats]):
    """Buckets of columns, chosen when a column is asked for: all of them at once would be the grid once more."""

    def __init__(self, columns: Mapping[SeriesKey, Floats], rows: Mask | slice) -> None:
        self._columns, self._rows = columns, rows

    def __getitem__(self, key: SeriesKey) -> Floats:
        return self._columns[key][self._rows]

    def __iter__(self) -> Iterator[SeriesKey]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __contains__(self, key: object) -> bool:
        return key in self._columns


def align(
    series: Mapping[SeriesKey, Series],
    *,
    window_s: tuple[float, float] | None = None,
    width_s: float | None = None,
    on_demand: bool = False,
) -> Grid:
    """Put series on one grid.

    A bucket takes the sample whose interval holds the bucket's middle, so that nothing is smeared over a change;
    of a source that is sampled more often, the mean. A sample is about the time since the one before it, or, after
    a gap, about one typical interval.

    Args:
        series: seconds since the cell's zero, ascending.
        window_s: start and end of the grid; None: from the first to the last sample.
        width_s: of a bucket; None: the client's interval, or the shortest of the other sources.
        on_demand: place a column when it is asked for, and keep KEPT_BYTES_MAX of them: for a long cell, whose
            series must not change.

    Raises UsageError for a grid of more than BUCKETS_MAX buckets.
    """
    filled = {key: sampled for key, sampled in series.items() if len(sampled.t_s)}
    width = width_s or _natural_width_s(filled)
    start, end = window_s or _extent_s(filled, width)
    buckets_wanted = (end - start) / width
    if not buckets_wanted <= BUCKETS_MAX:
        raise UsageError(
            "the samples lie too far apart to be explained together",
            evidence=f"{buckets_wanted:g} intervals of {width:g} s from {start:g} s on; at most {BUCKETS_MAX}",
            next_step="a time among them may be damaged; give files of one stretch of time",
        )
    buckets = max(0, round(buckets_wanted))
    t_s = start + width * np.arange(1, buckets + 1, dtype=np.float64)
    columns = _Placed(filled, t_s, width)
    return Grid(
        t_s=t_s, width_s=width, columns=columns if on_demand else {key: columns.placed(key) for key in filled}
    )


_Key = TypeVar("_Key")
_Made = TypeVar("_Made")


class _RecentValues(OrderedDict[_Key, _Made]):
    """The values that were asked for last, at most so many."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def get_or_make(self, key: _Key, make: Callable[[], _Made]) -> _Made:
        """Return the value, made anew where it is not kept."""
        value = self[key] if key in self else make()
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
        return value


class _Placed(Mapping[SeriesKey, Floats]):
    """The columns of a grid, each placed when it is asked for."""

    def __init__(self, series: Mapping[SeriesKey, Series], t_s: Floats, width: float) -> None:
        self._series, self._t_s, self._width = series, t_s, width
        self._columns: _RecentValues[SeriesKey, Floats] = _RecentValues(
            max(1, KEPT_BYTES_MAX // max(1, t_s.nbytes))
        )
        self._coverages: _RecentValues[int, _Coverage] = _RecentValues(_PLACES_KEPT)

    def __getitem__(self, key: SeriesKey) -> Floats:
        if key not in self._series:
            raise KeyError(key)
        return self._columns.get_or_make(key, lambda: self.placed(key))

    def placed(self, key: SeriesKey) -> Floats:
        """Return the series' value in each bucket, NaN where none is known."""
        series = self._series[key]
        column = np.full(len(self._t_s), np.nan)
        if not len(column):
            return column
        sample_places = self._coverages.get_or_make(
            id(series.t_s), lambda: _coverage(series.t_s, self._t_s, self._width)
        )
        column[sample_places.covered] = series.value[sample_places.sample]
        if sample_places.is_finer:
            _average(series, self._t_s, self._width, column)
        return column

    def __iter__(self) -> Iterator[SeriesKey]:
        return iter(self._series)

    def __len__(self) -> int:
        return len(self._series)

    def __contains__(self, key: object) -> bool:
        return key in self._series


@dataclass(frozen=True, kw_only=True)
class _Coverage:
    """Of series with the same times: which buckets have a value, and of which sample."""

    covered: Mask
    sample: NDArray[np.intp]
    is_finer: bool


def true_runs(mask: Mask) -> list[tuple[int, int]]:
    """Return first and last + 1 index of each stretch in which a mask of shape (buckets,) is true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8))).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def interval_s(t_s: Floats) -> float | None:
    """Return the typical distance of samples; None with fewer than two."""
    return median_of_finite(np.diff(t_s)) if len(t_s) > 1 else None


def _natural_width_s(series: Mapping[SeriesKey, Series]) -> float:
    client = [key for key in series if key.source == "client"]
    values = [interval_s(series[key].t_s) for key in client or series]
    finite = [sampled for sampled in values if sampled]
    return min(finite, default=1.0)


def _extent_s(series: Mapping[SeriesKey, Series], width: float) -> tuple[float, float]:
    if not series:
        return 0.0, 0.0
    first = min(float(sampled.t_s[0]) for sampled in series.values())
    last = max(float(sampled.t_s[-1]) for sampled in series.values())
    return first - width, last


def _coverage(times: Floats, t_s: Floats, width: float) -> _Coverage:
    """Return where samples of these times are in the buckets that end at t_s."""
    typical = interval_s(times) or width
    length = np.diff(times, prepend=times[0] - typical)
    length = np.where(length > _GAP * typical, typical, length)
    middle = t_s - width / 2
    sample = np.minimum(np.searchsorted(times, middle, side="left"), len(times) - 1)
    slack = 1e-6 + 0.05 * width  # neighbouring intervals of a jittering clock leave no hole between them
    covered = (middle <= times[sample] + slack) & (middle > times[sample] - length[sample] - slack)
    return _Coverage(covered=covered, sample=sample[covered], is_finer=typical < 0.7 * width)


def _average(series: Series, t_s: Floats, width: float, placed: Floats) -> None:
    """Set each bucket to the mean of the samples that end in it, for sources finer than the grid."""
    bucket = np.searchsorted(t_s, series.t_s - 1e-6 * width, side="left")
    inside = (bucket < len(t_s)) & (series.t_s > t_s[0] - width)
    count = np.bincount(bucket[inside], minlength=len(t_s))
    total = np.bincount(bucket[inside], series.value[inside], minlength=len(t_s))
    placed[count > 0] = total[count > 0] / count[count > 0]


def median_of_finite(values: Floats) -> float:
    """Return the median of finite values, shape (n,) with n > 0; np.median takes much longer for a short series."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def median(values: Floats | Iterable[float] | None) -> float | None:
    """Return median of what is known; None when nothing is."""
    return quantile(values, 0.5)


def quantile(values: Floats | Iterable[float] | None, level: float) -> float | None:
    """Return quantile of what is known; None when nothing is."""
    finite = _finite(values)
    return quantile_of_finite(finite, level) if len(finite) else None


def quantile_of_finite(values: Floats, level: float) -> float:
    """np.quantile of finite values, shape (n,) with n > 0, to the last bit; faster for a short series."""
    if len(values) > _SHORT:
        return float(np.quantile(values, level))
    ordered = np.sort(values)
    at = (len(ordered) - 1) * level
    below = int(at)
    low, high = float(ordered[below]), float(ordered[min(below + 1, len(ordered) - 1)])
    fraction, step = at - below, high - low
    return high - step * (1 - fraction) if fraction >= 0.5 else low + step * fraction


def mean(values: Floats | Iterable[float] | None) -> float | None:
    """Return mean of what is known; None when nothing is."""
    finite = _finite(values)
    return float(finite.mean()) if len(finite) else None


def _finite(values: Floats | Iterable[float] | None) -> Floats:
    if values is None:
        return np.empty(0)
    array = np.asarray(values if isinstance(values, np.ndarray) else list(values), dtype=np.float64)
    return array[np.isfinite(array)]
