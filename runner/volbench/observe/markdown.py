"""The report of an observation as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volbench.analysis.explain.wording import number, percent
from volbench.observe.report import (
    IncidentReport,
    ObservationReport,
    Statement,
    clock_of,
    part_name,
    top_by,
)
from volbench.records.report import FindingRow

_TEXT_CHARACTERS = 120


def markdown(report: ObservationReport) -> str:
    """The whole report, for a reader who knows MySQL and not volbench."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: ObservationReport) -> Iterator[str]:
    seen = report.observation
    begin, end = (clock_of(report, one) for one in report.window_s)
    yield f"# What {seen.server_place} waited for"
    yield ""
    about = f"{seen.server.flavor} {seen.server.version}, observed from {begin} to {end} UTC"
    yield f"{about}, {report.samples} samples."
    if seen.volume is not None:
        what = seen.volume.disk or seen.volume.nfs_server or seen.volume.filesystem or "unknown"
        profile = f", emulated {seen.volume.emulated_profile}" if seen.volume.emulated_profile else ""
        yield f"Data directory on {what} ({seen.volume.filesystem} at {seen.volume.mount_point}{profile})."
    yield ""
    yield "## All of the time"
    yield ""
    yield from _findings(report.findings, frozenset())
    if report.shares:
        yield "Where the time of statements went:"
        yield ""
        yield "| part | share |"
        yield "|---|---|"
        for part, share in sorted(report.shares.items(), key=lambda one: -one[1]):
            if share >= 0.005:
                yield f"| {part_name(part)} | {percent(share)} |"
        yield ""
    for one in report.associations:
        name = " ".join(filter(None, (one.key.source, one.key.metric, _cell(one.key.entity))))
        yield f"- p95 moves with {name} (rank correlation {one.rho:+.2f}, q {one.q_value:.2g}): no cause by itself"
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


def _incident(report: ObservationReport, one: IncidentReport) -> Iterator[str]:
    incident = one.incident
    end = "it went on" if incident.end_s is None else f"to {clock_of(report, incident.end_s)}"
    yield f"## Incident {incident.name}: {incident.trigger}"
    yield ""
    lasted = "" if incident.end_s is None else f", {number(incident.end_s - incident.onset_s)} s"
    yield f"From {clock_of(report, incident.onset_s)} UTC {end}{lasted}."
    yield ""
    yield from _findings(one.findings, one.also_before)
    if one.levels:
        yield "| | before | during | ratio |"
        yield "|---|---|---|---|"
        for level in one.levels:
            before, during = (
                "unknown" if value is None else f"{number(value)} {level.unit}".strip()
                for value in (level.before, level.during)
            )
            ratio = f"{level.during / level.before:.2f}" if level.before and level.during is not None else ""
            yield f"| {level.name} | {before} | {during} | {ratio} |"
        yield ""
    yield from (f"- {note}" for note in one.notes)
    if one.notes:
        yield ""
    yield from _statements("### Statements during the incident", one.statements[:5], only_time=True)


def _findings(rows: Sequence[FindingRow], also_before: frozenset[str]) -> Iterator[str]:
    if not rows:
        yield "No cause can be named from this evidence."
        yield ""
    for row in rows:
        share = "" if row.share is None else f", explains {percent(row.share)} of the time"
        confidence = "" if row.confidence is None else f", confidence {row.confidence:.2f}"
        name = "the volume is not the problem" if row.cause == "none" else f"`{row.cause}`"
        before = "; it was there before, too" if row.cause in also_before else ""
        yield f"**{name}**{share}{confidence}{before}"
        yield ""
        yield from (f"- {evidence.text}" for evidence in row.evidence)
        if row.advice:
            yield f"- advice: {row.advice}"
        yield ""


def _statements(title: str, statements: Sequence[Statement], *, only_time: bool = False) -> Iterator[str]:
    if not statements:
        return
    yield title
    yield ""
    yield "| by time | share | count | mean ms | CPU s | waited s | rows examined | rows sent |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in top_by(statements, "time_s"):
        known = map(_known, (one.cpu_s, one.waited_s, one.rows_examined, one.rows_sent))
        figures = (percent(one.share), number(one.statements), number(one.mean_ms), *known)
        yield f"| `{_cell(one.text)}` | {' | '.join(figures)} |"
    yield ""
    if only_time:
        return
    for name, heading in (
        ("rows_examined", "rows examined"), ("rows_affected", "rows changed"),
        ("tmp_disk_tables", "temporary tables on disk"),
    ):  # fmt: skip
        top = [one for one in top_by(statements, name) if getattr(one, name) >= 1][:3]
        if top:
            shown = "; ".join(f"{number(getattr(one, name))} by `{_cell(one.text)}`" for one in top)
            yield f"Most {heading}: {shown}"
            yield ""
    yield "No server counts I/O by statement: *waited* is time that is neither CPU nor table locks."
    yield ""


def _known(value: float | None) -> str:
    return "" if value is None else number(value)


def _cell(text: str) -> str:
    """Text of a statement within a table's cell."""
    plain = " ".join(text.replace("`", "").replace("|", "\\|").split())
    return plain if len(plain) <= _TEXT_CHARACTERS else f"{plain[:_TEXT_CHARACTERS]}..."
