"""The part of the CPUs that runnable tasks get by Linux's weights, for servers whose quota nothing counts."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.core.records.named_metrics import CPU, CgroupCpu
from volbench.core.records.report import EvidenceRow
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.processors import CELL, CLIENT, SERVER, CpuAccount, task_use
from volbench.results.explain.wording import number, row
from volbench.results.stats.grid import mean

FAIR_MIN = 0.75
"""Of the part that tasks of one weight get: less is no chance of sampling the run queue."""
_SIDES = (SERVER, CLIENT)


def _fair_cpus(case: Case, account: CpuAccount, side: str) -> tuple[float, float] | None:
    """CPUs that tasks of the cell get where all runnable ones have one weight, and what they have; None: not known.

    Args:
        case: the step.
        account: of the CPUs.
        side: SERVER, CLIENT or CELL.
    """
    runnable, use = mean(case.at(CPU.runnable_threads)), task_use(case.grid, side)
    own = None if use is None else mean(use.used + use.delay)
    if runnable is None or use is None or not own:
        return None
    return account.cpus * own / max(runnable, own), mean(use.used) or 0.0


def _waiting_side(case: Case) -> str:
    """Who of the cell runs and waits for CPUs longer; CELL where its processes were counted together."""
    uses = {side: task_use(case.grid, side) for side in _SIDES}
    by_side = {side: mean(use.used + use.delay) or 0.0 for side, use in uses.items() if use is not None}
    return max(by_side, key=lambda side: by_side[side]) if len(by_side) == len(_SIDES) else CELL


def may_be_held(case: Case, account: CpuAccount) -> str | None:
    """Whom a quota or a smaller weight may hold, which nothing here counts: SERVER, CLIENT or CELL; None: nobody.

    Without an account of its control group no quota is seen, and time under one counts as waiting for a CPU. Linux
    divides the CPUs among runnable tasks by weight (CFS, EEVDF): who gets clearly less than the part of its tasks
    is held by something else than their number.
    """
    side = _waiting_side(case)
    accounts = (CLIENT if side == CLIENT else SERVER, CELL)
    if any(case.at(CgroupCpu.cpus_used, who) is not None for who in accounts):
        return None
    fair = _fair_cpus(case, account, side)
    return side if fair is not None and fair[1] < FAIR_MIN * fair[0] else None


def fair_rows(case: Case, account: CpuAccount, side: str) -> Iterator[EvidenceRow]:
    """What its tasks have of the CPUs beside what they would get, and the measurement that would decide."""
    fair, own = _fair_cpus(case, account, side) or (0.0, 0.0)
    whose = "the load" if side == CLIENT else "the server"
    text = (
        f"of {number(fair)} CPUs that its runnable tasks would get among all of the host {whose} has {number(own)}:"
        " a quota or a smaller weight of its group, which nothing here counts, may hold it; it is one of the two"
    )
    yield row("fair_cpus", fair, "1", text)
    text = f"this decides: nr_throttled of cpu.stat of the control group of {whose} and above"
    yield row("decide", None, "1", text)
