"""The cause that a headline names: of the slower volume, in the headline's step, likely and not small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from volbench.core.base.text import percent
from volbench.core.records.report import CellRow, FindingRow
from volbench.results.compare.figures import figure_of
from volbench.results.report.rows.verdict.lead import confidence_text, is_counted, likelihood
from volbench.results.report.rows.verdict.order import (
    Order,
    Rival,
    is_likely,
    is_reason,
    least_sure,
    limit_and_use,
    order_note,
    order_of,
    title_of,
    titles_of,
)
from volbench.results.report.wording import joined

_MEAN = "latency_ms_mean"


@dataclass(frozen=True, kw_only=True)
class CauseClause:
    """The clause of a headline on a cause, and what else is to say of it, as clauses; empty where nothing is."""

    clause: str = ""
    notes: tuple[str, ...] = ()


def cause_of(
    step: str, loser: str, winner: str, findings: Sequence[FindingRow], cells: Sequence[CellRow] = ()
) -> CauseClause:
    """Return `likely cause on gp3, confidence 92 %: ...`: what adds most to the difference; or that none is likely.

    Where the faster volume waits for it, too, it is of both. Where several may add most, the clause says so. The
    notes say how much it explains where another cause explains much too.

    Args:
        step: of the headline; causes of its phases are of it, too.
        loser: the slower volume. winner: the one that it is compared with.
        findings: of the run.
        cells: of the run, which say where the step is invalid, and how long the latencies are.
    """
    of_step = [finding for finding in findings if is_step(step, finding.step)]
    named = [finding for finding in of_step if finding.volume == loser and is_reason(finding)]
    if not named:
        return _no_cause(step, loser, findings)
    of_winner = [finding for finding in of_step if finding.volume == winner]
    best = min(named, key=lambda finding: (not finding.valid, finding.step != step))
    rivals = [
        _rival(finding, of_winner, _pace(finding.step, loser, winner, cells))
        for finding in named
        if (finding.step, finding.valid) == (best.step, best.valid)
    ]
    order = order_of(rivals)
    first = order.first.finding
    weaker = _weaker(first, of_winner) if order.first.is_shared else ""
    where = f"both {winner} and {loser}" if order.first.is_shared and not weaker else loser
    return CauseClause(
        clause=f"{likelihood(least_sure(order))} cause on {where}{sureness(order)}: {titles_of(order)}",
        notes=(
            f"that cause is {weaker} on {winner}, too" if weaker else "",
            order_note(order, winner),
            "" if first.valid else invalid_text(step, loser, cells),
        ),
    )


def sureness(order: Order) -> str:
    """Return `, confidence 92 %` if it is counted, and that it is one of several, or of invalid cells only."""
    finding, rivals = least_sure(order), len(order.undecided) if limit_and_use(order) is None else 0
    has_confidence = finding.confidence is not None and is_counted(finding)
    return "".join(
        (
            f", {confidence_text(finding)}" if has_confidence else "",
            f", one of {1 + rivals}" if rivals else "",
            "" if finding.valid else ", of invalid cells only",
        )
    )


def _weaker(finding: FindingRow, of_winner: Sequence[FindingRow]) -> str:
    """Return how likely a cause is on the faster volume, where it is less so there; else nothing."""
    alike = [row for row in of_winner if (row.cause, row.component) == (finding.cause, finding.component)]
    best = max(alike, key=lambda row: row.confidence or 0.0, default=finding)
    is_less = (best.confidence or 0.0) < (finding.confidence or 0.0)
    return likelihood(best) if is_less and likelihood(best) != likelihood(finding) else ""


def _rival(finding: FindingRow, of_winner: Sequence[FindingRow], pace: float | None) -> Rival:
    """Return a cause with what the faster volume waits for it.

    Args:
        finding: of the slower volume.
        of_winner: findings of the faster one in the same step and its phases.
        pace: the faster one's mean latency over the slower one's; None: not known, but no longer.
    """
    alike = [row for row in of_winner if (row.cause, row.component) == (finding.cause, finding.component)]
    if not alike:
        return Rival(finding=finding)
    share = next((row.share for row in alike if row.step == finding.step), None)
    if share is None or pace is None:
        return Rival(finding=finding, elsewhere=(0.0, (1.0 if share is None else share) * (pace or 1.0)))
    return Rival(finding=finding, elsewhere=(share * pace, share * pace))


def _pace(step: str, loser: str, winner: str, cells: Sequence[CellRow]) -> float | None:
    """Return the faster volume's mean latency over the slower one's; None where a load varies, or is not known."""
    of_step = [cell for cell in cells if cell.step == step and cell.volume in (loser, winner)]
    if any(cell.parameters != of_step[0].parameters for cell in of_step):
        return None
    fast, slow = (
        figure_of([cell for cell in of_step if cell.volume == volume], _MEAN) for volume in (winner, loser)
    )
    return fast / slow if fast is not None and slow else None


def _no_cause(step: str, loser: str, findings: Sequence[FindingRow]) -> CauseClause:
    """Return that none is likely; for which volume and step where one of other volumes or steps is.

    One that is likely and small is named as small: it was found.
    """
    if not findings:
        return CauseClause()
    small = [
        finding
        for finding in findings
        if is_step(step, finding.step) and finding.volume == loser and finding.valid and is_likely(finding)
    ]
    if small:
        largest = max(small, key=lambda finding: finding.share or 0.0)
        share = percent(largest.share or 0.0)
        return CauseClause(
            clause=f"a {likelihood(largest)} cause on {loser} explains {share} only: {title_of(largest)}"
        )
    where = f" on {loser} in {step}" if any(map(is_reason, findings)) else ""
    return CauseClause(clause=f"no likely cause was found{where}")


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


def is_step(name: str, step: str) -> bool:
    """Return whether a name is the step's, or that of a phase of it, such as `tree/stat` of `tree`."""
    return name == step or name.startswith(f"{step}/")
