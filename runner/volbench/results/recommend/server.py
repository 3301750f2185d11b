"""What a run tells of its server: what it wrote, how it was set, and how long it recovered."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.core.base.text import duration, number, size
from volbench.core.profile.limits import latency_s
from volbench.errors import Undecided
from volbench.results.recommend.catalogue import Candidate
from volbench.results.recommend.evidence import Setting
from volbench.results.recommend.goal import Chance, chance_below
from volbench.results.recommend.settings import sustained_iops

REDO_S = 3600.0
"""Of redo at its busiest: the log holds an hour, so that a checkpoint never has to hurry (MySQL Reference Manual,
Optimizing InnoDB Redo Logging: size the log for an hour of peak activity)."""
REDO_MIN_BYTES = 1 << 27
REDO_MAX_BYTES = 128 << 30
"""innodb_redo_log_capacity is at most 128 GiB (MySQL 8.0.30 and later)."""
REPEAT_DOUBT = 1.3
"""Times that a recovery takes longer, or shorter, than another one of the same server."""


@dataclass(frozen=True, kw_only=True)
class ServerFigures:
    """Figures of the run's server; None where it did not tell.

    Args:
        pool_bytes, redo_bytes: as set.
        redo_option: that server's name of the redo log's size.
        redo_bytes_per_s: written to the redo log, the busiest load's mean.
        recovery_s: measured by a crash step, on a volume with these times of a read and operations a second.
    """

    pool_bytes: int | None = None
    redo_bytes: int | None = None
    redo_option: str = "innodb_redo_log_capacity"
    redo_bytes_per_s: float | None = None
    recovery_s: float | None = None
    recovered_read_s: float | None = None
    recovered_iops: float | None = None

    def recovery_chance(self, candidate: Candidate, limit_s: float) -> Chance:
        """Return how likely a recovery on the volume ends in time. Raises Undecided without a measured one.

        A recovery reads redo and pages: it goes by the read's time, by the operations a second, or by neither. The
        interval holds all three.
        """
        if self.recovery_s is None or self.recovered_read_s is None:
            raise Undecided(
                "no recovery was measured, and none is forecast from settings alone",
                where="--recovery",
                next_step="add a crash step to the suite (suites/README.md, kind: crash), or omit --recovery",
            )
        times = [1.0, latency_s(candidate.volume, "read", 16_384.0) / self.recovered_read_s]
        if self.recovered_iops is not None:
            times.append(self.recovered_iops / sustained_iops(candidate.limits.all))
        interval = (
            self.recovery_s * min(times) / REPEAT_DOUBT,
            self.recovery_s * max(times) * REPEAT_DOUBT,
        )
        return Chance(
            objective="recovery",
            keeps=chance_below(limit_s, interval),
            text=f"a recovery takes {duration(interval[0])} to {duration(interval[1])}"
            f" ({duration(self.recovery_s)} as measured)",
            value=self.recovery_s,
            interval=interval,
        )


def server_settings(server: ServerFigures) -> tuple[Setting, ...]:
    """Return the sizes of the redo log and of the buffer pool, or why they are not told."""
    return (_redo(server), _pool(server))


def _redo(server: ServerFigures) -> Setting:
    written = server.redo_bytes_per_s
    if not written:
        return Setting(name=server.redo_option, value=None, reason="the load wrote no redo that was sampled")
    log_bytes = min(max(written * REDO_S, REDO_MIN_BYTES), REDO_MAX_BYTES)
    rounded = REDO_MIN_BYTES
    while rounded < log_bytes:
        rounded *= 2
    rounded = min(rounded, REDO_MAX_BYTES)
    is_now = "" if server.redo_bytes is None else f"; it was {size(server.redo_bytes)}"
    return Setting(
        name=server.redo_option,
        value=str(rounded),
        reason=f"an hour of redo at {number(written / 2**20)} MiB/s, rounded up to {size(rounded)}{is_now}."
        " A recovery reads more of a larger log",
    )


def _pool(server: ServerFigures) -> Setting:
    if server.pool_bytes is None:
        return Setting(name="innodb_buffer_pool_size", value=None, reason="the server did not tell its size")
    return Setting(
        name="innodb_buffer_pool_size",
        value=str(server.pool_bytes),
        reason=f"as measured ({size(server.pool_bytes)}): how many reads another size saves was not measured; a"
        " sweep over it tells",
    )
