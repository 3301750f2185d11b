"""What a configured limit of the server's control group has against a limit below it: one rate, one limit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.evidence.device import DIRECTIONS
from volbench.results.explain.evidence.layers import cgroup_flow, configured_limits
from volbench.results.explain.objection import Objection
from volbench.results.explain.wording import amount
from volbench.results.stats.grid import Mask, mean

MET, SET_MIN = 0.1, 0.8
"""How near the group's mean rate is to its limit that is met, and the part of the time for which that is set."""
SENT_MIN = 0.9
"""Of what the device does then: with as much from the group, the device's rate is the group's."""


def group_objections(case: Case, cause: Cause, inside: Mask) -> Iterator[Objection]:
    """Yield what speaks against a limit of the volume whose rate is the one that the server's group may have.

    Operations that the group holds back below the device that is looked at wait in its queue and pass it evenly, as
    if its own limit were met. What the volume itself counts is its own.

    Args:
        case: the step.
        cause: a finding of a limit.
        inside: the intervals that it speaks of, shape (buckets,).
    """
    device = case.device
    if device is None or cause.decided_by == "counted" or not inside.any():
        return
    for direction in DIRECTIONS:
        flow = cgroup_flow(case.grid, direction, device.entity)
        for resource, maximum in configured_limits(case.grid, direction).items():
            sent = None if flow is None else flow.rate if resource == "iops" else flow.mib_per_s
            carried = device.carried(resource)
            if sent is None or carried is None:
                continue
            is_set = float(np.isfinite(maximum[inside]).mean())
            may, did, in_all = (mean(values[inside]) or 0.0 for values in (maximum, sent, carried))
            if is_set < SET_MIN or abs(did - may) > MET * may or did < SENT_MIN * in_all:
                continue
            text = (
                f"the server's group may {direction} {amount(may, resource)} and does {amount(did, resource)}"
                " then: what the device gives is what the group lets through"
            )
            yield Objection(law="consistency", text=text, claimed=in_all, recorded=may)
            return
