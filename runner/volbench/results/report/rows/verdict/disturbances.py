"""Caveats of invalid and of disturbed cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from volbench.core.base.text import counted, percent
from volbench.core.records.cell import Disturbance
from volbench.core.records.report import CellRow
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.comparison_summary import PairSummary
from volbench.results.compare.figures import standing_of

_DISTURBANCES = {
    "foreign_cpu": "CPU use by other work",
    "cpu_steal": "CPU steal",
    "emulator_late": "late emulated operations",
    "foreign_io": "I/O of others on the volume's device",
    "swapping": "swapping of the host",
}
_OR_ADJUSTED = ", or where an adjustment for such work (below) claims no more than they allow"
_DIGITS = re.compile(r"[\d.,]+")
"""Reasons that differ in these only are of one kind."""


def _sizes(kind: str, disturbances: Sequence[Disturbance]) -> str:
    """Return the smallest and the largest share; disturbances that are no shares are in the texts of the cells."""
    if kind in ("foreign_io", "swapping"):
        return ""
    low, high = (end(disturbance.size for disturbance in disturbances) for end in (min, max))
    return f" {_span(low, high)} (limit {percent(disturbances[0].limit)})"


def _span(low: float, high: float) -> str:
    """Return two shares as a range, and as one figure where they read alike."""
    return percent(low) if percent(low) == percent(high) else f"{percent(low)} to {percent(high)}"


def validity_caveats(cells: Sequence[CellRow], pairs: Sequence[PairSummary]) -> Iterator[str]:
    """Yield what disturbed the cells that are compared all the same, and why others are left out."""
    yield from _of_disturbances(cells, adjusted=any(row.adjustments for pair in pairs for row in _rows_of(pair)))
    invalid = [cell for cell in cells if not cell.valid and not cell.used_within_bounds]
    if invalid:
        kinds: dict[str, list[str]] = {}
        for reason in (reason for cell in invalid for reason in cell.invalid_reasons):
            kinds.setdefault(_DIGITS.sub("", reason), []).append(reason)
        reasons = [
            f"{of_kind[0]}{f', and {len(of_kind) - 1} more of this kind' if len(set(of_kind)) > 1 else ''}"
            for of_kind in kinds.values()
        ]
        more = f" and {counted(len(reasons) - 2, 'more reason')}" if len(reasons) > 2 else ""
        verb = "is" if len(invalid) == 1 else "are"
        kinds_of_cells = sorted({standing_of(valid=False, bounded=bool(cell.bounds)) for cell in invalid})
        yield (
            f"{len(invalid)} of {len(cells)} step results {verb} {' or '.join(kinds_of_cells)} and excluded from"
            " every comparison: "
            f"{'; '.join(reasons[:2])}{more}."
        )


def _rows_of(pair: PairSummary) -> tuple[Comparison, ...]:
    return (*pair.better, *pair.worse, *pair.equivalent, *pair.inconclusive, *pair.alone)


def _of_disturbances(cells: Iterable[CellRow], *, adjusted: bool) -> Iterator[str]:
    """Yield kind, size and possible effect of the disturbances of cells that are compared within bounds."""
    used = [cell for cell in cells if cell.used_within_bounds]
    if not used:
        return
    kinds: dict[str, list[Disturbance]] = {}
    for cell in used:
        for disturbance in cell.disturbances:
            if disturbance.beyond:
                kinds.setdefault(disturbance.kind, []).append(disturbance)
    results_of: Counter[str] = Counter()
    for cell in used:
        results_of.update({disturbance.kind for disturbance in cell.disturbances if disturbance.beyond})
    summary = "; ".join(
        f"{_DISTURBANCES[kind]}{_sizes(kind, disturbances)} in {results_of[kind]}"
        for kind, disturbances in kinds.items()
    )
    several = "; some have more than one cause" if results_of.total() > len(used) else ""
    low, high = (end(cell.delayed_share_max or 0.0 for cell in used) for end in (min, max))
    span = percent(high) if percent(low) == percent(high) else f"{percent(low)} (least) to {percent(high)} (most)"
    results = "step result was" if len(used) == 1 else "step results were"
    yield (
        f"{len(used)} {results} disturbed from outside: {summary}{several}. By its own bound each was delayed for "
        f"at most {span} of its time. Their figures are compared within the bounds that "
        "follow, and a verdict is given only where it holds for every value within"
        f"{_OR_ADJUSTED if adjusted else ''}."
    )
