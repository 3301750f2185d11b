"""What a cause can explain of the clients' time at most, from raw files alone: pieces over latency x transactions.

`result.json` has the client's mean latency and rate, `series.parquet` what the server and the kernel counted. No
figure is computed by volbench.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

SOURCE = "performance_schema"
_OF_QUERIES = "query_cpu_s_per_s"
Rates = Mapping[tuple[str, str, str], float]
"""Mean over the step, by source, metric and entity."""


@dataclass(frozen=True, kw_only=True)
class RawTime:
    """One step of one cell: seconds a second, which are clients or sessions on average.

    Args:
        clients: transactions a second, times the client's mean latency, less those that wait for a client thread;
            no more than a closed loop has.
        statements: in a statement of the server.
        reads, logs: file waits of sessions, of data files and of logs.
        locks: waits for rows, tables and definitions.
        standing: of the load's clients, those that wait for a lock at a tick.
        runnable: on or before a CPU, the sampler left out; None: not counted.
        threads: of the load.
    """

    clients: float
    statements: float
    reads: float
    logs: float
    locks: float
    cpu: float
    standing: float
    runnable: float | None
    threads: int

    @property
    def part(self) -> float:
        """Statements' part of the clients' time."""
        return min(1.0, self.statements / self.clients)

    @property
    def reads_share(self) -> float:
        """Reads of data files as a part of the clients' time."""
        return self.reads / max(self.clients, self.statements)

    @property
    def locks_share(self) -> float:
        """Waits for locks as a part of the clients' time, as they end or as sessions stand at the ticks."""
        return max(self.locks / max(self.clients, self.statements), self.standing / self.threads)

    @property
    def waits_share_max(self) -> float:
        """Waits of statements for anything but locks, seen and unseen, as a part of the clients' time at most."""
        return max(0.0, self.statements - self.locks - self.cpu) / max(self.clients, self.statements)

    @property
    def outside_share(self) -> float:
        """The clients' time outside of statements."""
        return 1 - self.part

    @property
    def runnable_share(self) -> float:
        """Time on and before CPUs as a part of that of the load's clients; without tasks, what no wait explains."""
        if self.runnable is None:
            return self.waits_share_max - (self.reads + self.logs) / max(self.clients, self.statements)
        return self.runnable / self.threads


_WAITS = ("storage.", "host.", "instance.", "memory.buffer_pool_small", "redo.", "server.configured_wait")
_MOST: tuple[tuple[tuple[str, ...], Callable[[RawTime], float]], ...] = (
    (_WAITS, lambda raw: raw.waits_share_max),
    (("lock.",), lambda raw: raw.locks_share),
    (("network.",), lambda raw: raw.outside_share),
    (("cpu.", "interference.cpu"), lambda raw: raw.runnable_share),
)
BY_LOSS = ("storage.stall", "server.stall", "interference.", "memory.reclaim")
"""Shares that come from what the clients lost, or from PSI, and from no piece of statement time."""


def share_max(cause: str, raw: RawTime) -> float:
    """Return the largest part of the clients' time that a cause can explain."""
    if cause.startswith(BY_LOSS) and cause != "interference.cpu":
        return 1.0
    return next(most(raw) for names, most in _MOST if cause.startswith(names))


def raw_time(archive: Path, step: str) -> RawTime:
    """Return the time of a step of the one cell of a packed run."""
    with tarfile.open(archive, "r:xz") as packed:
        files = {name: packed.extractfile(name) for name in packed.getnames()}
        (result,) = (json.load(file) for name, file in files.items() if file and name.endswith("result.json"))
        (series,) = (file.read() for name, file in files.items() if file and name.endswith("series.parquet"))
    (record,) = (record for record in result["steps"] if record["step"] == step)
    rates = _mean_rates(series, record["window_s"])
    metrics = {name: value["value"] for name, value in record["metrics"].items()}
    entities = {key: value for key, value in rates.items() if key[:2] == (SOURCE, "wait_s_per_s")}
    files_s = {key[2]: value for key, value in entities.items() if key[2].startswith("file_")}
    data_s = files_s.get("file_data", 0.0)
    statements = rates[SOURCE, "statement_s_per_s", ""]
    clients = metrics["tps"] * metrics["latency_ms_mean"] / 1000
    threads = int(record["parameters"]["threads"])
    if "rate" in record["parameters"]:
        clients -= max(0.0, min(rates.get(("client", "queue_length", ""), 0.0), clients - statements))
    else:
        clients = min(clients, float(threads))
    return RawTime(
        clients=clients,
        statements=statements,
        reads=min(data_s, rates.get((SOURCE, "file_read_s_per_s", "data"), data_s)),
        logs=sum(files_s.get(name, 0.0) for name in ("file_redo", "file_binlog", "file_dblwr"))
        + entities.get((SOURCE, "wait_s_per_s", "binlog_group"), 0.0),
        locks=rates.get(("innodb", "row_lock_wait_s_per_s", ""), 0.0)
        + sum(entities.get((SOURCE, "wait_s_per_s", name), 0.0) for name in ("lock_table", "lock_metadata")),
        cpu=sum(value for key, value in rates.items() if key[:2] == (SOURCE, _OF_QUERIES)),
        standing=sum(rates.get(("innodb", f"{name}_lock_current_waits", ""), 0.0) for name in ("row", "metadata")),
        runnable=_runnable(rates, "cell") - _runnable(rates, "sampler")
        if ("tasks", "run_delay_s_per_s", "cell") in rates
        else None,
        threads=threads,
    )


def _runnable(rates: Rates, whose: str) -> float:
    return sum(rates.get(("tasks", metric, whose), 0.0) for metric in ("cpus_used", "run_delay_s_per_s"))


def _mean_rates(series: bytes, window_s: tuple[float, float]) -> dict[tuple[str, str, str], float]:
    """Return the mean of each series over a window, each value for the time since the one before it."""
    sums: dict[tuple[str, str, str], float] = {}
    seconds: dict[tuple[str, str, str], float] = {}
    last: dict[tuple[str, str, str], float] = {}
    for row in sorted(pq.read_table(io.BytesIO(series)).to_pylist(), key=lambda row: row["t_s"]):
        key = row["source"], row["metric"], row["entity"]
        before_s, now_s = last.get(key), row["t_s"]
        last[key] = now_s
        if before_s is None:
            continue
        inside = min(now_s, window_s[1]) - max(before_s, window_s[0])
        if inside > 0:
            sums[key] = sums.get(key, 0.0) + row["value"] * inside
            seconds[key] = seconds.get(key, 0.0) + inside
    whole_s = window_s[1] - window_s[0]  # a statement that did not run in an interval has no row there
    return {key: total / (whole_s if key[1] == _OF_QUERIES else seconds[key]) for key, total in sums.items()}
