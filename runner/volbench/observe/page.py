"""The report of an observation as one HTML file that needs no network; all text from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from volbench.core.base.text import quantity
from volbench.core.records.named_metrics import CPU, Client, PerformanceSchema
from volbench.core.records.report import TimeDifferenceRow
from volbench.observe.budget import SHOWN_MIN, ExtraTime, StatementTime, difference_text
from volbench.observe.markdown import association_text, headlines
from volbench.observe.report import (
    IncidentReport,
    ObservationReport,
    clock_of,
)
from volbench.observe.statements import count_text, textless_note, top_by
from volbench.results.explain.accounts.time_budget import PIECES
from volbench.results.explain.wording import number, percent
from volbench.results.report.formats.signed_page import signed_page
from volbench.results.report.views.causes import cause_view
from volbench.results.report.views.charts import Band, ChartGroup, ChartLine, LineChart, chart_assets
from volbench.results.report.views.panels import Dash
from volbench.results.report.views.sessions import highest, stacked
from volbench.results.report.views.time_budget import Segment, segments
from volbench.results.stats.grid import Floats

_TIME_OF_DAY = 11
"""Of a moment's text, behind its date."""
_DASHES: tuple[Dash, ...] = ("solid", "dashed")
_BAND_MIN = 0.3
"""Percent of the width: an incident of a second in a day can still be seen."""


def page(report: ObservationReport) -> str:
    """The whole page."""
    top = 0.0 if report.time is None else highest(report.time.sessions)
    return signed_page(
        "observation.html.j2",
        report=report,
        observation=report.observation,
        charts=_charts(report),
        assets=chart_assets(),
        begin=clock_of(report, report.window_s[0]),
        end=clock_of(report, report.window_s[1]),
        ends=[clock_of(report, moment_s)[_TIME_OF_DAY:] for moment_s in report.window_s],
        clock=lambda t_s: clock_of(report, t_s),
        cause=lambda finding: cause_view(finding, ()),
        headlines=list(headlines(report)),
        bar=() if report.time is None else _bar(report.time, report.time.ms),
        before_and_during=_before_and_during,
        layers=() if report.time is None else stacked(report.time.sessions, top),
        sessions_max=number(top),
        bands=[_percents(report, incident) for incident in report.incidents],
        shown_min=SHOWN_MIN,
        difference=difference_text,
        associations=list(map(association_text, report.associations)),
        top=lambda statements: top_by(statements, "time_s"),
        number=lambda value: "" if value is None else number(value),
        quantity=quantity,
        percent=percent,
        count=count_text,
        textless=textless_note(report.statements),
    )


def _bar(time: StatementTime, longest_ms: float) -> tuple[Segment, ...]:
    """A statement's pieces side by side; `longest_ms` is as wide as the chart."""
    return segments([(piece.piece, piece.title, piece.ms) for piece in time.pieces], time.ms, longest_ms)


def _before_and_during(extra: ExtraTime) -> list[tuple[str, float, tuple[Segment, ...]]]:
    """Two bars: name, milliseconds, pieces."""
    longest_ms = max(extra.before_ms, extra.during_ms)
    rows = _in_order(extra)
    before = [(row.piece, row.title, row.baseline_ms) for row in rows]
    during = [(row.piece, row.title, row.candidate_ms) for row in rows]
    return [
        ("before", extra.before_ms, segments(before, extra.before_ms, longest_ms)),
        ("during", extra.during_ms, segments(during, extra.during_ms, longest_ms)),
    ]


def _in_order(extra: ExtraTime) -> list[TimeDifferenceRow]:
    """By piece as in every budget, not by size."""
    order = list(PIECES)
    return sorted(extra.rows, key=lambda row: order.index(row.piece))


def _percents(report: ObservationReport, incident: IncidentReport) -> tuple[float, float, str]:
    """Return left edge, width and name of an incident in a box that is 100 wide."""
    begin_s, end_s = report.window_s
    onset_s, over_s = _span(report, incident)
    scale = 100 / max(end_s - begin_s, 1e-9)
    left = max(0.0, (onset_s - begin_s) * scale)
    return left, max(_BAND_MIN, (over_s - begin_s) * scale - left), incident.incident.name


def _span(report: ObservationReport, incident: IncidentReport) -> tuple[float, float]:
    """Return begin and end of an incident; one that goes on ends with the observation."""
    over_s = report.window_s[1] if incident.incident.end_s is None else incident.incident.end_s
    return incident.incident.onset_s, over_s


def _charts(report: ObservationReport) -> ChartGroup | None:
    case, device = report.case, report.case.device
    user, system = case.at(CPU.user_ratio), case.at(CPU.system_ratio)
    columns: list[tuple[str, str, str, dict[str, Floats | None]]] = [
        ("statements", "Statements", "1/s", {"ended": case.at(PerformanceSchema.statements_per_s)}),
        (
            "latency",
            "Time of a statement",
            "ms",
            {
                "p95": case.at(Client.latency_ms_p95),
                "mean of an interval": case.at(PerformanceSchema.statement_ms),
            },
        ),
        ("operations", "Operations of the volume", "1/s", {"ended": None if device is None else device.iops}),
        ("await", "Time of an operation (await)", "ms", {"mean": None if device is None else device.await_ms}),
        ("queue", "Requests in flight", "requests", {"mean": None if device is None else device.in_flight}),
        ("credits", "Credits", "%", {"left": case.balance_percent}),
        ("cpu", "CPUs busy", "%", {"busy": None if user is None or system is None else 100 * (user + system)}),
    ]
    zero_s = report.observation.zero_epoch_s
    charts = tuple(
        LineChart(key=key, title=title, unit=unit, lines=lines)
        for key, title, unit, values in columns
        if (lines := tuple(_lines(values, case.grid.t_s + zero_s)))
    )
    bands = [_span(report, incident) for incident in report.incidents]
    if not charts:
        return None
    return ChartGroup(
        charts=charts,
        begin=zero_s + report.window_s[0],
        end=zero_s + report.window_s[1],
        is_clock=True,
        bands=tuple(Band(begin=zero_s + begin_s, end=zero_s + end_s) for begin_s, end_s in bands),
    )


def _lines(columns: Mapping[str, Floats | None], t: Floats) -> Iterator[ChartLine]:
    for (label, values), dash in zip(columns.items(), _DASHES, strict=False):
        if values is not None and np.isfinite(values).any():
            yield ChartLine(label=label, t=t, value=values, dash=dash)
