"""How many clients are on the way to the server and back: Little's law for round trips.

A client is at one thing at a time. Of C clients in a closed loop, S are in a statement of the server on average
(performance_schema: S seconds of statement time in each second). The others are outside of statements:

    outside = C - S

They are on the way, on or before a CPU between statements, or idle by their own will. Each statement is one round
trip. With Q statements/s that each are on the way for R seconds, Little's law gives

    on the way = Q * R   (clients)

R is measured by an empty statement, ten times a second, on the same path (source `round_trip`). The shortest one of
an interval, R_min, is the distance: a wait for a CPU, a lost packet or a pause makes a round trip longer and never
shorter. In a pause as long as an interval no round trip is short, so a peak of R_min that lasts less than three
intervals is cut (`without_peaks`). So Q * R_min is what the distance takes, and Q * (R_mean - R_min) what round
trips took beyond it. The conservation law is Q * R_min <= outside: where it fails, the empty statement was slower
than the load's own.

A connection whose last segment is lost stands still until TCP sends it again: by the retransmission timeout or by a
loss probe, neither of which comes before 200 ms where one segment is under way (TCP_RTO_MIN and
tcp_schedule_loss_probe of Linux). With P of these a second, P * 0.2 connections stand still on average (Little).
Probes that repaired no loss do not count: with several segments under way they come early, and a receiver without a
CPU provokes them. The kernel counts P for all of this machine, and not what the other machine sends again.

Of a load at a rate of its own not all clients are busy: C is then X * L, with X transactions/s of L seconds each. L
is the median of the latency, since its mean is not sampled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from volbench.core.records.named_metrics import TCP, Client, Innodb, PerformanceSchema, RoundTrip
from volbench.results.stats.grid import Floats, Grid, Mask

RESEND_S = 0.2
DISTANCE_INTERVALS = 3
"""For which a round trip is long at least where the distance is; shorter, it is a pause or a wait."""


@dataclass(frozen=True, kw_only=True)
class NetworkAccount:
    """Clients by where they are. Arrays have shape (buckets,), without buckets in which something is not known.

    Args:
        counted: the buckets of the grid that are in the account, shape (grid buckets,).
        clients: C.
        outside: C - S, at least 0; C - N where N sessions, more than S, wait for a lock that they do not get.
        distance: Q * R_min.
        delayed: Q * (R_mean - R_min).
        statements_per_s: Q.
        shortest_ms, longest_ms: R_min without peaks, and the longest round trip.
        probe_delayed: share of time in which the empty statement was on its way longer than R_min.
        resending: P * 0.2; None where TCP's counters are not known.
    """

    counted: Mask
    clients: Floats
    outside: Floats
    distance: Floats
    delayed: Floats
    statements_per_s: Floats
    shortest_ms: Floats
    longest_ms: Floats
    probe_delayed: Floats
    resending: Floats | None = None

    def share(self, values: Floats, intervals: Mask | None = None) -> float:
        """Clients of some intervals as a share of all clients of all intervals: of the latency.

        Args:
            values: clients, shape (buckets,).
            intervals: shape (buckets,); None: all.
        """
        chosen = values if intervals is None else values[intervals]
        return float(chosen.sum() / self.clients.sum())


def network_account(grid: Grid, *, threads: int | None, rate: float | None) -> NetworkAccount | None:
    """The account of a grid; None where round trips, statements or clients are not known.

    Args:
        grid: the aligned series.
        threads: clients of the load.
        rate: transactions/s that a load of its own rate wants; None: a closed loop.
    """
    shortest, usual, longest, trips = (
        grid.column(*metric)
        for metric in (
            RoundTrip.round_trip_ms_min,
            RoundTrip.round_trip_ms,
            RoundTrip.round_trip_ms_max,
            RoundTrip.round_trips_per_s,
        )
    )
    statements = grid.column(*PerformanceSchema.statements_per_s)
    inside = grid.column(*PerformanceSchema.statement_s_per_s)
    waiting = standing_sessions(grid)
    clients = _clients(grid, threads, rate)
    if shortest is None or usual is None or longest is None or trips is None:
        return None
    if statements is None or inside is None or clients is None:
        return None
    finite = np.all(
        [np.isfinite(column) for column in (shortest, usual, longest, statements, inside, clients)], axis=0
    )
    if not finite.any() or clients[finite].sum() <= 0:
        return None
    distance_ms = without_peaks(shortest[finite], DISTANCE_INTERVALS)
    beyond_s = (usual[finite] - distance_ms) / 1000
    timeouts, probes = (grid.column(*metric) for metric in (TCP.timeouts_per_s, TCP.probed_losses_per_s))
    resent = None if timeouts is None or probes is None else timeouts + probes
    return NetworkAccount(
        counted=finite,
        clients=clients[finite],
        outside=np.maximum(0.0, clients - np.maximum(inside, waiting))[finite],
        distance=statements[finite] * distance_ms / 1000,
        delayed=statements[finite] * beyond_s,
        statements_per_s=statements[finite],
        shortest_ms=distance_ms,
        longest_ms=longest[finite],
        probe_delayed=np.minimum(1.0, np.nan_to_num(trips[finite]) * beyond_s),
        resending=None if resent is None else RESEND_S * np.nan_to_num(resent[finite]),
    )


def without_peaks(values: Floats, width: int) -> Floats:
    """Values of shape (n,) with peaks narrower than `width` cut to their surroundings; wider plateaus stay.

    The opening of mathematical morphology (Serra, Image Analysis and Mathematical Morphology, 1982): the greatest
    of the least values of all windows that hold an interval. `width` is odd; the values at both ends are repeated.
    """
    least = _windows(values, width).min(axis=1)
    opened: Floats = _windows(least, width).max(axis=1)
    return opened


def _windows(values: Floats, width: int) -> Floats:
    return sliding_window_view(np.pad(values, width // 2, mode="edge"), width)


def standing_sessions(grid: Grid) -> Floats:
    """Sessions that wait for a lock at the ticks: their statements are in no statement's time until they end."""
    waits = (Innodb.row_lock_current_waits, Innodb.metadata_lock_current_waits)
    columns = (grid.column(*metric) for metric in waits)
    total: Floats = sum((np.nan_to_num(column) for column in columns if column is not None), np.zeros(len(grid)))
    return total


def _clients(grid: Grid, threads: int | None, rate: float | None) -> Floats | None:
    if rate is None:
        return None if not threads else np.full(len(grid), float(threads))
    tps, latency_ms = grid.column(*Client.tps), grid.column(*Client.latency_ms_p50)
    return None if tps is None or latency_ms is None else tps * latency_ms / 1000
