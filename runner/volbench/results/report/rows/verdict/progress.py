"""How far a run got: caveats of cells that are missing, or that it did not need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volbench.core.base.text import counted
from volbench.core.records.run import (
    JournalEvent,
    RunRecord,
    is_over_budget,
    since_extended,
    skipped_cells,
    stopped_volumes,
)


def progress_caveats(run: RunRecord, done: int, events: Sequence[JournalEvent]) -> Iterator[str]:
    """Yield what a run that is not complete misses, and what was left out since it was decided.

    Args:
        done: cells with a result.
    """
    skipped = 0 if is_over_budget(events) else len(skipped_cells(events))
    decided = any(event.event == "run_decided" for event in since_extended(events))
    if done < len(run.cells) - skipped:
        yield f"The run is not complete: {done} of {len(run.cells)} planned cells are done."
    elif skipped and decided:
        yield (
            f"The run stopped when it was decided: {done} of at most {counted(len(run.cells), 'cell')}. Intervals"
            " and verdicts allow for the looks at the data."
        )
    stopped = stopped_volumes(events)
    if stopped:
        yield (
            f"Volumes that got no further cells once they were decided: {', '.join(stopped)}. Their comparisons are"
            " of the blocks that both volumes have."
        )
    if run.suite.scale != "full":
        yield f"Suite {run.suite.name} was run at scale {run.suite.scale}: smaller or shorter than the full suite."
