"""Whether a cause really acted in a run, by counters that explain does not make: pure functions.

A run whose counters do not prove the injection is "not injected": it is scored neither as right nor as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from causes.evidence import (
    MIB,
    Evidence,
    company,
    disturbance,
    during,
    effects,
    foreign_onset,
    grown,
    rate,
)

REACHED_MIN, REACHED_MAX = 0.75, 1.1
"""A limit acted when operations came at this share of it, over all its phases. Above 1: a burst at its begin."""
BURST_MAX = 2.0
"""The throttle counts an operation when it is asked for: in a phase of seconds, what is queued counts as well."""
EFFECT_MIN = 0.10
"""A cause that acts for a part of the window must cost so much speed in it, or as much in latency."""
LATENCY_EFFECT_MIN = 0.30
QUIET_ACHIEVED_MIN, QUIET_READ_MS_MAX = 0.8, 5.0
CROWDED_MIN = 0.6
SLEPT_MIN, SLEPT_MAX = 0.3, 1.1
"""Of a transaction, the wait that the server makes: closed-loop clients do their tps / threads of them each. A wait
that is longer than a transaction was not made: MariaDB delays no change while an old snapshot stops purge."""
RETRANSMISSION_S = 0.2
"""For which TCP waits for an acknowledgement at least before it sends again (Linux: TCP_RTO_MIN)."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What the counters showed of one run.

    Args:
        missing: what was not proven, in words; empty: injected.
        measured: what the independent counters said, by name.
        onset_s: when it began, on the cell's clock; None for what was there all along.
    """

    missing: tuple[str, ...] = ()
    measured: Mapping[str, float] = field(default_factory=dict)
    onset_s: float | None = None

    @property
    def injected(self) -> bool:
        """Whether everything was proven."""
        return not self.missing


def prove(expected: Sequence[Mapping[str, Any]], evidence: Evidence) -> Proof:
    """All rows of a condition's `proof` together, and the effect where it can be seen."""
    missing: list[str] = []
    measured: dict[str, float] = {}
    for row in expected:
        values, lacks = _CHECKS[str(row["kind"])](row, evidence)
        measured |= values
        missing += lacks
    effect = effects(evidence)
    measured |= effect
    measured |= disturbance(evidence)
    measured |= company(evidence)
    acting = not evidence.is_steady and any(row["kind"] != "quiet" for row in expected)
    if acting and effect:
        lost, slower = effect.get("effect_tps", 0.0), effect.get("effect_p95", 0.0)
        if lost < EFFECT_MIN and slower < LATENCY_EFFECT_MIN:
            missing.append(f"no effect: {lost:.0%} of tps lost, p95 {slower:+.0%}")
    if not evidence.is_steady and evidence.phases and evidence.phases[0][0] <= evidence.window_s[0]:
        missing.append("it acted from before the window on")
    onset = None if evidence.is_steady or not evidence.phases else evidence.phases[0][0]
    if onset is not None and any(row["kind"] == "foreign" for row in expected):
        onset = foreign_onset(evidence) or onset
    return Proof(missing=tuple(missing), measured=measured, onset_s=onset)


def _limit(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    limit = float(row["limit"]) if "limit" in row else float(row["limit_mib"]) * MIB
    limit *= float(row.get("times", 1.0))  # of one that alternates: its mean
    after_s = float(row.get("after_s", 0.0))  # of a ramp: when it has its value
    phases = [(begin_s + after_s, end_s) for begin_s, end_s in evidence.phases]
    observed = rate(evidence, str(row["of"]), phases)
    if observed is None:
        return {}, [f"{row['of']} was not counted"]
    unit = 1 if "limit" in row else MIB
    measured = {"cap": observed / unit, "cap_set": limit / unit}
    met = REACHED_MIN <= observed / limit <= (REACHED_MAX if evidence.is_steady else BURST_MAX)
    return measured, [] if met else [f"{row['of']} came at {observed / limit:.2f} of its limit"]


def _rate(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    """Of the loop device, reads and writes apart: nbdkit's filter meters each direction by itself."""
    observed = rate(evidence, "disk.sectors_read")
    limit = float(row["limit_mib"])
    if observed is None:
        return {}, ["the device was not counted"]
    mib = observed * 512 / MIB
    met = REACHED_MIN <= mib / limit <= REACHED_MAX + 0.1
    return {"cap": mib, "cap_set": limit}, [] if met else [f"reads came at {mib / limit:.2f} of the rate"]


def _foreign(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    rates = [rate(evidence, f"foreign.{name}") or 0.0 for name in ("read_bytes", "write_bytes")]
    mib = sum(rates) / MIB
    measured = {"foreign_mib_per_s": mib}
    own = [rate(evidence, f"blkio.loop.{method}.bytes") for method in ("Read", "Write")]
    if all(item is not None for item in own):
        measured["own_mib_per_s"] = sum(item or 0.0 for item in own) / MIB
    enough = mib >= float(row["mib_per_s_min"])
    return measured, [] if enough else [f"other programs moved {mib:.1f} MiB/s"]


def _crowded(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    """The volume gave nearly all that it can: what one program takes, the other lacks."""
    rates = [rate(evidence, f"disk.sectors_{method}") or 0.0 for method in ("read", "written")]
    share = max(rates) * 512 / MIB / float(row["limit_mib"])
    return {"used_ratio": share}, [] if share >= CROWDED_MIN else [
        f"only {share:.0%} of the volume's rate was used"
    ]


def _throttled(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    periods, retained = (grown(evidence, f"cpu.{name}")[0] for name in ("nr_periods", "nr_throttled"))
    share = retained / periods if periods else 0.0
    enough = share >= float(row["ratio_min"])
    return {"throttled_ratio": share}, [] if enough else [
        f"the quota held the server back in {share:.0%} of periods"
    ]


def _cpu_wait(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    who = str(row.get("of", "server"))
    run, wait = (grown(evidence, f"{who}.{name}_s")[0] for name in ("run", "wait"))
    share = wait / (run + wait) if run + wait else 0.0
    enough = share >= float(row["ratio_min"])
    return {"injected_cpu_wait_ratio": share}, [] if enough else [f"the {who} waited for CPUs in {share:.0%}"]


def remaining(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    """Others had most of the CPUs that the server wanted."""
    share = company(evidence).get("others_cpu_ratio", 0.0)
    enough = share >= float(row["ratio_min"])
    return {"others_cpu_ratio": share}, [] if enough else [f"others had {share:.0%} of the CPUs that it wanted"]


def _latency(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    method = str(row["of"])
    used, done = (grown(evidence, f"disk.{name}")[0] for name in (f"{method}_ms", f"{method}s"))
    if not done:
        return {}, [f"no {method} was counted"]
    ms = used / done
    high, low = row.get("ms_max"), row.get("ms_min")
    fits = (low is None or ms >= 0.95 * float(low)) and (high is None or ms <= float(high))
    return {f"{method}_ms": ms}, [] if fits else [f"a {method} took {ms:.2f} ms at the device"]


def _stalled(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    done = sum(grown(evidence, f"disk.{name}")[0] for name in ("reads", "writes"))
    busy = [values.get("disk.in_flight", 0.0) for t_s, values in evidence.counters if during(t_s, evidence.phases)]
    waiting = float(np.mean([item > 0 for item in busy])) if busy else 0.0
    fits = done <= 2 and waiting >= 0.7
    return {"waiting_ratio": waiting}, [] if fits else [
        f"{done:.0f} operations ended, {waiting:.0%} of time in flight"
    ]


def _slept(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    """The wait that the server was told to make is a good part of a transaction, and no longer than one."""
    t_s, tps = evidence.series.get(("client", "tps"), (np.array([]), np.array([])))
    inside = tps[(t_s > evidence.window_s[0]) & (t_s <= evidence.window_s[1])]
    if not len(inside) or not np.mean(inside):
        return {}, ["the client counted no transactions"]
    share = float(row["wait_us"]) / 1e6 * float(np.mean(inside)) / float(row["threads"])
    lacks = [] if SLEPT_MIN <= share <= SLEPT_MAX else [f"the wait was {share:.0%} of a transaction"]
    return {"slept_ratio": share}, lacks


def _series(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    t_s, value = evidence.series.get((str(row["source"]), str(row["metric"])), (np.array([]), np.array([])))
    inside = value[(t_s > evidence.window_s[0]) & (t_s <= evidence.window_s[1])]
    if not len(inside):
        return {}, [f"the server did not count {row['metric']}"]
    middle = float(np.median(inside))
    enough = middle >= float(row["min"])
    return {str(row["metric"]): middle}, [] if enough else [f"{row['metric']} was {middle:.3g}"]


def _quiet(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    """Nothing may have slowed a run that is called clean: it did all that it was to do, and the volume was fast."""
    lacks = []
    t_s, tps = evidence.series.get(("client", "tps"), (np.array([]), np.array([])))
    inside = tps[(t_s > evidence.window_s[0]) & (t_s <= evidence.window_s[1])]
    achieved = float(np.mean(inside)) / float(row["rate"]) if len(inside) else 0.0
    if achieved < QUIET_ACHIEVED_MIN:
        lacks.append(f"{achieved:.0%} of its rate were achieved")
    used, done = (grown(evidence, f"disk.{name}", [evidence.window_s])[0] for name in ("read_ms", "reads"))
    if done and used / done > QUIET_READ_MS_MAX:
        lacks.append(f"a read took {used / done:.1f} ms at the device")
    return {"achieved_ratio": achieved}, lacks


def _reclaimed(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    """Pages of the group went out and came in again while its limit was met, and its reads reached the device."""
    met, _ = grown(evidence, "memory.failcnt")
    back = rate(evidence, "memory.pgpgin") or 0.0
    reads = rate(evidence, "disk.reads") or 0.0
    before = [(evidence.window_s[0], evidence.phases[0][0])] if evidence.phases else []
    usual = rate(evidence, "disk.reads", before) or 0.0
    measured = {"limit_met": met, "pages_in_per_s": back, "reads_per_s": reads, "reads_per_s_before": usual}
    fits = met > 0 and reads >= max(float(row["reads_min"]), 2 * usual)
    return measured, [] if fits else [f"the limit was met {met:.0f} times, {reads:.0f} reads/s after {usual:.0f}"]


def _path_kind(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    """The way to the server, as the lab's own SELECT 1 measures it, and what of the clients' time it takes.

    A statement on the clients' way less one on the server's socket is the way: of each, the mean of the shortest of
    every second, since waits for a CPU only make one longer. With Q statements a second, as the server counts them,
    Little's law gives the clients on it.
    """
    shortest = {}
    for name in ("path", "socket"):
        key = f"{name}.least_s"
        observed = [
            values[key] for t_s, values in evidence.counters if key in values and during(t_s, evidence.phases)
        ]
        if not observed:
            return {}, [f"no round trip by the {name} was counted"]
        shortest[name] = float(np.mean(observed))
    way_s = max(0.0, shortest["path"] - shortest["socket"])
    statements = rate(evidence, "server.statements") or 0.0
    share = min(1.0, statements * way_s / float(row["threads"]))
    measured = {"way_ms": 1000 * way_s, "way_share": share}
    fits = share >= float(row.get("share_min", 0.0)) and share <= float(row.get("share_max", 1.0))
    return measured, [] if fits else [f"the way of {1000 * way_s:.2f} ms took {share:.0%} of the clients' time"]


def _outside(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    """Packets were dropped, or the proxy stood still, and the clients were outside of the server's statements.

    The server's own sum of statement time, against the clients that there are.
    """
    inside = rate(evidence, "server.statement_s")
    if inside is None:
        return {}, ["the server's statements were not counted"]
    share = max(0.0, 1 - inside / float(row["threads"]))
    stopped = [
        values["proxy.stopped"]
        for t_s, values in evidence.counters
        if "proxy.stopped" in values and during(t_s, evidence.phases)
    ]
    measured = {"outside_share": share, "stopped_ratio": float(np.mean(stopped)) if stopped else 0.0}
    for name in ("netfilter.dropped", "tcp.timeouts", "tcp.probed_losses"):
        measured[f"{name}_per_s"] = rate(evidence, name) or 0.0
    lost = measured["tcp.timeouts_per_s"] + measured["tcp.probed_losses_per_s"]
    retained = max(measured["stopped_ratio"], RETRANSMISSION_S * lost / float(row["threads"]))
    acted = measured["stopped_ratio"] > 0 or measured["netfilter.dropped_per_s"] > 0
    fits = acted and min(retained, share) >= float(row["share_min"])
    return {**measured, "held_ratio": retained}, [] if fits else [
        f"the way stood still for {retained:.0%} of the clients' time, {share:.0%} of it outside of statements"
    ]


def _sessions(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    """So many sessions were in a state of the process list, on average."""
    return _mean({**row, "of": f"sessions.{row['of']}"}, evidence)


def _mean(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    """The mean of a gauge while the cause acted."""
    name = str(row["of"])
    observed = [
        values[name] for t_s, values in evidence.counters if name in values and during(t_s, evidence.phases)
    ]
    if not observed:
        return {}, [f"{name} was not counted"]
    level = float(np.mean(observed))
    fits = float(row.get("min", 0.0)) <= level <= float(row.get("max", np.inf))
    return {name: level}, [] if fits else [f"{name} was {level:.3g}"]


def _counter(row: Mapping[str, Any], evidence: Evidence) -> tuple[dict[str, float], list[str]]:
    """The growth of a counter, or of a length, a second."""
    name = str(row["of"])
    observed = rate(evidence, name)
    if observed is None:
        return {}, [f"{name} was not counted"]
    return {f"{name}_per_s": observed}, [] if observed >= float(row["min"]) else [
        f"{name} grew by {observed:.3g} a second"
    ]


_CHECKS = {
    "limit": _limit,
    "rate": _rate,
    "foreign": _foreign,
    "crowded": _crowded,
    "throttled": _throttled,
    "cpu-wait": _cpu_wait,
    "others-cpu": remaining,
    "latency": _latency,
    "stalled": _stalled,
    "slept": _slept,
    "series": _series,
    "quiet": _quiet,
    "reclaimed": _reclaimed,
    "way": _path_kind,
    "outside": _outside,
    "sessions": _sessions,
    "mean": _mean,
    "counter": _counter,
}
