"""Effects as tables: one for each metric of a step on a volume, with an axis that its rows share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from volbench.core.records.report import EffectRow, SweepRow
from volbench.results.report.views.geometry import RatioAxis, ratio_axis


@dataclass(frozen=True, kw_only=True)
class EffectTable:
    """Rows of one metric; `base_value` where all rows are compared with the same cells."""

    rows: tuple[EffectRow, ...]
    axis: RatioAxis
    base_value: float | None

    @property
    def primary(self) -> bool:
        """Whether the metric is one that makes the verdict."""
        return self.rows[0].primary


def effects_note(sweep: SweepRow) -> str:
    """Return what a change and a verdict of the tables are of."""
    if sweep.design == "one_factor":
        estimator = (
            "One factor at a time. A result is the median of its cells; a change is that of the geometric means,"
            " and not the ratio of the medians."
        )
        return f"{estimator} Verdicts are corrected for the number of rows of a table (Holm)."
    return (
        "Ratios to the base, averaged over all other factors, by a linear model of logarithms with blocks. Verdicts"
        " are corrected for the number of rows of a table (Holm). Of two factors: by how much the first one's ratio"
        " changes when the second is at its level."
    )


def effect_tables(effects: Iterable[EffectRow]) -> list[EffectTable]:
    """Return the tables in the order of their first rows."""
    groups: dict[tuple[str, str, str, str], list[EffectRow]] = {}
    for effect in effects:
        key = (effect.volume, effect.step, str(effect.parameters), effect.metric)
        groups.setdefault(key, []).append(effect)
    return [_table(rows) for rows in groups.values()]


def _table(rows: list[EffectRow]) -> EffectTable:
    bases = {row.base_value for row in rows}
    return EffectTable(rows=tuple(rows), axis=ratio_axis(rows), base_value=bases.pop() if len(bases) == 1 else None)
