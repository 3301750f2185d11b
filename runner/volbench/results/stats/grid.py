"""One grid for all sources of a cell: client, server, storage, host. A gap stays a gap (NaN)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from volbench.errors import UsageError
from volbench.results.store.series import Series, SeriesKey

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

BUCKETS_MAX = 1_000_000
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
        """One series, or None when it was not sampled or has no value here."""
        values = self.columns.get(SeriesKey(source=source, metric=metric, entity=entity))
        return None if values is None or np.isnan(values).all() else values

    def entities(self, source: str, metric: str) -> tuple[str, ...]:
        """The entities that a metric has values of, sorted."""
        keys = sorted(key for key in self.columns if key.source == source and key.metric == metric)
        return tuple(key.entity for key in keys if not np.isnan(self.columns[key]).all())

    def within(self, t0_s: float, t1_s: float) -> Grid:
        """The buckets that lie in t0_s .. t1_s, by their middle."""
        middle = self.t_s - self.width_s / 2
        return self.where((middle > t0_s) & (middle <= t1_s))

    def where(self, mask: Mask) -> Grid:
        """The buckets of a mask of shape (buckets,); neighbouring ones share the memory of this grid."""
        chosen = np.flatnonzero(mask)
        adjoining = len(chosen) > 0 and chosen[-1] - chosen[0] + 1 == len(chosen)
        if not adjoining:
            return replace(self, t_s=self.t_s[mask], columns=_Chosen(self.columns, mask))
        rows = slice(chosen[0], chosen[-1] + 1)
        return replace(self, t_s=self.t_s[rows], columns={key: value[rows] for key, value in self.columns.items()})


class _Chosen(Mapping[SeriesKey, Floats]):
    """Buckets of columns, chosen when a column is asked for: all of them at once would be the grid once more."""

    def __init__(self, columns: Mapping[SeriesKey, Floats], mask: Mask) -> None:
        self._columns, self._mask = columns, mask

    def __getitem__(self, key: SeriesKey) -> Floats:
        return self._columns[key][self._mask]

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
) -> Grid:
    """Put series on one grid.

    A bucket takes the sample whose interval holds the bucket's middle, so that nothing is smeared over a change;
    of a source that is sampled more often, the mean. A sample is about the time since the one before it, or, after
    a gap, about one typical interval.

    Args:
        series: seconds since the cell's zero, ascending.
        window_s: start and end of the grid; None: from the first to the last sample.
        width_s: of a bucket; None: the client's interval, or the shortest of the other sources.

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
    return Grid(
        t_s=t_s, width_s=width, columns={key: _placed(sampled, t_s, width) for key, sampled in filled.items()}
    )


def true_runs(mask: Mask) -> list[tuple[int, int]]:
    """Return first and last + 1 index of each stretch in which a mask of shape (buckets,) is true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8))).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def interval_s(t_s: Floats) -> float | None:
    """The typical distance of samples; None with fewer than two."""
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


def _placed(series: Series, t_s: Floats, width: float) -> Floats:
    """The series' value in each bucket that ends at t_s."""
    placed = np.full(len(t_s), np.nan)
    if not len(t_s):
        return placed
    typical = interval_s(series.t_s) or width
    length = np.diff(series.t_s, prepend=series.t_s[0] - typical)
    length = np.where(length > _GAP * typical, typical, length)
    middle = t_s - width / 2
    sample = np.minimum(np.searchsorted(series.t_s, middle, side="left"), len(series.t_s) - 1)
    slack = 1e-6 + 0.05 * width  # neighbouring intervals of a jittering clock leave no hole between them
    covered = (middle <= series.t_s[sample] + slack) & (middle > series.t_s[sample] - length[sample] - slack)
    placed[covered] = series.value[sample[covered]]
    if typical < 0.7 * width:
        _average(series, t_s, width, placed)
    return placed


def _average(series: Series, t_s: Floats, width: float, placed: Floats) -> None:
    """Mean of all samples that end in a bucket, for sources finer than the grid."""
    bucket = np.searchsorted(t_s, series.t_s - 1e-6 * width, side="left")
    inside = (bucket < len(t_s)) & (series.t_s > t_s[0] - width)
    count = np.bincount(bucket[inside], minlength=len(t_s))
    total = np.bincount(bucket[inside], series.value[inside], minlength=len(t_s))
    placed[count > 0] = total[count > 0] / count[count > 0]


def median_of_finite(values: Floats) -> float:
    """The median of finite values, shape (n,) with n > 0; np.median takes much longer for a short series."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def median(values: Floats | Iterable[float] | None) -> float | None:
    """Median of what is known; None when nothing is."""
    return quantile(values, 0.5)


def quantile(values: Floats | Iterable[float] | None, level: float) -> float | None:
    """Quantile of what is known; None when nothing is."""
    finite = _known(values)
    return quantile_of_finite(finite, level) if len(finite) else None


def quantile_of_finite(values: Floats, level: float) -> float:
    """np.quantile of finite values, shape (n,) with n > 0, to the last bit; faster for a short series."""
    if len(values) > _SHORT:
        return float(np.quantile(values, level))
    ordered = np.sort(values)
    at = (len(ordered) - 1) * level
    below = int(at)
    low, high = float(ordered[below]), float(ordered[min(below + 1, len(ordered) - 1)])
    part, step = at - below, high - low
    return high - step * (1 - part) if part >= 0.5 else low + step * part


def mean(values: Floats | Iterable[float] | None) -> float | None:
    """Mean of what is known; None when nothing is."""
    finite = _known(values)
    return float(finite.mean()) if len(finite) else None


def _known(values: Floats | Iterable[float] | None) -> Floats:
    if values is None:
        return np.empty(0)
    array = np.asarray(values if isinstance(values, np.ndarray) else list(values), dtype=np.float64)
    return array[np.isfinite(array)]
