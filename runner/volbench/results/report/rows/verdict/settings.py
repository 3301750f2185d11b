"""Settings of a sweep in words, and the effects that its headline is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from volbench.core.records.base import Scalar
from volbench.core.records.report import (
    AssociationRow,
    CellRow,
    DurabilityRow,
    EffectRow,
    FindingRow,
    PredictionRow,
    RefutedRow,
    Report,
)
from volbench.results.report.rows.verdict.reason import is_step
from volbench.results.report.rows.verdict.subject import FIO, size_of
from volbench.results.report.wording import joined, load_text, setting_text

BASE = "the base"
OF_VOLUME = "volume."
"""Before the name of a factor that is an option of the volume."""
_Row = TypeVar("_Row", AssociationRow, CellRow, DurabilityRow, FindingRow, PredictionRow, RefutedRow)


def level_text(row: EffectRow) -> str:
    """Return the setting of an effect: `mode=async`."""
    return joined([setting_text(name, level) for name, level in zip(row.factors, row.levels, strict=True)])


def base_text(row: EffectRow) -> str:
    """Return what an effect is against: `mode=sync`."""
    return joined([setting_text(name, base) for name, base in zip(row.factors, row.bases, strict=True)])


def base_of_all(rows: Sequence[EffectRow]) -> str:
    """Return the base of several effects: its value where one factor varies, else `the base`."""
    bases = {base_text(row) for row in rows}
    return bases.pop() if len(bases) == 1 else BASE


def leading_effects(effects: Sequence[EffectRow], about: Sequence[str] = ()) -> list[EffectRow]:
    """Return the effects that a sweep's headline is of: of single factors on one volume, step and metric.

    The metric is the first primary one of its step; at a given rate that is the latency. The step is the first of
    `about` with a figure (itself, else its phases), else the one with the largest effect: of the server before
    fio's, a decided one first, of a step before its phases.
    """
    single = [effect for effect in effects if len(effect.factors) == 1]
    rows = _first_metrics([effect for effect in single if effect.primary] or single)
    matches = ((step, is_of) for step in about for is_of in (str.__eq__, is_step))
    of_steps = [[row for row in rows if row.ratio and is_of(row.step, step)] for step, is_of in matches]
    measured = next(filter(None, (*of_steps, [row for row in rows if row.ratio])), rows)
    steps = {row.step for row in measured}
    lead = max(
        measured,
        key=lambda row: (
            not row.metric.startswith(FIO),
            row.verdict in ("better", "worse"),
            row.step.rpartition("/")[0] not in steps,
            size_of(row),
        ),
        default=None,
    )
    return [] if lead is None else [row for row in rows if _subject(row) == _subject(lead)]


def leading_effect(effects: Sequence[EffectRow], about: Sequence[str] = ()) -> EffectRow | None:
    """Return the largest effect of those that a headline is of, a decided one first."""
    rows = leading_effects(effects, about)
    return max(rows, key=lambda row: (row.verdict in ("better", "worse"), size_of(row)), default=None)


def variant_names(effects: Sequence[EffectRow], cells: Sequence[CellRow]) -> dict[str, str]:
    """Return the setting of each variant of a volume: `fsx` is the base, `fsx.mode-sync` is `mode=sync`.

    Empty where several volumes are declared, or something else than options of the volume varies: then a volume has
    cells of several settings.
    """
    bases = bases_of(effects)
    if len({row.volume for row in effects}) != 1 or not all(name.startswith(OF_VOLUME) for name in bases):
        return {}
    parameters = {cell.volume: cell.parameters for cell in reversed(cells)}
    return {volume: _changes(of_cell, bases) for volume, of_cell in parameters.items()}


def with_setting_names(report: Report) -> Report:
    """Return a report whose causes, losses and cells are of settings, as its headline is, and not of variants."""
    names = variant_names(report.effects, report.cells)
    if not names:
        return report
    return report.model_copy(
        update={
            "cells": tuple(with_names(report.cells, names)),
            "findings": tuple(with_names(report.findings, names)),
            "refuted": tuple(with_names(report.refuted, names)),
            "associations": tuple(with_names(report.associations, names)),
            "durability": tuple(with_names(report.durability, names)),
            "predictions": tuple(with_names(report.predictions, names)),
        }
    )


def bases_of(rows: Sequence[EffectRow]) -> dict[str, Scalar]:
    """Return the base of each factor."""
    return {name: base for row in rows for name, base in zip(row.factors, row.bases, strict=True)}


def levels_of(row: EffectRow) -> dict[str, Scalar]:
    """Return the value of each factor of an effect."""
    return dict(zip(row.factors, row.levels, strict=True))


def has_setting(cell: CellRow, setting: Mapping[str, Scalar]) -> bool:
    """Return whether a cell has these values of the factors, or of a step's parameters."""
    return all(cell.parameters.get(name) == value for name, value in setting.items())


def with_names(rows: Sequence[_Row], names: Mapping[str, str]) -> list[_Row]:
    """Return cells or findings under the settings of their volumes."""
    return [row.model_copy(update={"volume": names.get(row.volume, row.volume)}) for row in rows]


def _changes(parameters: Mapping[str, Scalar], bases: Mapping[str, Scalar]) -> str:
    changed = [
        setting_text(name, parameters[name])
        for name, base in bases.items()
        if name in parameters and parameters[name] != base
    ]
    if changed:
        return joined(changed)
    return setting_text(*next(iter(bases.items()))) if len(bases) == 1 else BASE


def _first_metrics(effects: Sequence[EffectRow]) -> list[EffectRow]:
    """Return the effects on each step's first metric that has a figure."""
    first: dict[tuple[str, str, str], str] = {}
    for effect in sorted(effects, key=lambda effect: not effect.ratio):
        is_given = effect.metric == "tps" and bool(effect.parameters.get("rate"))
        key = (effect.volume, effect.step, load_text(effect.parameters))
        if key not in first or (first[key] == "tps" and effect.parameters.get("rate") and not is_given):
            first[key] = effect.metric
    return [row for row in effects if first[row.volume, row.step, load_text(row.parameters)] == row.metric]


def _subject(row: EffectRow) -> tuple[str, str, str, str]:
    return row.volume, row.step, load_text(row.parameters), row.metric
