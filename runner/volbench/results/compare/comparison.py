"""Comparisons of volumes, one for each step, parameters, metric and candidate.

The first named volume is the baseline, every other one a candidate. A correction is over one *family*: the
primary metrics of one step with one set of parameters and one pair of volumes; the other metrics of that pair are
a family of their own. So a third volume, or a longer list of side metrics, never takes a verdict away. Primary
metrics are tested in their order by the fallback procedure: the first has 60 % of alpha, the others share the rest,
and each that decides hands its part on. Side metrics have Holm's correction. The error of 5 % is per
family: `comparison_summary` corrects over the families of a pair.

The test is that of `results/stats/means.py`, which uses that the cells of a block are neighbours in time. With
`sequential` the level of each comparison is that of a look at so many cells (`results/stats/sequential.py`), and
the primary metrics are a fixed sequence: all of the level is the first one's.

A *disturbed* row is invalid, but its value is known within bounds (`results/compare/disturbance.py`). A comparison
with such rows looks twice. First at all of its rows, and asks whether a verdict holds for every choice inside the
bounds; if it does, that is the verdict, and no cell is thrown away. Else the disturbed rows are left out, as other
invalid ones are. The first look errs less often than a test of the undisturbed values would, since it takes the
worst of them, and the second is that test with fewer cells; `tests/benchmarks/disturbed_verdicts.py` counts what
both err together.

Nodes are blocks: where both volumes have cells on several nodes, cells are compared within each node, and the nodes
are combined in one test (`results/stats/ranks`). Cells on a node that only one of the two volumes used are left
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from volbench.core.records.report import Standing
from volbench.errors import IncomparableRuns, RunUnreadable
from volbench.results.compare.prepared import LATE_MAY_EXPLAIN, Prepared, figure_of_rows, prepare
from volbench.results.compare.row import Row, Scalar
from volbench.results.stats.corrections import fallback, holm
from volbench.results.stats.covariates import Adjustment
from volbench.results.stats.means import block_pairs
from volbench.results.stats.sample_size import runs_needed
from volbench.results.stats.sequential import CELLS_MIN, ErrorLevel
from volbench.results.stats.statistics import (
    Better,
    Shift,
    Verdict,
    judge,
)

CHANGED_TOGETHER = "node and volume changed together"
"""The beginning of the reason of a comparison that has no verdict, since a difference may be that of the nodes."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Candidate against baseline: the keys of a report's comparison. `ratio` is candidate / baseline.

    `ci` is the interval of the ratio at `confidence`; None when the runs do not bound it on both sides. `plain_ci`
    is then that of disturbed cells as they ran, which no verdict rests on.
    `baseline_value` and `candidate_value` are the volumes' figures (`figures`), of cells of these `standings`.
    `excluded_runs` counts rows on either side that are invalid or without a value. `within_bounds` counts disturbed
    rows that were used on either side: `ci` and `p_value` are then of the worst choice inside their bounds.
    `p_value` is uncorrected, `p_adjusted` corrected over the family. `nodes`: within how many the cells were
    compared. `adjustments`: for which other work; `not_adjusted`: why for none, where it varied.
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
    excluded_runs: tuple[int, int]
    within_bounds: tuple[int, int]
    runs_needed: int | None
    margin: float
    confidence: float
    baseline_value: float | None
    candidate_value: float | None
    standings: tuple[Standing | None, Standing | None]
    primary: bool
    nodes: int = 1
    adjustments: tuple[Adjustment, ...] = ()
    not_adjusted: str = ""
    plain_ci: tuple[float, float] | None = None


GroupKey = tuple[str, tuple[tuple[str, Scalar], ...]]


def compare(
    rows: Iterable[Row],
    volumes: Sequence[str],
    *,
    margin: float = 0.05,
    alpha: float = 0.05,
    sequential: bool = False,
) -> list[Comparison]:
    """Return all comparisons of `volumes[1:]` with `volumes[0]`, in the order of steps and metrics.

    Invalid rows and rows without a value are left out and counted. A metric with a value that is zero or
    negative has no ratio: it is inconclusive with that reason. Rows of volumes that are not named are not used.

    Args:
        rows: one value of each (cell, step, parameters, metric).
        volumes: names, the baseline first.
        margin: the smallest change that matters, as a fraction.
        alpha: the family-wise error; the confidence is 1 - alpha.
        sequential: the rows are those of a look at a run that goes on until it is decided; `alpha` is not used.

    Raises RunUnreadable when a cell gives a value twice, IncomparableRuns when a metric's unit or direction varies.
    """
    table, level = _table(rows, volumes), ErrorLevel(alpha=alpha, sequential=sequential)
    comparisons: list[Comparison] = []
    for group in table.values():
        for candidate in volumes[1:]:
            of_pair = _of_common_blocks(group, (volumes[0], candidate)) if sequential else group
            judged = _judge_group(of_pair, volumes[0], candidate, margin, level, disturbed=False)
            if _any_disturbed(of_pair, (volumes[0], candidate)):
                bounded = _judge_group(of_pair, volumes[0], candidate, margin, level, disturbed=True)
                judged = [_of_two_looks(*looks) for looks in zip(bounded, judged, strict=True)]
            comparisons += judged if of_pair is group else _with_figures_of(group, judged)
    return comparisons


def _of_common_blocks(
    group: Mapping[str, Mapping[str, list[Row]]], volumes: tuple[str, str]
) -> Mapping[str, Mapping[str, list[Row]]]:
    """Return the rows of two volumes without those of blocks after the last one that both have.

    A volume that is decided gets no further cells, and the first one goes on with the others. What it measures
    then is no part of the decided pair, or each block would be another look at it.
    """
    first_blocks, second_blocks = (
        {row.block for sides in group.values() for row in sides.get(volume, []) if row.block is not None}
        for volume in volumes
    )
    if not first_blocks & second_blocks or max(first_blocks) == max(second_blocks):
        return group
    end = min(max(first_blocks), max(second_blocks))
    return {
        metric: {
            volume: [row for row in rows if row.block is None or row.block <= end or volume not in volumes]
            for volume, rows in sides.items()
        }
        for metric, sides in group.items()
    }


def _with_figures_of(
    group: Mapping[str, Mapping[str, list[Row]]], comparisons: Sequence[Comparison]
) -> list[Comparison]:
    """Return the comparisons with the figures of all rows of their volumes: a volume has one figure in a report."""
    figures = [
        [figure_of_rows(group[c.metric].get(volume, [])) for volume in (c.baseline, c.candidate)]
        for c in comparisons
    ]
    return [
        replace(c, standings=(of_x[0], of_y[0]), baseline_value=of_x[1], candidate_value=of_y[1])
        for c, (of_x, of_y) in zip(comparisons, figures, strict=True)
    ]


def _judge_group(
    group: Mapping[str, Mapping[str, list[Row]]],
    baseline: str,
    candidate: str,
    margin: float,
    level: ErrorLevel,
    *,
    disturbed: bool,
) -> list[Comparison]:
    """Return all metrics of a group, in its order; with the disturbed rows or without them."""
    pairs = [prepare(sides, baseline, candidate, level, disturbed=disturbed) for sides in group.values()]
    primary, secondary = ([p for p in pairs if p.row.primary is kind] for kind in (True, False))
    judged = [
        *_judge_family(sorted(primary, key=lambda p: p.row.rank), baseline, margin, level),
        *_judge_family(secondary, baseline, margin, level),
    ]
    return sorted(judged, key=lambda c: list(group).index(c.metric))


def _any_disturbed(group: Mapping[str, Mapping[str, list[Row]]], volumes: Sequence[str]) -> bool:
    return any(
        not row.valid and row.bounds is not None
        for sides in group.values()
        for volume in volumes
        for row in sides.get(volume, [])
    )


def _of_two_looks(bounded: Comparison, undisturbed: Comparison) -> Comparison:
    """Return the comparison with the disturbed rows where its verdict holds within their bounds, else without them.

    Where too few rows are left without them, the one with all shows more, and says what is open.
    """
    used = sum(bounded.within_bounds)
    if not used:
        return undisturbed
    cells = f"{used} disturbed cells" if used > 1 else "one disturbed cell"
    if bounded.verdict != "inconclusive":
        return replace(
            bounded, reason=f"{bounded.reason}, whatever the disturbance of {cells} did within its bounds"
        )
    if min(undisturbed.runs) >= CELLS_MIN:
        return undisturbed
    if bounded.ratio is not None and min(bounded.runs) >= CELLS_MIN:
        return replace(
            bounded,
            reason=f"the disturbance of {cells} could change the verdict: run again without it",
            runs_needed=None,
        )
    return undisturbed


def _table(rows: Iterable[Row], volumes: Sequence[str]) -> dict[GroupKey, dict[str, dict[str, list[Row]]]]:
    """Return rows by (step, parameters), then metric, then volume."""
    table: dict[GroupKey, dict[str, dict[str, list[Row]]]] = {}
    first_rows: dict[tuple[GroupKey, str], Row] = {}
    cells: set[tuple[GroupKey, str, str]] = set()
    for row in rows:
        if row.volume not in volumes:
            continue
        key = group_key(row)
        first = first_rows.setdefault((key, row.metric), row)
        if (first.unit, first.better) != (row.unit, row.better):
            raise IncomparableRuns(
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


def _judge_family(family: Sequence[Prepared], baseline: str, margin: float, level: ErrorLevel) -> list[Comparison]:
    """Return comparisons of one family; those below the fewest runs decide nothing and do not weigh on the others.

    One whose shift decides nothing, whatever it is, keeps its place and its level: it depends on the values, and to
    leave it out would be to choose the metric that is tested first by them.
    """
    tested = [p for p in family if p.shift is not None and min(p.shift.runs) >= CELLS_MIN]
    p_values = [1.0 if p.open_reason else p.shift.p_value for p in tested if p.shift is not None]
    weights = level.weights(len(tested)) if all(p.row.primary for p in family) else None
    corrected = holm(p_values) if weights is None else fallback(p_values, weights)
    adjusted = dict(zip((p.row.metric for p in tested), corrected, strict=True))
    weight_of = dict(zip(adjusted, weights or [1 / len(tested)] * len(tested), strict=True)) if tested else {}
    comparisons = []
    for prepared in family:
        comparison = _undecided(prepared, baseline, margin, level)
        if prepared.shift is not None:
            comparison = _decide(comparison, prepared.shift, adjusted.get(prepared.row.metric))
            alpha_share = weight_of.get(prepared.row.metric) or 1.0
            needed = _still_needed(comparison, prepared, weight=alpha_share)
            comparison = replace(comparison, runs_needed=needed)
        if prepared.open_reason:
            late = prepared.open_reason == LATE_MAY_EXPLAIN  # further cells are as late
            comparison = replace(
                comparison,
                verdict="inconclusive",
                reason=prepared.open_reason,
                p_adjusted=None,
                runs_needed=None if late else comparison.runs_needed,
            )
        comparisons.append(comparison)
    return comparisons


def _undecided(prepared: Prepared, baseline: str, margin: float, level: ErrorLevel) -> Comparison:
    row, (n, m) = prepared.row, prepared.sides
    alpha = level.at(min(len(n.values), len(m.values)), nodes=prepared.nodes)
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
        excluded_runs=(n.excluded_runs, m.excluded_runs),
        within_bounds=(n.disturbed, m.disturbed),
        runs_needed=None,
        margin=margin,
        confidence=round(1 - alpha, 12),
        baseline_value=n.figure,
        candidate_value=m.figure,
        standings=(n.standing, m.standing),
        primary=row.primary,
        nodes=prepared.nodes,
        adjustments=prepared.adjustments,
        not_adjusted=prepared.not_adjusted,
        plain_ci=prepared.plain_ci,
    )


def _decide(comparison: Comparison, shift: Shift, p_adjusted: float | None) -> Comparison:
    judgement = judge(
        shift,
        better=comparison.better,
        margin=comparison.margin,
        p_adjusted=1.0 if p_adjusted is None else p_adjusted,
        cells_min=CELLS_MIN,
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


def _still_needed(comparison: Comparison, prepared: Prepared, *, weight: float) -> int | None:
    """Runs a side for a verdict: more than there are, or None when decided or when more would not help.

    None, too, of an adjusted shift where as many cells as there are would decide if none were adjusted: what their
    values say is not what holds them back.
    """
    if comparison.verdict != "inconclusive" or comparison.better == "none":
        return None
    alpha, (baseline, candidate) = 1 - comparison.confidence, prepared.sides
    needed = runs_needed(
        baseline.values,
        candidate.values,
        alpha=alpha,
        margin=comparison.margin,
        weight=weight,
        nodes=prepared.names,
        pairs=() if prepared.names is not None else block_pairs(baseline.blocks, candidate.blocks),
    )
    if needed is None or (prepared.adjustments and needed <= min(comparison.runs)):
        return None
    return max(needed, min(comparison.runs) + 1)


def group_key(of: Row | Comparison) -> GroupKey:
    """Return step and parameters, which a family of comparisons has in common."""
    return of.step, tuple(sorted(of.parameters.items()))
