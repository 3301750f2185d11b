"""What one transaction asks of volume, CPU and locks, from a step that was measured under a closed load.

It is what stays when the volume changes: operations and their sizes, the number of operations that a transaction
waits for one after the other, CPU time. Waiting times and queues are what changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volbench.core.records.named_metrics import Client, Innodb
from volbench.core.records.sources import SOURCES
from volbench.core.records.steps import step_kind
from volbench.results.explain import thresholds as limit
from volbench.results.explain.accounts.page_writes import PageCounts
from volbench.results.explain.accounts.purge import undo_left
from volbench.results.explain.accounts.redo import whole_variable
from volbench.results.explain.accounts.statement_part import statement_part
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.budget import LOCKS
from volbench.results.explain.evidence.device import Device
from volbench.results.stats.grid import Floats, Mask, mean, median

HITS_DRIFT_MAX = 0.3
"""Reads per transaction in the second half of the window against the first: beyond it the buffer pool fills yet."""
_CPU_BEYOND_STATEMENTS = 1.0
"""Background threads, kernel and, of an emulated volume, its daemon: as much CPU time as statements and client."""
_CPU_IDLE = 0.1
"""Share of the CPUs that statements and client use, below which a transaction costs more than on busier ones with
warm caches: 2.1 times as much at 3 % (tests/benchmarks/what_if.py). That makes up for what is beside them."""
_SEVERAL_VOLUMES = "the server's files are on several volumes, and the model has one"
_NO_CPU = "the CPU time of a transaction is not known"
_OTHER_STATEMENTS = (
    "statements of what runs beside the load are counted with its own: what a transaction waits for is not known"
)
_NO_TIMES = "no statement times of the server: what a transaction waits for is not known"
OTHER_SHARE_MAX = 0.3
"""Of the clients' time, or of statements', that neither the volume nor CPU nor locks explain: with more, the model
does not know what limits, and another volume may leave it as it is."""
POOL_FREE_MIN = 0.15
"""Of the buffer pool: InnoDB keeps pages free for those to come, in a small pool many, and hits go with them."""
_DIRTY_MIN = 0.1
"""Of the buffer pool: with fewer dirty pages, the page cleaner of MySQL's defaults has nothing to do."""
_SYNCS_MIN = 0.02
"""Syncs per transaction below which nobody waits for the log."""
_READS_MIN = 0.1
"""Reads per transaction below which hits do not matter."""


class PredictionError(Exception):
    """Why this step says nothing about another volume. It never leaves this module."""


@dataclass(frozen=True, kw_only=True)
class PredictionUnavailable:
    """The same as a value."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Demand:
    """One transaction of `clients` in a closed loop; seconds and bytes are means.

    Args:
        response_s: of the loop, clients / tps.
        reads, writes: operations of the volume, those of background threads too.
        reads_waited, writes_waited: how many of them it waits for one after the other.
        read_s, write_s: what one takes now, queue included.
        cpu_s_min, cpu_s, cpu_s_max: CPU time of what serves it: of statements and client where that is known, with
            what goes on beside them, and all that the host used.
        cpu_known: whether `cpu_s` is of this load; else the host's CPUs were busy with nobody knows what.
        locks_s: of the response, waiting for locks.
        outside_s: of the response, outside of statements and without the client's CPU time: the way to the server
            and back. Another volume leaves it as it is.
        p95_s: of the response.
        undo_left: growth of the history list over the window, transactions for each that finished; 0 where it is
            not known, as in a window in which nothing left a short list. Purge reads and writes pages for them
            later, which no count of this window has.
        pages: what InnoDB counted of its pages; None on a server without these counters.
    """

    clients: int
    tps: float
    response_s: float
    reads: float
    writes: float
    read_bytes: float
    write_bytes: float
    reads_waited: float
    writes_waited: float
    read_s: float
    write_s: float
    cpu_s_min: float
    cpu_s: float
    cpu_s_max: float
    cpu_known: bool
    cpus: int
    locks_s: float
    p95_s: float | None
    outside_s: float = 0.0
    undo_left: float = 0.0
    pool_free: float = 0.0
    pages: PageCounts | None = None

    @property
    def tail(self) -> float | None:
        """p95 against the mean."""
        return None if self.p95_s is None else self.p95_s / self.response_s


def demand_of(case: Case) -> Demand | PredictionUnavailable:
    """The demand of a step, or why it says nothing about another volume."""
    try:
        return _demand(case)
    except PredictionError as error:
        return PredictionUnavailable(reason=str(error))


def _demand(case: Case) -> Demand:
    tps, device = case.at(Client.tps), case.device
    if case.elsewhere:
        raise PredictionError(_SEVERAL_VOLUMES)
    _refuse(case, device)
    if tps is None or device is None or device.reads is None or device.writes is None or case.threads is None:
        raise PredictionError("reads and writes of the volume, or the client's transactions, are not known")
    finite = np.isfinite(tps) & np.isfinite(device.reads) & np.isfinite(device.writes)
    done = float(tps[finite].sum())
    if done <= 0:
        raise PredictionError("no transaction finished")
    reads, writes = (float(rates[finite].sum()) / done for rates in (device.reads, device.writes))
    response = case.threads * int(finite.sum()) / done
    read_s, write_s = _mean_s(device.reads, device.r_await_ms), _mean_s(device.writes, device.w_await_ms)
    statements_cpu = _per_transaction(case.statement_cpu_s_per_s, finite, done)
    cpu_max = _per_transaction(case.cpu_s_per_s, finite, done)
    if cpu_max is None:
        raise PredictionError(_NO_CPU)
    statement_s = response * _statement_part(case)
    cpu = _cpu_known_s(case, tps, statement_s, statements_cpu, cpu_max)
    read_wait, write_wait, locks = _waits(case, statement_s, statements_cpu or cpu)
    p95 = median(case.at(Client.latency_ms_p95))
    return Demand(
        clients=case.threads,
        tps=done / int(finite.sum()),
        response_s=response,
        reads=reads,
        writes=writes,
        read_bytes=_mean_bytes(device.reads, device.read_mib_per_s),
        write_bytes=_mean_bytes(device.writes, device.write_mib_per_s),
        # Never more than it reads: where CPUs are busy, a thread whose read is done waits for one of them, too.
        reads_waited=min(reads, read_wait / read_s) if read_s > 0 else 0.0,
        writes_waited=write_wait / write_s if write_s > 0 else 0.0,
        read_s=read_s,
        write_s=write_s,
        cpu_s_min=min(cpu, (statements_cpu or 0.0) + _client_cpu_s(case, tps)),
        cpu_s=cpu,
        cpu_s_max=cpu_max,
        cpu_known=statements_cpu is not None or case.cpu_busy is None or case.cpu_busy < limit.CPU_BUSY_MIN,
        cpus=case.cpus or 1,
        locks_s=locks,
        outside_s=max(0.0, response - statement_s - _client_cpu_s(case, tps)),
        p95_s=None if p95 is None else p95 / 1000,
        undo_left=undo_left(case),
        pool_free=(median(case.at(Innodb.buffer_pool_free_ratio)) or 0.0) if reads > _READS_MIN else 0.0,
        pages=_pages(case, done / int(finite.sum())),
    )


def _pages(case: Case, tps: float) -> PageCounts | None:
    """InnoDB's pages of a transaction; None where the page cleaner does not work as the model knows it.

    It knows MySQL from 8.0.30 on with pages of 16 KiB that are written twice, and a pool with enough dirty pages
    that the cleaner writes all the time (`innodb_max_dirty_pages_pct_lwm`, 10 % by default).
    """
    metrics = (Innodb.pages_read_per_s, Innodb.pages_written_per_s, Innodb.buffer_pool_write_requests_per_s)
    rates = [mean(case.at(metric)) for metric in metrics]
    dirty = median(case.at(Innodb.buffer_pool_dirty_ratio))
    cleaner = whole_variable(case, "innodb_io_capacity")
    is_redo_sized = whole_variable(case, "innodb_redo_log_capacity") is not None
    usual = [case.variables.get(name) for name in ("innodb_page_size", "innodb_doublewrite")] == ["16384", "ON"]
    if None in rates or cleaner is None or not is_redo_sized or not usual or (dirty or 0.0) < _DIRTY_MIN:
        return None
    read, written, changed = (rate / tps for rate in rates if rate is not None)
    return PageCounts(read=read, written=written, changed=changed, cleaner_per_s=cleaner)


def _refuse(case: Case, device: Device | None) -> None:
    """Raise for what no volume would change, or for what cannot be told."""
    if not step_kind(case.kind).transactions:
        raise PredictionError("only loads of transactions are predicted")
    if case.rate is not None:
        raise PredictionError(f"the load came at a rate of its own ({case.rate:g}/s), not from a number of clients")
    if case.threads is None:
        raise PredictionError("the number of clients is not known")
    if device is None:
        raise PredictionError("no counters of the volume")
    if device.source not in SOURCES or not SOURCES[device.source].block:
        raise PredictionError("a network file system's round trips say nothing of a block device's operations")
    if case.budget is None:
        raise PredictionError(_NO_TIMES)
    _refuse_other_limits(case)
    drift = _drift(case, device)
    if drift is not None and abs(drift) > HITS_DRIFT_MAX:
        raise PredictionError(
            f"reads per transaction changed by {100 * drift:+.0f} % within the window:"
            " the buffer pool's hits are not steady"
        )


def _refuse_other_limits(case: Case) -> None:
    """Raise where something that the model does not know of takes much of the time."""
    for name, throttled in (("server", case.server_throttled), ("client", case.client_throttled)):
        if throttled is not None and throttled >= limit.THROTTLED_MIN:
            raise PredictionError(
                f"a CPU quota held the {name} back in {100 * throttled:.0f} % of its periods: it limits first"
            )
    unseen = case.unseen_share or 0.0
    if unseen >= OTHER_SHARE_MAX and not (case.budget is not None and case.budget.hides_commits):
        raise PredictionError(
            f"{100 * unseen:.0f} % of statement time is neither a wait that the server shows nor CPU time: what"
            " limits there may stay as it is"
        )
    outside = 1 - _statement_part(case)
    busy = case.cpu_busy is not None and case.cpu_busy >= limit.CPU_BUSY_MIN
    if outside >= OTHER_SHARE_MAX and not busy:
        raise PredictionError(
            f"the clients spend {100 * outside:.0f} % of their time outside of statements while CPUs are free: the"
            " network or the clients themselves limit, and no volume changes that"
        )


def _statement_part(case: Case) -> float:
    """Part of the clients' time that statements have: the server's shares are of it, a response has more."""
    in_statements = statement_part(case)
    if in_statements is None:
        raise PredictionError(_OTHER_STATEMENTS)
    return in_statements


def _drift(case: Case, device: Device) -> float | None:
    """Change of reads per transaction from the first half to the second; None where hardly any are read."""
    tps = case.at(Client.tps)
    if tps is None or device.reads is None:
        return None
    both = np.isfinite(tps) & np.isfinite(device.reads)
    x, y = tps[both], device.reads[both]
    half = len(x) // 2
    if half < 3 or min(x[:half].sum(), x[half:].sum()) <= 0:
        return None
    first, second = y[:half].sum() / x[:half].sum(), y[half:].sum() / x[half:].sum()
    return float(second / first - 1) if min(first, second) > _READS_MIN else None


def _waits(case: Case, statement_s: float, cpu_s: float) -> tuple[float, float, float]:
    """Seconds of a transaction's statements spent on reads, on writes with their syncs, and on locks.

    Where commits wait without an instrument, what neither a wait nor the CPU explains is taken as theirs.
    """
    budget = case.budget
    if budget is None:
        raise PredictionError(_NO_TIMES)
    locks = budget.share(*LOCKS)
    if locks >= limit.ROW_LOCK_SHARE_MIN:
        raise PredictionError(
            f"locks take {100 * locks:.0f} % of statement time: another volume changes what they take"
        )
    reads = budget.share("data_reads") * statement_s
    writes = budget.share("redo_sync", "binlog_sync", "doublewrite", "other_files", "binlog_group") * statement_s
    syncs = case.at(Innodb.data_fsyncs_per_s)
    if budget.hides_commits and syncs is not None and float(np.nansum(syncs)) > _SYNCS_MIN * _done(case):
        writes += max(0.0, budget.no_wait * statement_s - cpu_s)
    return reads, writes, locks * statement_s


def _done(case: Case) -> float:
    tps = case.at(Client.tps)
    return 0.0 if tps is None else float(np.nansum(tps))


def _per_transaction(column: Floats | None, finite: Mask, done: float) -> float | None:
    return None if column is None else float(np.nansum(column[finite])) / done


def _cpu_known_s(case: Case, tps: Floats, statement_s: float, cpu_s: float | None, most: float) -> float:
    """What statements and client used, with what goes on beside them; others on the host use CPUs too.

    Without CPU times of statements, what no wait explains of their time bounds them from above.
    """
    if cpu_s is None:
        cpu_s = 0.0 if case.budget is None else case.budget.no_wait * statement_s
    used_s = cpu_s + _client_cpu_s(case, tps)
    used = used_s * float(np.nanmean(tps)) / (case.cpus or 1)
    return min(most, used_s * (1 + _CPU_BEYOND_STATEMENTS * min(1.0, used / _CPU_IDLE)))


def _client_cpu_s(case: Case, tps: Floats) -> float:
    return 0.0 if case.client_cpus is None else case.client_cpus / float(np.nanmean(tps))


def _mean_s(count: Floats, waited_ms: Floats | None) -> float:
    """Mean time of one operation over the window; 0 where there was none."""
    if waited_ms is None:
        if np.nansum(count) > 0:
            raise PredictionError("the volume's waiting times are not known")
        return 0.0
    both = np.isfinite(count) & np.isfinite(waited_ms)
    total = float(count[both].sum())
    return float((count[both] * waited_ms[both]).sum()) / total / 1000 if total > 0 else 0.0


def _mean_bytes(count: Floats, mib_per_s: Floats | None) -> float:
    """Mean size of one operation; a page where it is not known."""
    total = float(np.nansum(count))
    return float(np.nansum(mib_per_s)) * 2**20 / total if mib_per_s is not None and total > 0 else 16_384.0
