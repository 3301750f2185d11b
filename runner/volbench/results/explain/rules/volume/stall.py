"""The rule that names a volume that stood still."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from volbench.core.records.named_metrics import Client
from volbench.core.records.report import EvidenceRow
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.stalls import Stall, stalled_together
from volbench.results.explain.rule import FEW_OPERATIONS, STALL, Rule
from volbench.results.explain.rules.shared_evidence import (
    STANDING_MIN,
    context,
    stand_loss_rows,
    stand_share,
    stands_of,
    stands_text,
)
from volbench.results.explain.rules.stands import has_limits
from volbench.results.explain.topics import WAITS_OF_VOLUME
from volbench.results.explain.wording import clock, number, percent, row
from volbench.results.stats.grid import mean

STALLS_SHOWN = 5
_ADVICE = (
    "Look for what the storage did then: failover, snapshot, resize, lost path, garbage collection of a disk; host"
    " logs and provider events at these times."
)
_HELD_ABOVE = (
    "Look for what held operations above the device then: a suspended mapping (dmsetup info -c; a snapshot of LVM"
    " suspends its origin), a lost path (multipath -ll), a throttle that was not looked at; the kernel's log has"
    " tasks that were blocked."
)
CAUSES = (
    CauseInfo(
        name="storage.stall",
        effect_of=frozenset({"interference.io", "interference.backup"}),
        group="the volume is slow",
        title="The volume stalled",
        panels=("await", "queue", "throughput"),
        accounts_for=WAITS_OF_VOLUME,
        is_change=True,
        moment="the volume stalls",
        meaning="The volume completed nothing for a while.",
        signs=(
            "Intervals in which no operation completes while some are in flight, and no transaction finishes. Such"
            " an interval has no latency: it is not zero. Shorter stands, within an interval: transactions of 0.5 s"
            " and more that take 3 times as long as the slowest of calm intervals, at least half of the"
            " transactions that fit into that time missing, and the device busy (conservation of its busy time), or"
            " idle while a task waited for I/O all along (PSI): then a layer above the device held its operations."
            " PSI is of the whole host, so that it says nothing of stands of less than 2 s together, nor where"
            " the waits of calm intervals scatter as far."
            " Of a load with a rate of its own, at least 5 transactions are due within a stand."
            " Or stands of 0.1 s and more in nearly every interval of a closed loop: p95 and p99 are alike (within"
            " 20 %), p95 is 3 times the median, and 15 % of the clients' time is beyond the median (Little's law),"
            " in statements, with the device busy and their operations in flight."
            " Not named within a time in which operations take so long that seconds without an end are no events"
            " (`storage.degraded`)."
        ),
        advice=(
            "Look for what the storage did at those times: failover, snapshot, resize, a lost path. Host logs"
            " and provider events have the times."
        ),
        waits="stands",
    ),
)


def stall_findings(case: Case) -> Iterator[Cause]:
    """One finding for all times at which the volume completed nothing and no transaction finished."""
    storage = case.storage_stalls
    if case.device is None:
        return
    if not storage:
        yield from _brief(case)
        return
    has_client = case.at(Client.tps) is not None
    together = stalled_together(case.client_stalls, storage, case.grid.width_s) if has_client else storage
    if not together:
        yield from _brief(case)
        return
    total, longest = (
        sum(finding.length_s for finding in together),
        max(together, key=lambda finding: finding.length_s),
    )
    if not has_client and longest.length_s < limit.STALL_UNSEEN_S_MIN:
        return
    who = (
        "no transaction finished and the volume completed nothing" if has_client else "the volume completed nothing"
    )
    checks = [True, has_client or None, longest.length_s >= 2 * case.grid.width_s]
    yield Cause(
        cause="storage.stall",
        decided_by="before and after",
        window_s=(together[0].t0_s, together[-1].t1_s),
        share=stand_share(case, total, case.stalled),
        of_clients=True,
        checks=tuple(checks),
        evidence=(
            row(
                "stalled_s",
                total,
                "s",
                f"{who} for {number(total)} s{_in_all(together)}: {_times(case, together)}",
            ),
            *_loss_rows(case, total),
            *context(case),
        ),
        advice=_ADVICE,
    )


def _loss_rows(case: Case, seconds: float) -> Iterator[EvidenceRow]:
    """What of the step's speed was lost in stands, where they are a good part of it.

    Between them the load went on: what was there all along explains that time, and no more than it.
    """
    tps, still = case.at(Client.tps), case.stalled
    usual = None if tps is None or still.all() else mean(tps[~still])
    if tps is None or not usual or seconds < STANDING_MIN * case.length_s:
        return
    missing = float(np.nansum(np.maximum(0.0, usual - tps[still]))) * case.grid.width_s
    loss = min(seconds, missing / usual) / case.length_s
    yield row("loss", loss, "1", f"{percent(loss)} of the step's speed was lost in it")


def _brief(case: Case) -> Iterator[Cause]:
    """Stands that are shorter than an interval, or lie across two: the device held operations and all clients."""
    standing = stands_of(case)
    if standing.who != "volume" or (standing.idle and has_limits(case)):
        return
    seconds = sum(stand.length_s for stand in standing.stands)
    text = (
        f"no transaction finished and the volume held operations for {stands_text(case, standing.stands)}:"
        " it was busy and completed clearly fewer"
    )
    if standing.idle:
        text = (
            f"no transaction finished and tasks waited for I/O for {stands_text(case, standing.stands)}, while the"
            " device that is counted had nothing to do: a layer above it held its operations"
        )
    yield Cause(
        cause="storage.stall",
        decided_by="before and after",
        window_s=standing.window_s,
        share=stand_share(case, seconds, standing.around(len(case.grid))),
        checks=(True, True, standing.in_statements, len(standing.stands) >= limit.LIMIT_MET_SAMPLES or None),
        of_clients=True,
        explains_fall=True,
        evidence=(
            row("stalled_s", seconds, "s", text),
            *stand_loss_rows(standing),
            *context(case),
        ),
        advice=_HELD_ABOVE if standing.idle else _ADVICE,
    )


def _in_all(together: Sequence[Stall]) -> str:
    return f" in all, {len(together)} times" if len(together) > 1 else ""


def _times(case: Case, together: Sequence[Stall]) -> str:
    """The longest ones, in order of time."""
    longest = sorted(together, key=lambda finding: -finding.length_s)[:STALLS_SHOWN]
    listed_stalls = sorted(longest, key=lambda finding: finding.t0_s)
    listed = ", ".join(
        f"{number(finding.length_s)} s from {clock(finding.t0_s, case.clock_zero_s)}" for finding in listed_stalls
    )
    return listed if len(listed_stalls) == len(together) else f"the longest {listed}"


RULES = (
    Rule(
        name=STALL,
        causes=frozenset({"storage.stall"}),
        subject="volume",
        find=stall_findings,
        # Where operations take a second and longer all along, a second in which none ends is no event.
        yields_within=frozenset({FEW_OPERATIONS}),
    ),
)
