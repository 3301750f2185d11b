"""What part of the clients' time statements have.

Of X transactions a second that take their clients L seconds each, C = X * L clients are in one on average (Little's
law), and S of them in a statement (performance_schema counts S seconds of statements in each second). So a share of
statement time, times S / C, is one of the clients' time, which is what a client measures as latency.

- L is the mean that the client measured of the step; of a load at a rate of its own without one it is the median.
  In a closed loop C is no more than its clients, also where transactions that began before the step ended in it.
- At a rate of its own a transaction also waits for a client thread that another one still has. What makes
  transactions long makes that wait as well, so it is no part of L (`TimeBudget.outside_pieces`).
- A session that waits for a lock is in no statement's time until the statement ends. Where more of them wait at a
  tick than statements took, those sessions count, less what statements took when the waits had ended.
- What runs beside the load has statements that are counted with the load's: S / C is not known then.
"""

from __future__ import annotations

import numpy as np

from volbench.core.records.metric import LATENCY_MEAN
from volbench.core.records.named_metrics import Client
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.network import standing_sessions
from volbench.results.stats.grid import mean

MEAN = LATENCY_MEAN.name


def statement_part(case: Case) -> float | None:
    """Return the part of the clients' time that statements have; None where it is not known.

    Args:
        case: all of a step, which the client's mean latency is of.
    """
    inside = None if case.budget is None or case.concurrent else mean(case.budget.statement_s)
    clients = None if inside is None else _clients(case, inside)
    return None if inside is None or not clients else min(1.0, (inside + _standing(case)) / clients)


def _clients(case: Case, inside: float) -> float | None:
    """Return how many clients are in a transaction on average, none of them before it; None: not known.

    Args:
        inside: how many of them are in a statement.
    """
    tps, latency_ms = mean(case.at(Client.tps)), _latency_ms(case)
    if tps is None:
        return None
    ended = None if latency_ms is None else tps * latency_ms / 1000
    if case.rate is None:
        return min((count for count in (ended, case.threads) if count), default=None)
    queue = mean(case.at(Client.queue_length)) or 0.0
    return None if ended is None else ended - max(0.0, min(queue, ended - inside))


def _latency_ms(case: Case) -> float | None:
    """Return the time of a transaction: the client's mean, else the median of a load at a rate; None: not known."""
    tps, p50_ms = case.at(Client.tps), case.at(Client.latency_ms_p50)
    if MEAN in case.latency_ms or case.rate is None or tps is None or p50_ms is None:
        return case.latency_ms.get(MEAN)
    both = np.isfinite(tps) & np.isfinite(p50_ms)
    return float(np.average(p50_ms[both], weights=tps[both])) if tps[both].any() else None


def _standing(case: Case) -> float:
    """Return how many clients wait for a lock on average in what is no statement's time."""
    if case.budget is None or not case.threads:
        return 0.0
    finite = np.isfinite(case.budget.statement_s)
    inside = case.budget.statement_s[finite]
    waiting = np.minimum(standing_sessions(case.grid)[finite], case.threads)
    missing, later = np.maximum(0.0, waiting - inside).sum(), np.maximum(0.0, inside - case.threads).sum()
    return max(0.0, float(missing - later)) / len(inside)
