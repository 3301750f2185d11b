"""The order of several causes of one step: which explains most of a difference, as far as shares decide it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from volbench.core.base.text import lower_first, percent
from volbench.core.records.report import FindingRow
from volbench.results.explain.cause_info import GROUPS
from volbench.results.explain.causes import CAUSES
from volbench.results.report.rows.verdict.lead import NONE, cause_title, is_undecided

CAUSE_CONFIDENCE_MIN = 0.7
"""From here on a cause is `likely`: what is less likely is a question, and no reason in a headline."""
CAUSE_SHARE_MIN = 0.2
"""What explains less than a fifth of a latency does not make one volume several times slower."""
_LIMIT, *_ = _OF_VOLUMES = GROUPS[:2]
"""Of causes in no order, these kinds come first: volumes differ, server and load are the same."""
Bounds = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A cause of the slower volume.

    Args:
        elsewhere: what the faster one waits for it, at least and at most, as a part of the slower one's latency;
            None: it does not have it.
    """

    finding: FindingRow
    elsewhere: Bounds | None = None

    @property
    def is_shared(self) -> bool:
        """Whether the faster volume has it, too."""
        return self.elsewhere is not None

    def extra_percent(self, share: float | None) -> tuple[int, int]:
        """Return what it adds to the difference if it explains this share: at least and at most.

        In whole per cents, as shares are printed: what reads alike is in no order.
        """
        low, high = (0.0, 1.0) if share is None else (share, share)
        least, most = self.elsewhere or (0.0, 0.0)
        return max(0, round(100 * (low - most))), max(0, round(100 * (high - least)))


@dataclass(frozen=True, kw_only=True)
class Order:
    """Several causes of one step of one volume.

    Args:
        first: what a headline names; it explains most, or nothing is known to explain more.
        undecided: those that may explain as much as it, or more.
        smaller: those that explain less.
    """

    first: Rival
    undecided: tuple[Rival, ...]
    smaller: tuple[Rival, ...]


def order_of(rivals: Sequence[Rival]) -> Order:
    """Return the order of one or more causes of one step: by what each adds to the difference."""
    largest = max(rivals, key=lambda rival: rival.extra_percent(rival.finding.share)[0])
    smaller = tuple(rival for rival in rivals if _surely_more(largest, rival))
    alike = sorted(
        (rival for rival in rivals if rival not in smaller),
        key=lambda rival: (rival.is_shared, not _is_of_volume(rival)),
    )
    return Order(first=alike[0], undecided=tuple(alike[1:]), smaller=smaller)


def _surely_more(rival: Rival, than: Rival) -> bool:
    """Return whether one adds more than another, over all cells and in each cell that shows both."""
    shares = [(rival.finding.share, than.finding.share), *_in_the_same_cells(rival.finding, than.finding)]
    return all(rival.extra_percent(share)[0] > than.extra_percent(less)[1] for share, less in shares)


def _in_the_same_cells(finding: FindingRow, than: FindingRow) -> Iterator[tuple[float | None, float | None]]:
    """Yield both shares of each cell that shows both causes; older reports have shares over all cells only."""
    by_cell = dict(zip(than.cell_ids, than.share_by_cell, strict=False))
    for cell, share in zip(finding.cell_ids, finding.share_by_cell, strict=False):
        if cell in by_cell:
            yield share, by_cell[cell]


def leading(findings: Sequence[FindingRow]) -> Order | None:
    """Return the order that a report of one volume begins with; None without a cause.

    It is of the step of the first valid finding: of it and the step's other likely causes.
    """
    causes = [finding for finding in findings if finding.cause != NONE]
    if not causes:
        return None
    head = min(causes, key=lambda finding: not finding.valid)
    of_step = [finding for finding in causes if _location(finding) == _location(head)]
    return order_of([Rival(finding=finding) for finding in of_step if finding is head or is_reason(finding)])


def leading_first(findings: Sequence[FindingRow]) -> tuple[FindingRow, ...]:
    """Return the findings with that of `leading` before the others."""
    order = leading(findings)
    if order is None:
        return tuple(findings)
    first = order.first.finding
    return (first, *(finding for finding in findings if finding is not first))


def limit_and_use(order: Order) -> tuple[Rival, Rival] | None:
    """Return the limit of the volume that was met, and what used the volume beside the load; None without both.

    Each alone is half of the answer: a dump that empties credits harms a volume that has them, and no other. A
    third cause must be sure to be smaller than one of them.
    """
    rivals = (order.first, *order.undecided, *order.smaller)
    limit = next((rival for rival in rivals if _group(rival) == _LIMIT), None)
    use = next((rival for rival in rivals if _is_use(rival)), None)
    if limit is None or use is None or order.first not in (limit, use):
        return None
    most = max(rival.finding.share or 0.0 for rival in (limit, use))
    further = [rival for rival in rivals if rival not in (limit, use)]
    is_open = any(rival in order.undecided or (rival.finding.share or 0.0) > most for rival in further)
    return None if is_open else (limit, use)


def named_findings(order: Order) -> tuple[FindingRow, ...]:
    """Return what a headline names: the first cause, or a limit and what used the volume."""
    return tuple(rival.finding for rival in limit_and_use(order) or (order.first,))


def titles_of(order: Order) -> str:
    """Return the causes that a headline names, in words."""
    return ", and ".join(map(title_of, named_findings(order)))


def least_sure(order: Order) -> FindingRow:
    """Return what the likelihood is of: of two causes that are named, the less likely one."""
    return min(named_findings(order), key=lambda finding: finding.confidence or 0.0)


def order_note(order: Order, winner: str = "") -> str:
    """Return what the headline's cause explains, and what else does, as clauses; empty of one that is alone.

    Args:
        order: of which the first one stands before.
        winner: the faster volume; empty: there is none to compare with.
    """
    if (both := limit_and_use(order)) is not None:
        limit, use = both
        return f"that limit explains {_size(limit)}, and what uses the volume {_share(use)}"
    size_text = f"that cause explains {_size(order.first)}"
    if order.undecided:
        rival = order.undecided[0]
        of = " of the difference" if winner else ""
        too = f", which {winner} has too" if rival.is_shared and not order.first.is_shared else ""
        another = f"another likely cause, {_share(rival)}: {title_of(rival.finding)}{too}"
        return f"{size_text}; {another}; which of them explains more{of} is not decided"
    share = order.first.finding.share or 0.0
    larger = max(order.smaller, key=lambda rival: rival.finding.share or 0.0, default=order.first)
    if (larger.finding.share or 0.0) > share:  # but adds less: the faster volume waits for it, too
        return f"{size_text}; what {winner} waits for, too, explains {_size(larger)}: {title_of(larger.finding)}"
    of_volume = next((rival for rival in order.smaller if _is_of_volume(rival)), None)
    if of_volume is None or _is_of_volume(order.first):
        return ""
    return f"{size_text}; next, {_share(of_volume)}: {title_of(of_volume.finding)}"


def is_reason(finding: FindingRow) -> bool:
    """Return whether a headline may name a cause: likely, not one of two, and not small."""
    return is_likely(finding) and (finding.share is None or finding.share >= CAUSE_SHARE_MIN)


def is_likely(finding: FindingRow) -> bool:
    """Return whether a cause is likely and not one of two, however little it explains."""
    is_sure = finding.confidence is not None and finding.confidence >= CAUSE_CONFIDENCE_MIN
    return finding.cause != NONE and is_sure and not is_undecided(finding)


def _location(finding: FindingRow) -> tuple[str, str, bool]:
    return finding.volume, finding.step, finding.valid


def _is_of_volume(rival: Rival) -> bool:
    return _group(rival) in _OF_VOLUMES


def _group(rival: Rival) -> str:
    cause = rival.finding.cause
    return CAUSES[cause].group if cause in CAUSES else ""


def _is_use(rival: Rival) -> bool:
    """Return whether it is something else that uses the volume, not only the CPUs."""
    info = CAUSES.get(rival.finding.cause)
    return info is not None and info.is_of_others and info.waits_for_volume


def _size(rival: Rival) -> str:
    share = rival.finding.share
    size = "an unknown part" if share is None else percent(share)
    return f"{size} of the {rival.finding.share_of}"


def _share(rival: Rival) -> str:
    share = rival.finding.share
    return "share not known" if share is None else percent(share)


def title_of(finding: FindingRow) -> str:
    """Return a cause in words, as within a sentence."""
    return lower_first(cause_title(finding.cause))
