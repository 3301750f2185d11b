"""The report as Markdown that fits a pull request: verdict, table, validity, how to reproduce."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from volbench.core.base.text import (
    change,
    counted,
    duration,
    escape_controls,
    interval,
    number,
    percent,
    quantity,
)
from volbench.core.records.report import ComparisonRow, EffectRow, PredictionRow, Report
from volbench.results.report.formats.markdown_text import (
    LISTED_MAX,
    ROWS_MAX,
    SENTENCES_MAX,
    code,
    escaped,
    fenced,
    first_texts,
)
from volbench.results.report.formats.markdown_time import boxed, cost_lines, time_lines
from volbench.results.report.rows.cells import failure_text
from volbench.results.report.rows.forecast import FORECAST_RULE, forecast_text
from volbench.results.report.rows.prediction import PREDICTION_RULE, accepted_text, mark_text, subject, value_text
from volbench.results.report.rows.saturation import curve_lines
from volbench.results.report.rows.storage_classes import loss_text, notes, price_text, recovery, standing_text
from volbench.results.report.rows.verdict.lead import cause_title, certainty
from volbench.results.report.rows.verdict.settings import with_setting_names
from volbench.results.report.terms import terms_of, verdict_notes
from volbench.results.report.views.causes import CauseGroup, groups_of, overlaps, unexplained
from volbench.results.report.views.contrast import markdown_lines
from volbench.results.report.views.cost_tables import correlation_sentences
from volbench.results.report.views.effects_tables import effect_tables, effects_note
from volbench.results.report.views.frontier import frontiers
from volbench.results.report.views.ranking import RANKING_NOTE, RankedValue, ranking
from volbench.results.report.views.sharing import HEADS, sharing_lines
from volbench.results.report.wording import (
    cells_text,
    confidence_text,
    damage_text,
    data_text,
    decides_text,
    fault_text,
    interval_text,
    label,
    load_text,
    open_reason,
    open_text,
    p95_during_text,
    parameter_text,
    recovery_text,
    speed_text,
    table_notes,
    why_invalid,
    window_text,
)

CAVEATS_MAX = 12
_VERDICT_MARKS = {
    "better": "✅ better",
    "worse": "❌ worse",
    "equivalent": "🟰 equivalent",
    "inconclusive": "❔ open",
}


def markdown(report: Report) -> str:
    """Return the whole text. Names from outside are escaped, so that nothing in them becomes markup."""
    report = with_setting_names(report)
    lines = [*_head(report), *_ranking(report), *_effects(report), *_table(report)]
    lines += [
        *markdown_lines(report, escaped),
        *time_lines(report),
        *_backups(report),
        *_durability(report),
        *_sharing(report),
        *_classes(report),
    ]
    lines += [*cost_lines(report), *_validity(report), *_reproduce(report)]
    return escape_controls(re.sub("\n{3,}", "\n\n", "\n".join(lines)) + "\n")


def _head(report: Report) -> Iterator[str]:
    yield f"### volbench: {escaped(report.suite)}"
    yield ""
    if report.summary.headline:
        yield f"**{escaped(report.summary.headline)}.**"
        yield ""
        yield escaped(report.summary.sentence)
        if notes := verdict_notes(report.summary):
            yield ""
            yield escaped(" ".join(notes))
    else:
        yield f"**{escaped(report.summary.sentence)}**"
    yield ""
    for text in first_texts(boxed(report.summary), 2 * LISTED_MAX, "sentence"):
        yield escaped(text)
        yield ""
    yield from (f"> ⚠️ {escaped(text)}  " for text in first_texts(report.summary.caveats, CAVEATS_MAX, "caveat"))
    yield ""
    refuted = [
        f"{code(row.cause)} on {escaped(row.volume)} {escaped(row.step)} would have been named, but"
        f" {escaped(row.text)}"
        for row in report.refuted
    ]
    groups = groups_of(report)
    for texts, noun in (
        (list(map(_cause, groups)), "cause"),
        (list(map(escaped, unexplained(report))), "cause"),
        (list(map(escaped, overlaps(report.findings))), "overlap"),
        (refuted, "refuted cause"),
        (list(map(escaped, correlation_sentences(report))), "correlation"),
    ):
        yield from (f"- {text}" for text in first_texts(texts, LISTED_MAX, noun))
    if terms := terms_of((certainty(group.strongest) for group in groups), verdict_notes(report.summary)):
        yield f"- {escaped(' '.join(terms))}"
    yield from _forecasts(report)


def _cause(group: CauseGroup) -> str:
    title = f"**{escaped(cause_title(group.strongest.cause))}** on {escaped(group.location)}"
    return f"{title} ({code(group.strongest.cause)}). {escaped(' '.join(group.sentences))}"


def _ranking(report: Report) -> Iterator[str]:
    """Three and more volumes side by side: the best median of a row in bold, changes as they are compared."""
    rows = ranking(report)
    if not rows:
        return
    baseline = report.volumes[0].name
    yield ""
    yield RANKING_NOTE.format(baseline=escaped(baseline))
    yield ""
    yield f"| median | {' | '.join(escaped(volume.name) for volume in report.volumes)} |"
    yield f"|---|{'--:|' * len(report.volumes)}"
    for row in rows[:ROWS_MAX]:
        values = " | ".join(_ranked(value, row.unit) for value in row.values)
        yield f"| {escaped(f'{row.step} {row.parameters}'.strip())}: {escaped(row.title)} | {values} |"
    if len(rows) > ROWS_MAX:
        yield f"\n{counted(len(rows) - ROWS_MAX, 'further row')}: see report.json."
    yield ""


def _ranked(value: RankedValue | None, unit: str) -> str:
    if value is None:
        return "–"
    text = number(value.value) if unit == "1/s" else quantity(value.value, unit)
    return f"{f'**{text}**' if value.best else text}{f' ({value.note})' if value.note else ''}"


def _forecasts(report: Report) -> Iterator[str]:
    yield ""
    yield from (f"- {escaped(forecast_text(row))}" for row in report.forecasts)
    if report.forecasts:
        yield f"- {FORECAST_RULE}"
    yield from (f"- {escaped(text)}" for text in curve_lines(report.curves))
    yield from _predictions(report.predictions)


def _predictions(rows: Sequence[PredictionRow]) -> Iterator[str]:
    """What the suite predicted before the run, and whether it was met."""
    if not rows:
        return
    reported = any(row.reported is not None for row in rows)
    yield ""
    also = " reported elsewhere |" if reported else ""
    yield f"| predicted before the run | forecast | range asked | measured | error | met |{also} derivation |"
    yield f"|---|--:|--:|--:|--:|---|{'--:|' if reported else ''}---|"
    for row in rows:
        error = "–" if row.difference is None else change(1 + row.difference)
        cells = [
            escaped(subject(row)),
            value_text(row, row.predicted),
            "–" if row.input else accepted_text(row),
            value_text(row, row.measured),
            error,
            mark_text(row),
            *([value_text(row, row.reported)] if reported else []),
            escaped(row.derivation),
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield PREDICTION_RULE
    yield ""


def _effects(report: Report) -> Iterator[str]:
    """Yield a sweep's effects in words, and a table for each primary metric."""
    if report.sweep is None:
        return
    yield ""
    yield from (f"- {escaped(text)}" for text in first_texts(report.sweep.conclusions, SENTENCES_MAX, "sentence"))
    for table in [table for table in effect_tables(report.effects) if table.primary][:LISTED_MAX]:
        first = table.rows[0]
        yield ""
        yield f"**{escaped(label(first.metric))}** of {escaped(first.step)} on {escaped(first.volume)}"
        yield ""
        yield "| factor | value | result | change | interval | verdict | cells |"
        yield "|---|---|--:|--:|---|---|---|"
        if table.base_value is not None:
            yield f"| base | | {quantity(table.base_value, first.unit)} | | | | {first.runs[0]} |"
        yield from map(_effect, table.rows[:ROWS_MAX])
    yield ""
    yield effects_note(report.sweep)
    yield ""


def _effect(row: EffectRow) -> str:
    steps = ", ".join(f"{base} → {level}" for base, level in zip(row.bases, row.levels, strict=True))
    cells = (
        code(" × ".join(row.factors)),
        escaped(steps),
        quantity(row.value, row.unit),
        change(row.ratio),
        interval(row.ci, row.ratio),
        _verdict(row),
        f"{row.runs[0]} / {row.runs[1]}",
    )
    return f"| {' | '.join(cells)} |"


def _verdict(row: ComparisonRow | EffectRow, said_below: str = "") -> str:
    """Return the mark of a verdict; of an open one also what would decide, and why an interval does not.

    Args:
        said_below: what would decide all open rows, which stands once below the table.
    """
    if row.verdict != "inconclusive":
        return _VERDICT_MARKS[row.verdict]
    decides = "" if decides_text(row) == said_below else decides_text(row)
    return ", ".join(filter(None, (_VERDICT_MARKS[row.verdict], escaped(open_reason(row)), decides)))


def _table(report: Report) -> Iterator[str]:
    rows = [row for row in report.comparisons if row.primary] or list(report.comparisons)
    if not rows:
        return
    yield ""
    level = confidence_text(rows)
    yield f"| step | metric | baseline, median | candidate, median | change | {level} interval | verdict | cells |"
    yield "|---|---|--:|--:|--:|---|---|---|"
    said_below = open_text(rows)
    yield from (_row(row, said_below) for row in rows[:ROWS_MAX])
    if len(rows) > ROWS_MAX:
        yield f"\n{counted(len(rows) - ROWS_MAX, 'further row')}: see report.json."
    yield from (f"\n{note}" for note in table_notes(rows))
    if said_below:
        yield f"\nTo decide what is open, {said_below}."
    yield ""


def _backups(report: Report) -> Iterator[str]:
    """Yield the effect of backups on concurrent queries, and whether they fit their window."""
    if not report.backups:
        return
    yield ""
    yield "| volume | step | backup | takes | slowest | p95 alone | p95 during | tps alone | tps during | window |"
    yield "|---|---|---|--:|--:|--:|--:|--:|--:|---|"
    for row in report.backups:
        values = (
            row.volume,
            row.step,
            row.tool,
            duration(row.dump_s),
            duration(row.dump_s_max),
            quantity(row.latency_ms_p95_alone, "ms"),
            p95_during_text(row),
            number(row.tps_alone),
            number(row.tps_during),
            window_text(row),
        )
        yield f"| {' | '.join(map(escaped, values))} |"
    yield ""


def _durability(report: Report) -> Iterator[str]:
    """Yield the losses by power cuts with the speed of the same volume."""
    if not report.durability:
        return
    speeds = list(dict.fromkeys((speed.step, speed.metric) for row in report.durability for speed in row.speeds))
    heads = ["volume", "how", "durability settings", "lost of acknowledged", "lost work", "torn or damaged"]
    heads += ["recovery", "first query", "commits/s", *(f"{label(metric)} ({step})" for step, metric in speeds)]
    yield ""
    yield f"| {' | '.join(map(escaped, heads))} |"
    yield f"|---|---|---|{'--:|' * (len(heads) - 3)}"
    for row in report.durability:
        speed_texts = {(speed.step, speed.metric): speed_text(speed) for speed in row.speeds}
        values = [
            row.volume,
            fault_text(row),
            parameter_text(row.settings),
            f"{row.lost_commits:,} of {row.acknowledged_commits:,}",
            quantity(row.lost_s, "s") if row.lost_commits else "none",
            damage_text(row),
            recovery_text(row),
            quantity(row.first_query_ms, "ms"),
            number(row.commits_per_s),
            *(speed_texts.get(key, "\N{EN DASH}") for key in speeds),
        ]
        yield f"| {' | '.join(map(escaped, values))} |"
    yield ""


def _sharing(report: Report) -> Iterator[str]:
    """Yield what several servers on one volume kept."""
    if not report.sharing:
        return
    yield ""
    yield f"| {' | '.join(map(escaped, HEADS))} |"
    yield f"|---|---|{'--:|' * (len(HEADS) - 3)}---|"
    for row in report.sharing:
        yield from (f"| {' | '.join(map(escaped, line))} |" for line in sharing_lines(row))
    yield ""


def _classes(report: Report) -> Iterator[str]:
    """Yield speed, durability and price of each volume, a table for each load."""
    heads = ("p95", "recovery", "lost of acknowledged", "price", "standing")
    for frontier in frontiers(report.storage_classes):
        yield ""
        yield f"| {escaped(frontier.load)} | transactions/s | {' | '.join(heads)} |"
        yield "|---|--:|--:|--:|--:|---|---|"
        for row in frontier.rows:
            speeds = (number(row.tps), quantity(row.latency_ms_p95, "ms"), recovery(row), loss_text(row))
            values = (row.volume, *speeds, price_text(row), standing_text(row))
            yield f"| {' | '.join(map(escaped, values))} |"
        yield ""
        yield from (f"- {escaped(text)}" for text in notes(frontier.rows))
        yield ""


def _row(row: ComparisonRow, said_below: str) -> str:
    arrow = {"higher": " ↑", "lower": " ↓"}.get(row.better, "")
    cells = (
        escaped(f"{row.step} {load_text(row.parameters)}".strip()),
        escaped(label(row.metric)) + arrow,
        f"{escaped(row.baseline)}: {quantity(row.baseline_value, row.unit)}",
        f"{escaped(row.candidate)}: {quantity(row.candidate_value, row.unit)}",
        change(row.ratio),
        interval_text(row),
        _verdict(row, said_below),
        cells_text(row),
    )
    return f"| {' | '.join(cells)} |"


def _validity(report: Report) -> Iterator[str]:
    invalid = [cell for cell in report.cells if not cell.valid]
    share = report.timing.measured_share
    yield (
        f"{len(report.cells) - len(invalid)} of {len(report.cells)} step results are valid; "
        f"failures: {len(report.failures) or 'none'}; measured {duration(report.timing.measured_s)} of "
        f"{duration(report.timing.wall_s)}{'' if share is None else f' ({percent(share)})'}."
    )
    for cell in invalid[:LISTED_MAX]:
        kind = "disturbed" if cell.used_within_bounds else "invalid"
        yield f"- {kind}: {code(cell.cell_id)} {escaped(cell.step)}: {escaped(why_invalid(cell))}"
    for failure in report.failures[:LISTED_MAX]:
        yield f"- {failure_text(failure, code(str(failure['cell_id'])))}: {escaped(str(failure['message']))}"
    hidden = max(0, len(invalid) - LISTED_MAX) + max(0, len(report.failures) - LISTED_MAX)
    if hidden:
        yield f"- {hidden} more are in report.json"
    yield ""


def _reproduce(report: Report) -> Iterator[str]:
    server = f"{report.server.flavor} {report.server.version}" if report.server else "no server"
    data = f"; {data_text(report.data)}" if report.data else ""
    yield f"{escaped(server)}{data}; {'; '.join(_volumes(report))}. Run {code(report.run_id)}."
    yield ""
    yield from fenced(report.reproduce)


def _volumes(report: Report) -> Iterator[str]:
    for volume in report.volumes:
        description = ", ".join(field for field in (volume.filesystem, volume.device, volume.profile) if field)
        text = f"{volume.name}: {description or volume.kind}{' (emulated)' if volume.emulated else ''}"
        yield escaped(text)
