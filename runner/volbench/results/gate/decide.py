"""From a policy and a report to a decision.

A condition is go only where the data shows at the policy's confidence that it holds, no-go where they show that it
does not, else undecided; it is judged for each volume, step and set of parameters by itself. All conditions have
to be go, each at level alpha, so a wrong go has at most that probability without a correction (Berger,
Technometrics 24, 1982). A wrong no-go can come from any condition: its probability grows with their number, and is
near alpha only for a volume that lies on a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from volbench.core.base.text import counted, part_of, percent
from volbench.core.records.goals.gate import ConditionRow, Decision, GroupRow
from volbench.core.records.goals.policy import PolicyCondition, PolicyFile
from volbench.core.records.metrics import PRIMARY_METRICS
from volbench.core.records.report import CellRow, ComparisonRow, Report
from volbench.core.records.run import ComparisonSpec
from volbench.errors import UsageError
from volbench.results.compare.compared_cells import compared_cells
from volbench.results.compare.comparison import CHANGED_TOGETHER, Comparison
from volbench.results.gate.language import (
    CheckIs,
    Condition,
    FindingIs,
    MetricLimit,
    NotWorse,
    ValidCells,
    parse_conditions,
)
from volbench.results.gate.metrics import limit_kept, not_worse


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Which rows of a report a policy is about."""

    report: Report
    policy: PolicyFile
    current: str
    candidates: tuple[str, ...]

    @property
    def alpha(self) -> float:
        """The chance of a wrong decision that the policy accepts."""
        return 1 - self.policy.confidence

    def volumes(self, role: str, where: str) -> tuple[str, ...]:
        """Return the volumes of a role or name; the candidates for an empty one. Raises UsageError."""
        names = [volume.name for volume in self.report.volumes]
        match role:
            case "" | "candidate" if role not in names:
                return self.candidates
            case "current" if role not in names:
                return (self.current,)
            case _ if role in names:
                return (role,)
            case _:
                raise UsageError(
                    f"the run has no volume {role!r}",
                    where=where,
                    evidence=f"it has: {', '.join(names)}; roles are current and candidate",
                )

    def groups(self, volume: str, step: str) -> dict[tuple[str, str], list[CellRow]]:
        """Return a volume's cells by step and parameters, invalid ones too."""
        groups: dict[tuple[str, str], list[CellRow]] = {}
        for cell in self.report.cells:
            if cell.volume == volume and step in {"", cell.step}:
                groups.setdefault((cell.step, repr(sorted(cell.parameters.items()))), []).append(cell)
        return groups

    def compared(
        self, than: str, before: Sequence[CellRow], after: Sequence[CellRow]
    ) -> dict[str, Comparison | ComparisonRow]:
        """Compare one volume's cells of one step with another's, at the policy's confidence, as the report does.

        Comparisons by metric. Where the report has no verdict because nodes changed with volumes, its row.
        """
        confidence = self.policy.confidence
        spec = ComparisonSpec(confidence=confidence, until="decided" if self.report.until_decided else "all_cells")
        comparison_of: dict[str, Comparison | ComparisonRow] = {
            row.metric: row for row in compared_cells([*before, *after], [than, after[0].volume], spec)
        }
        pair = {than, after[0].volume}
        return comparison_of | {
            row.metric: row
            for row in self.report.comparisons
            if {row.baseline, row.candidate} == pair and row.reason.startswith(CHANGED_TOGETHER)
        }

    def measured(self, cells: Sequence[CellRow], metric: str) -> bool:
        """Return whether these cells of one step and parameters should have a metric.

        Then it is missing where it is not.

        By other volumes' cells of the same parameters, since others may measure something else (reads, writes).
        Where none of these is valid, by any cell of the step.
        """
        failed = not any(cell.valid for cell in cells)
        return any(
            metric in cell.metrics
            for cell in self.report.cells
            if cell.step == cells[0].step and (failed or cell.parameters == cells[0].parameters)
        )


def scope_of(report: Report, policy: PolicyFile, *, where: str) -> Scope:
    """Return the roles filled with volumes of the report. Raises UsageError when the run has no such volume."""
    names = [volume.name for volume in report.volumes]
    for role in filter(None, (policy.current, policy.candidate)):
        if role not in names:
            raise UsageError(f"the run has no volume {role!r}", where=where, evidence=f"it has: {', '.join(names)}")
    current = policy.current or next((name for name in names if name != policy.candidate), names[0])
    candidates = tuple(name for name in names if name != current) or (current,)
    return Scope(
        report=report,
        policy=policy,
        current=current,
        candidates=(policy.candidate,) if policy.candidate else candidates,
    )


Checked = Mapping[str, tuple[Decision, str]]
"""What a validation checked, by name: the decision, and what was seen."""


def decide(
    scopes: Sequence[Scope],
    conditions: Sequence[PolicyCondition],
    origins: Sequence[str],
    checked: Checked | None = None,
) -> tuple[ConditionRow, ...]:
    """Return every condition, over all runs together and what was checked beside them.

    Args:
        scopes: the runs; perhaps none.
        conditions: of the policy; `origins` are their lines.
        checked: what `NAME equal` is decided by; None where nothing was checked.

    Raises UsageError for a condition that cannot be read, or names a step or check that is nowhere.
    """
    parsed = parse_conditions([declared.check for declared in conditions], origins)
    rows = []
    for declared, condition, origin in zip(conditions, parsed, origins, strict=True):
        _check_step(scopes, declared, origin)
        if isinstance(condition, CheckIs) and checked is not None:
            decision, reason = _checked(condition, checked, origin)
            groups: tuple[GroupRow, ...] = ()
        else:
            groups = tuple(group for scope in scopes for group in _judge(scope, condition, declared, origin))
            decision = worst(group.decision for group in groups) if groups else "undecided"
            reason = "" if groups else _why_nothing(condition, runs=len(scopes))
        rows.append(
            ConditionRow(
                check=declared.check,
                where=origin,
                rationale=declared.rationale,
                decision=decision,
                reason=reason,
                groups=groups,
            )
        )
    return tuple(rows)


def _checked(condition: CheckIs, checked: Checked, where: str) -> tuple[Decision, str]:
    if condition.name not in checked:
        raise UsageError(
            f"the validation checks no {condition.name!r}",
            where=where,
            evidence=f"it checks: {', '.join(checked) or 'nothing'}",
        )
    return checked[condition.name]


def worst(decisions: Iterable[Decision]) -> Decision:
    """no-go before undecided before go; of none at all: undecided."""
    distinct = set(decisions)
    if "no-go" in distinct:
        return "no-go"
    return "go" if distinct == {"go"} else "undecided"


def _judge(scope: Scope, condition: Condition, declared: PolicyCondition, where: str) -> Iterator[GroupRow]:
    match condition:
        case NotWorse(volume=role):
            rows = list(_against(scope, condition, declared, where))
        case CheckIs():
            return
        case _:
            role = declared.volume
            rows = [
                row
                for volume in scope.volumes(role, where)
                for row in _on_volume(scope, condition, volume, declared.step)
            ]
    yield from rows
    yield from _without_cells(scope, condition, scope.volumes(role, where), declared.step)


def _without_cells(scope: Scope, condition: Condition, volumes: Iterable[str], step: str) -> Iterator[GroupRow]:
    """Yield the volumes without a cell of a step and its parameters that other volumes have.

    The cells of the others, and the volume's own of other steps, must not speak for them.
    """
    names = [row.name for row in scope.report.volumes]
    groups = {volume: scope.groups(volume, step) for volume in names}
    everywhere: dict[tuple[str, str], list[CellRow]] = {}
    for of_volume in groups.values():
        for key, cells in of_volume.items():
            everywhere.setdefault(key, []).extend(cells)
    for volume in volumes:
        for key, cells in everywhere.items():
            if key not in groups[volume] and _decides(scope, condition, cells):
                yield GroupRow(
                    volume=volume,
                    step=cells[0].step,
                    parameters=cells[0].parameters,
                    decision="undecided",
                    text="it has no cell here",
                    cells=0,
                )


def _decides(scope: Scope, condition: Condition, cells: Sequence[CellRow]) -> bool:
    """Return whether a condition is about cells of this step and these parameters."""
    match condition:
        case MetricLimit(metric=name):
            return scope.measured(cells, name)
        case NotWorse(metric=name):
            metrics = [name] if name else PRIMARY_METRICS.get(cells[0].kind, ())
            return any(scope.measured(cells, metric) for metric in metrics)
        case _:
            return True


def _on_volume(
    scope: Scope, condition: MetricLimit | FindingIs | ValidCells, volume: str, step: str
) -> Iterator[GroupRow]:
    if isinstance(condition, FindingIs):
        yield from _finding(scope, condition, volume, step)
        return
    for cells in scope.groups(volume, step).values():
        if isinstance(condition, MetricLimit):
            if scope.measured(cells, condition.metric):
                yield limit_kept(condition, cells, alpha=scope.alpha)
        else:
            yield _enough(condition, cells)


def _against(scope: Scope, condition: NotWorse, declared: PolicyCondition, where: str) -> Iterator[GroupRow]:
    than = scope.volumes(condition.than, where)
    if len(than) != 1:
        raise UsageError(
            f"{condition.than} stands for several volumes: {', '.join(than)}",
            where=where,
            next_step="name the one to compare with",
        )
    before = scope.groups(than[0], declared.step)
    for volume in scope.volumes(condition.volume, where):
        for key, after in scope.groups(volume, declared.step).items():
            names = [condition.metric] if condition.metric else PRIMARY_METRICS.get(after[0].kind, ())
            for name in names:
                if scope.measured(after, name):
                    yield not_worse(condition, name, scope.compared(than[0], before.get(key, []), after), after)


def _finding(scope: Scope, condition: FindingIs, volume: str, step: str) -> Iterator[GroupRow]:
    """Absent is a go only where the step was explained: where another cause, or `none`, was named."""
    cells = [cell for cell in scope.report.cells if cell.volume == volume and step in {"", cell.step}]
    for name in dict.fromkeys(cell.step for cell in cells):
        valid = [cell.cell_id for cell in cells if cell.step == name and cell.valid]
        findings = [row for row in scope.report.findings if (row.volume, row.step) == (volume, name)]
        explained = [row for row in findings if set(row.cell_ids) & set(valid)]
        sure = [row for row in findings if (row.confidence or 0.0) >= scope.policy.findings_from]
        named = [row for row in sure if row.cause == condition.cause and set(row.cell_ids) & set(valid)]
        doubtful = [row for row in findings if row not in sure and row.cause == condition.cause]
        if named:
            decision: Decision = "go" if condition.present else "no-go"
            first = named[0].evidence[0].text if named[0].evidence else ""
            text = f"{condition.cause} in {counted(len(named[0].cell_ids), 'cell')}" + (
                f": {first}" if first else ""
            )
        elif doubtful:
            decision = "undecided"
            limit = percent(scope.policy.findings_from)
            text = f"{condition.cause} was named, below the confidence of {limit} asked for"
        elif explained:
            decision = "no-go" if condition.present else "go"
            text = f"not named; what was: {', '.join(row.cause for row in explained)}"
        else:
            decision, text = "undecided", "the evidence carried no cause here, so nothing is known to be absent"
        yield GroupRow(volume=volume, step=name, decision=decision, text=text, cells=len(valid))


def _enough(condition: ValidCells, cells: Sequence[CellRow]) -> GroupRow:
    valid = sum(cell.valid for cell in cells)
    missing = condition.at_least - valid
    return GroupRow(
        volume=cells[0].volume,
        step=cells[0].step,
        parameters=cells[0].parameters,
        decision="go" if missing <= 0 else "undecided",
        text=part_of(valid, len(cells), ("cell", "cells"), ("is valid", "are valid"))
        + (_why_invalid(cells) if missing > 0 else ""),
        cells=valid,
        more_cells=missing if missing > 0 else None,
    )


def _why_invalid(cells: Sequence[CellRow]) -> str:
    """Return the first reason, which more cells on the same machine would have again; empty where all are valid."""
    reasons = [reason for cell in cells if not cell.valid for reason in cell.invalid_reasons]
    return f"; first reason: {reasons[0]}" if reasons else ""


def _check_step(scopes: Sequence[Scope], declared: PolicyCondition, where: str) -> None:
    steps = list(dict.fromkeys(cell.step for scope in scopes for cell in scope.report.cells))
    if declared.step and declared.step not in steps:
        raise UsageError(
            f"the run has no step {declared.step!r}", where=where, evidence=f"it has: {', '.join(steps)}"
        )


def _why_nothing(condition: Condition, *, runs: int) -> str:
    if not runs:
        return "there is no run that could decide it: name its directory under `runs`"
    return "nothing in this run can decide it: " + _what_is_missing(condition)


def _what_is_missing(condition: Condition) -> str:
    match condition:
        case MetricLimit(metric=name):
            return f"no cell of these volumes has {name}"
        case NotWorse():
            return "no metric with a better direction is in cells of both volumes"
        case CheckIs(name=name):
            return f"it did not check {name}"
        case _:
            return "there is no cell of these volumes"
