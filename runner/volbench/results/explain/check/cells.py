"""What equal cells of one step say together: they ran the same load on the same volume, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from volbench.results.explain.check.objections import SERVED_ABOVE
from volbench.results.explain.evidence.device import Resource
from volbench.results.explain.objection import Objection
from volbench.results.explain.wording import amount

SHOWN_BY_MOST = 0.5
"""A cause that acts all along shows in more than this part of the cells."""
STAYS_CELLS = 2
"""Cells at the end, from which on a cause that they all show and no earlier one has begun and stayed."""


def comes_and_goes(is_shown: Sequence[bool]) -> Objection | None:
    """What speaks against a cause that acts all along and shows in some cells; None where nothing does.

    Args:
        is_shown: whether each cell shows it, in the order in which they ran.
    """
    number, cells = sum(is_shown), len(is_shown)
    stays = number >= STAYS_CELLS and all(is_shown[cells - number :])
    if cells < 2 or number > SHOWN_BY_MOST * cells or stays or number == 0:
        return None
    text = f"it comes and goes between {cells} equal cells: only {number} {'shows' if number == 1 else 'show'} it"
    return Objection(law="consistency", text=text, claimed=float(cells), recorded=float(number))


def served_later(
    levels: Sequence[float | None], served: Sequence[float | None], resource: Resource
) -> Objection | None:
    """What speaks against a limit below what a later cell was served; None where nothing does.

    A volume that gave more before may have spent its credits; what it gives afterwards, no limit forbids.

    Args:
        levels: of the limit, by cell in the order in which they ran; None: the cell does not show it.
        served: the most that each cell was served for some intervals in a row.
        resource: operations or bytes.
    """
    for index, level in enumerate(levels):
        later = [most for most in served[index + 1 :] if most is not None]
        if level is not None and later and max(later) > SERVED_ABOVE * level:
            text = (
                f"another cell of this step was served {amount(max(later), resource)} later, above the"
                f" {amount(level, resource)} that the limit is said to be"
            )
            return Objection(law="consistency", text=text, claimed=level, recorded=max(later))
    return None
