"""Figures of an observation's page: where the time of statements went, sessions, and curves with its incidents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from volbench.core.base.text import quantity
from volbench.core.records.named_metrics import CPU, Client, PerformanceSchema
from volbench.observe.budget import ExtraTime, piece_title
from volbench.observe.report import IncidentReport, ObservationReport, clock_of
from volbench.results.explain.accounts.time_budget import PIECES, TimeBudget, sessions_by_piece
from volbench.results.explain.wording import number
from volbench.results.report.views.charts import Band, ChartGroup, ChartLine, LineChart
from volbench.results.report.views.panels import Dash
from volbench.results.report.views.sections import Bars, Charts, Sessions
from volbench.results.report.views.sessions import highest, stacked
from volbench.results.report.views.time_budget import segments
from volbench.results.stats.grid import Floats

_TIME_OF_DAY = 11
"""Of a moment's text, behind its date."""
_DASHES: tuple[Dash, ...] = ("solid", "dashed")
_BAND_MIN = 0.3
"""Percent of the width: an incident of a second in a day can still be seen."""
_SESSIONS_NOTE = (
    "Statement time of an interval, as the server counts it, is the number of sessions that were in a piece. Waits"
    " count when they end. What is known for all of the time only is spread over it evenly."
)


def statement_bar(time: TimeBudget) -> Bars:
    """Return the pieces of a statement side by side."""
    pieces = [(piece, piece_title(piece, time), ms) for piece, ms in time.pieces.items()]
    bar = segments(pieces, time.statement_ms, time.statement_ms)
    return Bars((("a statement", quantity(time.statement_ms, "ms"), bar),))


def before_and_during(extra: ExtraTime) -> Bars:
    """Return a statement before an incident and in it, pieces as in every budget and not by size."""
    longest_ms = max(extra.before_ms, extra.during_ms)
    order = list(PIECES)
    rows = sorted(extra.rows, key=lambda row: order.index(row.piece))
    before = [(row.piece, row.title, row.baseline_ms) for row in rows]
    during = [(row.piece, row.title, row.candidate_ms) for row in rows]
    return Bars(
        tuple(
            (name, quantity(ms, "ms"), segments(pieces, ms, longest_ms))
            for name, ms, pieces in (("before", extra.before_ms, before), ("during", extra.during_ms, during))
        )
    )


def sessions(report: ObservationReport, time: TimeBudget) -> Sessions:
    """Return the sessions in each piece over time, incidents shaded."""
    columns = sessions_by_piece(report.case, time)
    top = highest(columns)
    begin, end = (clock_of(report, moment_s)[_TIME_OF_DAY:] for moment_s in report.window_s)
    return Sessions(
        layers=stacked(columns, top),
        top=number(top),
        ends=(begin, f"{end} UTC"),
        bands=tuple(_percents(report, incident) for incident in report.incidents),
        note=_SESSIONS_NOTE,
    )


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


def charts(report: ObservationReport) -> Charts | None:
    """Return the curves of load and volume over all of the time; None where nothing is known."""
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
    line_charts = tuple(
        LineChart(key=key, title=title, unit=unit, lines=lines)
        for key, title, unit, values in columns
        if (lines := tuple(_lines(values, case.grid.t_s + zero_s)))
    )
    bands = [_span(report, incident) for incident in report.incidents]
    if not line_charts:
        return None
    begin, end = (clock_of(report, moment_s) for moment_s in report.window_s)
    group = ChartGroup(
        charts=line_charts,
        begin=zero_s + report.window_s[0],
        end=zero_s + report.window_s[1],
        is_clock=True,
        bands=tuple(Band(begin=zero_s + begin_s, end=zero_s + end_s) for begin_s, end_s in bands),
    )
    return Charts(group, f"{begin} to {end} UTC{'; shaded: incidents' if bands else ''}.")


def _lines(columns: Mapping[str, Floats | None], t: Floats) -> Iterator[ChartLine]:
    for (label, values), dash in zip(columns.items(), _DASHES, strict=False):
        if values is not None and np.isfinite(values).any():
            yield ChartLine(label=label, t=t, value=values, dash=dash)
