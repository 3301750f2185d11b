"""The rules that name stands which come in every interval: of the volume, or of the server.

Who stood is decided by what was under way at the device. Where it held the operations of N clients for a share s
of the time, N s of them are in flight on average, and it is busy for s at least; where the server stood, it had
nothing to do for s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from volbench.core.records.named_metrics import RoundTrip
from volbench.core.records.report import EvidenceRow
from volbench.results.explain.case import Case
from volbench.results.explain.cause import VOLUME_CHANGES_LITTLE, Cause
from volbench.results.explain.check.together import recurring_stands
from volbench.results.explain.evidence.processors import SERVER, task_use
from volbench.results.explain.evidence.recurring_stands import RecurringStands
from volbench.results.explain.rule import OUTSIDE, STALL, Rule
from volbench.results.explain.rules.shared_evidence import context, stands_of
from volbench.results.explain.rules.stands import has_limits
from volbench.results.explain.wording import number, percent, row
from volbench.results.stats.grid import mean

HELD_MIN = 0.5
"""Of the clients' operations, those that are in flight at the device while they stand, at least."""
_ADVICE = {
    "volume": "Look for what the storage does that often: garbage collection of a disk, a write cache that is"
    " flushed, a path that is checked, a limit that is handed out in slices of a second.",
    "server": "Look for what stops the server that often: a snapshot or a frozen file system (fsfreeze), a"
    " container that is paused.",
}
_CAUSE = {"volume": "storage.stall", "server": "server.stall"}


def stalls_of_volume(case: Case) -> Iterator[Cause]:
    """Name a volume that holds the operations of all clients together, again and again."""
    yield from _findings(case, "volume")


def stalls_of_server(case: Case) -> Iterator[Cause]:
    """Name a server that stands again and again while the volume has nothing to do."""
    yield from _findings(case, "server")


def _findings(case: Case, who: Literal["volume", "server"]) -> Iterator[Cause]:
    if case.storage_stalls or stands_of(case).stands:
        return
    stands = recurring_stands(case)
    if stands is None or _who(case, stands) != who:
        return
    text = (
        f"p95 and p99 of nearly every interval are alike, and {number(stands.length_ms)} ms beyond its median: all"
        f" clients stand together for so long, again and again, {percent(stands.share)} of their time"
    )
    yield Cause(
        cause=_CAUSE[who],
        decided_by="level",
        window_s=case.window_s,
        share=stands.share,
        of_clients=True,
        checks=(True, None, None),
        evidence=(row("stand_ms", stands.length_ms, "ms", text), *_device_rows(case), *context(case)),
        advice=_ADVICE[who],
        volume_advice="" if who == "volume" else VOLUME_CHANGES_LITTLE,
    )


def _who(case: Case, stands: RecurringStands) -> str:
    """Who stood with the clients: the volume or the server; empty where nothing tells, or a limit holds them."""
    device = case.waited_device
    if device is None or device.util is None or device.in_flight is None or not case.threads or has_limits(case):
        return ""
    busy, queue = mean(device.util), mean(device.in_flight)
    statements = None if case.budget is None else mean(case.budget.statement_s)
    if busy is None or queue is None or statements is None or statements < stands.share * case.threads:
        return ""  # clients that stand outside of statements stand by themselves, or on their way
    if busy >= 1 - stands.share / 2 and queue >= HELD_MIN * stands.share * case.threads:
        return "volume"
    if case.at(RoundTrip.round_trip_ms_min) is not None:
        return ""
    use = task_use(case.grid, SERVER)
    waited = 0.0 if use is None else mean(use.delay) or 0.0
    return "server" if busy <= 1 - stands.share and waited < stands.share and not case.is_throttled else ""


def _device_rows(case: Case) -> Iterator[EvidenceRow]:
    device = case.waited_device
    if device is not None:
        busy, queue = mean(device.util), mean(device.in_flight)
        text = f"the device is busy for {percent(busy or 0.0)} of the time, with {number(queue or 0.0)} in flight"
        yield row("device_busy", busy, "1", text)


_MAKERS = frozenset(
    {
        "lock.row_contention",
        "lock.metadata_contention",
        "server.configured_wait",
        "interference.io",
        "interference.backup",
    }
)
RULES = (
    Rule(
        name="stands in every interval, of the volume",
        causes=frozenset({"storage.stall"}),
        subject="volume",
        find=stalls_of_volume,
        yields_to=_MAKERS | OUTSIDE | {STALL},
    ),
    Rule(
        name="stands in every interval, of the server",
        causes=frozenset({"server.stall"}),
        find=stalls_of_server,
        yields_to=_MAKERS | {STALL, "all clients stand"},
    ),
)
