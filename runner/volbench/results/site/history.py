"""Histories: one metric of one step on one volume of a suite over all runs, with its change points."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from volbench.results.site.change_points import ChangePoint, change_points
from volbench.results.site.summary import MetricGroup, RunSummary

MARGIN = 0.05
"""Changes of level below this share are not named: the margin of comparisons."""
RECENT_RUNS = 10
"""A worse level is a regression for so many runs; then it is history."""


@dataclass(frozen=True, kw_only=True)
class HistoryPoint:
    """One run of a history: the median over its cells, and their range."""

    run: str
    started_at: str
    value: float
    low: float
    high: float
    cells: int


@dataclass(frozen=True, kw_only=True)
class MetricHistory:
    """One metric over the runs of a suite, oldest first.

    Args:
        group: what is measured: volume, step, parameters, metric, unit.
        points: of the runs that measured it.
        changes: change points beyond the margin, oldest first.
    """

    suite: str
    group: MetricGroup
    points: tuple[HistoryPoint, ...]
    changes: tuple[ChangePoint, ...]

    @property
    def identity(self) -> str:
        """Volume, step and parameters in one text."""
        return " ".join(filter(None, (self.group.volume, self.group.step, self.group.parameters)))

    def is_worse(self, change: ChangePoint) -> bool:
        """Return whether the new level is the worse one, by the metric's direction."""
        rises = change.after > change.before
        return (self.group.better == "higher" and not rises) or (self.group.better == "lower" and rises)

    def regression(self, recent: int = RECENT_RUNS) -> ChangePoint | None:
        """Return the last change point if it made things worse within the latest runs, else None."""
        if not self.changes or not self.is_worse(self.changes[-1]):
            return None
        last = self.changes[-1]
        return last if len(self.points) - last.index <= recent else None


class ChangeCache:
    """Change points by the values of a history: most histories are those of the last build.

    Args:
        stored: of the last build's `used`.
    """

    def __init__(self, stored: Mapping[str, Sequence[ChangePoint]]) -> None:
        self._stored = stored
        self.used: dict[str, tuple[ChangePoint, ...]] = {}

    def changes(self, values: Sequence[float]) -> tuple[ChangePoint, ...]:
        """Return the change points of a history, computed once for the same values."""
        digest = hashlib.sha256(repr(list(values)).encode()).hexdigest()
        if digest not in self.used:
            self.used[digest] = tuple(self._stored[digest]) if digest in self._stored else change_points(values)
        return self.used[digest]


def histories(
    runs: Iterable[RunSummary], *, names: Sequence[str], cache: ChangeCache | None = None
) -> tuple[MetricHistory, ...]:
    """Return the histories of the primary metrics, by suite, volume, step, parameters and metric.

    Args:
        runs: oldest first; only complete ones count.
        names: of the runs' directories, in the same order.
        cache: of change points.
    """
    cache = cache or ChangeCache({})
    points: dict[tuple[str, ...], list[HistoryPoint]] = {}
    groups: dict[tuple[str, ...], MetricGroup] = {}
    for name, run in zip(names, runs, strict=True):
        for group in run.groups if run.complete else ():
            if group.primary:
                key = (run.suite, *group.key)
                groups[key] = group
                points.setdefault(key, []).append(_point(name, run, group))
    return tuple(
        MetricHistory(
            suite=key[0],
            group=groups[key],
            points=tuple(points[key]),
            changes=tuple(
                change
                for change in cache.changes([point.value for point in points[key]])
                if change.ratio is None or abs(change.ratio - 1) >= MARGIN
            ),
        )
        for key in sorted(groups)
    )


def _point(name: str, run: RunSummary, group: MetricGroup) -> HistoryPoint:
    return HistoryPoint(
        run=name,
        started_at=run.started_at,
        value=median(group.values),
        low=min(group.values),
        high=max(group.values),
        cells=len(group.values),
    )
