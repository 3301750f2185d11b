"""Rules that name processes which wait for a CPU while CPUs are idle: a quota, a cpuset, a pinned thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from volbench.core.records.named_metrics import CPU
from volbench.core.records.report import EvidenceRow
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import VOLUME_CHANGES_LITTLE, Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.processors import (
    CELL,
    CLIENT,
    OTHER_TASKS,
    SERVER,
    TaskUse,
    held_tasks,
    task_use,
)
from volbench.results.explain.rule import CLIENT_BUSY, CLIENT_HELD, CPUS, SERVER_HELD, SYNCS_ON_CPUS, Rule
from volbench.results.explain.rules.host.processors import CLIENT_SATURATED, MORE_FOR_CLIENT, SIDES
from volbench.results.explain.wording import number, percent, row
from volbench.results.stats.grid import Floats, mean

_WHOSE = {SERVER: "the server's processes", CLIENT: "the load's processes", CELL: "server and load"}
_RAISE = (
    "Raise the CPU quota of the server's control group or of one above it (docker update --cpus, CPUQuota=,"
    " cpu.max), or give its cpuset more CPUs."
)
_DECIDE = "this decides: nr_throttled of cpu.stat, and cpuset.cpus, of the control groups of server and load"

CAUSES = (
    CauseInfo(
        name="cpu.client_saturated",
        uses_up_cpus=True,
        share_of="clients where waits for CPUs are counted",
        group="the server or the client",
        title="The load generator has no CPU left",
        panels=("cpu", "pressure"),
        accounts_for=frozenset({"CPUs"}),
        meaning="The load generator has no CPU left. The cell is invalid.",
        signs=(
            "sysbench uses at least 90 % of the CPU that it can use, or a quota throttles it, or its tasks wait"
            " for a CPU while CPUs are idle, and longer than the server's. A quota of one group with both is named"
            " as the server's. Server and load are counted apart (source `tasks`, entities `server`"
            " and `client`); in recordings that have both together it is one of two."
        ),
        advice="Give the client more CPUs, or use fewer threads.",
        waits="queue for CPUs",
        wait_time="CPUs",
    ),
)


def held_client(case: Case) -> list[Cause]:
    """The load that something holds back, where that is sure: it says nothing of the server then."""
    return [cause for cause in _held_causes(case) if cause.cause == CLIENT_SATURATED and not cause.one_of_two]


def held_findings(case: Case) -> list[Cause]:
    """The server that something holds back, or one of the two."""
    return [cause for cause in _held_causes(case) if cause.cause != CLIENT_SATURATED or cause.one_of_two]


def _held_causes(case: Case) -> list[Cause]:
    """Whom something holds back from idle CPUs: the server, the load, or one of the two.

    Where both are held, the loop waits for the one that is held for longer. A counted quota of the group that both
    are in is no matter of sides.
    """
    if case.is_served or (case.is_throttled and case.server_throttled == case.shared_throttled):
        return []
    sides = {side: task_use(case.grid, side) for side in (CLIENT, SERVER)}
    counted = {side: use for side, use in sides.items() if use is not None}
    if not counted and (together := task_use(case.grid, CELL)) is not None:
        return [*_either(case, together)]
    shares = {side: share for side, use in counted.items() if (share := _held_share(case, side, use)) is not None}
    if not shares:
        return []
    longest = max(shares, key=lambda side: (shares[side], mean(counted[side].delay) or 0.0))
    second_rows = [item for side in shares if side != longest for item in _rows(case, side, counted[side])]
    if second_rows:
        second_rows.append(row("decide", None, "1", _DECIDE))
    first = _finding(case, longest, counted[longest], shares[longest])
    return [replace(first, evidence=(*first.evidence, *second_rows))]


def _held_share(case: Case, side: str, use: TaskUse) -> float | None:
    """Of the clients' time, the waits for a CPU that no busy CPU explains; None: little, or not known."""
    busy = _busy(case)
    if busy is None or not case.threads:
        return None
    tasks = held_tasks(use, busy, case.threads + OTHER_TASKS[side])
    share = None if tasks is None else min(1.0, tasks / case.threads)
    return share if share is not None and share >= limit.SHARE_MIN else None


def _busy(case: Case) -> Floats | None:
    """Share of the time for which all CPUs can have been busy at once, at most; None: not known."""
    least = case.at(CPU.least_busy_ratio)
    if least is not None:
        return least
    user, system = case.at(CPU.user_ratio), case.at(CPU.system_ratio)
    return None if user is None or system is None else user + system


def _either(case: Case, together: TaskUse) -> Iterator[Cause]:
    """One of the two where nobody counted them apart."""
    share = _held_share(case, CELL, together)
    for side in (SERVER, CLIENT) if share is not None else ():
        yield _finding(case, side, together, share, one_of_two=True)


def _finding(case: Case, side: str, use: TaskUse, share: float | None, *, one_of_two: bool = False) -> Cause:
    return Cause(
        cause=SIDES[side],
        decided_by="counted",
        window_s=case.window_s,
        share=share,
        of_clients=True,
        checks=(True, True),
        evidence=(*_rows(case, CELL if one_of_two else side, use),),
        one_of_two=one_of_two,
        advice=MORE_FOR_CLIENT if side == CLIENT else _RAISE,
        volume_advice="" if side == CLIENT else VOLUME_CHANGES_LITTLE,
    )


def _rows(case: Case, whose: str, use: TaskUse) -> Iterator[EvidenceRow]:
    delay, used, busy = mean(use.delay) or 0.0, mean(use.used) or 0.0, case.cpu_busy or 0.0
    least = mean(case.at(CPU.least_busy_ratio))
    of_one = "" if least is None else f", the one with least to do {percent(least)}"
    text = (
        f"{_WHOSE[whose]} wait {number(delay)} s in each second for a CPU and run for {number(used)}, while the"
        f" host's CPUs are {percent(busy)} busy{of_one}: idle CPUs would run them, so a quota or a cpuset holds"
        " them back"
    )
    yield row("held_back_s_per_s", delay, "s/s", text)
    if whose == CELL:
        yield row("decide", None, "1", _DECIDE)


RULES = (
    Rule(
        name=CLIENT_HELD,
        causes=frozenset({CLIENT_SATURATED}),
        find=held_client,
        yields_to=frozenset({CLIENT_BUSY}),
    ),
    Rule(
        name=SERVER_HELD,
        causes=frozenset(SIDES.values()),
        find=held_findings,
        yields_to=frozenset({CLIENT_BUSY, CLIENT_HELD, CPUS, SYNCS_ON_CPUS}),
    ),
)
