"""The stretch of a step in which clients were served worst: it is explained by itself.

Two ways to find it. A change that ranks or logarithms tell from chance (`episodes.find_change`) needs about a dozen
intervals on its sides. A load that falls to a quarter of its usual for some intervals in a row needs no such test:
what it does between is many times what chance takes from it.
"""

from __future__ import annotations

import numpy as np

from volbench.core.records.named_metrics import Client
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.episodes import SeriesChange, find_change
from volbench.results.explain.evidence.layers import LOGS, server_flow, stretches
from volbench.results.explain.rules.shared_evidence import effect_rows
from volbench.results.stats.grid import Floats, Mask

SAMPLES_MIN = 5
COLLAPSED = 0.25
"""Of the usual: a load that does less for COLLAPSED_SAMPLES intervals has fallen beyond doubt."""
COLLAPSED_SAMPLES = 2
BETWEEN_MAX = 0.25
"""Share of the intervals between COLLAPSED and half of the usual, up to which a load falls at once."""
COLLAPSED_SAMPLES_MIN = 3
"""Intervals of all falls together, from which they are explained by themselves."""
_OF_CLIENTS = ("tps", "latency_ms_p95")


def worst_stretch(case: Case) -> Mask | None:
    """The intervals in which clients were served clearly worse than in the rest, shape (buckets,); else None.

    By the client's latency or rate, or by the server's reads and syncs where clients were harmed meanwhile; of a
    step without a client and a server, by the volume's waiting time. Where no such change is beyond chance, the
    intervals in which the load collapsed.
    """
    during = _changed(case)
    return during if during is not None else fallen(case)


def _changed(case: Case) -> Mask | None:
    tps, p95 = case.at(Client.tps), case.at(Client.latency_ms_p95)
    pace = None if tps is None else np.where(tps > 0, 1 / np.maximum(tps, 1e-9), np.nan)
    flows = (server_flow(case.grid, "read", ("data",)), server_flow(case.grid, "sync", LOGS))
    waits = [None if flow is None else flow.each_ms_series for flow in flows]
    finite = [values for values in (p95, pace, *waits) if values is not None]
    if not finite and case.device is not None and case.device.await_ms is not None:
        finite = [case.device.await_ms]
    for column in finite:
        values = np.where(case.stalled, np.nan, column) if case.device is not None else column
        change = find_change(case.grid, values)
        if change is None:
            continue
        during = change_intervals(case, change, values)
        harmed = any(
            finding.is_worse for finding in effect_rows(case, during) if finding.evidence.metric in _OF_CLIENTS
        )
        long_enough = SAMPLES_MIN <= int(during.sum()) <= len(case.grid) - SAMPLES_MIN
        if long_enough and (harmed or tps is None):
            return during
    return None


def fallen(case: Case) -> Mask | None:
    """The intervals of a collapse without a stall, where enough are left on both sides."""
    during = collapsed(case) & ~case.stalled
    fits = COLLAPSED_SAMPLES_MIN <= int(during.sum()) <= len(during) - SAMPLES_MIN
    return during if fits else None


def change_intervals(case: Case, change: SeriesChange, values: Floats) -> Mask:
    """The intervals of a change, shape (buckets,): of a periodic one, those on its upper level."""
    middle = case.grid.t_s - case.grid.width_s / 2
    if change.shape == "episode":
        return np.asarray((middle > change.t0_s) & (middle <= change.t1_s))
    if change.shape == "periodic":
        low, high = np.nanquantile(values, [0.1, 0.9])
        return np.asarray(np.nan_to_num(values, nan=low) > (low + high) / 2)
    return np.asarray(middle > change.t0_s)


def collapsed(case: Case) -> Mask:
    """Intervals in which the load did less than COLLAPSED of its usual, some in a row; shape (buckets,).

    The usual is the upper quartile: a fall may last for half of a step. Only a fall that begins at once counts: a
    load that varies from interval to interval has no usual.
    """
    tps = case.at(Client.tps)
    nothing = np.zeros(len(case.grid), dtype=np.bool_)
    finite = nothing if tps is None else np.isfinite(tps)
    if tps is None or int(finite.sum()) < 2 * COLLAPSED_SAMPLES:
        return nothing
    usual = float(np.quantile(tps[finite], 0.75))
    between = (tps[finite] >= COLLAPSED * usual) & (tps[finite] < 0.5 * usual)
    if between.mean() > BETWEEN_MAX:
        return nothing
    for first, last in stretches(finite & (tps < COLLAPSED * usual), gap=1, least=COLLAPSED_SAMPLES):
        nothing[first:last] = True
    return nothing


def longest_collapse(case: Case) -> int:
    """Intervals in a row, the most, in which the load had collapsed."""
    spans = stretches(collapsed(case), gap=1, least=COLLAPSED_SAMPLES)
    return max((last - first for first, last in spans), default=0)
