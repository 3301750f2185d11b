"""Slopes between volumes, with an interval that also holds what volumes differ in beyond their waits.

The between estimator takes volumes' means for its points, and rests on volumes having one intercept: what no wait
explains takes equally long on each. The within estimator needs no such thing, but an await that moves inside
cells (Mundlak 1978; `estimate` compares both). With two volumes the slope is (difference of latencies) /
(difference of awaits), and no resampling of cells or seconds sees an error of the numerator that is the same in
all of them. So the variance of a slope has four parts:

- *Cells*: the jackknife over cells.
- *CPU*: the cell's tasks ran or waited for a CPU for c ms a transaction. An unknown share of it, from 0 to 1, is
  the transaction's: the rest is of background threads. Half of c is subtracted, and the slope's range from none to
  all of it counts as a rectangular distribution (type B, JCGM 100:2008): range^2 / 12.
- *Held waits*: a term that stands at its count, from low to high, likewise.
- *Volumes*: the intercept of volume v is a (1 + u_v), u_v of mean 0 and variance r^2, so the slope's variance is
  r^2 x sum over volumes of (a x slope's change by a ms of v's latency)^2. How far volumes lie off the line
  estimates r^2 with d = volumes - 1 - slopes degrees of freedom, of two volumes with none. So r^2 is moderated by
  a prior s^2 with n degrees of freedom (Smyth 2004): (n s^2 + d x estimate) / (n + d), with the larger of n and d
  as its freedom, since volumes may differ by more than those that the prior is from.

Student's t has the degrees of freedom of Welch and Satterthwaite over all four. Awaits come with noise, too
(errors in variables), but a volume's mean over its cells has little of it: volumes are groups, as in Wald's
estimator (1940). Where awaits of volumes hardly differ, the fourth part is large, since it is divided by their
difference.

a is taken at the lower end of the interval, where it is largest, and is never more than the fastest volume's
latency: no slope is below 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from volbench.results.response.least_squares import Fit, effects, fit
from volbench.results.response.left_out import Floats, Ints, less_means
from volbench.results.response.model import Interval
from volbench.results.response.samples import Rows, WaitCount
from volbench.results.stats.student_t import t_quantile

DIFFERENCE_PRIOR = 0.15
"""Deviation s of what no wait explains, from volume to volume, as a share of it. With the freedom below, two
volumes differ in it by up to 0.6 of it in 95 of 100."""
DIFFERENCE_PRIOR_NO_CPU = 0.3
"""The same where nobody counted the tasks' CPU time, which is what differs most."""
PRIOR_FREEDOM = 4.0
"""Degrees of freedom n of the prior: few, since volumes may be unlike those that it was checked on."""
FREEDOM_MAX = 500.0
"""From here on Student's t is a normal distribution to three digits."""
INTERCEPT_MIN = 0.1
"""Of the fastest volume's latency: what waits leave at least, however steep the line."""


@dataclass(frozen=True, kw_only=True)
class _Case:
    """Rows, with what is estimated and what is held.

    Args:
        free, counted: numbers of terms.
        ranges: from the lowest to the highest count of each held term.
        waited_ms: of the held terms, shape (n,).
        volume: number of each row's volume, from 0.
    """

    rows: Rows
    free: list[int]
    counted: list[int]
    ranges: Floats
    groups: Ints
    waited_ms: Floats
    volume: Ints

    @property
    def has_cpu(self) -> bool:
        return bool(np.isfinite(self.rows.cpu_ms).all())

    @property
    def volumes(self) -> int:
        return int(self.volume.max()) + 1

    @property
    def latency_ms(self) -> Floats:
        """Latency less what is known of it, held waits and half of the tasks' CPU time, shape (n,)."""
        known_ms = self.waited_ms + self.rows.cpu_ms / 2 if self.has_cpu else self.waited_ms
        return np.asarray(self.rows.latency_ms - known_ms, dtype=np.float64)

    def changes(self, columns: Floats) -> Floats:
        """Return by how much columns of shape (n, m), added to the latency, change the slopes, shape (k, m)."""
        return effects(
            columns,
            self.rows.awaits_ms[:, self.free],
            self.rows.smoothed_ms[:, self.free],
            weights=self.rows.weights,
            groups=self.groups,
        )


def between_intervals(
    rows: Rows, free: Sequence[str], counted: Mapping[str, WaitCount], groups: Ints, confidence: float
) -> list[Interval] | None:
    """Return the slope of each free term; None where the rows do not determine it.

    Args:
        rows: of cells on any volumes.
        free: terms whose slopes are wanted.
        counted: terms that stand at their counts.
        groups: rows of one number share an intercept but for what volumes differ in, shape (n,).
        confidence: of the intervals, such as 0.95.
    """
    counts = np.asarray([(count.low, count.high) for count in counted.values()], dtype=np.float64).reshape(-1, 2)
    held_numbers = [rows.terms.index(term) for term in counted]
    case = _Case(
        rows=rows,
        free=[rows.terms.index(term) for term in free],
        counted=held_numbers,
        ranges=counts[:, 1] - counts[:, 0],
        groups=groups,
        waited_ms=np.asarray(rows.awaits_ms[:, held_numbers] @ counts.mean(axis=1), dtype=np.float64),
        volume=np.unique(rows.volume, return_inverse=True)[1],
    )
    fitted = fit(
        case.latency_ms,
        rows.awaits_ms[:, case.free],
        weights=rows.weights,
        groups=groups,
        clusters=rows.cell,
        instruments=rows.smoothed_ms[:, case.free],
    )
    if fitted is None:
        return None
    reach = np.zeros(len(free))
    for _ in range(2):  # the second time with the intercept at the interval's lower end
        reach = _reach(case, fitted, _intercepts_ms(case, fitted.slopes - reach), confidence)
    return [
        Interval(value=float(value), low=float(value - half), high=float(value + half))
        for value, half in zip(fitted.slopes, reach, strict=True)
    ]


def _reach(case: _Case, fitted: Fit, intercept_ms: Floats, confidence: float) -> Floats:
    """Return half the width of each slope's interval, shape (k,); the intercept is of each row, shape (n,)."""
    rows = case.rows
    held_changes = case.changes(rows.awaits_ms[:, case.counted] * case.ranges)
    cpu_changes = case.changes(rows.cpu_ms[:, None]) if case.has_cpu else np.zeros((len(case.free), 1))
    ranges = np.square(held_changes).sum(axis=1) + np.square(cpu_changes).sum(axis=1)
    variances = [(np.diag(fitted.covariance), float(fitted.freedom)), (ranges / 12, math.inf)]
    if case.volumes > 1:
        of_volumes = np.eye(case.volumes)[case.volume] * intercept_ms[:, None]
        changes = case.changes(of_volumes)
        difference, freedom = _difference(case, fitted.slopes, of_volumes, changes)
        variances.append((difference * np.square(changes).sum(axis=1), freedom))
    variance = np.sum([variance_part for variance_part, _ in variances], axis=0)
    inverse_freedom = np.sum([np.square(variance_part) / freedom for variance_part, freedom in variances], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom_of_all = np.where(inverse_freedom > 0, np.square(variance) / inverse_freedom, FREEDOM_MAX)
    times = [
        t_quantile((1 + confidence) / 2, float(freedom)) for freedom in np.clip(freedom_of_all, 1.0, FREEDOM_MAX)
    ]
    return np.asarray(times * np.sqrt(variance), dtype=np.float64)


def _intercepts_ms(case: _Case, slopes: Floats) -> Floats:
    """Return for each row what no wait explains in its group, shape (n,), within what the fastest volume takes."""
    rows = case.rows
    left_ms = rows.latency_ms - case.waited_ms - rows.awaits_ms[:, case.free] @ slopes
    intercept_ms = np.empty(len(rows))
    for group in np.unique(case.groups):
        of_group = case.groups == group
        fastest_ms = min(
            float(np.average(rows.latency_ms[of_both], weights=rows.weights[of_both]))
            for of_both in (of_group & (case.volume == number) for number in np.unique(case.volume[of_group]))
        )
        mean_ms = float(np.average(left_ms[of_group], weights=rows.weights[of_group]))
        intercept_ms[of_group] = np.clip(mean_ms, INTERCEPT_MIN * fastest_ms, fastest_ms)
    return intercept_ms


def _difference(case: _Case, slopes: Floats, of_volumes: Floats, changes: Floats) -> tuple[float, float]:
    """Return the moderated variance of what volumes differ in, as a share of the intercept, and its freedom.

    How far volumes lie off the line is a projection of what they differ in: its expected sum of squares is the
    variance times the sum of the projection's squares.
    """
    rows = case.rows
    prior = DIFFERENCE_PRIOR if case.has_cpu else DIFFERENCE_PRIOR_NO_CPU
    freedom = case.volumes - 1 - len(case.free)
    if freedom < 1:
        return prior**2, PRIOR_FREEDOM
    weights = rows.weights
    _, group = np.unique(case.groups, return_inverse=True)
    awaits_ms = rows.awaits_ms[:, case.free]
    off_line = np.column_stack([of_volumes - awaits_ms @ changes, case.latency_ms - awaits_ms @ slopes])
    relative = less_means(off_line, weights, group) / of_volumes.sum(axis=1, keepdims=True)
    sums = np.column_stack([np.bincount(case.volume, weights * column) for column in relative.T])
    by_volume = sums / np.bincount(case.volume, weights)[:, None]
    projected, measured = float(np.square(by_volume[:, :-1]).sum()), float(np.square(by_volume[:, -1]).sum())
    squares = freedom * measured / projected if projected > 0 else 0.0
    moderated = (PRIOR_FREEDOM * prior**2 + squares) / (PRIOR_FREEDOM + freedom)
    return moderated, max(PRIOR_FREEDOM, float(freedom))
