"""Findings that are the doing of another finding: they stand where they show without it as well.

Where an operation waits is seen in a balance of layers, whatever makes it wait. Others that write to the server's
file system fill a commit of its journal, and a sync waits for that commit while no operation of its own is at the
device: the wait above the device and the foreign I/O are two names for the same seconds. A kernel that takes back
memory burns CPU time, and the CPUs are then full of it. A scheduler that serves others first lets all clients
stand. `CauseInfo.effect_of` says which causes can be such a name.
Whether one is, in a step, is a comparison: is it there in the time without the other cause? Without such a time
nothing tells them apart, and the one that says what makes it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from volbench.core.records.named_metrics import Client
from volbench.results.explain.arbitration import Arbitration, Refuted
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.deciding import is_much
from volbench.results.explain.objection import Objection
from volbench.results.explain.wording import number
from volbench.results.stats.grid import Mask, quantile

LIKELY = 0.5
"""A confidence from which a cause is likelier than not: what is less likely makes no other one its effect."""
SAMPLES_MIN = 5
"""Intervals without the cause, in which its effect would show: with fewer nothing is compared."""
MOST_OF_TIME = 0.5
"""Of a maker's time, what its effect fills at least: what was there for longer without it does not make it."""
Naming = Callable[[Case], Sequence[Cause]]


def without_consequences(
    case: Case, arbitration: Arbitration, descriptors: Mapping[str, CauseInfo], name_causes: Naming
) -> Arbitration:
    """Return what is left without findings that show in the time of a finding that makes them, and only there.

    Args:
        case: the step.
        arbitration: what the check left.
        descriptors: by name of a cause.
        name_causes: names the causes of a part of the step.
    """
    standing: list[Cause] = []
    refuted = [*arbitration.refuted]
    for finding in arbitration.findings:
        against = _against(case, finding, arbitration.findings, descriptors, name_causes)
        if against is None:
            standing.append(finding)
        else:
            refuted.append(Refuted(cause=finding, objections=(against,)))
    return Arbitration(findings=tuple(standing), refuted=tuple(refuted))


def _against(
    case: Case,
    finding: Cause,
    findings: Sequence[Cause],
    descriptors: Mapping[str, CauseInfo],
    name_causes: Naming,
) -> Objection | None:
    """What speaks against a finding that may be the effect of another one; None where nothing does."""
    info = descriptors.get(finding.cause)
    makers = [item for item in findings if info is not None and _can_make(item, finding, info)]
    if not makers:
        return None
    maker = max(makers, key=lambda item: item.confidence)
    without = _time_without(case, maker)
    seconds = float(without.sum()) * case.grid.width_s
    if int(without.sum()) < SAMPLES_MIN:
        text = f"{maker.cause} is there as long, and makes the same"
        return Objection(law="time", text=text, claimed=case.length_s, recorded=seconds)
    remainder = replace(case, grid=case.grid.where(without))
    if any(named.cause == finding.cause for named in name_causes(remainder)):
        return None
    text = f"it does not show in the {number(seconds)} s without {maker.cause}: it is that one's doing"
    return Objection(law="time", text=text, claimed=case.length_s, recorded=seconds)


def _can_make(maker: Cause, finding: Cause, info: CauseInfo) -> bool:
    """Whether a finding is likely, explains enough, and is there at the time of one that it can make."""
    at_once = min(maker.window_s[1], finding.window_s[1]) > max(maker.window_s[0], finding.window_s[0])
    is_likely = maker.confidence >= LIKELY and not maker.one_of_two
    if maker.cause not in info.effect_of or not at_once or not is_likely or not is_much(maker):
        return False
    return _seconds(finding) >= MOST_OF_TIME * (maker.window_s[1] - maker.window_s[0]) or _is_counted_in(
        maker, finding
    )


def _is_counted_in(maker: Cause, finding: Cause) -> bool:
    """Whether sessions counted waits for the maker in most of the time that the other one takes.

    Two shares of one time that sum to more than all of it lie over each other by the rest at least.
    """
    if maker.decided_by != "counted" or not maker.share or not finding.share:
        return False
    return maker.share + finding.share - 1 >= MOST_OF_TIME * finding.share


def _seconds(finding: Cause) -> float:
    """How long a finding is there: the sum of its stands, or its time."""
    stood = next((piece.value for piece in finding.evidence if piece.metric == "stalled_s"), None)
    return float(stood) if isinstance(stood, int | float) else finding.window_s[1] - finding.window_s[0]


def _time_without(case: Case, cause: Cause) -> Mask:
    """Intervals that lie wholly before a cause's time, or after all that waited in it, shape (buckets,).

    A wait is counted when it ends: for as long as the slowest transaction took, what ends may have begun in it. An
    interval next to its time may lie partly in it.
    """
    ends_s, width_s = case.grid.t_s, case.grid.width_s
    begin_s, end_s = cause.window_s
    slowest = case.at(Client.latency_ms_max)
    meanwhile = (ends_s > begin_s) & (ends_s - width_s < end_s)
    slowest_ms = quantile(slowest[meanwhile], 1.0) if slowest is not None and meanwhile.any() else None
    waited_s = max(width_s, (slowest_ms or 0.0) / 1000)
    before: Mask = ends_s <= begin_s - width_s / 2
    return np.asarray(before | (ends_s - width_s >= end_s + waited_s - width_s / 2))
