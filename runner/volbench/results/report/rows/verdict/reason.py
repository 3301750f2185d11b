"""The cause that a headline names: of the slower volume, in the headline's step, likely and not small."""

from __future__ import annotations

from collections.abc import Sequence

from volbench.core.base.text import percent
from volbench.core.records.report import CellRow, FindingRow
from volbench.results.explain.cause_info import GROUPS
from volbench.results.explain.causes import CAUSES
from volbench.results.report.rows.verdict.lead import NONE, cause_title, is_undecided, likelihood
from volbench.results.report.wording import joined

CAUSE_CONFIDENCE_MIN = 0.7
"""From here on a cause is `likely`: what is less likely is a question, and no reason in a headline."""
CAUSE_SHARE_MIN = 0.2
"""What explains less than a fifth of a latency does not make one volume several times slower."""
_OF_VOLUMES = GROUPS[:2]
"""Causes of these kinds come first: the volumes differ, while server and load are the same on all."""


def cause_clause(
    step: str, loser: str, winner: str, findings: Sequence[FindingRow], cells: Sequence[CellRow] = ()
) -> str:
    """Return `; likely cause on gp3: ...`; one of both where the slower has none of its own; or that none is.

    A cause that explains more than the named one is named after it: the machine's own load may take more of a
    latency than the volume does.

    Args:
        step: of the headline; causes of its phases are of it, too.
        loser: the slower volume. winner: the one that it is compared with.
        findings: of the run.
        cells: of the run, which say where the step is invalid.
    """
    of_step = [finding for finding in findings if is_step(step, finding.step)]
    shared = {finding.cause for finding in of_step if finding.volume == winner}
    named = [finding for finding in of_step if finding.volume == loser and _is_reason(finding)]
    own = [finding for finding in named if finding.cause not in shared]
    if not named:
        return _no_cause(step, loser, findings)
    finding = min(own or named, key=lambda finding: (not finding.valid, _group(finding.cause) not in _OF_VOLUMES))
    where = loser if own else f"both {winner} and {loser}"
    larger = larger_cause(finding, named)
    also = winner if larger is not None and larger.cause in shared else ""
    clauses = (
        f"; {likelihood(finding)} cause on {where}: {_title(finding)}",
        larger_text(finding, larger, also=also),
        "" if finding.valid else invalid_text(step, loser, cells),
    )
    return "; ".join(filter(None, clauses))


def _no_cause(step: str, loser: str, findings: Sequence[FindingRow]) -> str:
    """Return that none is likely; for which volume and step where one of other volumes or steps is."""
    if not findings:
        return ""
    where = f" on {loser} in {step}" if any(map(_is_reason, findings)) else ""
    return f"; no likely cause was found{where}"


def larger_cause(finding: FindingRow, findings: Sequence[FindingRow]) -> FindingRow | None:
    """Return the likely cause of the same volume and step that explains most, where that is more than this one."""
    rivals = [
        rival
        for rival in findings
        if (rival.volume, rival.step) == (finding.volume, finding.step) and _is_reason(rival) and rival.share
    ]
    largest = max(rivals, key=lambda rival: rival.share or 0.0, default=finding)
    if finding.share is None or largest.share is None or percent(largest.share) == percent(finding.share):
        return None
    return largest if largest.share > finding.share else None


def larger_text(finding: FindingRow, larger: FindingRow | None, *, also: str = "") -> str:
    """Return what the named cause explains and which one explains more; empty where none does.

    Args:
        finding: the named cause, which stands before.
        larger: the cause that explains most.
        also: the volume that has that cause too.
    """
    if larger is None:
        return ""
    whose = f", which {also} has too," if also else ""
    return (
        f"it explains {percent(finding.share)} of the latency; the largest cause{whose} is another,"
        f" {percent(larger.share)}: {_title(larger)}"
    )


def invalid_text(step: str, volume: str, cells: Sequence[CellRow]) -> str:
    """Return that a step is invalid in every cell of a volume, and of which others: of all, none is named."""
    of_step = [cell for cell in cells if is_step(cell.step, step)]
    with_valid = {
        of_volume
        for cell_id, of_volume in {(cell.cell_id, cell.volume) for cell in of_step}
        if all(cell.valid for cell in of_step if cell.cell_id == cell_id)
    }
    volumes = list(dict.fromkeys(cell.volume for cell in of_step))
    invalid = [name for name in volumes if name == volume or name not in with_valid]
    subject = "the step or a part of it" if any(cell.step != step for cell in of_step) else "the step"
    of_some = f" of {joined(invalid or [volume])}" if len(invalid) < max(2, len(volumes)) else ""
    return f"{subject} is invalid in every cell{of_some}"


def _title(finding: FindingRow) -> str:
    title = cause_title(finding.cause)
    return f"{title[:1].lower()}{title[1:]}"


def is_step(name: str, step: str) -> bool:
    """Return whether a name is the step's, or that of a phase of it, such as `tree/stat` of `tree`."""
    return name == step or name.startswith(f"{step}/")


def _group(cause: str) -> str:
    return CAUSES[cause].group if cause in CAUSES else ""


def _is_reason(finding: FindingRow) -> bool:
    is_sure = finding.confidence is not None and finding.confidence >= CAUSE_CONFIDENCE_MIN
    is_much = finding.share is None or finding.share >= CAUSE_SHARE_MIN
    return finding.cause != NONE and is_sure and is_much and not is_undecided(finding)
