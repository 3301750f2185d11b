"""The report of an observation as one HTML file without scripts or network; all text from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from volbench.core.base.text import quantity
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
from volbench.results.report.views.sessions import highest, stacked
from volbench.results.report.views.time_budget import Segment, segments
from volbench.results.stats.grid import Floats

_TIME_OF_DAY = 11
"""Of a moment's text, behind its date."""
WIDTH, HEIGHT = 720, 90
POINTS_MAX = 720


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One metric over all of the time: pieces of a line, and incidents as bands, in a box of WIDTH by HEIGHT."""

    title: str
    unit: str
    top: str
    bottom: str
    lines: tuple[str, ...]
    bands: tuple[tuple[float, float, str], ...]


def page(report: ObservationReport) -> str:
    """The whole page."""
    top = 0.0 if report.time is None else highest(report.time.sessions)
    return signed_page(
        "observation.html.j2",
        report=report,
        observation=report.observation,
        charts=list(_charts(report)),
        width=WIDTH,
        height=HEIGHT,
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
        bands=[_percents(_band(report, incident)) for incident in report.incidents],
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


def _percents(band: tuple[float, float, str]) -> tuple[float, float, str]:
    left, wide, name = band
    return 100 * left / WIDTH, 100 * wide / WIDTH, name


def _charts(report: ObservationReport) -> Iterator[Chart]:
    case, device = report.case, report.case.device
    user, system = case.at("user_ratio", "cpu"), case.at("system_ratio", "cpu")
    charts: list[tuple[str, str, Floats | None]] = [
        ("statements", "1/s", case.at("statements_per_s", "performance_schema")),
        ("statement p95", "ms", case.at("latency_ms_p95")),
        ("statement mean", "ms", case.at("statement_ms", "performance_schema")),
        ("operations of the volume", "1/s", None if device is None else device.iops),
        ("await", "ms", None if device is None else device.await_ms),
        ("requests in flight", "", None if device is None else device.in_flight),
        ("credits", "%", case.balance_percent),
        ("CPUs busy", "%", None if user is None or system is None else 100 * (user + system)),
    ]
    bands = tuple(_band(report, incident) for incident in report.incidents)
    for title, unit, values in charts:
        if values is not None and np.isfinite(values).any():
            yield _chart(title, unit, values, bands)


def _chart(title: str, unit: str, values: Floats, bands: tuple[tuple[float, float, str], ...]) -> Chart:
    """A line from zero to the largest value, so that heights can be compared; a gap stays a gap."""
    drawn = _thinned(values)
    top = float(np.nanmax(drawn))
    across = np.linspace(0, WIDTH, len(drawn) + 1)[1:]
    up = HEIGHT - HEIGHT * drawn / (top or 1.0)
    pieces: list[list[str]] = [[]]
    for x, y in zip(across.tolist(), up.tolist(), strict=True):
        if np.isfinite(y):
            pieces[-1].append(f"{x:.1f},{y:.1f}")
        elif pieces[-1]:
            pieces.append([])
    lines = tuple(" ".join(piece if len(piece) > 1 else piece * 2) for piece in pieces if piece)
    return Chart(title=title, unit=unit, top=number(top), bottom="0", lines=lines, bands=bands)


def _thinned(values: Floats) -> Floats:
    """At most POINTS_MAX values, the largest of each stretch, so that no peak is lost."""
    each = -(-len(values) // POINTS_MAX)
    if each == 1:
        return values
    padded = np.concatenate([values, np.full(-len(values) % each, np.nan)]).reshape(-1, each)
    finite = np.where(np.isfinite(padded), padded, -np.inf).max(axis=1)
    return np.where(np.isfinite(finite), finite, np.nan)


def _band(report: ObservationReport, incident: IncidentReport) -> tuple[float, float, str]:
    begin_s, end_s = report.window_s
    last_s = end_s if incident.incident.end_s is None else incident.incident.end_s
    scale = WIDTH / max(end_s - begin_s, 1e-9)
    left = max(0.0, (incident.incident.onset_s - begin_s) * scale)
    return left, max(2.0, (last_s - begin_s) * scale - left), incident.incident.name
