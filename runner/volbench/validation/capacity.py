"""Whether the candidate's volume holds production's busiest second, by runs at several rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from volbench.analysis.capacity import capacities
from volbench.analysis.gate.decide import Scope, worst
from volbench.records.capacity import CapacityPlan, CapacityRow
from volbench.records.gate import Decision
from volbench.records.validation import CheckRow, ValidationPlan
from volbench.validation.slowlog import outside, slow_log


def candidate_capacities(scopes: Sequence[Scope], plan: CapacityPlan) -> tuple[CapacityRow, ...]:
    """Of the candidates' volumes in all runs."""
    wanted = {name for scope in scopes for name in scope.candidates}
    return tuple(row for row in capacities([scope.report for scope in scopes], plan) if row.volume in wanted)


@dataclass(frozen=True, kw_only=True)
class BusiestSecond:
    """Most statements that began in one second of a log, None without any; `notes` say what is not counted."""

    statements: int | None = None
    notes: tuple[str, ...] = ()


def busiest_second(plan: ValidationPlan, schemas: Collection[str]) -> BusiestSecond:
    """That of the plan's log, of these schemas. Raises UsageError for a log that cannot be read."""
    named = [one.slow_log for one in (plan.capacity, plan.replay, plan.queries) if one and one.slow_log]
    if not named:
        return BusiestSecond()
    seconds, left_out = Counter[int](), Counter[str]()
    with slow_log(Path(named[0])) as log:
        for one in log:
            reason = outside(one, schemas)
            if reason:
                left_out[reason] += 1
            else:
                seconds[int(one.at_s)] += 1
    notes = (
        f"the log: {named[0]}, {log.account()}",
        *(f"{count} statements {reason} are not counted" for reason, count in left_out.most_common()),
    )
    return BusiestSecond(statements=max(seconds.values(), default=None), notes=notes)


def capacity_check(
    rows: Sequence[CapacityRow], plan: CapacityPlan, busiest: BusiestSecond, *, confidence: float
) -> CheckRow:
    """go when even the low end of each load's interval holds the peak with its headroom."""
    if not rows:
        text = "no run of the candidate's volume has oltp steps at a rate: see `volbench capacity`"
        return CheckRow(check="capacity", decision="undecided", text=text)
    needed = None if busiest.statements is None else busiest.statements * plan.headroom
    decision = worst(_decision(row, needed, confidence) for row in rows)
    against = "no log says what is needed" if needed is None else f"needed: {needed:g} queries/s"
    if needed is not None and plan.headroom > 1:
        against += f", {plan.headroom:g} times the log's peak"
    details = [text for row in rows for text in _details(row, needed)]
    if needed is not None:
        details.append("queries are counted alike, whatever they do: `replay` with `speed` asks the log's own")
    details += busiest.notes
    return CheckRow(check="capacity", decision=decision, text=f"{plan.text}; {against}", details=tuple(details))


def _decision(row: CapacityRow, needed: float | None, confidence: float) -> Decision:
    """By one end of the interval, which the median of n cells lies beyond with a probability of 2^-n."""
    if needed is None or row.queries_each is None or 2.0**-row.cells > 1 - confidence:
        return "undecided"
    if row.low_per_s * row.queries_each >= needed:
        return "go"
    if row.high_per_s is not None and row.high_per_s * row.queries_each < needed:
        return "no-go"
    return "undecided"


def _details(row: CapacityRow, needed: float | None) -> Iterator[str]:
    held = "none held" if row.held_per_s is None else f"{row.held_per_s:g} transactions/s held"
    high = "never broken" if row.high_per_s is None else f"{row.high_per_s:g}"
    sure = f", {row.confidence:.0%} sure" if row.confidence is not None else ""
    yield f"{row.volume} [{row.load}]: {held}, [{row.low_per_s:g}, {high}] of {row.cells} cells{sure}"
    if needed and row.queries_each:
        yield f"{row.volume}: at least {row.low_per_s * row.queries_each / needed:.2g} times what is needed"
    for text in row.limited_by:
        yield f"{row.volume}: limited by {text}"
