"""Shares of findings as parts of the clients' time: of statement time, times what statements have of the clients'.

A share of statement time, times the part of the clients' time that statements have (`accounts.statement_part`), is
one of the clients' time, which is what a client measures as latency. Where that part is not known, shares stay of
statement time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.accounts.statement_part import statement_part
from volbench.results.explain.accounts.time_budget import time_budget
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo


def unaccounted_share(case: Case) -> float:
    """Return the part of the clients' time in statements that nothing accounts for; 0 where it is not known."""
    budget = time_budget(case)
    in_statements = None if budget is None else statement_part(case)
    return 0.0 if budget is None else budget.unaccounted_share * (1.0 if in_statements is None else in_statements)


def of_clients_time(case: Case, causes: Sequence[Cause], descriptors: Mapping[str, CauseInfo]) -> list[Cause]:
    """Return findings with shares of the clients' time; as they are where nothing tells what of it statements take.

    A share of statement time is scaled by the part of the clients' time that statements have; what then explains
    too little to be named is left out.

    Args:
        case: the step.
        causes: findings in any order.
        descriptors: by name of a cause; one without a descriptor has a share of statement time.
    """
    in_statements = statement_part(case)
    scaled: list[Cause] = []
    for cause in causes:
        if cause.share is None:
            scaled.append(cause)
        elif is_of_clients(case, cause, descriptors.get(cause.cause)):
            scaled.append(replace(cause, of_clients=True))
        elif in_statements is None:
            scaled.append(cause)
        elif not cause.share * in_statements < limit.SHARE_MIN <= cause.share:
            scaled.append(replace(cause, share=cause.share * in_statements, of_clients=True))
    return scaled


def is_of_clients(case: Case, cause: Cause, info: CauseInfo | None) -> bool:
    """Return whether a share is of the clients' time already.

    A step that sends no statements has its own streams' time. Where all that the cell's processes waited for CPUs
    is counted, shares of CPUs are of the clients' time (`Case.cpu_cycle_share`).
    """
    if cause.of_clients or not step_kind(case.kind).has_statements:
        return True
    if info is None:
        return False
    if info.share_of == "clients where waits for CPUs are counted":
        return case.cpu_cycle_share is not None
    return info.share_of == "clients"
