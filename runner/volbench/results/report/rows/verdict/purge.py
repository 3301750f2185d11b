"""The caveat that purge was behind: volumes compare only where it is in the same state."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.core.base.text import counted
from volbench.results.explain.accounts.purge import BEHIND
from volbench.results.explain.run import RunExplanation


def purge_caveats(explained: RunExplanation) -> Iterator[str]:
    """One sentence where purge was behind in some cell, with volumes, steps and numbers of cells."""
    counts = [
        f"{step} on {volume} ({behind} of {counted(len(views), 'cell')})"
        for (volume, step), views in explained.views.items()
        if (behind := sum(BEHIND in view.explanation.notes for view in views.values()))
    ]
    if counts:
        yield (
            f"Purge was behind in {', '.join(counts)}: InnoDB's history list grew as long as the load ran. Undo"
            " that is not purged takes memory, and is read and written later. Volumes compare only with purge in"
            " the same state. A transaction that stays open holds it back; so do too few purge threads."
        )
