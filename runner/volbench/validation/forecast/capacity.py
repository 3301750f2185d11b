"""Whether the candidate's volume sustains production's busiest second, by runs at several rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base.text import counted, number, percent
from volbench.core.records.goals.capacity import CapacityPlan, CapacityRow
from volbench.core.records.goals.gate import Decision
from volbench.core.records.validation.plan import ValidationPlan
from volbench.core.records.validation.result import CheckRow
from volbench.measure.workload.replay.slowlog import slow_log, why_outside
from volbench.results.compare.capacity import capacities
from volbench.results.gate.decide import Scope
from volbench.validation.verdict import decide_check, undecided


def candidate_capacities(scopes: Sequence[Scope], plan: CapacityPlan) -> tuple[CapacityRow, ...]:
    """Return the capacities of the candidates' volumes in all runs."""
    volumes = {name for scope in scopes for name in scope.candidates}
    return tuple(row for row in capacities([scope.report for scope in scopes], plan) if row.volume in volumes)


@dataclass(frozen=True, kw_only=True)
class BusiestSecond:
    """Most statements that began in one second of a log, None without any; `notes` list what is not counted."""

    statements: int | None = None
    notes: tuple[str, ...] = ()


def busiest_second(plan: ValidationPlan, schemas: Collection[str]) -> BusiestSecond:
    """Return the busiest second of the plan's log in these schemas. Raises UsageError for an unreadable log."""
    logs = [
        section.slow_log for section in (plan.capacity, plan.replay, plan.queries) if section and section.slow_log
    ]
    if not logs:
        return BusiestSecond()
    seconds, skipped = Counter[int](), Counter[str]()
    with slow_log(Path(logs[0])) as log:
        for section in log:
            reason = why_outside(section, schemas)
            if reason:
                skipped[reason] += 1
            else:
                seconds[int(section.at_s)] += 1
    notes = (
        f"the log: {logs[0]}, {log.summary()}",
        *(f"{counted(count, 'statement')} {reason} not counted" for reason, count in skipped.most_common()),
    )
    return BusiestSecond(statements=max(seconds.values(), default=None), notes=notes)


def capacity_check(
    rows: Sequence[CapacityRow], plan: CapacityPlan, busiest: BusiestSecond, *, confidence: float
) -> CheckRow:
    """Return go when the low end of each load's interval sustains the peak with its headroom."""
    if not rows:
        return undecided(
            "capacity", "no run of the candidate's volume has oltp steps at a rate: see `volbench capacity`"
        )
    needed = None if busiest.statements is None else busiest.statements * plan.headroom
    decisions = [_decision(row, needed, confidence) for row in rows]
    requirement = "no log gives the required rate" if needed is None else f"needed: {number(needed)} queries/s"
    if needed is not None and plan.headroom > 1:
        requirement += f", {plan.headroom:g} times the log's peak"
    texts: dict[Decision, list[str]] = {"no-go": [], "undecided": [], "go": []}
    for row, decision in zip(rows, decisions, strict=True):
        texts[decision] += _details(row, needed)
    if needed is not None:
        texts["go"].append(
            "every query counts the same; to measure the log's own queries use `replay` with `speed`"
        )
    return decide_check(
        "capacity",
        compared=sum(decision != "undecided" for decision in decisions),
        text=f"{plan.text}; {requirement}",
        faults=texts["no-go"],
        doubts=texts["undecided"],
        notes=[*texts["go"], *busiest.notes],
        nothing=f"{plan.text}; {requirement}; no volume is decided",
    )


def _decision(row: CapacityRow, needed: float | None, confidence: float) -> Decision:
    """Decide by one end of the interval, which the median of n cells exceeds with a probability of 2^-n."""
    if needed is None or row.queries_per_transaction is None or 2.0**-row.cells > 1 - confidence:
        return "undecided"
    if row.low_per_s * row.queries_per_transaction >= needed:
        return "go"
    if row.high_per_s is not None and row.high_per_s * row.queries_per_transaction < needed:
        return "no-go"
    return "undecided"


def _details(row: CapacityRow, needed: float | None) -> Iterator[str]:
    sustained = "none held" if row.sustained_per_s is None else f"{number(row.sustained_per_s)} transactions/s held"
    high = "never broken" if row.high_per_s is None else number(row.high_per_s)
    confidence = f", {percent(row.confidence)} sure" if row.confidence is not None else ""
    cells = counted(row.cells, "cell")
    yield f"{row.volume} [{row.load}]: {sustained}, [{number(row.low_per_s)}, {high}] of {cells}{confidence}"
    if needed and row.queries_per_transaction:
        factor = row.low_per_s * row.queries_per_transaction / needed
        yield f"{row.volume}: at least {number(factor)} times the required rate"
    for text in row.limited_by:
        yield f"{row.volume}: limited by {text}"
