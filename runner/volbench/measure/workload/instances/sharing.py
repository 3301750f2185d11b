"""What servers that share a volume keep of what each does alone. Pure.

The index of fairness is that of Jain, Chiu and Hawe (A Quantitative Measure of Fairness and Discrimination for
Resource Allocation in Shared Computer Systems, DEC-TR-301, 1984): (sum x)^2 / (n sum x^2). Its x is the share that
a server keeps of its own rate alone, so that servers with different loads are comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What one server did under its load.

    Args:
        tps: finished transactions a second.
        latency_ms_mean, latency_ms_p95: None: not known.
    """

    tps: float
    latency_ms_mean: float | None
    latency_ms_p95: float | None


def jain_index(shares: Sequence[float]) -> float | None:
    """Return the index of fairness, 1/n to 1; None where nobody has anything."""
    squares = sum(share**2 for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares > 0 else None


def retained_shares(alone: Sequence[Loaded], together: Sequence[Loaded]) -> list[float] | None:
    """Return each server's transactions/s against its own alone; None where one did nothing alone.

    Args:
        alone: of the first server, and of the second one where its load is another, as that of all others is.
    """
    own = [alone[min(number, len(alone) - 1)].tps for number in range(len(together))]
    if min(own) <= 0:
        return None
    return [loaded.tps / tps for loaded, tps in zip(together, own, strict=True)]


def sharing_metrics(alone: Sequence[Loaded], together: Sequence[Loaded]) -> dict[str, float]:
    """Return the metrics of servers under load at once, without what is not known.

    Args:
        alone: as of `retained_shares`.
        together: of each server, the first one first.
    """
    values: dict[str, float | None] = {
        "tps_of_all": sum(loaded.tps for loaded in together),
        "latency_ms_p95_slowest": _highest([loaded.latency_ms_p95 for loaded in together]),
    }
    shares = retained_shares(alone, together)
    if shares is not None:
        own_ms = [alone[min(number, len(alone) - 1)].latency_ms_mean for number in range(len(together))]
        values |= {
            "retained_share_min": min(shares),
            "retained_share_sum": sum(shares),
            "fairness_index": jain_index(shares),
            "slowdown_max": _highest(
                [
                    loaded.latency_ms_mean / mean_ms if loaded.latency_ms_mean is not None and mean_ms else None
                    for loaded, mean_ms in zip(together, own_ms, strict=True)
                ]
            ),
        }
    return {name: value for name, value in values.items() if value is not None}


def _highest(values: Sequence[float | None]) -> float | None:
    """Return the highest; None where one is not known, which may be higher."""
    numbers = [value for value in values if value is not None]
    return max(numbers) if len(numbers) == len(values) else None
