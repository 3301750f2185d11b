"""What waits for memory have against CPUs that are too few: a kernel that looks for memory burns CPU time."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.core.records.named_metrics import CPU, PSI
from volbench.results.explain.case import Case
from volbench.results.explain.objection import Objection
from volbench.results.explain.wording import percent
from volbench.results.stats.grid import Mask, mean

WAITS_MIN = 0.05
"""Of the time, tasks that wait for memory: reclaim, compaction, swap (Documentation/accounting/psi.rst)."""


def memory_objections(case: Case, inside: Mask) -> Iterator[Objection]:
    """Yield what speaks against CPUs that are too few: the kernel has more of them than programs, and memory lacks.

    More CPUs get that done no sooner: what it looks for is not there.

    Args:
        case: the step.
        inside: the intervals of the finding, shape (buckets,).
    """
    columns = (case.at(PSI.memory_some_ratio), case.at(CPU.user_ratio), case.at(CPU.system_ratio))
    waits, user, kernel = (None if column is None else mean(column[inside]) for column in columns)
    if waits is None or user is None or kernel is None or waits < WAITS_MIN or kernel < user:
        return
    text = (
        f"tasks waited for memory in {percent(waits)} of the time, and {percent(kernel / (user + kernel))} of the"
        " CPU time is the kernel's: it may be looking for memory"
    )
    yield Objection(
        law="sufficiency", text=text, claimed=WAITS_MIN, recorded=waits, refutes=False, suggests="memory reclaim"
    )
