"""What the response is estimated from: latency, awaits and counted waits of one step of one cell.

Which time stands for which wait, and who counts it:

- `read`: reads of data files, as the volume's device timed them; counted: page requests that had to read
  (Innodb_buffer_pool_reads, which leaves out what is read ahead), of these the sessions' part: purge requests
  pages, too, and no transaction waits for it. The server times reads by thread (`foreground_reads`).
- `redo_sync`, `binlog_sync`: syncs of the logs, as the server timed them (performance_schema); of a server without
  an instrument for its redo log (MariaDB), the device's write and flush, one after the other. Counted: syncs of
  each log; a transaction that commits with others waits for its own sync, and at most for all of the one before.
- `write`: writes of the device, only where the server counts waits for a free page or for room in the log buffer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from volbench.core.records.cell import StepResult
from volbench.core.records.modulation import Modulation, SignalKind, modulation_of
from volbench.core.records.named_metrics import Client, Innodb, NamedMetric, PerformanceSchema, Tasks
from volbench.results.explain.accounts.interval_latencies import IntervalLatencies
from volbench.results.explain.accounts.queries import query_costs
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.processors import CELL, CLIENT, SAMPLER, SERVER, task_use
from volbench.results.response.left_out import Ints
from volbench.results.response.samples import CellSamples, WaitCount, by_transaction, retimed
from volbench.results.response.signal import slow_share
from volbench.results.stats.grid import Floats
from volbench.results.store.series import Series, SeriesKey

COUNTED_MIN = 0.1
"""Waits per transaction from which on the load waits for something. A tenth of a sync is a group of ten commits;
fewer waits for free pages cost less than any interval of the slopes shows."""
COUNTED_BY_STATEMENT_MIN = 0.005
"""The same for each statement: transactions of sysbench have twenty."""
_TERMS_OF_SIGNAL: Mapping[SignalKind, tuple[str, ...]] = {
    "read": ("read",),
    "write": ("redo_sync", "binlog_sync", "write"),
}
"""What a modulation slows, and the waits that it acts on: a sync is a write and a flush, which change together."""
_SOURCE = "performance_schema"
_NEVER: Mapping[str, tuple[str, ...]] = {"SELECT": ("redo_sync", "binlog_sync"), "COMMIT": ("read",)}
_QUANTILES = {0.5: Client.latency_ms_p50, 0.95: Client.latency_ms_p95, 0.99: Client.latency_ms_p99}


def samples_of(
    case: Case,
    latencies: IntervalLatencies | None,
    *,
    cell: str,
    volume: str,
    series: Mapping[SeriesKey, Series],
    modulation: Modulation | None = None,
) -> CellSamples | None:
    """Return the samples of a step; None without transactions. A load that waits for nothing has no awaits.

    Args:
        case: the step.
        latencies: on the intervals of its grid; None: in a closed loop the mean follows from the number of threads
            (Little's law).
        cell, volume: names.
        series: of the cell, with the samplers' own times.
        modulation: of the volume while the step ran; None: there was none.
    """
    tps = case.at(Client.tps)
    if tps is None or case.concurrent:
        return None
    finished = np.nan_to_num(tps) * case.grid.width_s
    latency = _by_little(case, finished) if latencies is None else latencies.mean_ms
    total = float(finished.sum())
    if latency is None or total <= 0:
        return None
    counted = _counted(case, total)
    edges = _edges(case)
    waits = _awaits(case, counted, series)
    means = {term: await_ms for term, wait in waits.items() if (await_ms := wait.mean_ms(edges)) is not None}
    signals, seen_signals, slots = _signals(case, modulation, {term: waits[term] for term in means})
    return CellSamples(
        cell=cell,
        volume=volume,
        threads=case.threads,
        interval_s=case.grid.width_s,
        latency_ms=latency,
        finished=finished,
        awaits_ms=means,
        counted={term: count for term, count in counted.items() if term in means},
        signals=signals,
        seen_signals=seen_signals,
        slots=slots,
        cpu_ms=_cpu_ms(case, finished, CELL),
        cpu_wait_ms=_cpu_wait_ms(series, edges, finished),
        latency_quantiles_ms={} if latencies is None else latencies.quantiles_ms,
        step_quantiles_ms={
            level: case.latency_ms[metric.name]
            for level, metric in _QUANTILES.items()
            if metric.name in case.latency_ms
        },
    )


def statement_samples(
    case: Case, *, cell: str, volume: str, series: Mapping[SeriesKey, Series]
) -> CellSamples | None:
    """Return the samples of a server in use, with all its statements as the load; None without statement times.

    Nobody knows its transactions, so a wait is counted for each statement: of a statement that commits, and of the
    many that do not, the mean.

    Args:
        case: of an observation.
        cell, volume: names.
        series: of the observation, with the samplers' own times.
    """
    rate, mean_ms = case.at(PerformanceSchema.statements_per_s), case.at(PerformanceSchema.statement_ms)
    if rate is None or mean_ms is None:
        return None
    finished = np.nan_to_num(rate) * case.grid.width_s
    total = float(finished.sum())
    if total <= 0:
        return None
    counted = _counted(case, total)
    edges = _edges(case)
    waits = _awaits(case, counted, series, counted_min=COUNTED_BY_STATEMENT_MIN)
    means = {term: await_ms for term, wait in waits.items() if (await_ms := wait.mean_ms(edges)) is not None}
    return CellSamples(
        cell=cell,
        volume=volume,
        threads=None,
        interval_s=case.grid.width_s,
        latency_ms=np.where(finished > 0, mean_ms, np.nan),
        finished=finished,
        awaits_ms=means,
        counted={term: _of_commits(case, count, term, total) for term, count in counted.items() if term in means},
        cpu_ms=_cpu_ms(case, finished, SERVER),
    )


def _of_commits(case: Case, counted: WaitCount, term: str, statements: float) -> WaitCount:
    """Return the syncs that a statement waits for: commits share one, and wait for all of the one before."""
    tps = case.at(Client.tps)
    if term not in ("redo_sync", "binlog_sync") or tps is None:
        return counted
    commits = float(np.nansum(tps)) * case.grid.width_s / statements
    return WaitCount(low=counted.low, high=2 * max(commits, counted.low))


def class_samples(samples: CellSamples, case: Case) -> dict[str, CellSamples]:
    """Return the samples of each class of statements of a step: mean time of one execution over the same awaits.

    No server counts waits by class. But a SELECT syncs no log, and a COMMIT reads no page: what they never wait for
    is known to be 0, so that waits of both kinds that move together are not taken for each other.
    """
    classes = {}
    for cost in query_costs(case.grid):
        ended = case.at(PerformanceSchema.query_per_s, cost.query)
        seconds = case.at(PerformanceSchema.query_s_per_s, cost.query)
        if ended is not None and seconds is not None:
            with np.errstate(invalid="ignore", divide="ignore"):
                mean_ms = np.where(ended > 0, 1000 * seconds / ended, np.nan)
            classes[cost.query] = CellSamples(
                cell=samples.cell,
                volume=samples.volume,
                threads=samples.threads,
                interval_s=samples.interval_s,
                latency_ms=mean_ms,
                finished=np.nan_to_num(ended) * samples.interval_s,
                awaits_ms=samples.awaits_ms,
                counted=_never_waited_for(cost.query),
                signals=samples.signals,
                seen_signals=samples.seen_signals,
                slots=samples.slots,
            )
    return classes


def _never_waited_for(query: str) -> dict[str, WaitCount]:
    """Return the waits that a class of statements never has, with their count of 0."""
    verbs = [verb for verb in query.upper().split()[:2] if verb != "EXECUTE"]
    terms = _NEVER.get(verbs[0], ()) if verbs else ()
    return {term: WaitCount(low=0.0, high=0.0) for term in terms}


def step_modulation(steps: Sequence[StepResult], case: Case) -> Modulation | None:
    """Return the modulation of a step; None without one.

    Args:
        steps: of the cell; the one of the case may have `modulation` in its details (`core/records/modulation.py`).
        case: the step.
    """
    step = next((step for step in steps if step.step == case.name), None)
    return None if step is None else modulation_of(step.details)


def _signals(
    case: Case, modulation: Modulation | None, waits: Mapping[str, _Wait]
) -> tuple[dict[str, Floats], dict[str, Floats], Ints | None]:
    """Return by term the share of each interval that was slow, on the client's clock and as the sampler saw it.

    With them the number of the slot that each interval began in; empty and None without a modulation.
    """
    signals: dict[str, Floats] = {}
    seen_signals: dict[str, Floats] = {}
    if modulation is None:
        return signals, seen_signals, None
    edges = _edges(case)
    for kind, terms in _TERMS_OF_SIGNAL.items():
        share = slow_share(modulation, kind, edges)
        for term in terms if share is not None else ():
            if term in waits:
                clock = waits[term].operations[0].clock_s
                slow = slow_share(modulation, kind, clock)
                signals[term] = share if share is not None else np.zeros(len(case.grid))
                seen_signals[term] = signals[term] if slow is None else waits[term].operations[0].mean(slow, edges)
    begins = np.asarray([slot.t0_s for slot in modulation.slots])
    return signals, seen_signals, np.maximum(0, np.searchsorted(begins, edges[:-1], side="right") - 1)


def _edges(case: Case) -> Floats:
    """Return the ends of the client's intervals, the first one's begin before them."""
    return np.concatenate([[case.grid.t_s[0] - case.grid.width_s], case.grid.t_s])


def _cpu_ms(case: Case, finished: Floats, who: str) -> Floats | None:
    """Return how long tasks ran or waited for a CPU, by transaction; None where nobody counted."""
    use = task_use(case.grid, who)
    if use is None:
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(
            np.where(finished > 0, 1000 * (use.used + use.delay) * case.grid.width_s / finished, np.nan)
        )


def _cpu_wait_ms(series: Mapping[SeriesKey, Series], ends_s: Floats, finished: Floats) -> Floats | None:
    """Return how long tasks of server and client waited for a CPU, by transaction; None where nobody timed it.

    Time on a CPU is not in it: the same work takes it however long a read is, and work that is done once a second
    is shared by fewer transactions while reads are slow.
    """
    rates = [series.get(SeriesKey.of(Tasks.run_delay_s_per_s, who)) for who in (SERVER, CLIENT, SAMPLER)]
    server, client, sampler = (_by_transaction(rate, ends_s, finished) for rate in rates)
    if server is None or client is None:
        return None
    own = client if sampler is None else np.maximum(0.0, client - np.nan_to_num(sampler))
    return np.asarray(1000 * (server + own))


def _by_transaction(rate: Series | None, ends_s: Floats, finished: Floats) -> Floats | None:
    """Return the seconds of a rate in s/s for each transaction; None where it is not known in every sample."""
    if rate is None or len(rate.t_s) < 2 or not np.isfinite(rate.value).all():
        return None
    length_s = np.diff(rate.t_s, prepend=2 * rate.t_s[0] - rate.t_s[1])
    clock_s = np.concatenate([[rate.t_s[0] - length_s[0]], rate.t_s])
    return by_transaction(clock_s, rate.value * length_s, ends_s, finished)


def _by_little(case: Case, finished: Floats) -> Floats | None:
    """Return the mean latency of each interval of a closed loop, NaN where nothing ended."""
    if not case.threads or case.rate is not None:
        return None
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(finished > 0, 1000 * case.threads * case.grid.width_s / finished, np.nan))


def _counted(case: Case, transactions: float) -> dict[str, WaitCount]:
    """Return waits per transaction over the step, by term; those below COUNTED_MIN are 0."""
    counts: dict[str, WaitCount] = {}
    reads = _per_transaction(case, Innodb.buffer_pool_reads_per_s, transactions)
    if reads is None:
        reads = _per_transaction(case, Innodb.data_reads_per_s, transactions)
    if reads is not None:
        counts["read"] = _sessions_reads(case, reads)
    for term, syncs in (("redo_sync", _redo_syncs(case)), ("binlog_sync", _syncs(case, "binlog"))):
        if syncs is not None:
            each = float(np.nansum(syncs)) * case.grid.width_s / transactions
            grouped = each >= COUNTED_MIN and (case.threads or 0) > 1
            counts[term] = WaitCount(low=each, high=2 * max(1.0, each) if grouped else each)
    waits = [
        _per_transaction(case, metric, transactions)
        for metric in (Innodb.buffer_pool_wait_free_per_s, Innodb.log_waits_per_s)
    ]
    if any(wait is not None for wait in waits):
        writes = sum(wait or 0.0 for wait in waits)
        counts["write"] = WaitCount(low=writes, high=writes)
    return counts


def _sessions_reads(case: Case, reads: float) -> WaitCount:
    """Return of the reads of a transaction those that its session waited for; 0 to all where nothing tells them."""
    in_foreground = foreground_reads(case)
    if in_foreground is not None:
        return WaitCount(low=in_foreground * reads, high=in_foreground * reads)
    redo = _redo_syncs(case)
    changes_pages = redo is not None and float(np.nansum(redo)) > 0
    return WaitCount(low=0.0 if changes_pages else reads, high=reads)


def foreground_reads(case: Case) -> float | None:
    """Return the part of data file reads that sessions waited for, by time; None where the server does not tell.

    File waits of foreground threads over the time of all reads. Of a load with purge it was 0.75 to 0.9.
    """
    waited_s = case.at(PerformanceSchema.wait_s_per_s, "file_data")
    read_s = case.at(PerformanceSchema.file_read_s_per_s, "data")
    if waited_s is None or read_s is None:
        return None
    both = np.isfinite(waited_s) & np.isfinite(read_s)
    total_s = float(read_s[both].sum())
    return min(1.0, float(waited_s[both].sum()) / total_s) if total_s > 0 else None


def _per_transaction(case: Case, metric: NamedMetric, transactions: float) -> float | None:
    column = case.at(metric)
    return None if column is None else float(np.nansum(column)) * case.grid.width_s / transactions


def _syncs(case: Case, log: str) -> Floats | None:
    return case.at(PerformanceSchema.file_syncs_per_s, log)


def _redo_syncs(case: Case) -> Floats | None:
    """Return syncs of the redo log; of a server that does not count them, its writes, each of which is synced.

    So it is with innodb_flush_log_at_trx_commit=1; with other values a transaction waits for no redo sync.
    """
    if case.variables.get("innodb_flush_log_at_trx_commit", "1") != "1":
        return None
    for column in (_syncs(case, "redo"), case.at(Innodb.os_log_fsyncs_per_s)):
        if column is not None:
            return column
    return case.at(Innodb.log_writes_per_s)


def _awaits(
    case: Case,
    counted: Mapping[str, WaitCount],
    series: Mapping[SeriesKey, Series],
    *,
    counted_min: float = COUNTED_MIN,
) -> dict[str, _Wait]:
    """Return the awaits of terms that the load waits for; reads also where it waits for none, as their check."""
    device = case.device

    def on_device(await_name: str, rate_name: str) -> tuple[_Sampled, ...]:
        return () if device is None else _sampled(series, device.source, (await_name, rate_name), device.entity)

    def on_server(await_name: str, rate_name: str, log: str) -> tuple[_Sampled, ...]:
        return _sampled(series, _SOURCE, (await_name, rate_name), log)

    def is_waited_for(term: str) -> bool:
        return term in counted and counted[term].low >= counted_min

    reads = on_device("r_await_ms", "reads_per_s") or on_server("file_read_ms", "file_reads_per_s", "data")
    write, flush = on_device("w_await_ms", "writes_per_s"), on_device("f_await_ms", "flushes_per_s")
    waits = {"read": reads}
    if is_waited_for("redo_sync"):
        waits["redo_sync"] = on_server("file_sync_ms", "file_syncs_per_s", "redo") or (write and (*write, *flush))
    if is_waited_for("binlog_sync"):
        waits["binlog_sync"] = on_server("file_sync_ms", "file_syncs_per_s", "binlog")
    if is_waited_for("write"):
        waits["write"] = write
    return {term: _Wait(operations=operations) for term, operations in waits.items() if operations}


@dataclass(frozen=True, kw_only=True)
class _Sampled:
    """What completed in a sampler's intervals, (m,), its mean time, (m,), and the intervals' ends, (m + 1,)."""

    clock_s: Floats
    operations: Floats
    await_ms: Floats

    def mean(self, values: Floats, ends_s: Floats) -> Floats:
        """Return values of the sampler's intervals, shape (m,), as means over operations on other intervals."""
        return retimed(self.clock_s, self.operations, values, ends_s)


@dataclass(frozen=True, kw_only=True)
class _Wait:
    """Operations that are waited for one after the other: of a sync without an instrument a write and a flush."""

    operations: tuple[_Sampled, ...]

    def mean_ms(self, ends_s: Floats) -> Floats | None:
        """Return the mean time on the client's intervals, NaN where nothing was done; None where nothing ever was.

        Of a volume without flushes a sync is a write.
        """
        first, *following = (operation.mean(operation.await_ms, ends_s) for operation in self.operations)
        total = first + sum((np.nan_to_num(await_ms) for await_ms in following), np.zeros(len(first)))
        return total if np.isfinite(total).any() else None


def _sampled(
    series: Mapping[SeriesKey, Series], source: str, names: tuple[str, str], entity: str
) -> tuple[_Sampled, ...]:
    """Return a mean time and its operations at the sampler's own moments, alone; nothing where one is not known."""
    times, rate = (series.get(SeriesKey(source=source, metric=name, entity=entity)) for name in names)
    if times is None or rate is None or len(rate.t_s) < 2:
        return ()
    length_s = np.diff(rate.t_s, prepend=2 * rate.t_s[0] - rate.t_s[1])
    await_ms = np.zeros(len(rate.t_s))
    numbers = np.searchsorted(rate.t_s, times.t_s - 1e-6)
    inside = numbers < len(rate.t_s)
    await_ms[numbers[inside]] = np.nan_to_num(times.value[inside])
    clock_s = np.concatenate([[rate.t_s[0] - length_s[0]], rate.t_s])
    return (_Sampled(clock_s=clock_s, operations=np.nan_to_num(rate.value) * length_s, await_ms=await_ms),)
