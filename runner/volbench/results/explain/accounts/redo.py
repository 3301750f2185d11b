"""How full the redo log is, and in which intervals InnoDB held writers back for it or for free pages."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from volbench.core.base.parse import parse_whole
from volbench.core.records.named_metrics import Innodb
from volbench.results.explain import thresholds as limit
from volbench.results.explain.case import Case
from volbench.results.stats.grid import Mask, mean, quantile

WAIT_FREE_MIN = 10.0
"""Waits for a free page in a second, from which they are more than an accident of one batch."""


def whole_variable(case: Case, name: str) -> int | None:
    """A server variable that is a whole number above 0; None where it is not known or is something else."""
    with suppress(ValueError):
        value = parse_whole(case.variables.get(name, ""))
        return value if value > 0 else None
    return None


def redo_capacity(case: Case) -> int | None:
    """Bytes that the redo log may fill; None where the server does not say so."""
    return whole_variable(case, "innodb_redo_log_capacity") or whole_variable(case, "innodb_log_file_size")


def redo_option(case: Case) -> str:
    """Return the option for the size of the redo log: MariaDB, and MySQL before 8.0.30, have the older one."""
    old = "innodb_redo_log_capacity" not in case.variables and "innodb_log_file_size" in case.variables
    return "innodb_log_file_size" if old else "innodb_redo_log_capacity"


def redo_turnover_s(case: Case) -> float | None:
    """Seconds in which as much redo is written as the log holds."""
    written, capacity = mean(case.at(Innodb.os_log_written_mib_per_s)), redo_capacity(case)
    return capacity / 2**20 / written if capacity is not None and written else None


def fills_between_ticks(case: Case) -> bool:
    """Whether the redo log is written full within few intervals, so that its filling is seen by chance only."""
    turnover_s = redo_turnover_s(case)
    return turnover_s is not None and turnover_s < limit.REDO_TURNOVER_TICKS * case.grid.width_s


def redo_full(case: Case) -> float | None:
    """How full the redo log is where it is fullest, as a share of its capacity: its 90th percentile over time.

    The largest share where it fills between two ticks.
    """
    return quantile(case.at(Innodb.checkpoint_age_ratio), 1.0 if fills_between_ticks(case) else 0.9)


def held_back(case: Case) -> Mask:
    """Intervals in which writers may have waited for room in the redo log, or readers for a free page."""
    mask = np.zeros(len(case.grid), dtype=np.bool_)
    age, waits = case.at(Innodb.checkpoint_age_ratio), case.at(Innodb.buffer_pool_wait_free_per_s)
    if age is not None and (redo_full(case) or 0.0) >= limit.CHECKPOINT_AGE_FULL:
        mask |= fills_between_ticks(case) | (np.nan_to_num(age) >= limit.CHECKPOINT_AGE_FULL)
    if waits is not None:
        mask |= np.nan_to_num(waits) > WAIT_FREE_MIN
    return mask
