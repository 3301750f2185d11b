"""What waits for CPUs have against a server that is far away: the shortest round trip may wait for one, too."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.core.records.named_metrics import PerformanceSchema, Tasks
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.processors import CELL
from volbench.results.explain.objection import Objection
from volbench.results.explain.wording import number
from volbench.results.stats.grid import Mask, mean

WAITED_MIN = 0.5
"""Of the shortest round trips, what one waits for CPUs on average: with half of it they may be no distance."""


def distance_objections(case: Case, cause: Cause, inside: Mask) -> Iterator[Objection]:
    """Yield what speaks against a distance: that the shortest round trips waited for CPUs.

    In a second with Q round trips, all tasks of the cell waited D seconds for CPUs (schedstat): D / Q at most for
    each of them on average, and the shortest ones less. Where that is much less than these take, they are the
    distance; else it is not known how much of them is.

    Args:
        case: the step.
        cause: the finding.
        inside: its intervals, shape (buckets,).
    """
    trips, delay = case.at(PerformanceSchema.statements_per_s), case.at(Tasks.run_delay_s_per_s, CELL)
    trip_ms = next((row.value for row in cause.evidence if row.metric == "round_trip_ms"), None)
    rate = None if trips is None else mean(trips[inside])
    if not isinstance(trip_ms, int | float) or not rate:
        return
    waited = None if delay is None else mean(delay[inside])
    if waited is None:
        if case.is_throttled:
            text = "a quota stops the server again and again, and how long round trips wait for that is not counted"
            yield Objection(law="sufficiency", text=text, claimed=float(trip_ms), recorded=0.0, refutes=False)
        return
    waited_ms = 1000 * waited / rate
    if waited_ms >= WAITED_MIN * trip_ms:
        text = (
            f"for each statement tasks waited {number(waited_ms)} ms for a CPU, and the shortest round trips take"
            f" {number(trip_ms)} ms: these may be waits for a CPU"
        )
        yield Objection(law="sufficiency", text=text, claimed=float(trip_ms), recorded=waited_ms, refutes=False)
