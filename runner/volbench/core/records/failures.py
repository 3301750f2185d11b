"""An expected error as a record, and the record as an error again."""

from __future__ import annotations

from volbench.core.records.cell import Failure
from volbench.errors import EXIT_ENVIRONMENT, MissingPrerequisite, StepFailed, VolbenchError


def failure_of(error: VolbenchError) -> Failure:
    """Return an error as a record of result.json."""
    return Failure(
        cause=getattr(error, "cause", "") or "step_failed",
        message=error.what,
        where=error.where,
        evidence=error.evidence,
        next_step=error.next_step,
        exit_code=error.exit_code,
    )


def error_of(failure: Failure) -> VolbenchError:
    """Return the error of a failure that another process had: MissingPrerequisite or StepFailed."""
    kind = MissingPrerequisite if failure.exit_code == EXIT_ENVIRONMENT else StepFailed
    return kind(
        failure.message,
        where=failure.where,
        evidence=failure.evidence,
        next_step=failure.next_step,
        cause=failure.cause,
    )
