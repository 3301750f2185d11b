"""The report as Markdown that fits a pull request: verdict, table, validity, how to reproduce."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from volbench.core.base.text import (
    change,
    counted,
    duration,
    escape_bars,
    escape_controls,
    interval,
    number,
    percent,
    quantity,
)
from volbench.core.records.report import (
    ComparisonRow,
    EffectRow,
    PredictionRow,
    QueryRow,
    Report,
    TimeBudgetRow,
    TimeDifferenceRow,
    TransactionRow,
)
from volbench.results.report.rows.cells import failure_text
from volbench.results.report.rows.forecast import forecast_text
from volbench.results.report.rows.prediction import mark_text, subject, value_text
from volbench.results.report.rows.saturation import curve_lines
from volbench.results.report.rows.storage_classes import loss_text, notes, price_text, recovery, standing_text
from volbench.results.report.rows.verdict.lead import cause_title
from volbench.results.report.views.causes import CauseGroup, groups_of, overlaps
from volbench.results.report.views.contrast import markdown_lines
from volbench.results.report.views.cost_tables import correlation_sentences, query_tables, transaction_tables
from volbench.results.report.views.effects_tables import effect_tables, effects_note
from volbench.results.report.views.frontier import frontiers
from volbench.results.report.views.ranking import RANKING_NOTE, RankedValue, ranking
from volbench.results.report.views.response import response_lines
from volbench.results.report.views.sharing import HEADS, sharing_lines
from volbench.results.report.views.time_budget import budget_charts
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
    parameter_text,
    recovery_text,
    speed_text,
    table_notes,
    why_invalid,
    window_text,
)

ROWS_MAX = 24
CAVEATS_MAX = 12
LISTED_MAX = 5
SENTENCES_MAX = 12
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~!])")
_QUOTE = "'"
_VERDICT_MARKS = {
    "better": "✅ better",
    "worse": "❌ worse",
    "equivalent": "🟰 equivalent",
    "inconclusive": "❔ open",
}


def markdown(report: Report) -> str:
    """Return the whole text. Names from outside are escaped, so that nothing in them becomes markup."""
    lines = [*_head(report), *_ranking(report), *_effects(report), *_table(report)]
    lines += [
        *markdown_lines(report, _escaped),
        *_time(report),
        *_backups(report),
        *_durability(report),
        *_sharing(report),
        *_classes(report),
    ]
    lines += [*_costs(report), *_validity(report), *_reproduce(report)]
    return escape_controls(re.sub("\n{3,}", "\n\n", "\n".join(lines)) + "\n")


def _head(report: Report) -> Iterator[str]:
    yield f"### volbench: {_escaped(report.suite)}"
    yield ""
    if report.summary.headline:
        yield f"**{_escaped(report.summary.headline)}.**"
        yield ""
        yield _escaped(report.summary.sentence)
    else:
        yield f"**{_escaped(report.summary.sentence)}**"
    yield ""
    for text in _first((*report.summary.sharing, *report.summary.box), 2 * LISTED_MAX, "sentence"):
        yield _escaped(text)
        yield ""
    yield from (f"> ⚠️ {_escaped(text)}  " for text in _first(report.summary.caveats, CAVEATS_MAX, "caveat"))
    yield ""
    refuted = [
        f"{_code(row.cause)} on {_escaped(row.volume)} {_escaped(row.step)} would have been named, but"
        f" {_escaped(row.text)}"
        for row in report.refuted
    ]
    for texts, noun in (
        (list(map(_cause, groups_of(report))), "cause"),
        (list(map(_escaped, overlaps(report.findings))), "overlap"),
        (refuted, "refuted cause"),
        (list(map(_escaped, correlation_sentences(report))), "correlation"),
    ):
        yield from (f"- {text}" for text in _first(texts, LISTED_MAX, noun))
    yield from _forecasts(report)


def _cause(group: CauseGroup) -> str:
    title = f"**{_escaped(cause_title(group.strongest.cause))}** on {_escaped(group.location)}"
    return f"{title} ({_code(group.strongest.cause)}). {_escaped(' '.join(group.sentences))}"


def _first(texts: Sequence[str], count: int, noun: str) -> Iterator[str]:
    """Yield the first texts, and how many further ones there are: what is left out is not hidden."""
    yield from texts[:count]
    if len(texts) > count:
        yield f"{counted(len(texts) - count, f'further {noun}')}: see report.json."


def _ranking(report: Report) -> Iterator[str]:
    """Three and more volumes side by side: the best median of a row in bold, changes as they are compared."""
    rows = ranking(report)
    if not rows:
        return
    baseline = report.volumes[0].name
    yield ""
    yield RANKING_NOTE.format(baseline=_escaped(baseline))
    yield ""
    yield f"| median | {' | '.join(_escaped(volume.name) for volume in report.volumes)} |"
    yield f"|---|{'--:|' * len(report.volumes)}"
    for row in rows[:ROWS_MAX]:
        values = " | ".join(_ranked(value, row.unit) for value in row.values)
        yield f"| {_escaped(f'{row.step} {row.parameters}'.strip())}: {_escaped(row.title)} | {values} |"
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
    yield from (f"- {_escaped(forecast_text(row))}" for row in report.forecasts)
    yield from (f"- {_escaped(text)}" for text in curve_lines(report.curves))
    yield from _predictions(report.predictions)


def _predictions(rows: Sequence[PredictionRow]) -> Iterator[str]:
    """What the suite predicted before the run; met within 20 %."""
    if not rows:
        return
    reported = any(row.reported is not None for row in rows)
    yield ""
    also = " reported elsewhere |" if reported else ""
    yield f"| predicted before the run | forecast | measured | error | |{also} derivation |"
    yield f"|---|--:|--:|--:|---|{'--:|' if reported else ''}---|"
    for row in rows:
        bounds = "" if row.interval is None else f" [{number(row.interval[0])}, {number(row.interval[1])}]"
        error = "–" if row.difference is None else change(1 + row.difference)
        cells = [
            _escaped(subject(row)),
            f"{value_text(row, row.predicted)} {_escaped(bounds)}".strip(),
            value_text(row, row.measured),
            error,
            mark_text(row),
            *([value_text(row, row.reported)] if reported else []),
            _escaped(row.derivation),
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _effects(report: Report) -> Iterator[str]:
    """Yield a sweep's effects in words, and a table for each primary metric."""
    if report.sweep is None:
        return
    yield ""
    yield from (f"- {_escaped(text)}" for text in _first(report.sweep.conclusions, SENTENCES_MAX, "sentence"))
    for table in [table for table in effect_tables(report.effects) if table.primary][:LISTED_MAX]:
        first = table.rows[0]
        yield ""
        yield f"**{_escaped(label(first.metric))}** of {_escaped(first.step)} on {_escaped(first.volume)}"
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
        _code(" × ".join(row.factors)),
        _escaped(steps),
        quantity(row.value, row.unit),
        change(row.ratio),
        interval(row.ci, row.ratio),
        _verdict(row),
        f"{row.runs[0]} / {row.runs[1]}",
    )
    return f"| {' | '.join(cells)} |"


def _verdict(row: ComparisonRow | EffectRow) -> str:
    """Return the mark of a verdict; of an open one also what would decide, and why an interval does not."""
    if row.verdict != "inconclusive":
        return _VERDICT_MARKS[row.verdict]
    return ", ".join(filter(None, (_VERDICT_MARKS[row.verdict], _escaped(open_reason(row)), decides_text(row))))


def _table(report: Report) -> Iterator[str]:
    rows = [row for row in report.comparisons if row.primary] or list(report.comparisons)
    if not rows:
        return
    yield ""
    level = confidence_text(rows)
    yield f"| step | metric | baseline, median | candidate, median | change | {level} interval | verdict | cells |"
    yield "|---|---|--:|--:|--:|---|---|---|"
    yield from map(_row, rows[:ROWS_MAX])
    if len(rows) > ROWS_MAX:
        yield f"\n{counted(len(rows) - ROWS_MAX, 'further row')}: see report.json."
    yield from (f"\n{note}" for note in table_notes(rows))
    yield ""


def _time(report: Report) -> Iterator[str]:
    """Where a transaction's time goes, a table for each step; the last column of a volume is the difference."""
    summary = report.summary
    sentences = [text for text in (*summary.response, *summary.time_difference) if text not in summary.box]
    yield from (f"\n{_escaped(text)}" for text in _first(sentences, SENTENCES_MAX, "sentence"))
    charts = budget_charts(report.time_budgets, report.time_differences)
    for chart in charts[:LISTED_MAX]:
        threads = f", {counted(chart.threads, 'thread')}" if chart.threads else ""
        heads = [_escaped(bar.volume) for bar in chart.bars]
        columns = [heads[0], *(text for head in heads[1:] for text in (head, "difference"))]
        yield ""
        yield f"| time of a transaction: {_escaped(chart.step)}{threads} | {' | '.join(columns)} |"
        yield f"|---|{'--:|' * len(columns)}"
        for piece, title, cells in chart.rows:
            texts = [_piece(cells[0])]
            for cell, shift in zip(cells[1:], chart.differences[piece], strict=True):
                texts += [_piece(cell), _shift(shift)]
            yield f"| {title} | {' | '.join(texts)} |"
        yield ""
    if len(charts) > LISTED_MAX:
        yield f"{counted(len(charts) - LISTED_MAX, 'further step')} with times of a transaction: see report.json."
        yield ""


def _piece(row: TimeBudgetRow | None) -> str:
    return "–" if row is None else f"{quantity(row.ms, 'ms')} ({percent(row.share)})"


def _shift(row: TimeDifferenceRow | None) -> str:
    if row is None:
        return "–"
    return f"{'+' if row.difference_ms > 0 else ''}{quantity(row.difference_ms, 'ms')}"


def _backups(report: Report) -> Iterator[str]:
    """Yield the effect of backups on concurrent queries, and whether they fit their window."""
    if not report.backups:
        return
    yield ""
    yield "| volume | backup | takes | slowest | p95 alone | p95 during | tps alone | tps during | window |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|---|"
    for row in report.backups:
        values = (
            row.volume,
            row.tool,
            duration(row.dump_s),
            duration(row.dump_s_max),
            quantity(row.latency_ms_p95_alone, "ms"),
            quantity(row.latency_ms_p95_during, "ms"),
            number(row.tps_alone),
            number(row.tps_during),
            window_text(row),
        )
        yield f"| {' | '.join(map(_escaped, values))} |"
    yield ""


def _durability(report: Report) -> Iterator[str]:
    """Yield the losses by power cuts with the speed of the same volume."""
    if not report.durability:
        return
    speeds = list(dict.fromkeys((speed.step, speed.metric) for row in report.durability for speed in row.speeds))
    heads = ["volume", "how", "durability settings", "lost of acknowledged", "lost work", "torn or damaged"]
    heads += ["recovery", "first query", "commits/s", *(f"{label(metric)} ({step})" for step, metric in speeds)]
    yield ""
    yield f"| {' | '.join(map(_escaped, heads))} |"
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
        yield f"| {' | '.join(map(_escaped, values))} |"
    yield ""


def _sharing(report: Report) -> Iterator[str]:
    """Yield what several servers on one volume kept."""
    if not report.sharing:
        return
    yield ""
    yield f"| {' | '.join(map(_escaped, HEADS))} |"
    yield f"|---|---|{'--:|' * (len(HEADS) - 3)}---|"
    for row in report.sharing:
        yield from (f"| {' | '.join(map(_escaped, line))} |" for line in sharing_lines(row))
    yield ""


def _classes(report: Report) -> Iterator[str]:
    """Yield speed, durability and price of each volume, a table for each load."""
    heads = ("p95", "recovery", "lost of acknowledged", "price", "standing")
    for frontier in frontiers(report.storage_classes):
        yield ""
        yield f"| {_escaped(frontier.load)} | transactions/s | {' | '.join(heads)} |"
        yield "|---|--:|--:|--:|--:|---|---|"
        for row in frontier.rows:
            speeds = (number(row.tps), quantity(row.latency_ms_p95, "ms"), recovery(row), loss_text(row))
            values = (row.volume, *speeds, price_text(row), standing_text(row))
            yield f"| {' | '.join(map(_escaped, values))} |"
        yield ""
        yield from (f"- {_escaped(text)}" for text in notes(frontier.rows))
        yield ""


def _row(row: ComparisonRow) -> str:
    arrow = {"higher": " ↑", "lower": " ↓"}.get(row.better, "")
    cells = (
        _escaped(f"{row.step} {load_text(row.parameters)}".strip()),
        _escaped(label(row.metric)) + arrow,
        f"{_escaped(row.baseline)}: {quantity(row.baseline_value, row.unit)}",
        f"{_escaped(row.candidate)}: {quantity(row.candidate_value, row.unit)}",
        change(row.ratio),
        interval_text(row),
        _verdict(row),
        cells_text(row),
    )
    return f"| {' | '.join(cells)} |"


def _costs(report: Report) -> Iterator[str]:
    """Yield predictions, then in a fold the costs of a transaction and the queries with most time."""
    for row in report.what_if[:ROWS_MAX]:
        yield f"- {_escaped(row.volume)} ({_escaped(row.step)}) on {_code(row.spec)}: {_escaped(row.text)}"
    if not report.transactions:
        return
    yield ""
    yield "<details><summary>What a transaction costs, and which query pays</summary>"
    yield ""
    volumes = [_escaped(volume.name) for volume in report.volumes]
    yield from response_lines(report, _escaped)
    tables = transaction_tables(report), query_tables(report)
    for table in tables[0][:LISTED_MAX]:
        yield f"| {_escaped(table.step)}, per transaction | {' | '.join(volumes)} |"
        yield f"|---|{'--:|' * len(volumes)}"
        for title, cells in table.rows:
            yield f"| {title} | {' | '.join(map(_cost_text, cells))} |"
        yield ""
    for queries in tables[1][:LISTED_MAX]:
        yield f"| {_escaped(queries.step)}, share of time and mean | {' | '.join(volumes)} |"
        yield f"|---|{'--:|' * len(volumes)}"
        for query, query_rows in queries.rows[:LISTED_MAX]:
            yield f"| {escape_bars(_code(query))} | {' | '.join(map(_query_text, query_rows))} |"
        yield ""
    if hidden := sum(max(0, len(of_kind) - LISTED_MAX) for of_kind in tables):
        yield f"{counted(hidden, 'further table')}: see report.json."
        yield ""
    yield "</details>"
    yield ""


def _cost_text(row: TransactionRow | None) -> str:
    if row is None:
        return "–"
    return number(row.value) + (f" (×{row.ratio:.2f})" if row.ratio is not None and row.ratio != 1 else "")


def _query_text(row: QueryRow | None) -> str:
    return "–" if row is None else f"{percent(row.share)}, {quantity(row.mean_ms, 'ms')}"


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
        yield f"- {kind}: {_code(cell.cell_id)} {_escaped(cell.step)}: {_escaped(why_invalid(cell))}"
    for failure in report.failures[:LISTED_MAX]:
        yield f"- {failure_text(failure, _code(str(failure['cell_id'])))}: {_escaped(str(failure['message']))}"
    hidden = max(0, len(invalid) - LISTED_MAX) + max(0, len(report.failures) - LISTED_MAX)
    if hidden:
        yield f"- {hidden} more are in report.json"
    yield ""


def _reproduce(report: Report) -> Iterator[str]:
    server = f"{report.server.flavor} {report.server.version}" if report.server else "no server"
    data = f"; {data_text(report.data)}" if report.data else ""
    yield f"{_escaped(server)}{data}; {'; '.join(_volumes(report))}. Run {_code(report.run_id)}."
    yield ""
    yield from _fenced(report.reproduce)


def _volumes(report: Report) -> Iterator[str]:
    for volume in report.volumes:
        description = ", ".join(field for field in (volume.filesystem, volume.device, volume.profile) if field)
        text = f"{volume.name}: {description or volume.kind}{' (emulated)' if volume.emulated else ''}"
        yield _escaped(text)


def _fenced(lines: Sequence[str]) -> Iterable[str]:
    """Return a code block whose fence is longer than any run of backticks within."""
    ticks = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, ticks + 1)
    return (f"{fence}sh", *(" ".join(line.split()) for line in lines), fence)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("&", "&amp;").replace("@", "&#64;")


def _code(text: str) -> str:
    return f"`{' '.join(text.replace('`', _QUOTE).split())}`"
