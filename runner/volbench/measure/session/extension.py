"""Adds cells to a run until decided that ended without a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable

from volbench import __version__
from volbench.core.base.text import counted, duration
from volbench.core.plan.extension import check_extendable, extended
from volbench.core.records.run import RunRecord, is_over_budget, stopped_volumes
from volbench.errors import UsageError
from volbench.measure.execute.budget import block_s
from volbench.measure.execute.completion import is_finished, pending_cells
from volbench.results.report.rows.verdict.pairs import why_decided
from volbench.results.stats.sequential import CELLS_MAX
from volbench.results.store.run_directory import RunDirectory


def extend_run(
    directory: RunDirectory, say: Callable[[str], None], *, budget_s: float | None = None
) -> RunDirectory:
    """Give a finished run without a verdict the blocks up to CELLS_MAX, and return it; others stay as they are.

    The levels of the looks are those of all looks to CELLS_MAX, so that more of them err no more often than was
    promised. A run that is decided, or not finished, gets none, which is said.

    Args:
        budget_s: seconds for the cells that are added.

    Raises UsageError for a run that can get none, or whose next block does not fit into the budget; Refused while
    another process works on the run. The run stays as it was then.
    """
    check_extendable(directory.run)
    with directory.lock():
        why_none = _why_none(directory)
        if why_none:
            if budget_s is not None:
                raise UsageError(
                    "--budget is for cells that are added to a run without a verdict",
                    where=directory.run.run_id,
                    evidence=why_none,
                    next_step="leave out --budget",
                )
            say(f"no cell is added: {why_none}")
            return directory
        longer = _longer(directory, budget_s)
        directory.extend(longer, budget_s=budget_s)
    more = counted(len(pending_cells(directory)), "more cell")
    say(f"at most {more} of {longer.run_id}, until decided")
    return directory


def may_get_cells(directory: RunDirectory) -> bool:
    """Return whether a run is finished with a pair of volumes that is open, and can get more cells."""
    suite = directory.run.suite
    is_extendable = suite.comparison.until == "decided" and suite.sweep is None and _has_looks_left(directory)
    return is_extendable and is_finished(directory) and not why_decided(directory)


def _has_looks_left(directory: RunDirectory) -> bool:
    return directory.run.suite.repeats < CELLS_MAX or is_over_budget(directory.events())


def _why_none(directory: RunDirectory) -> str:
    """Return why a run gets no cells: its own cells are to be run first, or it is decided; nothing otherwise."""
    if not is_finished(directory):
        return "the run is not finished, so its planned cells come first"
    reason = why_decided(directory)
    cells = min(directory.done_of_each_volume().values(), default=0)
    return f"the run is decided after {counted(cells, 'cell')} of each volume: {reason}" if reason else ""


def _longer(directory: RunDirectory, budget_s: float | None) -> RunRecord:
    """Return the plan with all looks. Raise UsageError where there is none, or where it would measure otherwise."""
    run = directory.run
    if not _has_looks_left(directory):
        raise UsageError(
            f"the run has {run.suite.repeats} cells of each volume, and looks have levels for at most {CELLS_MAX}",
            where=run.run_id,
            next_step="begin a new run with longer steps",
        )
    if run.volbench_version != __version__:
        raise UsageError(
            "cells of two versions of volbench are not measured alike, so they give no common verdict",
            where=run.run_id,
            evidence=f"the run is of {run.volbench_version}, this is {__version__}",
            next_step="begin a new run with --until decided",
        )
    events = directory.events()
    stopped = stopped_volumes(events)
    names = [volume.name for volume in run.volumes if not volume.variant_of and volume.name not in stopped]
    needed_s = block_s(events, cells=len(names), parallel=int(run.target_options.get("parallel", 1)))
    if budget_s is not None and needed_s is not None and needed_s > budget_s:
        raise UsageError(
            "the budget is below one block of cells",
            where="--budget",
            evidence=f"a budget of {duration(budget_s)}, and a block of {counted(len(names), 'cell')} takes about"
            f" {duration(needed_s)}",
            next_step=f"give at least --budget {math.ceil(needed_s)}s",
        )
    return extended(run, repeats=max(CELLS_MAX, run.suite.repeats), stopped=stopped)
