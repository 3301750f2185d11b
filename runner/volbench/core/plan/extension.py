"""More blocks for a run that ended without a verdict: the cells that a longer plan would have had."""

from __future__ import annotations

from collections.abc import Collection

from volbench.core.plan.order import interleave
from volbench.core.records.run import RunRecord
from volbench.errors import UsageError


def check_extendable(run: RunRecord) -> None:
    """Raise UsageError for a run with a sweep or with a fixed number of cells."""
    if run.suite.comparison.until != "decided":
        raise UsageError(
            "the run has a fixed number of cells: more after a look would find differences that are not there",
            where=run.run_id,
            next_step="begin a new run with --until decided",
        )
    if run.suite.sweep is not None:
        raise UsageError("a run with a sweep gets no further cells", where=run.run_id, next_step="begin a new run")


def extended(run: RunRecord, *, repeats: int, stopped: Collection[str] = ()) -> RunRecord:
    """Return the run with so many repeats: the planned cells, and those of further blocks after them.

    A block's order and seeds follow from the run's seed and its number, so the cells are those that a longer plan
    would have had. The run passed `check_extendable`.

    Args:
        repeats: cells of each volume, with those so far.
        stopped: volumes that get none.
    """
    suite = run.suite
    names = [volume.name for volume in run.volumes if not volume.variant_of]
    planned = interleave(names, repeats=repeats, seed=suite.seed)
    added = [cell for cell in planned if cell.block >= suite.repeats and cell.volume not in stopped]
    longer = suite.model_copy(update={"repeats": repeats})
    return run.model_copy(update={"suite": longer, "cells": (*run.cells, *added)})
