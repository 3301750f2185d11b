"""Where foreground statement time goes, from performance_schema's waits of foreground threads.

What is measured: statement time; file waits of foreground threads by class; waits for table and metadata locks;
InnoDB's row lock waits. What follows from it, and what is missing for more, is in `Budget.notes`:

- file waits of foreground threads are not split into read, write and sync: of data files, reads are taken to be
  at most all reads of data files that the server did;
- with innodb_log_writer_threads=ON the redo log is synced by a background thread, and those who wait for it wait
  on an event that has no instrument: that time is in the rest;
- CPU time of statements is kept by MySQL 8.0.28 and later. Mutexes are not sampled: their instruments are off by
  default. What is left over is CPU (where it is not kept), mutexes and waiting for a
  processor; the CPU time of the whole host bounds the first from above.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from volbench.core.records.named_metrics import CPU, Innodb, PerformanceSchema
from volbench.results.stats.grid import Floats, Grid

SOURCE = "performance_schema"
STORAGE = ("data_reads", "redo_sync", "binlog_sync", "doublewrite", "other_files")
LOCKS = ("row_locks", "table_locks")
PART_TEXT = {
    "data_reads": "reads of data files",
    "redo_sync": "redo log writes and syncs",
    "binlog_sync": "binlog writes and syncs",
    "doublewrite": "doublewrite",
    "other_files": "other file I/O",
    "row_locks": "row locks",
    "table_locks": "table and metadata locks",
    "binlog_group": "waiting for another's group commit",
    "cpu": "CPU of statements",
    "rest": "CPU, mutexes and what has no instrument",
}
_NO_REDO = "no instrument for redo log files: their syncs are in the rest"
_NO_GROUP = "no instrument for commits that wait for another's sync of the binary log: they are in the rest"
_CPU_ENDS = "CPU times of statements end within the window, with the digests: they are in the rest"
ENDS_EARLY_MIN = 0.1
_BACKGROUND_REDO = (
    "the redo log is synced by background threads: commits that wait for it are in the rest, not in redo_sync"
)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Seconds of foreground time in each second, by part.

    `statement_s` and each of `seconds` have shape (buckets,). Waits count when they end, so that one bucket's parts
    may exceed its statements; `share` is over all buckets. `cpu_max_s` bounds the CPU's part of the rest.
    """

    statement_s: Floats
    seconds: Mapping[str, Floats]
    cpu_max_s: Floats | None
    notes: tuple[str, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)

    def share(self, *pieces: str) -> float:
        """The share of statement time of some parts together."""
        return sum(self.shares.get(piece, 0.0) for piece in pieces)

    @property
    def no_wait(self) -> float:
        """The share that no wait shows: CPU, whether it is known by itself or not, and what has no instrument."""
        return self.share("cpu", "rest")

    @property
    def hides_commits(self) -> bool:
        """Whether this server has no instrument for commits that wait for a log."""
        return any(note in self.notes for note in (_BACKGROUND_REDO, _NO_REDO, _NO_GROUP))

    @property
    def hides_followers(self) -> bool:
        """Whether sessions that wait for another's sync have no instrument: all of a group but its leader."""
        return _NO_GROUP in self.notes

    @property
    def storage_share(self) -> float:
        """All file waits; with the followers of a group commit, whose leader waits for files."""
        return self.share(*STORAGE, "binlog_group")

    @property
    def non_lock_share(self) -> float:
        """The share that is no wait for a lock: what those who hold locks do is in it."""
        return max(0.0, 1.0 - self.share(*LOCKS))

    @property
    def largest(self) -> str:
        """The part of storage with the most time."""
        return max(STORAGE, key=lambda piece: self.shares.get(piece, 0.0))


def budget_of(grid: Grid, *, variables: Mapping[str, str] | None = None, cpus: int | None = None) -> Budget | None:
    """The budget of a step; None when the server keeps no statement times or nothing ran.

    Args:
        grid: the aligned series of the step.
        variables: the server's, for who syncs the redo log.
        cpus: of the host, for the bound of CPU time.
    """
    statements = grid.column(*PerformanceSchema.statement_s_per_s)
    if statements is None or not np.nansum(statements) > 0:
        return None
    waits = {
        name: grid.column(*PerformanceSchema.wait_s_per_s, name)
        for name in grid.entities(*PerformanceSchema.wait_s_per_s)
    }
    pieces, notes = _pieces(grid, waits)
    if variables and variables.get("innodb_log_writer_threads", "").upper() == "ON":
        notes.append(_BACKGROUND_REDO)
    finite = np.isfinite(statements)
    total = float(statements[finite].sum())
    explained_s = (
        np.sum([np.nan_to_num(seconds) for seconds in pieces.values()], axis=0) if pieces else np.zeros(len(grid))
    )
    cpu = statement_cpu(grid)
    if cpu is None and grid.entities(*PerformanceSchema.query_cpu_s_per_s):
        notes.append(_CPU_ENDS)
    if cpu is not None:
        pieces["cpu"] = np.clip(np.nan_to_num(cpu), 0.0, np.maximum(0.0, statements - explained_s))
        explained_s = explained_s + pieces["cpu"]
    pieces["rest"] = np.maximum(0.0, statements - explained_s)
    sums = {name: float(np.nansum(seconds[finite])) for name, seconds in pieces.items() if name != "rest"}
    scale = max(1.0, sum(sums.values()) / total)  # waits that began before the window may make it overflow
    shares = {name: value / total / scale for name, value in sums.items()}
    shares["rest"] = max(0.0, 1.0 - sum(shares.values()))
    return Budget(
        statement_s=statements, seconds=pieces, cpu_max_s=_cpu_s(grid, cpus), notes=tuple(notes), shares=shares
    )


def _pieces(grid: Grid, waits: Mapping[str, Floats | None]) -> tuple[dict[str, Floats], list[str]]:
    """Parts that are known, and what is not."""
    pieces: dict[str, Floats] = {}
    notes: list[str] = []
    data, reads = waits.get("file_data"), grid.column(*PerformanceSchema.file_read_s_per_s, "data")
    if data is not None:
        pieces["data_reads"] = data if reads is None else np.fmin(data, reads)
        pieces["other_files"] = data - pieces["data_reads"]
    else:
        notes.append("file waits of foreground threads are not known: no waits by thread")
    for piece, name in (
        ("redo_sync", "file_redo"),
        ("binlog_sync", "file_binlog"),
        ("doublewrite", "file_dblwr"),
        ("binlog_group", "binlog_group"),
    ):
        column = waits.get(name)
        if column is not None:
            pieces[piece] = column
        elif name == "file_redo":
            notes.append(_NO_REDO)
    if "binlog_sync" in pieces and "binlog_group" not in pieces:
        notes.append(_NO_GROUP)
    row_locks = grid.column(*Innodb.row_lock_wait_s_per_s)
    if row_locks is not None:
        pieces["row_locks"] = row_locks
    tables = [column for name in ("lock_table", "lock_metadata") if (column := waits.get(name)) is not None]
    if tables:
        pieces["table_locks"] = np.sum([np.nan_to_num(seconds) for seconds in tables], axis=0)
    return pieces, notes


def statement_cpu(grid: Grid) -> Floats | None:
    """CPU seconds of statements in each second; None where the server does not keep them to the end."""
    names = grid.entities(*PerformanceSchema.query_cpu_s_per_s)
    finite = [
        column for name in names if (column := grid.column(*PerformanceSchema.query_cpu_s_per_s, name)) is not None
    ]
    if not finite:
        return None
    cpu = np.where(np.isfinite(finite).any(axis=0), np.nansum(finite, axis=0), np.nan)
    return None if ends_early(grid, cpu) else cpu


def ends_early(grid: Grid, column: Floats) -> bool:
    """Whether more than ENDS_EARLY_MIN of all statement time is after a column's last value.

    The server is not asked for its digests any more once they are too many.
    """
    statements, finite = grid.column(*PerformanceSchema.statement_s_per_s), np.flatnonzero(np.isfinite(column))
    if statements is None or not len(finite):
        return False
    return bool(np.nansum(statements[finite[-1] + 1 :]) > ENDS_EARLY_MIN * np.nansum(statements))


def _cpu_s(grid: Grid, cpus: int | None) -> Floats | None:
    """CPU seconds of the host in each second."""
    user, system = grid.column(*CPU.user_ratio), grid.column(*CPU.system_ratio)
    return None if user is None or system is None or not cpus else (user + system) * cpus
