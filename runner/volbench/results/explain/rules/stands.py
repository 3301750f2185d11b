"""The rule that names a server that stands still as a whole: all clients wait, and the volume has nothing to do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.core.records.named_metrics import Tasks
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import VOLUME_CHANGES_LITTLE, Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.device import DIRECTIONS
from volbench.results.explain.evidence.held_above import is_held_above
from volbench.results.explain.evidence.layers import configured_limits
from volbench.results.explain.evidence.processors import SERVER, task_use
from volbench.results.explain.evidence.stands import waited_for_cpus
from volbench.results.explain.rule import Rule
from volbench.results.explain.rules.shared_evidence import (
    context,
    stand_loss_rows,
    stand_share,
    stands_of,
    stands_text,
)
from volbench.results.explain.wording import number, row
from volbench.results.stats.grid import mean

SERVER_STALL = "server.stall"
_ADVICE = (
    "Look for what stops the whole server at those times: a paused or throttled container or virtual machine (a"
    " snapshot, a live migration, docker pause), a frozen file system (fsfreeze, a snapshot of LVM or of the cloud"
    " with it), memory that is swapped. The volume has nothing to do meanwhile."
)

CAUSES = (
    CauseInfo(
        name="server.stall",
        effect_of=frozenset({"interference.io", "interference.backup", "lock.metadata_contention"}),
        group="the server or the client",
        title="The whole server stands still at times, and the volume has nothing to do",
        panels=("throughput", "latency", "queue"),
        explains_fall=True,
        is_change=True,
        moment="the server stands still",
        meaning=(
            "For a part of a second or some seconds no client gets an answer, while the volume has nothing to do:"
            " the server, its machine or its file system is stopped."
        ),
        signs=(
            "The slowest transactions take at least 0.5 s and 3 times as long as those of calm intervals, and at"
            " least half of the transactions that fit into that time are missing, and not many more: all clients"
            " stood, not some, and went on at once. The device was idle for longer at that time, not busy"
            " (conservation of its busy time), and tasks did not wait for I/O all along (PSI), see"
            " `storage.stall`. Where the server counts statement times, clients stood within"
            " statements. Stands that recur have a period. Not named over TCP where the statements were as fast as"
            " ever, see `network.stalls`; nor where others' I/O or a lock is named for a time of which stands fill"
            " half, and nothing stands without it; nor where sessions counted waits for a lock in most of it; nor"
            " where its tasks waited for a CPU at that time (schedstat): a small share of the CPUs stops nothing."
            " Stands in nearly every interval are found as for `storage.stall`, with an idle device."
        ),
        advice=(
            "Look for paused containers or machines (snapshots, live migration), a frozen file system (`fsfreeze`),"
            " swapping. A faster volume does not help."
        ),
        waits="stands",
    ),
)


def standing_findings(case: Case) -> Iterator[Cause]:
    """One finding for all times at which clients stood still and the volume was idle."""
    stands = stands_of(case)
    if stands.who != "server" or not stands.stands or has_limits(case):
        return
    use = task_use(case.grid, SERVER)
    if waited_for_cpus(None if use is None else use.delay, stands.stands):
        return  # nothing has stopped it: its tasks could go on, and got no CPU
    seconds = sum(stand.length_s for stand in stands.stands)
    used = case.at(Tasks.cpus_used, SERVER)
    rows = [row("stalled_s", seconds, "s", f"no client got an answer for {stands_text(case, stands.stands)}")]
    if stands.idle is not None:
        text = "the volume had nothing to do at those times: its busy time fell by as much"
        rows.append(row("device_idle", 1.0, "1", text))
    if used is not None:
        around = stands.around(len(case.grid))
        inside, outside = (mean(used[mask]) or 0.0 for mask in (around, ~around))
        text = f"the server used {number(inside)} CPUs around them, else {number(outside)}"
        rows.append(row("server_cpus", inside, "1", text))
    rows += stand_loss_rows(stands)
    yield Cause(
        cause=SERVER_STALL,
        decided_by="before and after",
        window_s=stands.window_s,
        share=stand_share(case, seconds, stands.around(len(case.grid))),
        checks=(True, stands.idle, stands.in_statements, len(stands.stands) >= limit.LIMIT_MET_SAMPLES or None),
        of_clients=True,
        explains_fall=True,
        one_of_two=stands.idle is None and case.device is not None,
        evidence=(*rows, *context(case)),
        advice=_ADVICE,
        volume_advice=VOLUME_CHANGES_LITTLE,
    )


def has_limits(case: Case) -> bool:
    """Whether something above the device holds operations all along: what waits for it stands, the device is idle.

    A limit of I/O of the server's control group, or what no figure shows but that tasks wait for I/O and no disk is
    busy, between the stands as well.
    """
    limits = [maximum for direction in DIRECTIONS for maximum in configured_limits(case.grid, direction).values()]
    if any(bool(np.isfinite(maximum).any()) for maximum in limits):
        return True
    around = stands_of(case).around(len(case.grid))
    return not around.all() and is_held_above(case.grid, ~around)


RULES = (Rule(name="all clients stand", causes=frozenset({"server.stall"}), find=standing_findings),)
