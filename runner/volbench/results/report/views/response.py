"""Latency over waiting time: points of all volumes and the line as a chart, slopes by class of query as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from volbench.core.records.report import Report, ResponsePointRow, ResponseRow
from volbench.results.report.rows.response import UNKNOWN, cost_text, count_note, counted_text, is_told
from volbench.results.report.views.geometry import Tick, linear_ticks

ROWS_MAX = 24
"""Of the Markdown table; the page has all."""


@dataclass(frozen=True, kw_only=True)
class Knot:
    """One point, per cent from the left and from the top."""

    volume: str
    left: float
    top: float


@dataclass(frozen=True, kw_only=True)
class ResponseChart:
    """Points of a load and the line through them; both axes are linear and begin at 0.

    `line` has the line's ends as points of an SVG of 100 by 100; `row` is the slope that it draws.
    """

    step: str
    row: ResponseRow
    knots: tuple[Knot, ...]
    line: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def response_charts(report: Report) -> tuple[ResponseChart, ...]:
    """Return a chart for each load that has a response and points; none of a slope below zero, which is no cost."""
    charts = []
    for step in dict.fromkeys(point.step for point in report.response_points):
        points = [point for point in report.response_points if point.step == step]
        row = next(
            (
                row
                for row in response_rows(report, step)
                if not row.query and row.statistic == "mean" and row.term == points[0].term
            ),
            None,
        )
        if row is not None and (row.slope > 0 or is_told(row)):
            charts.append(_chart(step, row, points))
    return tuple(charts)


def response_rows(report: Report, step: str) -> tuple[ResponseRow, ...]:
    """Return the slopes of one load: of the transaction, of its percentiles, then of its queries."""
    rows = [row for row in report.responses if row.step == step]
    order = ("mean", "p50", "p95", "p99")
    return tuple(sorted(rows, key=lambda row: (bool(row.query), order.index(row.statistic))))


def response_lines(report: Report, escaped: Callable[[str], str]) -> Iterator[str]:
    """Yield a Markdown table of what each millisecond of the volume costs, and the counted waits.

    A load of whose transactions no cost is known has no rows: those of its percentiles and queries say less.

    Args:
        report: of the run.
        escaped: makes text from outside harmless in Markdown.
    """
    steps = dict.fromkeys(row.step for row in report.responses)
    rows = [row for step in steps if _is_known(report, step) for row in response_rows(report, step)]
    if not rows:
        return
    yield "| of | each ms of | costs, ms | counted waits |"
    yield "|---|---|--:|--:|"
    for row in rows[:ROWS_MAX]:
        subject = row.query or ("mean of a transaction" if row.statistic == "mean" else row.statistic)
        note = f" ({count_note(row)})" if count_note(row) else ""
        texts = (escaped(f"{row.step}: {subject}"), row.title, escaped(cost_text(row)))
        yield f"| {' | '.join(texts)} | {counted_text(row)}{note} |"
    yield ""


def _is_known(report: Report, step: str) -> bool:
    """Whether a transaction's cost of any wait is known."""
    of_step = [row for row in report.responses if row.step == step and row.statistic == "mean" and not row.query]
    return any(cost_text(row) != UNKNOWN for row in of_step)


def _chart(step: str, row: ResponseRow, points: list[ResponsePointRow]) -> ResponseChart:
    right = 1.05 * max(point.await_ms for point in points)
    top = 1.05 * max(point.latency_ms for point in points)
    # Other waits than the drawn one stand at their mean: the line passes through the mean of both axes.
    at_zero = row.latency_ms - row.slope * row.await_ms

    def across(await_ms: float) -> float:
        return round(100 * await_ms / right, 2)

    def down(latency_ms: float) -> float:
        return round(100 * (1 - latency_ms / top), 2)

    ends = [(await_ms, at_zero + row.slope * await_ms) for await_ms in (0.0, right)]
    return ResponseChart(
        step=step,
        row=row,
        knots=tuple(
            Knot(volume=point.volume, left=across(point.await_ms), top=down(point.latency_ms)) for point in points
        ),
        line=" ".join(f"{across(await_ms)},{down(latency_ms)}" for await_ms, latency_ms in ends),
        x_ticks=tuple(Tick(at=across(value), text=f"{value:,.6g}") for value in linear_ticks(0.0, right)),
        y_ticks=tuple(Tick(at=down(value), text=f"{value:,.6g}") for value in linear_ticks(0.0, top)),
    )
