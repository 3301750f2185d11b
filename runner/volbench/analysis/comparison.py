"""Comparisons of volumes, one for each step, parameters, metric and candidate; and what they say together.

The first named volume is the baseline, every other one a candidate. Holm's correction is over one *family*: the
primary metrics of one step with one set of parameters and one pair of volumes; the other metrics of that pair are a
family of their own. So a third volume, or a longer list of side metrics, never takes a verdict away: the smallest
p of 5 against 5 runs is 2/252, which passes Holm over up to six metrics (4 against 4: 2/70, one metric). The
price is that the error of 5 % is per family: `PairSummary.p_value` corrects over the families of a pair.

The test is for two independent groups. Blocks (repeats interleaved over volumes) balance drift; pairing by
block is not used, since at 5 blocks the smallest p of the signed-rank test is 0.0625.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from volbench.analysis.statistics import (
    RUNS_MIN,
    Better,
    Shift,
    Verdict,
    holm,
    judge,
    runs_for_level,
    runs_needed,
    shift_of,
)
from volbench.errors import MustNotCompare, RunUnreadable

Scalar = bool | int | float | str
PairVerdict = Literal["candidate_better", "candidate_worse", "equivalent", "mixed", "inconclusive"]
OverallVerdict = PairVerdict | Literal["single_volume"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One metric of one step of one cell. `cell` is unique over everything compared; a missing value is None."""

    step: str
    parameters: Mapping[str, Scalar]
    metric: str
    unit: str
    better: Better
    volume: str
    cell: str
    value: float | None
    valid: bool = True
    primary: bool = True


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Candidate against baseline: the keys of a report's comparison. `ratio` is candidate / baseline.

    `ci` is the interval of the ratio at `confidence`; None when the runs do not bound it on both sides.
    `baseline_value` and `candidate_value` are medians of the values compared. `left_out` counts rows on either
    side that are invalid or without a value. `p_value` is uncorrected, `p_adjusted` corrected over the family.
    """

    step: str
    parameters: Mapping[str, Scalar]
    metric: str
    unit: str
    better: Better
    baseline: str
    candidate: str
    ratio: float | None
    ci: tuple[float, float] | None
    p_value: float | None
    p_adjusted: float | None
    verdict: Verdict
    reason: str
    runs: tuple[int, int]
    left_out: tuple[int, int]
    runs_needed: int | None
    margin: float
    confidence: float
    baseline_value: float | None
    candidate_value: float | None
    primary: bool


@dataclass(frozen=True, kw_only=True)
class PairSummary:
    """What the comparisons of one candidate with the baseline say together.

    Only primary metrics count, when there are any. One metric better and none worse is `candidate_better`; some
    of each is `mixed`; all equivalent is `equivalent`; anything else is `inconclusive`. `p_value` is the chance of
    seeing at least one p as small in any family if the volumes were alike (Bonferroni over families).
    `low_power` says that something is open that these few runs could not have decided, whatever their values;
    `runs_needed` is the largest number that an open comparison needs.
    """

    baseline: str
    candidate: str
    verdict: PairVerdict
    better: tuple[Comparison, ...]
    worse: tuple[Comparison, ...]
    equivalent: tuple[Comparison, ...]
    inconclusive: tuple[Comparison, ...]
    families: int
    p_value: float | None
    low_power: bool
    runs_needed: int | None

    @property
    def winner(self) -> str | None:
        """The volume that is better, when one is."""
        return {"candidate_better": self.candidate, "candidate_worse": self.baseline}.get(self.verdict)


@dataclass(frozen=True, kw_only=True)
class _Side:
    """One volume's values of one metric, and how many rows gave none."""

    values: tuple[float, ...]
    left_out: int


@dataclass(frozen=True, kw_only=True)
class _Prepared:
    """A comparison before the correction over its family; `shift` is None when values have no ratio."""

    row: Row
    candidate: str
    sides: tuple[_Side, _Side]
    shift: Shift | None
    why_no_shift: str = ""


_GroupKey = tuple[str, tuple[tuple[str, Scalar], ...]]


def compare(
    rows: Iterable[Row], volumes: Sequence[str], *, margin: float = 0.05, alpha: float = 0.05
) -> list[Comparison]:
    """All comparisons of `volumes[1:]` with `volumes[0]`, in the order in which steps and metrics first appear.

    Invalid rows and rows without a value are left out and counted. A metric with a value that is zero or
    negative has no ratio: it is inconclusive with that reason. Rows of volumes that are not named are not used.

    Args:
        rows: one value of each (cell, step, parameters, metric).
        volumes: names, the baseline first.
        margin: the smallest change that matters, as a fraction.
        alpha: the family-wise error; the confidence is 1 - alpha.

    Raises RunUnreadable when a cell gives a value twice, MustNotCompare when a metric's unit or direction varies.
    """
    table = _table(rows, volumes)
    comparisons: list[Comparison] = []
    for group in table.values():
        for candidate in volumes[1:]:
            pairs = [_prepare(sides, volumes[0], candidate, alpha) for sides in group.values()]
            primary, secondary = ([p for p in pairs if p.row.primary is kind] for kind in (True, False))
            judged = [
                *_judge_family(primary, volumes[0], margin, alpha),
                *_judge_family(secondary, volumes[0], margin, alpha),
            ]
            comparisons += sorted(judged, key=lambda c: list(group).index(c.metric))
    return comparisons


def summarise(comparisons: Iterable[Comparison]) -> list[PairSummary]:
    """One summary for each pair of volumes, in order of appearance."""
    pairs: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        pairs.setdefault((comparison.baseline, comparison.candidate), []).append(comparison)
    return [_summarise_pair(*pair, found) for pair, found in pairs.items()]


def overall(pairs: Sequence[PairSummary]) -> OverallVerdict:
    """The verdict of all pairs: the one they share, else `mixed`; `single_volume` when there is no pair."""
    verdicts = {pair.verdict for pair in pairs}
    if not verdicts:
        return "single_volume"
    return verdicts.pop() if len(verdicts) == 1 else "mixed"


def _table(rows: Iterable[Row], volumes: Sequence[str]) -> dict[_GroupKey, dict[str, dict[str, list[Row]]]]:
    """Rows by (step, parameters), then metric, then volume."""
    table: dict[_GroupKey, dict[str, dict[str, list[Row]]]] = {}
    seen: dict[tuple[_GroupKey, str], Row] = {}
    cells: set[tuple[_GroupKey, str, str]] = set()
    for row in rows:
        if row.volume not in volumes:
            continue
        key = _group_key(row)
        first = seen.setdefault((key, row.metric), row)
        if (first.unit, first.better) != (row.unit, row.better):
            raise MustNotCompare(
                f"{row.metric} is in {first.unit} ({first.better} is better) and in {row.unit} ({row.better})",
                where=f"step {row.step}, cell {row.cell}",
                next_step="compare runs that the same version of volbench made",
            )
        if (key, row.metric, row.cell) in cells:
            raise RunUnreadable(
                f"cell {row.cell} gives {row.metric} twice: one cell is one value",
                where=f"step {row.step}",
                next_step="name each run once",
            )
        cells.add((key, row.metric, row.cell))
        table.setdefault(key, {}).setdefault(row.metric, {}).setdefault(row.volume, []).append(row)
    return table


def _prepare(by_volume: Mapping[str, list[Row]], baseline: str, candidate: str, alpha: float) -> _Prepared:
    first = next(rows[0] for rows in by_volume.values())
    sides = (_side(by_volume.get(baseline, [])), _side(by_volume.get(candidate, [])))
    why = ""
    for name, side in zip((baseline, candidate), sides, strict=True):
        if not side.values:
            why = why or f"no valid value of {name}"
        elif min(side.values) <= 0:
            why = why or f"{name} has values that are zero or negative: there is no ratio"
    shift = None if why else shift_of(sides[0].values, sides[1].values, alpha=alpha)
    return _Prepared(row=first, candidate=candidate, sides=sides, shift=shift, why_no_shift=why)


def _side(rows: Sequence[Row]) -> _Side:
    values = tuple(r.value for r in rows if r.valid and r.value is not None and math.isfinite(r.value))
    return _Side(values=values, left_out=len(rows) - len(values))


def _judge_family(family: Sequence[_Prepared], baseline: str, margin: float, alpha: float) -> list[Comparison]:
    """Comparisons of one family; those below the fewest runs decide nothing and do not weigh on the others."""
    shifts = {p.row.metric: p.shift for p in family if p.shift is not None}
    tested = {metric: s.p_value for metric, s in shifts.items() if min(s.runs) >= RUNS_MIN}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    comparisons = []
    for prepared in family:
        comparison = _undecided(prepared, baseline, margin, alpha)
        if prepared.shift is not None:
            comparison = _decide(comparison, prepared.shift, adjusted.get(prepared.row.metric))
            needed = _still_needed(comparison, prepared.sides, alpha, family=len(shifts))
            comparison = replace(comparison, runs_needed=needed)
        comparisons.append(comparison)
    return comparisons


def _undecided(prepared: _Prepared, baseline: str, margin: float, alpha: float) -> Comparison:
    row, (n, m) = prepared.row, prepared.sides
    return Comparison(
        step=row.step,
        parameters=dict(row.parameters),
        metric=row.metric,
        unit=row.unit,
        better=row.better,
        baseline=baseline,
        candidate=prepared.candidate,
        ratio=None,
        ci=None,
        p_value=None,
        p_adjusted=None,
        verdict="inconclusive",
        reason=prepared.why_no_shift,
        runs=(len(n.values), len(m.values)),
        left_out=(n.left_out, m.left_out),
        runs_needed=None,
        margin=margin,
        confidence=round(1 - alpha, 12),
        baseline_value=median(n.values) if n.values else None,
        candidate_value=median(m.values) if m.values else None,
        primary=row.primary,
    )


def _decide(comparison: Comparison, shift: Shift, p_adjusted: float | None) -> Comparison:
    judgement = judge(
        shift,
        better=comparison.better,
        margin=comparison.margin,
        p_adjusted=1.0 if p_adjusted is None else p_adjusted,
    )
    return replace(
        comparison,
        ratio=shift.ratio,
        ci=None if shift.low is None or shift.high is None else (shift.low, shift.high),
        p_value=shift.p_value,
        p_adjusted=p_adjusted,
        verdict=judgement.verdict,
        reason=judgement.reason,
    )


def _still_needed(comparison: Comparison, sides: tuple[_Side, _Side], alpha: float, *, family: int) -> int | None:
    """Runs a side for a verdict: more than there are, or None when decided or when more would not help."""
    if comparison.verdict != "inconclusive" or comparison.better == "none":
        return None
    needed = runs_needed(sides[0].values, sides[1].values, alpha=alpha, margin=comparison.margin, family=family)
    return None if needed is None else max(needed, min(comparison.runs) + 1)


def _summarise_pair(baseline: str, candidate: str, found: Sequence[Comparison]) -> PairSummary:
    counted = [c for c in found if c.primary] or list(found)
    by_verdict: dict[Verdict, tuple[Comparison, ...]] = {
        verdict: tuple(c for c in counted if c.verdict == verdict)
        for verdict in ("better", "worse", "equivalent", "inconclusive")
    }
    families: dict[_GroupKey, list[float]] = {}
    for c in counted:
        if c.p_adjusted is not None:
            families.setdefault(_group_key(c), []).append(c.p_adjusted)
    smallest = [min(p_values) for p_values in families.values()]
    needed = [c.runs_needed for c in by_verdict["inconclusive"] if c.runs_needed is not None]
    return PairSummary(
        baseline=baseline,
        candidate=candidate,
        verdict=_pair_verdict(by_verdict),
        better=by_verdict["better"],
        worse=by_verdict["worse"],
        equivalent=by_verdict["equivalent"],
        inconclusive=by_verdict["inconclusive"],
        families=len(families),
        p_value=min(1.0, len(families) * min(smallest)) if smallest else None,
        low_power=any(
            min(c.runs) < runs_for_level(alpha=1 - c.confidence, family=len(families.get(_group_key(c), (0,))))
            for c in by_verdict["inconclusive"]
        ),
        runs_needed=max(needed, default=None),
    )


def _pair_verdict(by_verdict: Mapping[Verdict, Sequence[Comparison]]) -> PairVerdict:
    if by_verdict["better"] and by_verdict["worse"]:
        return "mixed"
    if by_verdict["better"]:
        return "candidate_better"
    if by_verdict["worse"]:
        return "candidate_worse"
    return "equivalent" if by_verdict["equivalent"] and not by_verdict["inconclusive"] else "inconclusive"


def _group_key(of: Row | Comparison) -> _GroupKey:
    return of.step, tuple(sorted(of.parameters.items()))
