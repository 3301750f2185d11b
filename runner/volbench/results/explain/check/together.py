"""Whether the clients of a step stand together again and again, for whom no accounted piece is as long."""

from __future__ import annotations

from volbench.core.records.named_metrics import Client
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.recurring_stands import RecurringStands, stands_by_quantiles

_QUANTILES = (Client.latency_ms_p50, Client.latency_ms_p95, Client.latency_ms_p99)


def recurring_stands(case: Case) -> RecurringStands | None:
    """Stands in nearly every interval of a closed loop; None where its transactions show none."""
    tps, columns = case.at(Client.tps), [case.at(metric) for metric in _QUANTILES]
    if case.rate is not None or not case.threads or tps is None:
        return None
    counted = [column for column in columns if column is not None]
    if len(counted) < len(columns):
        return None
    return stands_by_quantiles(tps, *counted, clients=case.threads)
