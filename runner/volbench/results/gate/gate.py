"""A policy's decision on a run, from its report.json."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from volbench.core.base.text import all_of, part_of
from volbench.core.records.goals.gate import ConditionRow, Decision, Gate
from volbench.core.records.goals.policy import PolicyFile
from volbench.core.records.report import Report
from volbench.errors import EXIT_NO_GO, EXIT_OK, EXIT_UNDECIDED
from volbench.results.compare.losses import of_volumes, with_losses
from volbench.results.gate.decide import decide, scope_of, worst

EXIT_CODES: dict[Decision, int] = {"go": EXIT_OK, "no-go": EXIT_NO_GO, "undecided": EXIT_UNDECIDED}


_CONDITIONS = ("condition", "conditions")


def gate_report(
    report: Report, policy: PolicyFile, *, policy_text: str, origins: Sequence[str], where: str
) -> Gate:
    """Return the decision, with what each condition rests on.

    Args:
        report: of a run, finished or not; an unfinished one is never a go.
        policy: the conditions; `policy_text` is the file's text, for its checksum.
        origins: file and line of each condition; `where` that of the policy.

    Raises UsageError for a condition that cannot be read or names what the run does not have.
    """
    scope = scope_of(report, policy, where=where)
    conditions = decide([scope], policy.conditions, origins)
    decision = worst(row.decision for row in conditions)
    if decision == "go" and not report.complete:
        decision = "undecided"
    used = {scope.current, *scope.candidates}
    return Gate(
        decision=decision,
        reason=with_losses(
            _reason(decision, conditions, complete=report.complete), of_volumes(report.durability, used)
        ),
        policy=policy.name,
        policy_sha256=_sha256(policy_text),
        run_id=report.run_id,
        report_sha256=report_sha256(report),
        suite=report.suite,
        current=scope.current,
        candidates=scope.candidates,
        emulated=tuple(volume.name for volume in report.volumes if volume.emulated and volume.name in used),
        complete=report.complete,
        confidence=policy.confidence,
        conditions=conditions,
        volbench_version=report.volbench_version,
    )


def report_sha256(report: Report) -> str:
    """Return the checksum of its report.json."""
    return _sha256(report.model_dump_json(indent=1, by_alias=True) + "\n")


def _reason(decision: Decision, conditions: Sequence[ConditionRow], *, complete: bool) -> str:
    failed = [row.check for row in conditions if row.decision == "no-go"]
    still_open = [row for row in conditions if row.decision == "undecided"]
    if decision == "no-go":
        return f"{part_of(len(failed), len(conditions), _CONDITIONS, ('fails', 'fail'))}: {'; '.join(failed)}"
    if decision == "go":
        return all_of(len(conditions), "condition holds", "conditions hold")
    if not still_open:
        return "all conditions hold so far, but the run is not complete: `volbench resume RUN` it"
    more = [group.more_cells for row in still_open for group in row.groups if group.more_cells]
    subject = part_of(len(still_open), len(conditions), _CONDITIONS, ("is open", "are open"))
    text = f"{subject}: {'; '.join(row.check for row in still_open)}"
    return (
        text
        + (f"; about {max(more)} more valid cells a volume would decide" if more else "")
        + ("" if complete else "; the run is not complete: `volbench resume RUN` it")
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
