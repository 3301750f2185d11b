"""Incidents of a report: one for one event, whichever triggers saw it, and those that no trigger saw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volbench.core.records.named_metrics import Client, PerformanceSchema
from volbench.observe.model import Incident
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.episodes import find_episode
from volbench.results.explain.rules.shared_evidence import stands_of

SAME_EVENT_S = 10.0
"""Incidents this close are one event: a trigger's incident is over when its condition did not hold for so long."""
_WITHOUT_TRIGGER = "found afterwards"


def by_event(incidents: Sequence[Incident]) -> list[Incident]:
    """Incidents in order of time, those that overlap as one, with the triggers of all.

    The one that began first gives its name, metric and worst value.
    """
    events: list[Incident] = []
    for incident in sorted(incidents, key=lambda incident: incident.onset_s):
        before = events[-1] if events else None
        if before is None or not (before.end_s is None or incident.onset_s <= before.end_s + SAME_EVENT_S):
            events.append(incident)
            continue
        ends = (before.end_s, incident.end_s)
        events[-1] = before.model_copy(
            update={
                "trigger": " and ".join(dict.fromkeys((*before.trigger.split(" and "), incident.trigger))),
                "end_s": None if None in ends else max(end for end in ends if end is not None),
                "window_s": (
                    min(before.window_s[0], incident.window_s[0]),
                    max(before.window_s[1], incident.window_s[1]),
                ),
                "is_complete": before.is_complete and incident.is_complete,
            }
        )
    return events


def found_afterwards(case: Case) -> Iterator[Incident]:
    """What stands out where no trigger was set or none fired: a slow stretch, else stands of all sessions."""
    waits = None if case.device is None else case.device.await_ms
    columns = (case.at(Client.latency_ms_p95), case.at(PerformanceSchema.statement_ms), waits)
    slow = (find_episode(case.grid, column) for column in columns)
    episode = next((episode for episode in slow if episode is not None), None)
    if episode is not None:
        metric = "p95" if case.at(Client.latency_ms_p95) is not None else "await"
        text = f"{_WITHOUT_TRIGGER}: slower than the rest (p {episode.p_value:.3g})"
        yield _incident(case, text, metric, 0.0, (episode.t0_s, episode.t1_s))
        return
    stands = stands_of(case).stands
    if stands:
        first, last = (float(case.grid.t_s[index]) for index in (stands[0].first, stands[-1].last))
        longest_ms = 1000 * max(stand.length_s for stand in stands)
        times = "" if len(stands) == 1 else f", {len(stands)} times"
        text = f"{_WITHOUT_TRIGGER}: no session got an answer for up to {longest_ms:.0f} ms{times}"
        yield _incident(case, text, "standstill", longest_ms, (first - case.grid.width_s, last))


def _incident(case: Case, text: str, metric: str, worst: float, between_s: tuple[float, float]) -> Incident:
    return Incident(
        name="found",
        trigger=text,
        metric=metric,
        unit="ms",
        limit=0.0,
        worst=worst,
        onset_s=between_s[0],
        end_s=between_s[1],
        window_s=case.window_s,
    )
