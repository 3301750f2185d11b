"""The cause that a headline names: of the slower volume, in the headline's step, likely and not small."""

from __future__ import annotations

from collections.abc import Sequence

from volbench.core.records.report import FindingRow
from volbench.results.explain.cause_info import GROUPS
from volbench.results.explain.causes import CAUSES
from volbench.results.report.rows.verdict.lead import INVALID_ONLY, NONE, cause_title, is_undecided, likelihood

CAUSE_CONFIDENCE_MIN = 0.7
"""From here on a cause is `likely`: what is less likely is a question, and no reason in a headline."""
CAUSE_SHARE_MIN = 0.2
"""What explains less than a fifth of a latency does not make one volume several times slower."""
NO_CAUSE = "; no likely cause was found"
_OF_VOLUMES = GROUPS[:2]
"""Causes of these kinds come first: the volumes differ, while server and load are the same on all."""


def cause_clause(step: str, loser: str, winner: str, findings: Sequence[FindingRow]) -> str:
    """Return `; likely cause on gp3: ...`; one of both where the slower has none of its own; or that none is.

    Args:
        step: of the headline; causes of its phases are of it, too.
        loser: the slower volume. winner: the one that it is compared with.
        findings: of the run.
    """
    of_step = [finding for finding in findings if is_step(step, finding.step)]
    shared = {finding.cause for finding in of_step if finding.volume == winner}
    named = [finding for finding in of_step if finding.volume == loser and _is_reason(finding)]
    own = [finding for finding in named if finding.cause not in shared]
    if not named:
        return NO_CAUSE if findings else ""
    finding = min(own or named, key=lambda finding: (not finding.valid, _group(finding.cause) not in _OF_VOLUMES))
    where = loser if own else f"both {winner} and {loser}"
    validity_text = "" if finding.valid else f", {INVALID_ONLY}".replace("this volume", loser)
    title = cause_title(finding.cause)
    return f"; {likelihood(finding)} cause on {where}: {title[:1].lower()}{title[1:]}{validity_text}"


def is_step(name: str, step: str) -> bool:
    """Return whether a name is the step's, or that of a phase of it, such as `tree/stat` of `tree`."""
    return name == step or name.startswith(f"{step}/")


def _group(cause: str) -> str:
    return CAUSES[cause].group if cause in CAUSES else ""


def _is_reason(finding: FindingRow) -> bool:
    is_sure = finding.confidence is not None and finding.confidence >= CAUSE_CONFIDENCE_MIN
    is_much = finding.share is None or finding.share >= CAUSE_SHARE_MIN
    return finding.cause != NONE and is_sure and is_much and not is_undecided(finding)
