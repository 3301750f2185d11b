"""The decision of a validation: the worst of the checks and of the plan's policy over checks and runs."""

from __future__ import annotations

from collections.abc import Sequence

from volbench.core.base.text import all_of, part_of
from volbench.core.records.goals.gate import ConditionRow, Decision
from volbench.core.records.goals.policy import PolicyFile
from volbench.core.records.report import Report
from volbench.core.records.validation.plan import ValidationPlan
from volbench.core.records.validation.result import CheckRow, RunReference
from volbench.results.gate.decide import Scope, decide, scope_of, worst
from volbench.results.gate.gate import report_sha256
from volbench.results.gate.language import parse_conditions


def check_policy(plan: ValidationPlan, origins: Sequence[str], reports: Sequence[Report]) -> list[Scope]:
    """Return the runs of the policy. Raises UsageError for what would otherwise fail after hours of reading."""
    parse_conditions([condition.check for condition in plan.policy], origins)
    policy = PolicyFile.model_construct(
        candidate=plan.volume, current="", confidence=plan.confidence, conditions=plan.policy, findings_from=0.5
    )
    return [scope_of(report, policy, where=f"run {report.run_id}") for report in reports]


def decide_policy(
    plan: ValidationPlan, origins: Sequence[str], scopes: Sequence[Scope], checks: Sequence[CheckRow]
) -> tuple[ConditionRow, ...]:
    """Decide each condition of the plan; `NAME equal` by the check of that name."""
    checked: dict[str, tuple[Decision, str]] = {row.check: (row.decision, row.text) for row in checks}
    return decide(scopes, plan.policy, origins, checked)


def run_references(scopes: Sequence[Scope]) -> tuple[RunReference, ...]:
    """Return what identifies the runs, and whether they are complete and emulated."""
    return tuple(_run_reference(scope) for scope in scopes)


def decide_all(
    checks: Sequence[CheckRow],
    conditions: Sequence[ConditionRow],
    runs: Sequence[RunReference],
    *,
    source_changed: bool | None,
) -> tuple[Decision, str]:
    """Return the worst decision of all, and its reason.

    Args:
        checks: decided checks.
        conditions: decided conditions of the policy.
        runs: that the conditions used.
        source_changed: whether the source was written meanwhile, which alone makes rows and answers differ.
    """
    decision, reason = _decide_checks(checks, source_changed=source_changed)
    if not conditions:
        return decision, reason
    policy_decision = worst(row.decision for row in conditions)
    summary = _summarise_conditions(conditions)
    unfinished = [run.run_id for run in runs if not run.complete]
    if policy_decision == "go" and unfinished:
        policy_decision, summary = (
            "undecided",
            f"runs that are not complete: {', '.join(unfinished)}; `volbench resume RUN` them",
        )
    return worst([decision, policy_decision]), f"{reason}; {summary}"


def _summarise_conditions(conditions: Sequence[ConditionRow]) -> str:
    for kind, verbs in (("no-go", ("fails", "fail")), ("undecided", ("is open", "are open"))):
        matching = [row.check for row in conditions if row.decision == kind]
        if matching:
            subject = part_of(len(matching), len(conditions), ("condition", "conditions"), verbs)
            return f"{subject}: {'; '.join(matching)}"
    return all_of(len(conditions), "condition holds", "conditions hold")


def _decide_checks(checks: Sequence[CheckRow], *, source_changed: bool | None) -> tuple[Decision, str]:
    failed = [row.check for row in checks if row.decision == "no-go"]
    still_open = [row.check for row in checks if row.decision == "undecided"]
    if failed and source_changed and set(failed) <= {"checksums", "queries", "pt_upgrade"}:
        return (
            "undecided",
            f"{', '.join(failed)} differ, but the source was written during the comparison: stop writes and repeat",
        )
    if failed:
        return (
            "no-go",
            f"{part_of(len(failed), len(checks), ('check', 'checks'), ('fails', 'fail'))}: {', '.join(failed)}",
        )
    if still_open:
        return "undecided", f"not decided: {', '.join(still_open)}"
    if not checks:
        return "undecided", "nothing was checked"
    return "go", all_of(len(checks), "check holds", "checks hold")


def _run_reference(scope: Scope) -> RunReference:
    report = scope.report
    used = {scope.current, *scope.candidates}
    return RunReference(
        run_id=report.run_id,
        suite=report.suite,
        report_sha256=report_sha256(report),
        complete=report.complete,
        emulated=tuple(volume.name for volume in report.volumes if volume.emulated and volume.name in used),
    )
