"""The report of an observation as one HTML file without scripts or network; all text from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from volbench.analysis.explain.evidence.align import Floats
from volbench.analysis.explain.wording import number, percent
from volbench.observe.report import (
    IncidentReport,
    ObservationReport,
    clock_of,
    count_text,
    part_name,
    textless_note,
    top_by,
)
from volbench.report.formats.signed_page import signed_page

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
    return signed_page(
        "observation.html.j2",
        report=report,
        observation=report.observation,
        charts=list(_charts(report)),
        width=WIDTH,
        height=HEIGHT,
        begin=clock_of(report, report.window_s[0]),
        end=clock_of(report, report.window_s[1]),
        clock=lambda t_s: clock_of(report, t_s),
        shares=[(part_name(layer), percent(share)) for layer, share in _shares(report)],
        top=lambda statements: top_by(statements, "time_s"),
        number=lambda value: "" if value is None else number(value),
        percent=percent,
        count=count_text,
        textless=textless_note(report.statements),
    )


def _shares(report: ObservationReport) -> list[tuple[str, float]]:
    return sorted(
        ((layer, share) for layer, share in report.shares.items() if share >= 0.005), key=lambda item: -item[1]
    )


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
