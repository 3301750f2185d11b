"""The headline of a sweep: the factor that changes the leading metric most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from volbench.core.base.text import upper_first
from volbench.core.records.report import CellRow, EffectRow, FindingRow
from volbench.results.report.rows.verdict.clauses import REPEAT, Headline, figure_record, size_words
from volbench.results.report.rows.verdict.reason import Cause, cause_of, is_step
from volbench.results.report.rows.verdict.subject import size_of
from volbench.results.report.wording import label, level_cells, load_text


def leading_effect(effects: Sequence[EffectRow], about: Sequence[str] = ()) -> EffectRow | None:
    """Return the effect that a sweep's headline is of: the largest one of a primary metric, a decided one first."""
    effects = [effect for effect in effects if any(is_step(effect.step, step) for step in about)] or effects
    measured = [effect for effect in effects if effect.primary and effect.ratio]
    measured = measured or [effect for effect in effects if effect.ratio]
    decided = [effect for effect in measured if effect.verdict in ("better", "worse")]
    return max(decided or measured, key=size_of, default=None)


def headline_of_sweep(
    effects: Sequence[EffectRow], about: Sequence[str], cells: Sequence[CellRow], findings: Sequence[FindingRow]
) -> Headline:
    """Return which factor changes the leading metric most, whether that is decided, and what the base waits for."""
    largest = leading_effect(effects, about)
    if largest is None:
        first = next((effect for effect in effects if effect.primary), effects[0])
        return Headline(size=f"No factor has an effect that can be stated on {label(first.metric)}")
    subject = (largest.step, load_text(largest.parameters), largest.metric)
    return replace(_of_effect(largest, cells, findings), figure=figure_record(subject))


def _of_effect(largest: EffectRow, cells: Sequence[CellRow], findings: Sequence[FindingRow]) -> Headline:
    factors = " and ".join(
        f"{name.rpartition('.')[2]} from {base} to {level}"
        for name, base, level in zip(largest.factors, largest.bases, largest.levels, strict=True)
    )
    figure = f"{label(largest.metric)} {size_words(largest)} in step {largest.step} on {largest.volume}"
    is_base_slower = largest.ratio is not None and (largest.ratio > 1) == (largest.better == "higher")
    cause = cause_of(largest.step, largest.volume, "", findings, cells) if is_base_slower else Cause()
    decided = f"decided by {level_cells(largest)}"
    if largest.verdict in ("better", "worse"):
        size = f"{factors} matters most: {figure}, {largest.verdict}"
        return Headline(size=size, cause=cause.clause, decided=decided, notes=cause.notes)
    if largest.ci is None:
        size = f"{upper_first(level_cells(largest))}, not decided: {factors} seems to matter most, {figure}"
        return Headline(size=size, cause=cause.clause, next_step=REPEAT, notes=cause.notes)
    return Headline(
        size=f"No factor is shown to matter, the largest difference is {factors}: {figure}", decided="not decided"
    )
