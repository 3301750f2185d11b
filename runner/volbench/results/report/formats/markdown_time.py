"""Where a transaction's time goes and what it costs, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.core.base.text import change, counted, escape_bars, number, percent, quantity
from volbench.core.records.report import (
    QueryRow,
    Report,
    Summary,
    TimeBudgetRow,
    TimeDifferenceRow,
    TransactionRow,
)
from volbench.results.report.formats.markdown_text import (
    LISTED_MAX,
    ROWS_MAX,
    SENTENCES_MAX,
    code,
    escaped,
    first_texts,
)
from volbench.results.report.views.cost_tables import nothing_text, query_tables, transaction_tables
from volbench.results.report.views.response import response_lines
from volbench.results.report.views.time_budget import budget_charts, shares_note
from volbench.results.report.wording import BOX_MAX

DIFFERENCES_MAX = 4
"""Volumes up to which a table has a column of differences for each: sixteen columns cannot be read."""
COSTS_TITLE = "What a transaction costs (medians of valid cells, where times are means), and which query pays"


def time_lines(report: Report) -> Iterator[str]:
    """Where a transaction's time goes, a table for each step; the last column of a volume is the difference."""
    summary = report.summary
    sentences = [text for text in (*summary.response, *summary.time_difference) if text not in boxed(summary)]
    yield from (f"\n{escaped(text)}" for text in first_texts(sentences, SENTENCES_MAX, "sentence"))
    charts = budget_charts(report.time_budgets, report.time_differences)
    if text := shares_note(report):
        yield ""
        yield text
    for chart in charts[:LISTED_MAX]:
        threads = f", {counted(chart.threads, 'thread')}" if chart.threads else ""
        heads = [escaped(bar.volume) for bar in chart.bars]
        has_differences = len(heads) <= DIFFERENCES_MAX
        columns = [heads[0]]
        for head in heads[1:]:
            columns += [head, "difference"] if has_differences else [head]
        yield ""
        yield f"| time of a transaction: {escaped(chart.step)}{threads} | {' | '.join(columns)} |"
        yield f"|---|{'--:|' * len(columns)}"
        for piece, title, cells in chart.rows:
            texts = [_piece(cells[0])]
            for cell, shift in zip(cells[1:], chart.differences[piece], strict=True):
                texts += [_piece(cell), _shift(shift)] if has_differences else [_piece(cell)]
            yield f"| {title} | {' | '.join(texts)} |"
        yield ""
    if len(charts) > LISTED_MAX:
        yield f"{counted(len(charts) - LISTED_MAX, 'further step')} with times of a transaction: see report.json."
        yield ""


def boxed(summary: Summary) -> tuple[str, ...]:
    """Return the sentences that stand right below the headline: of many volumes not those of all pairs."""
    return (*summary.sharing, *summary.box[:BOX_MAX])


def _piece(row: TimeBudgetRow | None) -> str:
    return "–" if row is None else f"{quantity(row.ms, 'ms')} ({percent(row.share)})"


def _shift(row: TimeDifferenceRow | None) -> str:
    if row is None:
        return "–"
    return f"{'+' if row.difference_ms > 0 else ''}{quantity(row.difference_ms, 'ms')}"


def cost_lines(report: Report) -> Iterator[str]:
    """Yield predictions, then in a fold the costs of a transaction and the queries with most time."""
    for row in report.what_if[:ROWS_MAX]:
        yield f"- {escaped(row.volume)} ({escaped(row.step)}) on {code(row.spec)}: {escaped(row.text)}"
    if not report.transactions:
        return
    yield ""
    yield f"<details><summary>{COSTS_TITLE}</summary>"
    yield ""
    volumes = [escaped(volume.name) for volume in report.volumes]
    yield from response_lines(report, escaped)
    tables = transaction_tables(report), query_tables(report)
    for table in tables[0][:LISTED_MAX]:
        yield f"| {escaped(table.step)}, per transaction | {' | '.join(volumes)} |"
        yield f"|---|{'--:|' * len(volumes)}"
        for title, cells in table.rows:
            yield f"| {title} | {' | '.join(map(_cost_text, cells))} |"
        yield ""
        yield nothing_text(table.nothing)
        yield ""
    for queries in tables[1][:LISTED_MAX]:
        yield f"| {escaped(queries.step)}, share of time and mean | {' | '.join(volumes)} |"
        yield f"|---|{'--:|' * len(volumes)}"
        for query, query_rows in queries.rows[:LISTED_MAX]:
            yield f"| {escape_bars(code(query))} | {' | '.join(map(_query_text, query_rows))} |"
        yield ""
    if hidden := sum(max(0, len(of_kind) - LISTED_MAX) for of_kind in tables):
        yield f"{counted(hidden, 'further table')}: see report.json."
        yield ""
    yield "</details>"
    yield ""


def _cost_text(row: TransactionRow | None) -> str:
    if row is None:
        return "–"
    return number(row.value) + (f" ({change(row.ratio)})" if row.ratio is not None and row.ratio != 1 else "")


def _query_text(row: QueryRow | None) -> str:
    return "–" if row is None else f"{percent(row.share)}, {quantity(row.mean_ms, 'ms')}"
