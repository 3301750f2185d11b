"""Shares of findings as parts of the clients' time, where the time outside of statements is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.network import network_account


def of_clients_time(case: Case, causes: Sequence[Cause], descriptors: Mapping[str, CauseInfo]) -> list[Cause]:
    """Return findings with shares of the clients' time; as they are where nothing tells what of it statements take.

    A share of statement time is scaled by the part of the clients' time that statements have; what then explains
    too little to be named is left out.

    Args:
        case: the step.
        causes: findings in any order.
        descriptors: by name of a cause; one without a descriptor has a share of statement time.
    """
    account = network_account(case.grid, threads=case.threads, rate=case.rate)
    if account is None:
        return [*causes]
    part = max(0.0, 1 - account.share(account.outside))
    scaled: list[Cause] = []
    for cause in causes:
        if cause.share is None or _is_of_clients(case, cause, descriptors.get(cause.cause)):
            scaled.append(cause)
        elif not cause.share * part < limit.SHARE_MIN <= cause.share:
            scaled.append(replace(cause, share=cause.share * part))
    return scaled


def _is_of_clients(case: Case, cause: Cause, info: CauseInfo | None) -> bool:
    """Whether a share is of the clients' time already.

    Where all that the cell's processes waited for CPUs is counted, shares of CPUs are (`Case.cpu_cycle_share`).
    """
    if cause.of_clients or info is None:
        return cause.of_clients
    if info.share_of == "clients where waits for CPUs are counted":
        return case.cpu_cycle_share is not None
    return info.share_of == "clients"
