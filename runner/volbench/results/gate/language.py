"""The language of conditions: one sentence each, read with regular expressions that cannot backtrack far.

METRIC <= QUANTITY                          latency_ms_p95 <= 20 ms (or p95);  dump_s <= 4h;  tps >= 1500
VOLUME not worse than VOLUME by > PERCENT   candidate not worse than current by > 10 %   [in METRIC]
finding CAUSE absent | present              finding storage.burst_exhausted absent
valid cells >= NUMBER                       valid cells >= 5
NAME equal                                  checksums equal (what `volbench validate` checked)
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from volbench.core.base.text import counted
from volbench.core.records.base import parse_duration_s, parse_fraction, parse_size_bytes
from volbench.core.records.metric import Metric
from volbench.core.records.metrics import CATALOGUE
from volbench.errors import UsageError
from volbench.results.explain.causes import CAUSES

Operator = Literal["<=", "<", ">=", ">"]
EXAMPLES = (
    "latency_ms_p95 <= 20 ms",
    "candidate not worse than current by > 10 %",
    "finding storage.burst_exhausted absent",
    "valid cells >= 5",
    "checksums equal",
)


@dataclass(frozen=True, kw_only=True)
class MetricLimit:
    """The median over cells of a metric keeps a limit, in the metric's own unit."""

    metric: str
    operator: Operator
    limit: float

    def holds(self, value: float) -> bool:
        """Return whether one value keeps the limit."""
        match self.operator:
            case "<=":
                return value <= self.limit
            case "<":
                return value < self.limit
            case ">=":
                return value >= self.limit
            case ">":
                return value > self.limit


@dataclass(frozen=True, kw_only=True)
class NotWorse:
    """A volume is not worse than another by more than a share of the other's value."""

    volume: str
    than: str
    by: float
    metric: str = ""


@dataclass(frozen=True, kw_only=True)
class FindingIs:
    """A cause was named, or was not."""

    cause: str
    present: bool


@dataclass(frozen=True, kw_only=True)
class ValidCells:
    """So many valid cells of each volume and step."""

    at_least: int


@dataclass(frozen=True, kw_only=True)
class CheckIs:
    """A check of `volbench validate` came out equal."""

    name: str


Condition = MetricLimit | NotWorse | FindingIs | ValidCells | CheckIs

_OPERATORS: dict[str, Operator] = {"<=": "<=", "<": "<", ">=": ">=", ">": ">"}
_NAME = r"[A-Za-z0-9][\w.-]{0,80}"
_COMPARED = re.compile(r"(?P<metric>[a-z][a-z0-9_]{0,60})\s*(?P<operator><=|>=|<|>|==?|!=)\s*(?P<limit>\S.{0,40})")
_NOT_WORSE = re.compile(
    rf"(?P<volume>{_NAME})\s+not\s+worse\s+than\s+(?P<than>{_NAME})(\s+by\s*>\s*(?P<by>[\d.]+\s*%?))?(\s+in\s+(?P<metric>\w{{1,60}}))?"
)
_FINDING = re.compile(r"finding\s+(?P<cause>[a-z]+(\.[a-z_]+)?)\s+(?P<state>absent|present)")
_CELLS = re.compile(r"valid\s+cells\s*>=\s*(?P<number>\d{1,4})")
_PERCENTILE = re.compile(r"p\d{2,3}")
_EQUAL = re.compile(r"(?P<name>[a-z][a-z_ ]{0,40}?)\s+equal")


def parse_conditions(texts: Sequence[str], origins: Sequence[str]) -> list[Condition]:
    """Return all conditions of a policy.

    Args:
        texts: the sentences.
        origins: file and line of each.

    Raises UsageError with every fault, each with its line.
    """
    conditions: list[Condition] = []
    faults: list[UsageError] = []
    for text, origin in zip(texts, origins, strict=True):
        try:
            conditions.append(parse_condition(text, where=origin))
        except UsageError as fault:
            faults.append(fault)
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise UsageError(
            f"{counted(len(faults), 'condition')} cannot be read",
            where=faults[0].where,
            evidence="\n    ".join(
                ": ".join(filter(None, (fault.where, fault.what, fault.evidence))) for fault in faults
            ),
            next_step="suites/policies/README.md has the conditions, such as: " + "; ".join(EXAMPLES),
        )
    return conditions


def parse_condition(text: str, *, where: str) -> Condition:
    """Return one condition.

    Args:
        text: the sentence, without surrounding space.
        where: file and line, for messages.

    Raises UsageError with the nearest match or examples.
    """
    text = text.strip()
    for pattern, read in _READERS:
        matched = pattern.fullmatch(text)
        if matched:
            return read(matched, where)
    near = difflib.get_close_matches(text, EXAMPLES, n=1)
    raise UsageError(
        f"a condition that cannot be read: {text!r}",
        where=where,
        evidence=f"the nearest form is `{near[0]}`" if near else "",
        next_step="write one like: " + "; ".join(EXAMPLES),
    )


def _finding(matched: re.Match[str], where: str) -> Condition:
    cause = matched["cause"]
    if cause not in CAUSES:
        raise UsageError(f"no cause is called {cause!r}", where=where, evidence=_nearest(cause, tuple(CAUSES)))
    return FindingIs(cause=cause, present=matched["state"] == "present")


def _cells(matched: re.Match[str], _where: str) -> Condition:
    return ValidCells(at_least=int(matched["number"]))


def _equal(matched: re.Match[str], _where: str) -> Condition:
    return CheckIs(name=" ".join(matched["name"].split()))


def _not_worse(matched: re.Match[str], where: str) -> Condition:
    metric = _full_name(matched["metric"] or "")
    if metric and _known_metric(metric, where).better == "none":
        raise UsageError(f"{matched['metric']} has no better direction, so nothing is worse in it", where=where)
    try:
        by = parse_fraction(matched["by"]) if matched["by"] else 0.0
    except ValueError as error:
        raise UsageError(str(error), where=where) from error
    if not 0 <= by < 1:
        raise UsageError(f"{matched['by']!r} is no share below 100 %", where=where, next_step="write it as 10 %")
    return NotWorse(volume=matched["volume"], than=matched["than"], by=by, metric=metric)


def _limit(matched: re.Match[str], where: str) -> Condition:
    metric = _full_name(matched["metric"])
    unit = _known_metric(metric, where).unit
    operator = _OPERATORS.get(matched["operator"])
    if operator is None:
        raise UsageError(
            f"a measured value is never exactly equal: {matched['operator']!r}",
            where=where,
            next_step="use <= or >=",
        )
    try:
        limit = _quantity(matched["limit"].strip(), unit)
    except ValueError as error:
        raise UsageError(f"the limit of {matched['metric']}: {error}", where=where) from error
    if not math.isfinite(limit):
        raise UsageError(f"the limit of {matched['metric']} is not finite", where=where)
    return MetricLimit(metric=metric, operator=operator, limit=limit)


def _quantity(text: str, unit: str) -> float:
    """Return the number in the metric's unit; a bare one is in it already."""
    match unit:
        case "s":
            return parse_duration_s(text)
        case "ms":
            return parse_duration_s(text) * 1000 if text[-1:].isalpha() else parse_duration_s(text)
        case "B":
            return float(parse_size_bytes(text))
        case "1":
            return parse_fraction(text)
        case _:
            return parse_fraction(text.removesuffix(unit).strip())


def _full_name(name: str) -> str:
    """Return latency_ms_p95 for p95; any other name as it is."""
    return f"latency_ms_{name}" if _PERCENTILE.fullmatch(name) else name


def _known_metric(name: str, where: str) -> Metric:
    if name not in CATALOGUE:
        raise UsageError(f"no metric is called {name!r}", where=where, evidence=_nearest(name, list(CATALOGUE)))
    return CATALOGUE[name]


def _nearest(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"perhaps you meant {near[0]}" if near else f"known: {', '.join(names)}"


_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], Condition]], ...] = (
    (_FINDING, _finding),
    (_CELLS, _cells),
    (_EQUAL, _equal),
    (_NOT_WORSE, _not_worse),
    (_COMPARED, _limit),
)
