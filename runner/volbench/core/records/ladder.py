"""A ladder of client threads that was climbed before a run, and the threads that the run's load has by it."""

from __future__ import annotations

from pydantic import Field

from volbench.core.records.base import FileName, Record


class LadderLevel(Record):
    """What one volume did with so many threads, for some seconds of one cell."""

    volume: str
    threads: int
    tps: float


class ThreadLadder(Record):
    """The levels of one step, and the threads that were chosen for it."""

    step: str
    threads: int = Field(description="Of the step in every cell of the run.")
    levels: tuple[LadderLevel, ...]
    run_id: FileName = Field(description="Of the run that climbed the ladder.")
