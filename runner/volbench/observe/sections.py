"""The report of an observation in words and tables, for a reader who knows MySQL and not volbench."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volbench.core.base.text import counted, quantity
from volbench.core.records.report import FindingRow
from volbench.observe.budget import SHOWN_MIN, ExtraTime, difference_text, piece_title
from volbench.observe.figures import before_and_during, charts, sessions, statement_bar
from volbench.observe.report import IncidentReport, ObservationReport, clock_of
from volbench.observe.statements import Statement, count_text, textless_note, top_by
from volbench.results.explain.accounts.time_budget import TimeBudget
from volbench.results.explain.cause_relation import relation_of
from volbench.results.explain.evidence.association import Association
from volbench.results.explain.evidence.episodes import FigureChange
from volbench.results.explain.wording import number, percent
from volbench.results.report.formats.sections import short_code
from volbench.results.report.views.cause_clause import clause_of
from volbench.results.report.views.causes import cause_view
from volbench.results.report.views.sections import (
    Block,
    Document,
    Heading,
    Items,
    NamedCause,
    Section,
    Table,
    Text,
)

_PIECE = "piece of a statement's time"
_MOST = (
    ("rows_examined", "rows examined"),
    ("rows_affected", "rows changed"),
    ("tmp_disk_tables", "temporary tables on disk"),
)


def document_of(report: ObservationReport) -> Document:
    """Return the whole report: causes of all of the time, each incident, statements, what is missing."""
    headline_items = Items(tuple(headlines(report)), tuple(map(_anchor, report.incidents)))
    missing = (*report.notes, *(f"{source}: {reason}" for source, reason in report.sources.items()))
    sections = (
        Section("", (headline_items,)),
        Section("All of the time", tuple(_causes(report.findings, frozenset()))),
        *_whole_time(report),
        *(
            Section(
                f"Incident {details.incident.name}: {details.incident.trigger}",
                tuple(_incident(report, details)),
                _anchor(details),
            )
            for details in report.incidents
        ),
        *([Section("Statements", tuple(_statements(report.statements)))] if report.statements else []),
        *([Section("What is missing", (Items(missing),))] if missing else []),
    )
    return Document(
        kind="observed, only read",
        title=f"What {report.observation.server_address} waited for",
        about=tuple(_about(report)),
        sections=sections,
    )


def _about(report: ObservationReport) -> Iterator[str]:
    observation = report.observation
    begin, end = (clock_of(report, moment_s) for moment_s in report.window_s)
    about = f"{observation.server.flavor} {observation.server.version}, observed from {begin} to {end} UTC"
    yield f"{about}, {counted(report.samples, 'sample')}."
    if observation.volume is not None:
        volume = observation.volume
        backing = volume.disk or volume.nfs_server or volume.filesystem or "unknown"
        profile = f", emulated {volume.emulated_profile}" if volume.emulated_profile else ""
        yield f"Data directory on {backing} ({volume.filesystem} at {volume.mount_point}{profile})."


def _anchor(details: IncidentReport) -> str:
    return f"incident-{details.incident.name}"


def _whole_time(report: ObservationReport) -> Iterator[Section]:
    """Yield what is known of all of the time besides its causes."""
    if report.time is not None:
        yield Section("Where the time of statements went", tuple(_time(report, report.time)))
    if report.response is not None:
        yield Section("What a millisecond of the volume costs", (Text(report.response.sentence),))
    if report.associations:
        texts = tuple(association_text(association, report.first_cause) for association in report.associations)
        note = Text("A correlation supports a cause and is none by itself.", "dim")
        yield Section("What moves with p95", (Items(texts), note))
    curves = charts(report)
    if curves is not None:
        yield Section("Over time", (curves,))


def _time(report: ObservationReport, time: TimeBudget) -> Iterator[Block]:
    whole_ms = time.statement_ms
    yield Text(f"A statement took {quantity(whole_ms, 'ms')} (mean of all that ended):")
    yield statement_bar(time)
    pieces = {piece: ms for piece, ms in time.pieces.items() if ms / whole_ms >= SHOWN_MIN}
    largest = sorted(pieces, key=lambda piece: -pieces[piece])
    yield Table(
        heads=(_PIECE, "mean", "share"),
        rows=tuple(
            (piece_title(piece, time), quantity(pieces[piece], "ms"), percent(pieces[piece] / whole_ms))
            for piece in largest
        ),
        pieces=tuple(largest),
    )
    yield sessions(report, time)


def _incident(report: ObservationReport, details: IncidentReport) -> Iterator[Block]:
    incident = details.incident
    begin = f"From {clock_of(report, incident.onset_s)} UTC"
    if incident.end_s is None:
        yield Text(f"{begin} on.")
    else:
        end = clock_of(report, incident.end_s)
        yield Text(f"{begin} to {end}, {number(incident.end_s - incident.onset_s)} s.")
    yield from _causes(details.findings, details.also_before)
    if details.extra is not None:
        yield Text(details.extra.sentence)
        yield before_and_during(details.extra)
        yield _extra_table(details.extra)
    if details.levels:
        yield Table(
            heads=("median of the intervals, unless named otherwise", "before", "during", "ratio"),
            rows=tuple(map(_level_cells, details.levels)),
        )
    yield from (Text(note, "warning") for note in details.notes)
    if details.statements:
        yield Heading("Statements during the incident")
        yield _statement_table(details.statements[:5])


def _causes(rows: Sequence[FindingRow], also_before: frozenset[str]) -> Iterator[Block]:
    if not rows:
        yield Text("No cause can be named from this evidence.")
    for row in rows:
        yield NamedCause(cause_view(row, ()), "it was there before, too" if row.cause in also_before else "")


def _extra_table(extra: ExtraTime) -> Table:
    least_ms = SHOWN_MIN * max(extra.before_ms, extra.during_ms)
    rows = [row for row in extra.rows if abs(row.difference_ms) >= least_ms]
    return Table(
        heads=(_PIECE, "before", "during", "difference"),
        rows=tuple(
            (row.title, quantity(row.baseline_ms, "ms"), quantity(row.candidate_ms, "ms"), difference_text(row))
            for row in rows
        ),
        pieces=tuple(row.piece for row in rows),
    )


def _level_cells(level: FigureChange) -> tuple[str, str, str, str]:
    before, during = (
        "unknown" if value is None else f"{number(value)} {level.unit}".strip()
        for value in (level.before, level.during)
    )
    ratio = f"{level.during / level.before:.2f}" if level.before and level.during is not None else ""
    return level.name, before, during, ratio


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


def association_text(association: Association, cause: str) -> str:
    """Return what p95 moves with, and what that is to the first cause, in a sentence without its end."""
    key = association.key
    name = " ".join(filter(None, (key.source, key.metric, short_code(key.entity))))
    strength = f"rank correlation {association.rho:+.2f}, q {association.q_value:.2g}"
    if association.implausible_reason:
        strength += f"; no cause: {association.implausible_reason}"
    along = association.moves_along(cause)
    clause = clause_of(relation_of(association, cause), cause, association.rho, moves_along=along)
    return f"p95 moves with {name} ({strength}){clause}"


def _statements(statements: Sequence[Statement]) -> Iterator[Block]:
    yield _statement_table(statements)
    textless = textless_note(statements)
    if textless:
        yield Text(textless, "warning")
    for name, heading in _MOST:
        top = [statement for statement in top_by(statements, name) if getattr(statement, name) >= 1][:3]
        if top:
            texts = (f"{number(getattr(statement, name))} by `{short_code(statement.text)}`" for statement in top)
            yield Text(f"Most {heading}: {'; '.join(texts)}")
    yield Text("No server counts I/O by statement: waited is time that is neither CPU nor table locks.", "dim")


def _statement_table(statements: Sequence[Statement]) -> Table:
    """Return the statements by time; without columns of CPU times where the server keeps none."""
    has_cpu = any(statement.cpu_s is not None for statement in statements)
    cpu_heads = ("CPU s", "waited s") if has_cpu else ()
    return Table(
        heads=("by time", "share", "count", "mean ms", *cpu_heads, "rows examined", "rows sent"),
        rows=tuple(
            (
                statement.text,
                percent(statement.share),
                count_text(statement),
                number(statement.mean_ms),
                *[_figure_text(seconds) for seconds in (statement.cpu_s, statement.waited_s) if has_cpu],
                _figure_text(statement.rows_examined),
                _figure_text(statement.rows_sent),
            )
            for statement in top_by(statements, "time_s")
        ),
        has_code=True,
    )


def _figure_text(value: float | None) -> str:
    return "" if value is None else number(value)
