"""The time budget of a run: a block of cells begins only while it would fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from volbench.core.base.parse import parse_moment
from volbench.core.base.text import duration
from volbench.core.records.run import JournalEvent, PlannedCell, since_extended

_BEGINNINGS = frozenset({"run_started", "run_resumed", "run_extended"})


def budget_of(events: Iterable[JournalEvent]) -> float | None:
    """Return the seconds that a run may take, since it began or got more cells; None without a budget."""
    recorded = since_extended(events)
    return next((float(event.details["budget_s"]) for event in recorded if "budget_s" in event.details), None)


def why_over_budget(
    events: Sequence[JournalEvent], block: Sequence[PlannedCell], *, parallel: int, now: datetime | None = None
) -> str:
    """Return why a block of cells does not fit into the rest of the run's budget, or nothing.

    A cell is expected to take as long as the longest so far; the first block always begins.

    Args:
        events: of the journal.
        block: the cells that would run.
        parallel: cells that run at once.
        now: the wall clock.
    """
    budget_s, needed_s = budget_of(events), block_s(events, cells=len(block), parallel=parallel)
    if budget_s is None or needed_s is None:
        return ""
    rest_s = budget_s - _spent_s(since_extended(events), now or datetime.now(UTC))
    if needed_s <= rest_s:
        return ""
    return (
        f"the budget of {duration(budget_s)} has {duration(max(0.0, rest_s))} left, "
        f"and the next block takes about {duration(needed_s)}"
    )


def block_s(events: Iterable[JournalEvent], *, cells: int, parallel: int) -> float | None:
    """Return the seconds of a block of so many cells, each as long as the longest so far; None before the first."""
    cell_s = max(_cell_durations_s(events), default=None)
    return None if cell_s is None else cell_s * math.ceil(cells / parallel)


def _cell_durations_s(events: Iterable[JournalEvent]) -> Iterable[float]:
    started: dict[tuple[str, int], datetime] = {}
    for event in events:
        attempt = (event.cell_id, event.attempt)
        if event.event == "cell_started":
            started[attempt] = parse_moment(event.at)
        elif event.event == "cell_finished" and attempt in started:
            yield (parse_moment(event.at) - started[attempt]).total_seconds()


def _spent_s(events: Sequence[JournalEvent], now: datetime) -> float:
    """Return the time in which the run was worked on: an interruption ends with the last event before it."""
    spent_s, began, last = 0.0, now, now
    for event in events:
        at = parse_moment(event.at)
        if event.event in _BEGINNINGS:
            spent_s += (last - began).total_seconds()
            began = at
        last = at
    return spent_s + (now - began).total_seconds()
