"""A sweep's effects as rows of report.json, and which factors matter, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from volbench.core.plan.designs import combinations_of
from volbench.core.records.metrics import PRIMARY_METRICS
from volbench.core.records.report import CellRow, EffectRow, FindingRow, SweepRow
from volbench.core.records.run import RunRecord
from volbench.results.compare.effects import CellValue, FactorEffect, effects_of
from volbench.results.report.rows.cells import as_declared
from volbench.results.report.rows.effects_text import describe_effects
from volbench.results.report.rows.verdict.settings import leading_effect

_Key = tuple[str, str, int, str]


def effect_rows(run: RunRecord, cells: Sequence[CellRow]) -> tuple[EffectRow, ...]:
    """Return all effects of a sweep, for each declared volume, step and metric with a direction."""
    sweep, spec = run.suite.sweep, run.suite.comparison
    if sweep is None:
        return ()
    combination = {cell.cell_id: cell.parameters for cell in run.cells}
    rows: list[EffectRow] = []
    for (volume, step, _, metric), group in _grouped(as_declared(run, cells)).items():
        first = group[0].metrics[metric]
        observations = [
            CellValue(combination=combination[c.cell_id], block=c.block, value=c.metrics[metric].value)
            for c in group
            if c.valid
        ]
        primary = PRIMARY_METRICS.get(group[0].kind, ()) if spec.metrics is None else spec.metrics
        effects = effects_of(
            sweep, observations, better=first.better, margin=spec.margin, alpha=1 - spec.confidence
        )
        rows += [
            _row(
                effect,
                volume=volume,
                step=step,
                parameters=_common(group),
                metric=metric,
                unit=first.unit,
                better=first.better,
                primary=metric in primary,
                margin=spec.margin,
                confidence=spec.confidence,
            )
            for effect in effects
        ]
    return tuple(rows)


def sweep_row(run: RunRecord, effects: Sequence[EffectRow], findings: Sequence[FindingRow]) -> SweepRow | None:
    """Return the factors of the sweep and their effects in words; None for a run without a sweep."""
    sweep = run.suite.sweep
    if sweep is None:
        return None
    leading = leading_effect(effects, run.suite.comparison.about)
    base = {name: factor.base for name, factor in sweep.factors.items()}
    base_cells = {cell.cell_id for cell in run.cells if cell.parameters == base}
    return SweepRow(
        design=sweep.design,
        factors=sweep.factors,
        combinations=len(combinations_of(sweep)),
        conclusions=tuple(
            describe_effects(sweep, effects, [f for f in findings if base_cells & set(f.cell_ids)], leading=leading)
        ),
    )


def _grouped(cells: Iterable[CellRow]) -> dict[_Key, list[CellRow]]:
    """Return rows of one metric by declared volume and step; several rows of a step in a cell by their order."""
    groups: dict[_Key, list[CellRow]] = {}
    positions: dict[tuple[str, str], int] = {}
    for cell in cells:
        position = positions[cell.cell_id, cell.step] = positions.get((cell.cell_id, cell.step), -1) + 1
        for name, metric in cell.metrics.items():
            if metric.better != "none":
                groups.setdefault((cell.volume, cell.step, position, name), []).append(cell)
    return groups


def _common(cells: Sequence[CellRow]) -> dict[str, bool | int | float | str]:
    first = cells[0].parameters
    return {n: v for n, v in first.items() if all(cell.parameters.get(n) == v for cell in cells)}


def _row(effect: FactorEffect, **context: object) -> EffectRow:
    return EffectRow.model_validate(
        {
            **context,
            "factors": effect.term,
            "levels": effect.levels,
            "bases": effect.bases,
            **{name: getattr(effect, name) for name in _SAME},
        }
    )


_SAME = (
    "base_value",
    "value",
    "ratio",
    "ci",
    "p_value",
    "p_adjusted",
    "verdict",
    "reason",
    "runs",
    "runs_needed",
)
