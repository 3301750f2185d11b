"""Every expected failure of volbench, each with the exit code that README.md lists."""

from __future__ import annotations

from dataclasses import dataclass

EXIT_OK = 0
EXIT_NO_GO = 1
EXIT_USAGE = 2
EXIT_ENVIRONMENT = 3
EXIT_REFUSED = 4
EXIT_STEP_FAILED = 5
EXIT_UNDECIDED = 6
EXIT_CRASHED = 70
EXIT_INTERRUPTED = 130


@dataclass
class VolbenchError(Exception):
    """An expected failure: what failed, where, the evidence, and the next step.

    `what` is one sentence; `where` a phase, file and line, or volume; `evidence` what was seen (an errno,
    the last log lines); `next_step` what the user can do about it; `cause` a short stable word where there
    is one (volume_full, server_killed, oom), as in result.json.
    """

    what: str
    where: str = ""
    evidence: str = ""
    next_step: str = ""
    cause: str = ""

    exit_code = EXIT_STEP_FAILED

    def __str__(self) -> str:
        texts = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.evidence:
            texts.append(f"  evidence: {self.evidence}")
        if self.next_step:
            texts.append(f"  next step: {self.next_step}")
        return "\n".join(texts)


class Crashed(VolbenchError):
    """A fault of volbench itself: what nobody expected."""

    exit_code = EXIT_CRASHED


class UsageError(VolbenchError):
    """Command line, suite file or volume SPEC cannot be understood."""

    exit_code = EXIT_USAGE


class MissingPrerequisite(VolbenchError):
    """The machine lacks something: a tool, an engine, space, a right."""

    exit_code = EXIT_ENVIRONMENT


class VolumeUnavailable(MissingPrerequisite):
    """One volume cannot be used; cells on other volumes can run."""


class Refused(VolbenchError):
    """Refused for safety: a data directory that is not ours, a foreign run directory."""

    exit_code = EXIT_REFUSED


class StepFailed(VolbenchError):
    """A cell, a step or the server failed while running."""

    exit_code = EXIT_STEP_FAILED


class Undecided(VolbenchError):
    """The work was done, and gave no answer to the question."""

    exit_code = EXIT_UNDECIDED


class RunUnreadable(VolbenchError):
    """A file under results/ is truncated, foreign, or of an unknown schema version."""

    exit_code = EXIT_USAGE


class IncomparableRuns(VolbenchError):
    """Two runs differ in facts that make a comparison meaningless."""

    exit_code = EXIT_REFUSED
