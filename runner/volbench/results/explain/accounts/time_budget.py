"""Where the time of one transaction goes, in milliseconds.

A transaction's statements take `S` seconds of statement time (performance_schema: time of all statements that
ended, divided by the transactions that ended in the same intervals). Waits of foreground threads, CPU time and row
lock waits split S (`budget.py`). Five pieces are derived here:

- `commit_log`: COMMIT statements' time that is neither CPU, binary log nor redo log I/O of their own thread. MySQL
  8.0 and later write and sync the redo log in background threads, and the sessions that wait for them have no
  instrument. What COMMIT waits for and nothing else shows is that wait.
- `write_path`: on a server without instruments for its logs (MariaDB), what is neither a wait that is seen nor can
  be CPU time of the whole host (`Case.unseen_share`): commits, checkpoints and free pages.
- `cpu_server`: on a server that keeps no CPU time of statements (MariaDB), that of its processes, with its
  background threads: an upper bound of what its statements used.
- `cpu_queue`: time that the cell's processes were runnable without a CPU (schedstat), at most what is left of S and
  the part of reads that is spent above the device (Little's law, `layers.operations_above`): a read that is done
  waits for a CPU, too. It counts the server's background threads, so it is an upper bound of the sessions' waiting.
- `checkpoint`: what is left of S then in intervals in which the redo log was full of changes that are not flushed,
  or the buffer pool had no free page (`redo.held_back`). InnoDB has no instrument for either. An upper bound.

What is left is `unaccounted`: mutexes, and whatever has no instrument. The pieces sum to S.

**Beyond the statements.** The client measures a latency L > S. A statement's clock starts when the server has read
the command and stops when its result is written, so L - S holds, for each of a transaction's round trips: the
client's and the server's CPU time between statements, both threads waiting for a CPU after the other one woke
them, and the network; at a fixed rate also the wait for a free client thread (sysbench counts it: sb_more_events
sets queue_time, sb_timer_stop adds it). Two bounds divide it (`outside_pieces`), both by Little's law:

- `client_queue`: transactions that wait for a client thread, on average, over X;
- `cpu_between`: with U + D of the cell's tasks on or before a CPU (schedstat), a transaction spends at most
  (U + D) / X so. Its statements' own CPU time is no part of it. The client is one of the cell's processes.

What is left is `outside`. The D that is taken here is not counted within the statements again: in a closed loop of
N clients, L = N / X is known to the server's account, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from volbench.core.records.named_metrics import Client, Innodb, PerformanceSchema, Tasks
from volbench.results.explain import thresholds as limit
from volbench.results.explain.accounts.redo import held_back
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.budget import Budget
from volbench.results.explain.evidence.layers import device_flow, operations_above, server_flow
from volbench.results.explain.evidence.processors import CELL
from volbench.results.stats.grid import Floats

PIECES: Mapping[str, str] = {
    "data_reads": "reads of data files",
    "redo_sync": "redo log writes and syncs",
    "commit_log": "COMMIT waiting for the redo log",
    "write_path": "commits, checkpoints and free pages, without an instrument",
    "binlog_sync": "binary log writes and syncs",
    "binlog_group": "waiting for another session's group commit",
    "doublewrite": "doublewrite",
    "other_files": "other file I/O",
    "row_locks": "row locks",
    "table_locks": "table and metadata locks",
    "cpu": "CPU",
    "cpu_server": "CPU of the server (at most)",
    "cpu_queue": "waiting for a CPU (at most)",
    "checkpoint": "waiting for room in the redo log or for a free page (at most)",
    "unaccounted": "not accounted for",
    "client_queue": "waiting for a free client thread",
    "cpu_between": "CPU, and waiting for one, between statements (at most)",
    "outside": "client and network",
}
"""Piece -> title, in the order of a report. The last three are known where the client's own latency is."""
QUEUE = "client_queue"
"""The piece that follows from all others: a transaction waits for a client thread that another one still has."""
_DERIVED = ("commit_log", "write_path", "cpu_server", "cpu_queue", "checkpoint", "unaccounted")
_COMMIT = "COMMIT"
_MS = 1000.0


@dataclass(frozen=True, kw_only=True)
class TimeBudget:
    """Milliseconds of one transaction by piece; the pieces sum to `statement_ms`.

    `statement_ms` is the time of all statements of a transaction, as the server counts it. `client_queue_ms` and
    `cpu_between_ms` bound what of the client's latency beyond them is a wait for a client thread, and CPU time and
    waiting for a CPU.
    """

    statement_ms: float
    pieces: Mapping[str, float]
    client_queue_ms: float = 0.0
    cpu_between_ms: float = 0.0

    @property
    def unaccounted_share(self) -> float:
        """The share of the statements' time that nothing accounts for."""
        return self.pieces.get("unaccounted", 0.0) / self.statement_ms if self.statement_ms > 0 else 0.0

    def outside_pieces(self, latency_ms: float) -> dict[str, float]:
        """Milliseconds of the client's latency beyond the statements, by piece; empty where it is not longer.

        Args:
            latency_ms: mean time of a transaction as the client measured it.
        """
        left = latency_ms - self.statement_ms
        pieces = {}
        for piece, bound in ((QUEUE, self.client_queue_ms), ("cpu_between", self.cpu_between_ms)):
            pieces[piece] = max(0.0, min(left, bound))
            left -= pieces[piece]
        pieces["outside"] = left
        return {piece: ms for piece, ms in pieces.items() if ms > 0}


def time_budget(case: Case) -> TimeBudget | None:
    """The budget of one step; None without statement times or transactions.

    None also while something else ran beside the load: its statements are counted with the load's.
    """
    tps = case.at(Client.tps)
    return None if tps is None or case.concurrent else _budget_of(case, tps)


def statement_budget(case: Case) -> TimeBudget | None:
    """The budget of one statement, mean of all that ended, a backup's too; None without their times or number.

    For a server whose transactions nobody counts: what a client adds is not known, and the pieces sum to the
    time of a statement as the server measures it.
    """
    statements = case.at(PerformanceSchema.statements_per_s)
    return None if statements is None else _budget_of(case, statements)


def _budget_of(case: Case, finished_per_s: Floats) -> TimeBudget | None:
    """The budget of one of what finished."""
    budget = case.budget
    if budget is None:
        return None
    both = np.isfinite(budget.statement_s) & np.isfinite(finished_per_s)
    transactions = float(finished_per_s[both].sum())
    if transactions <= 0:
        return None
    statement_ms = _MS * float(budget.statement_s[both].sum()) / transactions
    shares = {piece: budget.shares[piece] for piece in PIECES if budget.shares.get(piece)}
    left = budget.share("rest")
    commit = min(left, _commit_share(case, budget))
    writes = min(left - commit, _write_path_share(case, budget))
    server = min(left - commit - writes, _server_cpu_share(case, budget))
    between_ms, delay_between_ms = _cpu_between(case, budget, transactions, statement_ms)
    queued = max(0.0, _cpu_queue_share(case, budget) - delay_between_ms / statement_ms)
    waiting = min(left - commit - writes - server, queued)
    above = min(queued - waiting, _reads_above_device(case, budget))
    left -= commit + writes + server + waiting
    checkpoint = left * _held_back_part(case, budget)
    derived = {
        "data_reads": shares.get("data_reads", 0.0) - above,
        "commit_log": commit,
        "write_path": writes,
        "cpu_server": server,
        "cpu_queue": waiting + above,
        "checkpoint": checkpoint,
        "unaccounted": left - checkpoint,
    }
    shares = {piece: share for piece, share in {**shares, **derived}.items() if share > 0}
    return TimeBudget(
        statement_ms=statement_ms,
        pieces={piece: shares[piece] * statement_ms for piece in PIECES if piece in shares},
        client_queue_ms=_client_queue_ms(case),
        cpu_between_ms=between_ms,
    )


def sessions_by_piece(case: Case, budget: TimeBudget | None) -> dict[str, Floats]:
    """Statement time by piece in each interval, seconds a second: how many sessions were in it, on average.

    Each has shape (buckets,), NaN where statement time is not known; pieces that never take time are left out.
    Waits count when they end, so in one interval they may exceed its statements. Derived pieces are known for the
    whole step only: each has the same part of what is left in every interval, so that all intervals together are
    the budget. `checkpoint` has its own intervals.

    Args:
        case: the step.
        budget: of the same step; None: nothing is derived.
    """
    if case.budget is None:
        return {}
    statement_s = case.budget.statement_s
    total_s = _sum(statement_s)
    wanted_s = {} if budget is None else {p: ms / budget.statement_ms * total_s for p, ms in budget.pieces.items()}
    left = np.nan_to_num(case.budget.seconds["rest"])
    pieces = {}
    for name, seconds in case.budget.seconds.items():
        if name != "rest":
            measured = np.nan_to_num(seconds)
            used = min(1.0, wanted_s.get(name, 0.0) / _sum(measured)) if wanted_s and measured.any() else 1.0
            pieces[name] = used * measured
            left = left + (1 - used) * measured
    derived_s = {piece: wanted_s[piece] for piece in _DERIVED if piece in wanted_s} or {"unaccounted": 1.0}
    for piece, seconds_of_piece in derived_s.items():
        pieces[piece] = left * seconds_of_piece / sum(derived_s.values())
    if "checkpoint" in derived_s:  # its intervals are known
        waits = pieces["checkpoint"] + pieces.get("unaccounted", 0.0)
        back = held_back(case)
        pieces |= {"checkpoint": np.where(back, waits, 0.0), "unaccounted": np.where(back, 0.0, waits)}
    finite = np.isfinite(statement_s)
    return {p: np.where(finite, pieces[p], np.nan) for p in PIECES if p in pieces and pieces[p].any()}


def _cpu_between(case: Case, budget: Budget, transactions: float, statement_ms: float) -> tuple[float, float]:
    """Milliseconds of a transaction on and before a CPU that are no statement's CPU time, at most.

    Args:
        transactions: summed over the same intervals as statement time is.
        statement_ms: of a transaction.

    Also the part of them that is waiting and between statements, in a closed loop; 0 where the load has a rate.
    """
    used, delay = (case.at(metric, CELL) for metric in (Tasks.cpus_used, Tasks.run_delay_s_per_s))
    if used is None or delay is None:
        return 0.0, 0.0
    running_ms = max(0.0, _MS * _sum(used) / transactions - budget.share("cpu") * statement_ms)
    waiting_ms = _MS * _sum(delay) / transactions
    if case.rate is not None or not case.threads:
        return running_ms + waiting_ms, 0.0
    outside_ms = max(0.0, _MS * case.threads * len(case.grid) / transactions - statement_ms)
    return running_ms + waiting_ms, min(waiting_ms, max(0.0, outside_ms - running_ms))


def _client_queue_ms(case: Case) -> float:
    """Milliseconds that a transaction waits for a client thread, by Little's law; 0 for a load without a rate."""
    queue, tps = case.at(Client.queue_length), case.at(Client.tps)
    if queue is None or tps is None or case.rate is None or not _sum(tps):
        return 0.0
    return _MS * _sum(queue) / _sum(tps)


def _commit_share(case: Case, budget: Budget) -> float:
    """Share of statement time in COMMIT that no instrument of its own thread shows; 0 where COMMIT is not known."""
    time, cpu = (
        case.at(metric, _COMMIT)
        for metric in (PerformanceSchema.query_s_per_s, PerformanceSchema.query_cpu_s_per_s)
    )
    total = _sum(budget.statement_s)
    if time is None or cpu is None or total <= 0:
        return 0.0
    instrumented = budget.share("redo_sync", "binlog_sync", "binlog_group")
    return max(0.0, (_sum(time) - _sum(cpu)) / total - instrumented)


def _write_path_share(case: Case, budget: Budget) -> float:
    """Share of statement time that only unseen waits for writes can be; 0 where nothing is synced."""
    syncs = case.at(Innodb.data_fsyncs_per_s)
    if not budget.hides_commits or case.unseen_share is None or syncs is None or _sum(syncs) <= 0:
        return 0.0
    return case.unseen_share


def _held_back_part(case: Case, budget: Budget) -> float:
    """The part of what is left that lies in intervals in which InnoDB held sessions back.

    0 where it may be CPU time, where `write_path` has such waits already, and where too little is left for the rule
    that names them (`redo.checkpoint_stall`): a log that is well used is no wait by itself.
    """
    computes = "cpu" in budget.seconds or case.at(Tasks.cpus_used, "server") is not None
    if not computes or budget.hides_commits or budget.share("rest") < limit.STORAGE_SHARE_MIN:
        return 0.0
    left = np.nan_to_num(budget.seconds["rest"])
    return _sum(left[held_back(case)]) / _sum(left) if left.any() else 0.0


def _reads_above_device(case: Case, budget: Budget) -> float:
    """Share of statement time in which reads were under way in the server and not at the device, at least."""
    reads = server_flow(case.grid, "read", ("data",))
    device = None if case.device is None else device_flow(case.device, "read")
    above = None if reads is None or device is None else operations_above(reads, device)
    total = _sum(budget.statement_s)
    return 0.0 if above is None or total <= 0 else min(budget.share("data_reads"), _sum(above) / total)


def _server_cpu_share(case: Case, budget: Budget) -> float:
    """CPU time of the server's processes as a share of statement time; 0 where that of statements is known."""
    used, total = case.at(Tasks.cpus_used, "server"), _sum(budget.statement_s)
    return 0.0 if used is None or "cpu" in budget.seconds or total <= 0 else _sum(used) / total


def _cpu_queue_share(case: Case, budget: Budget) -> float:
    """Run-queue time of the cell's processes as a share of statement time; 0 where nobody samples it."""
    delay = case.at(Tasks.run_delay_s_per_s, "cell")
    total = _sum(budget.statement_s)
    return 0.0 if delay is None or total <= 0 else _sum(delay) / total


def _sum(column: Floats) -> float:
    return float(np.nansum(column))
