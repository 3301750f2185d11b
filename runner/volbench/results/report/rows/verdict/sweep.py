"""The headline of a sweep: which setting is best, by how much, against which, and whether that is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from volbench.core.base.text import lower_first, percent, quantity, upper_first
from volbench.core.records.base import Scalar
from volbench.core.records.report import CellRow, EffectRow, FindingRow
from volbench.results.compare.figures import figure_of
from volbench.results.report.rows.verdict.clauses import (
    LISTED_MAX,
    REPEAT,
    Headline,
    figure_record,
    goodness,
    is_alike,
    metric_words,
    ratio_words,
    size_words,
    than_words,
)
from volbench.results.report.rows.verdict.reason import CauseClause, cause_of
from volbench.results.report.rows.verdict.settings import (
    BASE,
    OF_VOLUME,
    base_of_all,
    base_text,
    bases_of,
    has_setting,
    leading_effects,
    level_text,
    levels_of,
    variant_names,
    with_names,
)
from volbench.results.report.rows.verdict.subject import largest_of, size_of
from volbench.results.report.wording import joined, level_cells, load_text, setting_text, settings_measured

_COMPARABLE = "that can be compared"
_DECIDED = ("better", "worse")


def headline_of_sweep(
    effects: Sequence[EffectRow], about: Sequence[str], cells: Sequence[CellRow], findings: Sequence[FindingRow]
) -> Headline:
    """Return the best setting, its figure against the base, the worst one, and whether that is decided."""
    rows = leading_effects(effects, about)
    if not rows:
        return Headline(size="No verdict: no setting has a figure")
    headline = _of_rows(rows, effects, cells, findings, f" on {rows[0].volume}")
    subject = (rows[0].step, load_text(rows[0].parameters), rows[0].metric)
    notes = (*headline.notes, _base_note(effects, rows[0].volume))
    return replace(headline, figure=figure_record(subject), notes=notes)


def _base_note(effects: Sequence[EffectRow], volume: str) -> str:
    """Return the values that `the base` stands for, and the volume that has them; empty where one factor varies."""
    bases = bases_of([effect for effect in effects if effect.volume == volume])
    if len(bases) == 1:
        return ""
    values = joined([setting_text(name, value) for name, value in bases.items()])
    is_volume = all(name.startswith(OF_VOLUME) for name in bases)
    return f"{BASE}{f' is volume {volume}' if is_volume else ''}: {values}"


def setting_notes(
    effects: Sequence[EffectRow], about: Sequence[str], cells: Sequence[CellRow], findings: Sequence[FindingRow]
) -> tuple[str, ...]:
    """Return a note on the settings of each volume: `on gp3, mode=async is better than mode=sync: ...`."""
    notes = []
    for volume in dict.fromkeys(effect.volume for effect in effects):
        of_volume = [effect for effect in effects if effect.volume == volume]
        rows = leading_effects(of_volume, about)
        if any(row.ratio for row in rows):
            notes.append(f"on {volume}, {lower_first(_of_rows(rows, of_volume, cells, findings, '').size)}")
    return tuple(notes)


def _of_rows(
    rows: Sequence[EffectRow],
    effects: Sequence[EffectRow],
    cells: Sequence[CellRow],
    findings: Sequence[FindingRow],
    where: str,
) -> Headline:
    measured = sorted((row for row in rows if row.ratio), key=goodness, reverse=True)
    if not measured:
        return _as_measured(rows, cells, where)
    interactions = [row for row in effects if len(row.factors) > 1]
    of = "" if interactions else _count_text(rows, measured)
    where += ", averaged over the other factors" if interactions else ""
    if not any(row.verdict in _DECIDED for row in measured):
        return _undecided(measured, of, where)
    cause = _cause(measured, effects, cells, findings)
    headline = _decided(measured, cause, of, where)
    return replace(headline, notes=(*headline.notes, *cause.notes, *_dependences(measured, interactions)))


def _count_text(rows: Sequence[EffectRow], measured: Sequence[EffectRow]) -> str:
    """Return ` of 6 settings`; empty for two, of which one is better than the other."""
    settings, compared = len(rows) + 1, len(measured) + 1
    if compared == settings:
        return f" of {settings} settings" if len(rows) > 1 else ""
    return f" of the {compared} of {settings} settings {_COMPARABLE}"


def _decided(rows: Sequence[EffectRow], cause: CauseClause, of: str, where: str) -> Headline:
    """Return the headline with a decided effect; `rows` have the best one first."""
    better, worse = ([row for row in rows if row.verdict == verdict] for verdict in _DECIDED)
    if not better:
        return _of_base(rows, worse[-1], cause, of, where)
    best, *further = better[: 1 + LISTED_MAX]
    looks = f" and looks best{of}" if of and rows[0] is best else ""
    figure = f"{metric_words(best)} {size_words(best)}"
    headline = Headline(
        size=f"{level_text(best)} is better than {base_text(best)}{looks}{where}: {figure}",
        cause=cause.clause,
        decided=settings_measured(best),
        praised=level_text(best),
        notes=(
            "" if rows[0] is best else f"not decided: {_figure_with(rows[0])}",
            f"better too: {joined(list(map(_figure_with, further)))}" if further else "",
        ),
    )
    if not worse:
        return headline
    worst = worse[-1]
    which = "is worse" if len(worse) == 1 else f"is worst of {len(worse)} that are worse"
    clause = f"{level_text(worst)} {which}: {ratio_words(worst, f'with {base_text(worst)}')}"
    return replace(headline, cause=clause, notes=(*headline.notes, cause.clause))


def _of_base(rows: Sequence[EffectRow], worst: EffectRow, cause: CauseClause, of: str, where: str) -> Headline:
    """Return the headline where no setting is better than the base, which is best only where all are worse."""
    if not of:
        text = f"{base_text(worst)} is better than {level_text(worst)}{where}"
    elif all(row.verdict == "worse" for row in rows) and _COMPARABLE not in of:
        base = base_of_all(rows)
        text = f"{upper_first(base) if base == BASE else base} is best{of}{where}"
    else:
        text = f"No setting{where} is shown to be better than {base_of_all(rows)}, {level_text(worst)} is worse"
    figure = f"{metric_words(worst)} {size_words(worst)} with {level_text(worst)}"
    return Headline(
        size=f"{text}: {figure}",
        cause=cause.clause,
        decided=settings_measured(worst),
        praised=base_of_all(rows),
    )


def _undecided(rows: Sequence[EffectRow], of: str, where: str) -> Headline:
    """Return the headline where no effect is decided, or all are too small to matter."""
    if all(row.verdict == "equivalent" for row in rows):
        return _equivalent(largest_of(rows), of, where)
    open_rows = [row for row in rows if row.verdict == "inconclusive"]
    lead = open_rows[0] if goodness(open_rows[0]) > 0 else largest_of(open_rows)
    level, base = level_text(lead), base_of_all(rows)
    figure = f"{metric_words(lead)} {size_words(lead)}"
    if is_alike(largest_of(open_rows)):
        text = (
            f"no setting{where} is told apart from {base}, {figure} with {level}"
            if of
            else f"{level}{where} is not told apart from {base_text(lead)}, {figure}"
        )
    elif goodness(lead) > 0:
        looks = f"best{of}" if of else f"better than {base_text(lead)}"
        text = (
            f"{level} looks {looks}{where}, {figure}{f' {than_words(lead)} with {base_text(lead)}' if of else ''}"
        )
    else:
        looks = f"best{of}" if of else f"better than {level}"
        text = f"{base if of else base_text(lead)} looks {looks}{where}, {figure} with {level}"
    return Headline(
        size=f"{upper_first(level_cells(lead))}, not decided: {text}",
        next_step=_what_decides(lead),
    )


def _equivalent(largest: EffectRow, of: str, where: str) -> Headline:
    level = level_text(largest)
    several = f"{upper_first(of.removeprefix(' of '))}{where} are equivalent"
    text = several if of else f"{level} is equivalent to {base_text(largest)}{where}"
    return Headline(
        size=f"{text}: {metric_words(largest)} {size_words(largest)} with {level}",
        cause=f"no change beyond {percent(largest.margin)}",
        decided=settings_measured(largest),
    )


def _what_decides(row: EffectRow) -> str:
    if row.ci is None:
        return REPEAT
    return f"about {row.runs_needed} each would decide" if row.runs_needed is not None else ""


def _as_measured(rows: Sequence[EffectRow], cells: Sequence[CellRow], where: str) -> Headline:
    """Return the headline without a figure of two settings that is valid: it has what was measured all the same."""
    first = rows[0]
    of_step = [cell for cell in cells if cell.step == first.step and has_setting(cell, first.parameters)]
    settings: dict[str, dict[str, Scalar]] = {base_of_all(rows): {}}
    settings |= {level_text(row): levels_of(row) for row in rows}
    bases = bases_of(rows)
    figures = {
        name: figure_of([cell for cell in of_step if has_setting(cell, {**bases, **levels})], first.metric)
        for name, levels in settings.items()
    }
    measured = sorted((value, name) for name, value in figures.items() if value is not None)
    if len(measured) > LISTED_MAX + 1:
        measured = [measured[0], measured[-1]]
    unit = "1" if first.unit == "1/s" else first.unit
    listed = joined([f"{quantity(value, unit)} with {name}" for value, name in measured])
    return Headline(
        size=f"No verdict on the settings{where}: {first.reason or 'no cell gave a figure of two'}",
        cause=f"as measured, {metric_words(first)} is {listed}" if listed else "",
    )


def _step_and_load(row: EffectRow) -> tuple[str, str]:
    return row.step, load_text(row.parameters)


def _figure_with(row: EffectRow) -> str:
    return f"{size_words(row)} with {level_text(row)} {than_words(row)} with {base_text(row)}"


def _cause(
    rows: Sequence[EffectRow],
    effects: Sequence[EffectRow],
    cells: Sequence[CellRow],
    findings: Sequence[FindingRow],
) -> CauseClause:
    """Return why the worst setting is slower than the base; without a worse one, why the base is slow.

    Where settings share a volume, it is why that volume is slow.
    """
    names = variant_names(effects, cells)
    if not names:
        return cause_of(rows[0].step, rows[0].volume, "", findings, cells)
    worse = [row for row in rows if row.verdict == "worse"]
    base = base_of_all(rows)
    loser, winner = (level_text(worse[-1]), base) if worse else (base, level_text(rows[0]))
    return cause_of(rows[0].step, loser, winner, with_names(findings, names), with_names(cells, names))


def _dependences(rows: Sequence[EffectRow], interactions: Sequence[EffectRow]) -> list[str]:
    """Return by which other factor the effects of a full design are other ones."""
    subject = rows[0]
    decided = [
        row
        for row in interactions
        if (row.volume, row.metric, *_step_and_load(row))
        == (subject.volume, subject.metric, *_step_and_load(subject))
        and row.ratio
        and row.verdict in _DECIDED
    ]
    return [
        f"with {setting_text(row.factors[1], row.levels[1])} the change by"
        f" {setting_text(row.factors[0], row.levels[0])} is {size_words(row)} {than_words(row)} with"
        f" {setting_text(row.factors[1], row.bases[1])}"
        for row in sorted(decided, key=size_of, reverse=True)[:LISTED_MAX]
    ]
