"""What an observation showed: causes over all of its time, each incident against the time before it, statements."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from volbench.core.records.named_metrics import Client
from volbench.core.records.report import FindingRow
from volbench.errors import RunUnreadable, UsageError
from volbench.measure.sample.raw import RawTick, SourcePresence, read_raw
from volbench.observe.budget import ExtraTime, piece_title
from volbench.observe.cases import STEP, Compared, case_of, compare_incident
from volbench.observe.incidents import by_event, found_afterwards
from volbench.observe.model import INCIDENTS, Incident, Observation, read_incidents, read_observation
from volbench.observe.recent import Readings, RecentSeries
from volbench.observe.response import ObservedResponse, observed_response
from volbench.observe.ring import RING, RingSegment, segments_in
from volbench.observe.statements import Statement, StatementRates
from volbench.results.explain.accounts.time_budget import TimeBudget, statement_budget
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_relation import cause_of, counterparts, first_cause, relation_of
from volbench.results.explain.evidence.association import Association, cell_correlations, pooled
from volbench.results.explain.evidence.episodes import FigureChange
from volbench.results.explain.findings import Explanation, explain_case
from volbench.results.explain.pooling import finding_rows
from volbench.results.explain.rules.acquittal import NONE
from volbench.results.recorded.after import TIMES_ARE_UTC, on_clock, read_recorded, span_text
from volbench.results.store.series import Series, SeriesKey

ASSOCIATIONS_SHOWN = 5
NOT_OBSERVED = frozenset({"round_trip", "tcp", "ebs_csi"})
"""Sources of a run alone: an observation sends no statements of its own for them, and has no option for them."""
LATENCY = SeriesKey.of(Client.latency_ms_p95)


@dataclass(frozen=True, kw_only=True)
class IncidentReport:
    """One incident. `findings`: what explains it; `also_before`: causes of them that were there before."""

    incident: Incident
    findings: tuple[FindingRow, ...]
    also_before: frozenset[str]
    levels: tuple[FigureChange, ...]
    statements: tuple[Statement, ...]
    notes: tuple[str, ...]
    extra: ExtraTime | None = None


@dataclass(frozen=True, kw_only=True)
class ObservationReport:
    """All of it. `window_s` is what could be read; `sources` says of each absent source why.

    `response` is None where no statement times, or no device, are seen.
    """

    observation: Observation
    window_s: tuple[float, float]
    samples: int
    findings: tuple[FindingRow, ...]
    notes: tuple[str, ...]
    time: TimeBudget | None
    statements: tuple[Statement, ...]
    associations: tuple[Association, ...]
    incidents: tuple[IncidentReport, ...]
    sources: Mapping[str, str]
    case: Case
    response: ObservedResponse | None = None

    @property
    def first_cause(self) -> str:
        """Name of the first cause of all of the time, which associations are held against; empty: none is named."""
        return cause_of(self.findings[0]) if self.findings else ""


def report_of(directory: Path, *, recorded: Sequence[str] = ()) -> ObservationReport:
    """Read an observation, also one whose process was killed, and explain it.

    Args:
        directory: of the observation.
        recorded: what the volume's own side tells of the same time: CloudWatch's JSON, a log of NVMe counters, or
            `cloudwatch:NAME`.

    Raises RunUnreadable, UsageError for a source that cannot be read or tells of other times.
    """
    observation = read_observation(directory)
    incidents = by_event(read_incidents(directory))
    window, rates, sources = _read(directory)
    series = window.series()
    if not series:
        raise RunUnreadable("the observation has no readings", where=str(directory))
    added, added_notes = _recorded(observation, recorded, window.end_s)
    case = case_of({**series, **added}, observation)
    explained = explain_case(case)
    volume = _volume_name(observation)
    findings = finding_rows(volume, STEP, {STEP: explained})
    incidents = incidents or [*found_afterwards(case)]
    return ObservationReport(
        observation=observation,
        window_s=case.window_s,
        samples=len(case.grid),
        findings=findings,
        notes=tuple(dict.fromkeys((*observation.notes, *added_notes, *explained.refuted_texts, *explained.notes))),
        time=statement_budget(case),
        statements=tuple(rates.statements()),
        associations=_moving(case, cause_of(first_cause(findings, volume, STEP))),
        incidents=tuple(_incident(case, rates, incident, volume) for incident in incidents),
        sources=sources,
        case=case,
        response=observed_response(case, series, volume),
    )


def _moving(case: Case, cause: str) -> tuple[Association, ...]:
    """Return what moves most with the latency, first what may be a cause by its sign."""
    of_cause = counterparts(case.grid, LATENCY, [cause] if cause else [])
    moving = pooled([cell_correlations(case.grid, LATENCY, counterparts=of_cause)])
    holding = (association for association in moving if association.holds)
    ordered = sorted(holding, key=lambda association: bool(association.implausible_reason))
    return tuple(ordered[:ASSOCIATIONS_SHOWN])


def _read(directory: Path) -> tuple[RecentSeries, StatementRates, dict[str, str]]:
    """All readings that are left, their statements, and why sources are absent.

    Over a hole in the ring there is no difference.
    """
    directories = sorted((directory / INCIDENTS).glob("*/"))
    window, readings, rates, sources = RecentSeries(), Readings(), StatementRates(), dict[str, str]()
    before: RingSegment | None = None
    for segment in segments_in(directory / RING, *directories):
        if before is not None and segment.number != before.number + 1:
            readings = Readings()
        before = segment
        if not segment.path.stat().st_size:
            continue
        for record in read_raw(segment.path):
            if isinstance(record, RawTick):
                for _, begin_s, rows in readings.rows_of(record):
                    window.add(rows)
                    rates.add(begin_s, rows)
            elif isinstance(record, SourcePresence):
                sources[record.source] = record.presence.reason
    absent = {name: reason for name, reason in sorted(sources.items()) if reason and name not in NOT_OBSERVED}
    return window, rates, absent


def _recorded(
    observation: Observation, sources: Sequence[str], length_s: float
) -> tuple[dict[SeriesKey, Series], list[str]]:
    """What recordings tell of an observation's time, on its clock, and what a reader must know."""
    zero_s = observation.zero_epoch_s
    series, notes = dict[SeriesKey, Series](), list[str]()
    for source in sources:
        _, recorded, source_notes = read_recorded(source, begin_s=zero_s, end_s=zero_s + length_s)
        of_observation = on_clock(recorded, zero_epoch_s=zero_s, length_s=length_s)
        if not of_observation:
            raise UsageError(
                "it tells of other times than the observation",
                where=f"--add {source}",
                evidence=f"it has {span_text(recorded)}; the observation began {observation.started_at}",
                next_step=TIMES_ARE_UTC,
            )
        series |= of_observation
        notes += source_notes
    return series, notes


def _incident(case: Case, rates: StatementRates, incident: Incident, volume: str) -> IncidentReport:
    end_s = incident.end_s if incident.end_s is not None else case.window_s[1]
    around = case.cell_grid.within(*incident.window_s)
    incident_case = dataclasses.replace(case, grid=around, cell_grid=around)
    if not len(incident_case.cell_grid.within(incident.onset_s - 1, end_s + 1)):
        gone = "the readings of this incident were erased: it was older than --keep, or --max-size had no room"
        return IncidentReport(
            incident=incident, findings=(), also_before=frozenset(), levels=(), statements=(), notes=(gone,)
        )
    compared = compare_incident(incident_case, incident.onset_s, end_s)
    explained = _which(compared)
    notes = [] if incident.is_complete else ["there was no room for all readings of this incident"]
    if incident.end_s is None:
        notes.append("it was going on when the observation ended")
    if not explained.findings:
        notes += [*explained.refuted_texts, *explained.notes]
    return IncidentReport(
        incident=incident,
        findings=finding_rows(volume, STEP, {incident.name: explained}),
        also_before=compared.causes_before - {NONE},
        levels=compared.levels,
        statements=tuple(rates.statements(incident.onset_s - 1, end_s + 1)),
        notes=tuple(notes),
        extra=compared.extra,
    )


def _which(compared: Compared) -> Explanation:
    """Causes of the incident alone, and those that show against the time before it; `none` only if both do.

    A share of the time is that of the incident: what a cause explains of both times together is no figure of it.
    """
    during = {finding.cause: finding for finding in compared.during.findings}
    findings = (*compared.during.findings, *compared.around.findings)
    by_cause = {finding.cause: _with_share_of(finding, during.get(finding.cause)) for finding in findings}
    causes = [finding for cause, finding in by_cause.items() if cause != NONE] or list(by_cause.values())
    fresh = sorted(causes, key=lambda finding: (finding.cause in compared.causes_before, -(finding.share or 0.0)))
    return replace(compared.around, findings=tuple(fresh))


def _with_share_of(finding: Cause, during: Cause | None) -> Cause:
    if during is None:
        return replace(finding, share=None)
    return replace(finding, share=during.share, of_clients=during.of_clients)


def _volume_name(observation: Observation) -> str:
    volume = observation.volume
    return "server" if volume is None else volume.disk or volume.mount_point or volume.path


def clock_of(report: ObservationReport, t_s: float) -> str:
    """A moment of the observation as a time of day, UTC."""
    return datetime.fromtimestamp(report.observation.zero_epoch_s + t_s, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")


def as_json(report: ObservationReport) -> dict[str, Any]:
    """report.json of an observation. Times are UTC and `t_s`, seconds since its begin."""
    return {
        "schema": 1,
        "observation": report.observation.model_dump(mode="json", by_alias=True),
        "window_s": report.window_s,
        "window": [clock_of(report, moment_s) for moment_s in report.window_s],
        "samples": report.samples,
        "findings": [finding.model_dump(mode="json") for finding in report.findings],
        "notes": list(report.notes),
        "absent_sources": dict(report.sources),
        "statement_time": None if report.time is None else _time_json(report.time),
        "response": None if report.response is None else dataclasses.asdict(report.response),
        "statements": _statements_json(report.statements),
        "associations": _associations_json(report),
        "incidents": [_incident_json(report, incident) for incident in report.incidents],
    }


def _associations_json(report: ObservationReport) -> list[dict[str, Any]]:
    """Rows of `What moves with p95`, each with what it is to the first cause (`AssociationRow`)."""
    return [
        {
            "source": association.key.source,
            "metric": association.key.metric,
            "entity": association.key.entity,
            "rho": association.rho,
            "lag": association.lag,
            "q_value": association.q_value,
            "implausible_reason": association.implausible_reason,
            "first_cause": report.first_cause,
            "relation": relation_of(association, report.first_cause),
            "moves_along": association.moves_along(report.first_cause),
        }
        for association in report.associations
    ]


def _time_json(time: TimeBudget) -> dict[str, Any]:
    pieces = [
        {"piece": piece, "title": piece_title(piece, time), "ms": ms, "share": ms / time.statement_ms}
        for piece, ms in time.pieces.items()
    ]
    return {"ms": time.statement_ms, "pieces": pieces}


def _incident_json(report: ObservationReport, incident: IncidentReport) -> dict[str, Any]:
    findings = [
        {**row.model_dump(mode="json"), "also_before": row.cause in incident.also_before}
        for row in incident.findings
    ]
    end_s = incident.incident.end_s
    return {
        **incident.incident.model_dump(mode="json", by_alias=True),
        "onset": clock_of(report, incident.incident.onset_s),
        "end": None if end_s is None else clock_of(report, end_s),
        "findings": findings,
        "levels": [dataclasses.asdict(level) for level in incident.levels],
        "extra_time": _extra_json(incident.extra),
        "statements": _statements_json(incident.statements),
        "notes": list(incident.notes),
    }


def _statements_json(statements: Sequence[Statement]) -> list[dict[str, Any]]:
    return [{**dataclasses.asdict(statement), "waited_s": statement.waited_s} for statement in statements]


def _extra_json(extra: ExtraTime | None) -> dict[str, Any] | None:
    if extra is None:
        return None
    pieces = [
        {
            "piece": row.piece,
            "title": row.title,
            "before_ms": row.baseline_ms,
            "during_ms": row.candidate_ms,
            "difference_ms": row.difference_ms,
            "share": row.share,
        }
        for row in extra.rows
    ]
    return {"before_ms": extra.before_ms, "during_ms": extra.during_ms, "text": extra.sentence, "pieces": pieces}
