"""What a proof may use: the lab's own counters and the cell's series, and the arithmetic over their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MIB = 1 << 20
SETTLE_S = 0.4
"""Left out at the begin of each phase: what was in flight when it began."""
_FOREIGN_BEGUN_MIB = 0.25

Counters = Sequence[tuple[float, Mapping[str, float]]]
Phases = Sequence[tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that a proof may use, on the cell's clock in seconds.

    Args:
        counters: the lab's own, by time.
        phases: when the cause acted, within the measured window.
        window_s: the measured window.
        series: (source, metric) to (t_s, value), of the run.
        is_steady: the cause acted all along.
        cpus: of the machine.
    """

    counters: Counters
    phases: Phases
    window_s: tuple[float, float]
    series: Mapping[tuple[str, str], tuple[NDArray[np.float64], NDArray[np.float64]]]
    is_steady: bool
    cpus: int = 1


def grown(evidence: Evidence, name: str, phases: Phases | None = None) -> tuple[float, float]:
    """(growth, seconds) of a counter over phases, each less its first moments; (0, 0) where it was not read."""
    total = seconds = 0.0
    for begin_s, end_s in evidence.phases if phases is None else phases:
        inside = [
            (t_s, values[name])
            for t_s, values in evidence.counters
            if begin_s + SETTLE_S <= t_s <= end_s and name in values
        ]
        if len(inside) >= 2:
            total += inside[-1][1] - inside[0][1]
            seconds += inside[-1][0] - inside[0][0]
    return total, seconds


def rate(evidence: Evidence, name: str, phases: Phases | None = None) -> float | None:
    """Growth a second; None where it is not known."""
    total, seconds = grown(evidence, name, phases)
    return total / seconds if seconds > 0 else None


def effects(evidence: Evidence) -> dict[str, float]:
    """By how much tps fell and p95 rose while the cause acted, against the rest of the window."""
    if evidence.is_steady:
        return {}
    result = {}
    for metric, name in (("tps", "effect_tps"), ("latency_ms_p95", "effect_p95")):
        t_s, value = evidence.series.get(("client", metric), (np.array([]), np.array([])))
        inside = (t_s > evidence.window_s[0]) & (t_s <= evidence.window_s[1])
        # A row is about the second before t_s: one that is half in a phase belongs to neither.
        on, off = np.zeros(len(t_s), bool), np.ones(len(t_s), bool)
        for begin_s, end_s in evidence.phases:
            on |= (t_s - 1 >= begin_s - 0.1) & (t_s <= end_s + 0.1)
            off &= (t_s <= begin_s) | (t_s - 1 >= end_s + 1)
        with_it, without = value[inside & on], value[inside & off]
        if len(with_it) >= 2 and len(without) >= 2 and np.median(without) > 0:
            ratio = float(np.median(with_it) / np.median(without))
            result[name] = 1 - ratio if metric == "tps" else ratio - 1
    return result


def disturbance(evidence: Evidence) -> dict[str, float]:
    """While the cause acted, how long threads waited for a CPU: of the time that they wanted one, and a second."""
    (run, seconds), (wait, _) = (grown(evidence, f"server.{name}_s") for name in ("run", "wait"))
    if run + wait <= 0 or not seconds:
        return {}
    return {"cpu_wait_ratio": wait / (run + wait), "cpu_wait_s_per_s": wait / seconds}


def company(evidence: Evidence) -> dict[str, float]:
    """Of the CPUs that the server's threads wanted, the share that others had: while the cause acted, and in all.

    By this lab's own reading of schedstat and /proc/stat, in one formula with volbench's rule: the threads ran for
    U and waited for D seconds a second, CPUs that were not idle ran others for B - U; min(D, C - U, B - U) of
    min(U + D, C). The load generator is among the others here.
    """
    result = {}
    for name, phases in (("others_cpu_ratio", evidence.phases), ("window_others_cpu_ratio", [evidence.window_s])):
        run, wait, idle = (
            rate(evidence, key, phases) for key in ("server.run_s", "server.wait_s", "machine.idle_s")
        )
        if run is None or wait is None or idle is None or not run + wait:
            continue
        expected = min(run + wait, evidence.cpus)
        result[name] = max(0.0, min(wait, evidence.cpus - run, evidence.cpus - idle - run)) / expected
        if phases is not evidence.phases:
            result["window_cpu_wait_ratio"] = wait / (run + wait)
    return result


def foreign_onset(evidence: Evidence) -> float | None:
    """When the foreign programs' own accounts had grown: midway between two readings."""
    first: float | None = None
    before = 0.0
    for t_s, values in evidence.counters:
        moved = values.get("foreign.read_bytes", 0.0) + values.get("foreign.write_bytes", 0.0)
        first = moved if first is None and "foreign.read_bytes" in values else first
        if first is not None and t_s >= evidence.phases[0][0] and moved - first >= _FOREIGN_BEGUN_MIB * MIB:
            return (before + t_s) / 2 if before else t_s
        before = t_s
    return None


def during(t_s: float, phases: Phases) -> bool:
    return any(begin_s + SETTLE_S <= t_s <= end_s for begin_s, end_s in phases)
