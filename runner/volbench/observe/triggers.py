"""Triggers: `p95 > 200ms for 5s`. The grammar, and when an incident begins and ends.

    TRIGGER  := METRIC COMPARED NUMBER [UNIT] ["for" DURATION]
    COMPARED := ">" | ">=" | "<" | "<="
    DURATION := NUMBER ("ms" | "s" | "m" | "h")

A metric that is not known in an interval (no statement ended, so there is no p95) neither begins nor ends anything.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from volbench.core.records.base import parse_duration_s
from volbench.errors import UsageError

_TIMES = {"us": 0.001, "µs": 0.001, "ms": 1.0, "s": 1000.0}
_RATES = {"/s": 1.0, "": 1.0}
_PERCENT = {"%": 1.0, "": 1.0}
_NUMBERS = {"": 1.0}
_MIB = {"MiB/s": 1.0, "KiB/s": 1 / 1024, "GiB/s": 1024.0, "": 1.0}


@dataclass(frozen=True, kw_only=True)
class TriggerMetric:
    """What a trigger can be about: its unit as shown, the units that are read, and what it is."""

    unit: str
    units: Mapping[str, float]
    text: str


METRICS: dict[str, TriggerMetric] = {
    "p50": TriggerMetric(unit="ms", units=_TIMES, text="latency of statements, median (MySQL 8.0 on)"),
    "p95": TriggerMetric(unit="ms", units=_TIMES, text="latency of statements, 95 % take less (MySQL 8.0 on)"),
    "p99": TriggerMetric(unit="ms", units=_TIMES, text="latency of statements, 99 % take less (MySQL 8.0 on)"),
    "statement_time": TriggerMetric(unit="ms", units=_TIMES, text="mean latency of statements (MariaDB, too)"),
    "statements": TriggerMetric(unit="/s", units=_RATES, text="statements that ended, ours not counted"),
    "standstill": TriggerMetric(
        unit="ms", units=_TIMES, text="so long no session got an answer, though statements were running"
    ),
    "errors": TriggerMetric(unit="/s", units=_RATES, text="errors of statements"),
    "threads_running": TriggerMetric(unit="", units=_NUMBERS, text="threads executing, ours not counted"),
    "row_lock_waits": TriggerMetric(unit="", units=_NUMBERS, text="threads waiting for a row lock"),
    "history_list": TriggerMetric(unit="", units=_NUMBERS, text="transactions whose undo is not yet purged"),
    "checkpoint_age": TriggerMetric(unit="%", units=_PERCENT, text="of what the redo log can hold"),
    "dirty": TriggerMetric(unit="%", units=_PERCENT, text="dirty pages of the buffer pool"),
    "iops": TriggerMetric(unit="/s", units=_RATES, text="operations of the volume"),
    "reads": TriggerMetric(unit="/s", units=_RATES, text="reads of the volume"),
    "writes": TriggerMetric(unit="/s", units=_RATES, text="writes of the volume"),
    "throughput": TriggerMetric(unit="MiB/s", units=_MIB, text="read and written on the volume"),
    "await": TriggerMetric(unit="ms", units=_TIMES, text="mean time of an operation of the volume"),
    "r_await": TriggerMetric(unit="ms", units=_TIMES, text="mean time of a read"),
    "w_await": TriggerMetric(unit="ms", units=_TIMES, text="mean time of a write"),
    "stalled": TriggerMetric(
        unit="ms", units=_TIMES, text="so long the volume has completed nothing while a request is in flight"
    ),
    "in_flight": TriggerMetric(unit="", units=_NUMBERS, text="requests in flight at the volume at the tick"),
    "queue": TriggerMetric(unit="", units=_NUMBERS, text="requests in flight at the volume, mean"),
    "util": TriggerMetric(unit="%", units=_PERCENT, text="time with a request in flight; no measure of headroom"),
    "credits": TriggerMetric(unit="%", units=_PERCENT, text="burst credits left, where the volume tells"),
    "cpu": TriggerMetric(unit="%", units=_PERCENT, text="CPU time of the host that is used"),
    "iowait": TriggerMetric(unit="%", units=_PERCENT, text="CPU time of the host idle while a task waited for I/O"),
}
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_FORM = re.compile(
    r"\s*(?P<metric>[A-Za-z_][\w.]*)\s*(?P<compared>>=|<=|>|<)\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-zµ%/]*)"
    r"(?:\s+for\s+(?P<duration>\S+(?:\s\w+)?))?\s*"
)
STALLED, STANDSTILL = "stalled", "standstill"
_LENGTHS = frozenset({STALLED, STANDSTILL})
"""Metrics that are the length of something that goes on."""
_EXAMPLE = 'for example --on "p95 > 200ms for 5s"'


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """A condition on one metric. `limit` is in the metric's unit; it must hold for `for_s` without a break."""

    metric: str
    compared: str
    limit: float
    for_s: float
    text: str

    def holds(self, value: float) -> bool:
        """Whether a value meets the condition."""
        return _COMPARED[self.compared](value, self.limit)


def parse_trigger(text: str) -> Trigger:
    """A trigger of the command line. Raises UsageError with the nearest metric, or the units that are read."""
    where = f"--on {text!r}"
    matched = _FORM.fullmatch(text)
    if matched is None:
        raise UsageError(
            "this is no trigger", where=where, next_step=f"write METRIC > NUMBER [for DURATION], {_EXAMPLE}"
        )
    name, unit = matched["metric"].lower(), matched["unit"]
    if name not in METRICS:
        nearest = difflib.get_close_matches(name, METRICS, n=1, cutoff=0.5)
        raise UsageError(
            f"there is no metric {matched['metric']!r}",
            where=where,
            evidence=f"metrics: {', '.join(METRICS)}",
            next_step=f"perhaps you meant {nearest[0]}" if nearest else "name one of these",
        )
    metric = METRICS[name]
    if not unit and metric.units is _TIMES:
        raise UsageError(
            "a time needs its unit", where=where, next_step=f"write {matched['number']}ms or {matched['number']}s"
        )
    if unit not in metric.units:
        units = ", ".join(unit or "none" for unit in metric.units)
        raise UsageError(f"{name} has no unit {unit!r}", where=where, evidence=f"units of {name}: {units}")
    try:
        for_s = parse_duration_s(matched["duration"]) if matched["duration"] else 0.0
    except ValueError as error:
        raise UsageError(str(error), where=where, next_step=_EXAMPLE) from error
    return Trigger(
        metric=name,
        compared=matched["compared"],
        limit=float(matched["number"]) * metric.units[unit],
        for_s=for_s,
        text=" ".join(text.split()),
    )


@dataclass(frozen=True, kw_only=True)
class Fired:
    """An incident by one trigger: the condition held from `onset_s` on; `end_s` None: it holds still."""

    trigger: Trigger
    onset_s: float
    end_s: float | None
    worst: float


@dataclass(kw_only=True)
class TriggerState:
    """Follows one trigger through time.

    `cooldown_s`: so long must the condition not hold before the incident is over; one that comes back meanwhile is
    the same incident. `length_s_max`: an incident that goes on is ended there, and the next one begins only after
    the condition did not hold: else a limit that is always exceeded would be one incident for ever.
    """

    trigger: Trigger
    cooldown_s: float = 10.0
    length_s_max: float = 1800.0
    _since_s: float | None = None
    _unknown_since_s: float | None = None
    _last_s: float = 0.0
    _worst: float = 0.0
    _fired: bool = False
    _too_long: bool = field(default=False)

    def see(self, value: float | None, t0_s: float, t1_s: float) -> Fired | None:
        """Take the value of an interval; the incident when one begins, goes on or ends, else None."""
        if value is None:
            if self._unknown_since_s is None:
                self._unknown_since_s = t0_s
            return self._incident(None) if self._fired else None
        unknown_since_s, self._unknown_since_s = self._unknown_since_s, None
        if self.trigger.holds(value):
            begin_s = t0_s
            if self.trigger.metric in _LENGTHS:  # a stand that ended within the interval began in it, or before
                begin_s = t1_s - max(value / 1000, 0.0 if self.trigger.metric == STALLED else t1_s - t0_s)
            return self._met(value, self._begin(value, begin_s, unknown_since_s), t1_s)
        if self._too_long or not self._fired:
            self._since_s, self._fired, self._too_long = None, False, False
            return None
        if t1_s - self._last_s < self.cooldown_s:
            return self._incident(None)
        ended = self._incident(self._last_s)
        self._since_s, self._fired = None, False
        return ended

    def stop(self) -> Fired | None:
        """End an incident that goes on when the observation ends."""
        ended = self._incident(self._last_s) if self._fired and not self._too_long else None
        self._since_s, self._fired = None, False
        return ended

    def _begin(self, value: float, t0_s: float, unknown_since_s: float | None) -> float:
        """When what an interval shows began.

        Latencies count when an operation ends. Where none ended directly before, the slow ones of this interval
        began there: at most twice their mean time ago, since those of a stall began all along it.
        """
        if unknown_since_s is None or METRICS[self.trigger.metric].units is not _TIMES:
            return t0_s
        return max(unknown_since_s, t0_s - 2 * value / 1000)

    def _met(self, value: float, t0_s: float, t1_s: float) -> Fired | None:
        worse = max if self.trigger.compared.startswith(">") else min
        self._worst = value if self._since_s is None else worse(self._worst, value)
        if self._since_s is None:
            self._since_s = t0_s
        self._last_s = t1_s
        if self._too_long:
            return None
        lasted_s = t1_s - self._since_s
        if not self._fired and lasted_s < self.trigger.for_s - 0.05 * (t1_s - t0_s):  # ticks jitter
            return None
        self._fired = True
        if lasted_s < self.length_s_max:
            return self._incident(None)
        self._too_long = True
        return self._incident(t1_s)

    def _incident(self, end_s: float | None) -> Fired | None:
        if self._since_s is None or (self._too_long and end_s is None):
            return None
        return Fired(trigger=self.trigger, onset_s=self._since_s, end_s=end_s, worst=self._worst)
