"""The rule that names a memory limit of the server's control group, at which its tasks wait for memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.core.records.named_metrics import PSI, CgroupMemory
from volbench.core.records.report import EvidenceRow
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.processors import SERVER
from volbench.results.explain.rule import CACHE_TAKEN, MEMORY_LIMIT, Rule
from volbench.results.explain.rules.host.memory import RECLAIM
from volbench.results.explain.wording import number, percent, row
from volbench.results.stats.grid import Floats, mean

MOST = 0.5
"""Of the time in which tasks waited for memory: as much must lie in intervals in which the limit was met."""
SURE_MAX = 0.85
"""No run of the lab has counted how often it is right."""


def limit_findings(case: Case) -> Iterator[Cause]:
    """Yield a memory limit that is met while tasks wait for memory.

    `some` is the share of time in which a task waits, `full` that in which all that have work do
    (Documentation/accounting/psi.rst). Clients lose `full` at least and `some` at most: with less of `full` than a
    cause must explain, it is one of two. That a limit is met says nothing by itself: a cache at its limit is usual.
    """
    events, (some, full) = _events(case), _waits(case)
    waited = mean(some)
    if events is None or some is None or waited is None or waited < limit.SHARE_MIN:
        return
    met = np.nan_to_num(events) > 0
    if float(np.nansum(some[met])) < MOST * float(np.nansum(some)):
        return
    stopped = mean(full) or 0.0
    is_sure = stopped >= limit.SHARE_MIN
    yield Cause(
        cause=RECLAIM,
        decided_by="counted",
        window_s=case.window_s,
        share=stopped if is_sure else waited,
        of_clients=True,
        checks=(True, is_sure or None),
        one_of_two=not is_sure,
        confidence_max=SURE_MAX,
        evidence=(*_rows(case, events, waited, stopped),),
        advice="Raise memory.high and memory.max of the server's group and of those around it (the container's or"
        " pod's limit), or give the buffer pool less of it.",
    )


def _events(case: Case) -> Floats | None:
    """How often a limit of the group, or of one around it, was met, a second."""
    events = [
        column
        for metric in (CgroupMemory.high_events_per_s, CgroupMemory.max_events_per_s)
        if (column := case.at(metric, SERVER)) is not None
    ]
    return np.asarray(np.sum(events, axis=0)) if events else None


def _waits(case: Case) -> tuple[Floats | None, Floats | None]:
    """Shares of time in which some and all tasks waited for memory: of the server's group, or of the machine."""
    for entity in (SERVER, ""):
        some = case.at(PSI.memory_some_ratio, entity)
        if some is not None:
            return some, case.at(PSI.memory_full_ratio, entity)
    return None, None


def _rows(case: Case, events: Floats, waited: float, stopped: float) -> Iterator[EvidenceRow]:
    most = mean(case.at(CgroupMemory.limit_mib, SERVER))
    of_limit = "" if most is None else f" of {number(most)} MiB"
    text = f"the memory limit{of_limit} of the server's control group was met {number(mean(events) or 0)} times/s"
    yield row("limit_events_per_s", mean(events), "1/s", text)
    text = f"tasks waited for memory in {percent(waited)} of the time, in {percent(stopped)} all that had work did"
    yield row("memory_some_ratio", waited, "1", text)
    reclaimed, again = (
        mean(case.at(metric, SERVER)) for metric in (CgroupMemory.reclaimed_mib_per_s, CgroupMemory.refaults_per_s)
    )
    if reclaimed is not None and again is not None:
        text = (
            f"the kernel took back {number(reclaimed)} MiB a second, and {number(again)} pages a second were read"
            " again"
        )
        yield row("refaults_per_s", again, "1/s", text)


RULES = (
    Rule(name=MEMORY_LIMIT, causes=frozenset({RECLAIM}), find=limit_findings, yields_to=frozenset({CACHE_TAKEN})),
)
