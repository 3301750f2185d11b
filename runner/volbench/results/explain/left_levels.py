"""Levels that a volume gives this host while others use it: what these leave, and not the volume's own limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.cause_info import CauseInfo
from volbench.results.explain.evidence.volume_counts import volume_counts
from volbench.results.explain.wording import number, row
from volbench.results.stats.grid import mean

GIVES = "the volume gives"
"""What rules say of a level."""


def as_left_levels(case: Case, causes: Sequence[Cause], descriptors: Mapping[str, CauseInfo]) -> list[Cause]:
    """Return the causes, with each level as what is left of it where something takes of it at the same time.

    Args:
        case: the step.
        causes: those that stand.
        descriptors: by name of a cause.
    """
    return [_as_left(case, cause, causes, descriptors.get(cause.cause)) for cause in causes]


def _as_left(case: Case, cause: Cause, causes: Sequence[Cause], info: CauseInfo | None) -> Cause:
    takers = [
        taker for taker in causes if info is not None and taker.cause in info.left_by and _meets(cause, taker)
    ]
    counts = [*volume_counts(case.grid, case.device)] if takers else []
    if not counts:
        return cause
    middle = case.grid.t_s - case.grid.width_s / 2
    during = (middle > cause.window_s[0]) & (middle <= cause.window_s[1])
    served, sent = (
        sum(mean(values[during]) or 0.0 for values in of_side)
        for of_side in zip(*((count.volume, count.host) for count in counts), strict=True)
    )
    text = (
        f"the volume served {number(served)} operations/s to all that use it, this host's {number(sent)} among"
        " them: its own limit is no lower than that, and this host gets what others leave"
    )
    rows = tuple(
        each.model_copy(update={"text": each.text.replace(GIVES, f"{GIVES} this host", 1)})
        for each in cause.evidence
    )
    return replace(
        cause,
        evidence=(*rows[:1], row("served_to_all_per_s", served, "1/s", text), *rows[1:]),
        advice=f"First find who else uses this volume ({takers[0].cause}): more for the volume is more for"
        f" them as well. {cause.advice}",
    )


def _meets(cause: Cause, taker: Cause) -> bool:
    return cause.window_s[0] < taker.window_s[1] and taker.window_s[0] < cause.window_s[1]
