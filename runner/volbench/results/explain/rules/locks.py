"""Rules that name locks which queries wait for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volbench.core.records.named_metrics import Innodb
from volbench.core.records.report import EvidenceRow
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.explain.cause import VOLUME_CHANGES_LITTLE, Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.rule import Rule
from volbench.results.explain.wording import clock, number, percent, row
from volbench.results.stats.grid import mean

ROW_LOCKS, METADATA_LOCKS = "lock.row_contention", "lock.metadata_contention"
_AT_ROWS, _AT_METADATA = "statements that wait for row locks", "statements that wait for metadata locks"
CAUSES = (
    CauseInfo(
        name="lock.row_contention",
        group="the server or the client",
        title="Queries wait for each other's row locks",
        panels=("throughput", "statement"),
        accounts_for=frozenset({"locks"}),
        meaning="Queries wait for row locks of other queries.",
        signs=(
            "At least 20 % of statement time is waiting for row locks, or at least 20 % of the sessions wait for"
            " one at a tick: a wait that has not ended is in no statement's time."
        ),
        advice=(
            "Shorten transactions and avoid hot rows. Storage matters only while a lock is held: see"
            " `storage.sync_latency` in the same report."
        ),
        waits="in turn",
        wait_time="locks",
    ),
    CauseInfo(
        name="lock.metadata_contention",
        group="the server or the client",
        title="Queries wait for table and metadata locks",
        panels=("throughput", "statement"),
        accounts_for=frozenset({"locks"}),
        explains_fall=True,
        meaning=(
            "Queries wait for a lock that is no row lock: of a table, of its definition (metadata lock), of a"
            " backup, or of a name (`GET_LOCK`)."
        ),
        signs=(
            "At least 20 % of statement time is waiting for table and metadata locks. A statement's time counts"
            " when it ends; while sessions hardly do a statement, the list of sessions (`SHOW PROCESSLIST`, with"
            " the PROCESS privilege) says how many wait, and 20 % of them count as well. MariaDB counts these"
            " waits only with the instrument `wait/lock/metadata/sql/mdl`, which volbench switches on for servers"
            " of its own; MySQL has it on by default."
        ),
        advice=(
            "Find the holder (`performance_schema.metadata_locks`, `SHOW PROCESSLIST`): an old transaction"
            " before an `ALTER TABLE`, `LOCK TABLES`, a backup with `FLUSH TABLES WITH READ LOCK`, the"
            " application's own `GET_LOCK`. A faster volume does not help."
        ),
        waits="in turn",
        wait_time="locks",
    ),
)
_FIND_HOLDER = (
    "Find who holds them (performance_schema.metadata_locks; SHOW PROCESSLIST): the oldest transaction, an ALTER"
    " TABLE that waits for it, LOCK TABLES, FLUSH TABLES WITH READ LOCK, or GET_LOCK of the application. Shorter"
    " transactions help."
)


def row_locks(case: Case) -> Iterator[Cause]:
    """Locks of rows, from how long statements waited for them."""
    share = case.budget.share("row_locks") if case.budget is not None else None
    if share is None or share < limit.ROW_LOCK_SHARE_MIN:
        return
    waits = mean(case.at(Innodb.row_lock_waits_per_s)) or 0.0
    spent = mean(case.at(Innodb.row_lock_wait_s_per_s))
    each = f" of {number(1000 * spent / waits)} ms each" if spent and waits else ""
    yield _counted(
        case,
        ROW_LOCKS,
        share,
        [True, waits >= 1],
        row(
            "row_lock_share",
            share,
            "1",
            f"{percent(share)} of statement time is waiting for row locks, {number(waits)} waits a second{each}",
        ),
        "Shorter transactions and fewer hot rows: storage is waited for only while a lock is held.",
    )


def metadata_locks(case: Case) -> Iterator[Cause]:
    """Locks of whole tables, of definitions and of names: the server's instruments count how long sessions wait.

    MySQL and MariaDB keep locks of GET_LOCK and of backups with the metadata locks.
    """
    budget = case.budget
    share = 0.0 if budget is None else budget.share("table_locks")
    if budget is None or share < limit.METADATA_LOCK_SHARE_MIN:
        return
    waiting = mean(budget.seconds["table_locks"]) or 0.0
    yield _counted(
        case,
        METADATA_LOCKS,
        share,
        [True, waiting >= limit.HOLDERS_MIN],
        row(
            "metadata_lock_share",
            share,
            "1",
            f"{percent(share)} of statement time is waiting for table and metadata locks,"
            f" {number(waiting)} sessions at a time on average",
        ),
        _FIND_HOLDER,
        volume_advice=VOLUME_CHANGES_LITTLE,
    )


_GAUGES = {
    ROW_LOCKS: (Innodb.row_lock_current_waits, "row locks", limit.ROW_LOCK_SHARE_MIN),
    METADATA_LOCKS: (
        Innodb.metadata_lock_current_waits,
        "a table, its definition, a backup or a name",
        limit.METADATA_LOCK_SHARE_MIN,
    ),
}
_HOLDER = {
    ROW_LOCKS: "Find the transaction that holds the rows (sys.innodb_lock_waits; the oldest of information_schema"
    ".INNODB_TRX): a session that is idle in a transaction, or a long statement.",
    METADATA_LOCKS: _FIND_HOLDER,
}
STANDING_SAMPLES = 3
"""Intervals with waiting sessions: fewer are waits that soon end."""


def sessions_at_rows(case: Case) -> Iterator[Cause]:
    """Locks of rows, from how many sessions wait for one."""
    yield from _standing(case, ROW_LOCKS)


def sessions_at_metadata(case: Case) -> Iterator[Cause]:
    """Locks of tables, definitions and names, from how many sessions wait for one."""
    yield from _standing(case, METADATA_LOCKS)


def _standing(case: Case, cause: str) -> Iterator[Cause]:
    """Sessions that wait at the ticks, for waits that did not end: statements are counted when they do.

    By Little's law for the sessions, N that wait on average, of C that may, are N / C of their time. C are the
    load's clients, or else the sessions that run.
    """
    metric, noun, least = _GAUGES[cause]
    gauge, running = case.at(metric), case.at(Innodb.threads_running)
    if gauge is None or running is None:
        return
    finite = np.isfinite(running)
    waiting = np.where(finite, np.nan_to_num(gauge), 0.0)
    possible = np.maximum(np.where(finite, running, 1.0) - 1, waiting)  # of those that run, one asks
    clients = np.full(len(waiting), float(case.threads)) if case.threads else possible
    total = float(clients[finite].sum())
    share = float(np.minimum(waiting, clients)[finite].sum()) / total if total > 0 else 0.0
    during = waiting > 0
    if share < least or int(during.sum()) < STANDING_SAMPLES:
        return
    sessions = float(waiting[during].mean())
    begin_s, end_s = case.grid.window_of(during)
    text = (
        f"{number(sessions)} sessions at a time wait for {noun}, from {clock(begin_s, case.clock_zero_s)} to"
        f" {clock(end_s, case.clock_zero_s)}; a wait that has not ended is in no statement's time"
    )
    yield Cause(
        cause=cause,
        decided_by="counted",
        of_clients=True,
        explains_fall=True,
        window_s=(begin_s, end_s),
        share=share,
        checks=(True, share >= 2 * least or None),
        evidence=(row("waiting_sessions", sessions, "1", text),),
        advice=_HOLDER[cause],
        volume_advice=VOLUME_CHANGES_LITTLE,
    )


def _counted(
    case: Case,
    cause: str,
    share: float,
    checks: list[bool | None],
    evidence: EvidenceRow,
    advice: str,
    volume_advice: str = "",
) -> Cause:
    return Cause(
        cause=cause,
        decided_by="counted",
        window_s=case.window_s,
        share=share,
        checks=tuple(checks),
        evidence=(evidence,),
        advice=advice,
        volume_advice=volume_advice,
    )


RULES = (
    Rule(name=_AT_ROWS, causes=frozenset({ROW_LOCKS}), find=row_locks),
    Rule(name=_AT_METADATA, causes=frozenset({METADATA_LOCKS}), find=metadata_locks),
    Rule(
        name="sessions that wait for row locks",
        causes=frozenset({ROW_LOCKS}),
        find=sessions_at_rows,
        yields_to=frozenset({_AT_ROWS}),
    ),
    Rule(
        name="sessions that wait for metadata locks",
        causes=frozenset({METADATA_LOCKS}),
        find=sessions_at_metadata,
        yields_to=frozenset({_AT_METADATA}),
    ),
)
