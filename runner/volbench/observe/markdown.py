"""The report of an observation as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volbench.core.base.text import counted, escape_bars, escape_controls, quantity
from volbench.core.records.report import FindingRow
from volbench.observe.budget import SHOWN_MIN, ExtraTime, difference_text
from volbench.observe.report import (
    IncidentReport,
    ObservationReport,
    clock_of,
)
from volbench.observe.statements import Statement, count_text, textless_note, top_by
from volbench.results.explain.evidence.association import Association
from volbench.results.explain.wording import number, percent
from volbench.results.report.views.causes import cause_view

_TEXT_CHARACTERS = 120
_BEFORE = "; it was there before, too"


def markdown(report: ObservationReport) -> str:
    """The whole report, for a reader who knows MySQL and not volbench."""
    return escape_controls("\n".join(_lines(report)) + "\n")


def _lines(report: ObservationReport) -> Iterator[str]:
    observation = report.observation
    begin, end = (clock_of(report, moment_s) for moment_s in report.window_s)
    yield f"# What {observation.server_address} waited for"
    yield ""
    about = f"{observation.server.flavor} {observation.server.version}, observed from {begin} to {end} UTC"
    yield f"{about}, {counted(report.samples, 'sample')}."
    if observation.volume is not None:
        volume = observation.volume
        backing = volume.disk or volume.nfs_server or volume.filesystem or "unknown"
        profile = f", emulated {volume.emulated_profile}" if volume.emulated_profile else ""
        yield f"Data directory on {backing} ({volume.filesystem} at {volume.mount_point}{profile})."
    yield ""
    yield from (f"- {line}" for line in headlines(report))
    yield ""
    yield "## All of the time"
    yield ""
    yield from _findings(report.findings, frozenset())
    if report.time is not None:
        yield f"A statement took {quantity(report.time.ms, 'ms')} (mean of all that ended):"
        yield ""
        yield "| piece of a statement's time | mean | share |"
        yield "|---|--:|--:|"
        for piece in sorted(report.time.pieces, key=lambda piece: -piece.ms):
            if piece.share >= SHOWN_MIN:
                yield f"| {piece.title} | {quantity(piece.ms, 'ms')} | {percent(piece.share)} |"
        yield ""
    if report.response is not None:
        yield report.response.sentence
        yield ""
    for association in report.associations:
        yield f"- {association_text(association)}{'' if association.implausible_reason else ': no cause by itself'}"
    if report.associations:
        yield ""
    for incident in report.incidents:
        yield from _incident(report, incident)
    yield from _statements("## Statements", report.statements)
    if report.notes or report.sources:
        yield "## What is missing"
        yield ""
        yield from (f"- {note}" for note in report.notes)
        yield from (f"- {source}: {reason}" for source, reason in report.sources.items())
        yield ""


def _incident(report: ObservationReport, details: IncidentReport) -> Iterator[str]:
    incident = details.incident
    end = "it went on" if incident.end_s is None else f"to {clock_of(report, incident.end_s)}"
    yield f"## Incident {incident.name}: {incident.trigger}"
    yield ""
    lasted = "" if incident.end_s is None else f", {number(incident.end_s - incident.onset_s)} s"
    yield f"From {clock_of(report, incident.onset_s)} UTC {end}{lasted}."
    yield ""
    yield from _findings(details.findings, details.also_before)
    yield from _extra(details.extra)
    if details.levels:
        yield "| median of the intervals, unless named otherwise | before | during | ratio |"
        yield "|---|---|---|---|"
        for level in details.levels:
            before, during = (
                "unknown" if value is None else f"{number(value)} {level.unit}".strip()
                for value in (level.before, level.during)
            )
            ratio = f"{level.during / level.before:.2f}" if level.before and level.during is not None else ""
            yield f"| {level.name} | {before} | {during} | {ratio} |"
        yield ""
    yield from (f"- {note}" for note in details.notes)
    if details.notes:
        yield ""
    yield from _statements("### Statements during the incident", details.statements[:5], only_time=True)


def _extra(extra: ExtraTime | None) -> Iterator[str]:
    if extra is None:
        return
    yield extra.sentence
    yield ""
    yield "| piece of a statement's time | before | during | difference |"
    yield "|---|--:|--:|--:|"
    for row in extra.rows:
        if abs(row.difference_ms) >= SHOWN_MIN * max(extra.before_ms, extra.during_ms):
            sides = " | ".join(quantity(ms, "ms") for ms in (row.baseline_ms, row.candidate_ms))
            yield f"| {row.title} | {sides} | {difference_text(row)} |"
    yield ""


def _findings(rows: Sequence[FindingRow], also_before: frozenset[str]) -> Iterator[str]:
    if not rows:
        yield "No cause can be named from this evidence."
        yield ""
    for row in rows:
        view = cause_view(row, ())
        certainty = f": {view.certainty}" if view.certainty else ""
        yield f"**{view.title}** (`{row.cause}`){certainty}{_BEFORE if row.cause in also_before else ''}"
        yield ""
        yield from (f"- {evidence.text}" for evidence in (*view.facts, *view.confidence_basis))
        if row.advice:
            yield f"- advice: {row.advice}"
        yield ""


def headlines(report: ObservationReport) -> Iterator[str]:
    """Yield a line for each incident, else for the first cause of all of the time."""
    for details in report.incidents:
        fresh = [row for row in details.findings if row.cause not in details.also_before]
        first = next(iter(fresh or details.findings), None)
        cause = "no cause can be named" if first is None else cause_view(first, ()).title
        extra = "" if details.extra is None else f". {details.extra.sentence}"
        begin = clock_of(report, details.incident.onset_s)
        yield f"Incident {details.incident.name}, {begin} UTC: {cause}{extra}"
    if not report.incidents:
        cause = cause_view(report.findings[0], ()).title if report.findings else "No cause can be named"
        yield f"No incident. All of the time: {cause}"


def association_text(association: Association) -> str:
    """Return what p95 moves with, in a sentence without its end."""
    key = association.key
    name = " ".join(filter(None, (key.source, key.metric, _cell(key.entity))))
    strength = f"rank correlation {association.rho:+.2f}, q {association.q_value:.2g}"
    if association.implausible_reason:
        strength += f"; no cause: {association.implausible_reason}"
    return f"p95 moves with {name} ({strength})"


def _statements(title: str, statements: Sequence[Statement], *, only_time: bool = False) -> Iterator[str]:
    if not statements:
        return
    yield title
    yield ""
    yield "| by time | share | count | mean ms | CPU s | waited s | rows examined | rows sent |"
    yield "|---|---|---|---|---|---|---|---|"
    for statement in top_by(statements, "time_s"):
        costs = (statement.cpu_s, statement.waited_s, statement.rows_examined, statement.rows_sent)
        means = (percent(statement.share), count_text(statement), number(statement.mean_ms))
        figures = (*means, *map(_figure_text, costs))
        yield f"| `{_cell(statement.text)}` | {' | '.join(figures)} |"
    yield ""
    if only_time:
        return
    note = textless_note(statements)
    if note:
        yield note
        yield ""
    for name, heading in (
        ("rows_examined", "rows examined"),
        ("rows_affected", "rows changed"),
        ("tmp_disk_tables", "temporary tables on disk"),
    ):
        top = [statement for statement in top_by(statements, name) if getattr(statement, name) >= 1][:3]
        if top:
            texts = (f"{number(getattr(statement, name))} by `{_cell(statement.text)}`" for statement in top)
            yield f"Most {heading}: {'; '.join(texts)}"
            yield ""
    yield "No server counts I/O by statement: *waited* is time that is neither CPU nor table locks."
    yield ""


def _figure_text(value: float | None) -> str:
    return "" if value is None else number(value)


def _cell(text: str) -> str:
    """Text of a statement within a table's cell."""
    plain = " ".join(escape_bars(text.replace("`", "")).split())
    return plain if len(plain) <= _TEXT_CHARACTERS else f"{plain[:_TEXT_CHARACTERS]}..."
