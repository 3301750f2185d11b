"""A run that goes on until it is decided: what its cells decide after a block, and the cells that it then skips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from volbench.core.base.text import counted
from volbench.core.records.run import since_extended
from volbench.measure.execute.completion import pending_cells
from volbench.results.report.rows.verdict.pairs import Decision
from volbench.results.store.run_directory import RunDirectory

Decide = Callable[[RunDirectory], Decision]


def never_decided(directory: RunDirectory) -> Decision:  # noqa: ARG001 - as others of its kind
    """Return no decision: every planned cell is run."""
    return Decision()


class Decisions:
    """Skips the cells that a run does not need, and records why.

    Args:
        decide: returns what the cells so far decide.
        say: is called with a line for each decision.
    """

    def __init__(self, directory: RunDirectory, decide: Decide, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._decide = decide
        self._say = say

    @property
    def is_decided(self) -> bool:
        """Whether the run was decided, or stopped by its budget, since it began or got more cells."""
        return any(event.event == "run_decided" for event in since_extended(self._directory.events()))

    def after_block(self, block: int) -> bool:
        """Look at the cells after a block, numbered from 0; return whether the run needs no further ones.

        A volume whose pair with the first one is decided gets none; the first one goes on with the others.
        """
        decision = self._decide(self._directory)
        if decision.reason:
            self.skip_pending(decision.reason, f"decided after {block + 1} cells of each volume")
            return True
        pending = pending_cells(self._directory)
        for name in decision.volumes:
            unneeded = [cell.cell_id for cell in pending if cell.volume == name]
            if unneeded:
                self._directory.journal.append(
                    "volume_decided", volume=name, against=decision.baseline, skipped=unneeded
                )
                pair = f"{name} against {decision.baseline}"
                self._say(f"{pair}: decided after {block + 1} cells of each; {_are_skipped(unneeded)}")
        return False

    def skip_pending(self, reason: str, outcome: str, **details: Any) -> None:
        """Skip the cells that are left, and record why."""
        unneeded = [cell.cell_id for cell in pending_cells(self._directory)]
        self._directory.journal.append("run_decided", reason=reason, skipped=unneeded, **details)
        self._say(f"{outcome}: {reason}; {_are_skipped(unneeded)}")


def _are_skipped(cells: Sequence[str]) -> str:
    return counted(len(cells), "is skipped", "are skipped")
