"""What a cell's agent asks its orchestrator to do, and the answer: an agent has no rights in a cluster."""

from __future__ import annotations

from pydantic import Field

from volbench.core.records.base import Record
from volbench.core.records.cell import Failure
from volbench.core.records.steps.snapshot import TIMEOUT_S_MAX


class SnapshotRequest(Record):
    """A snapshot of the cell's volume, in progress.json until it is answered.

    Times are in seconds. `number` counts the requests of a cell's attempt.
    """

    number: int = Field(ge=1, le=1000)
    step: str
    restore: bool
    snapshot_class: str = Field(default="", max_length=253)
    storage_class: str = Field(default="", max_length=253)
    timeout_s: float = Field(gt=0, le=TIMEOUT_S_MAX)


class ClaimRequest(Record):
    """A change of the cell's claim, in progress.json until it is answered: the suite says which.

    Args:
        number: counts the requests of a cell's attempt.
        change: the name of the step.
    """

    number: int = Field(ge=1, le=1000)
    change: str


class ClaimTimes(Record):
    """How a claim changed.

    Args:
        states: what the claim's status had, and how many seconds after the request it was first seen.
        completed: the status has all that was asked for.
    """

    claim: str
    states: tuple[tuple[str, float], ...] = ()
    completed: bool = False


class RestoreTimes(Record):
    """What the restore of a snapshot took, in seconds.

    Args:
        restore_s: from the request of a claim with its data until a pod that mounts it runs, by the cluster's clock
            (whole seconds).
        bytes: of all files on the restored volume.
        first_read_s, second_read_s: of all of them, one after the other, without the page cache.
    """

    restore_s: float
    files: int
    bytes: int
    unreadable: int
    first_read_s: float
    second_read_s: float


class SnapshotTimes(Record):
    """What a backup by snapshot took, in seconds.

    Args:
        cut_s: from the request to the moment that the data is of, by the cluster's clock (whole seconds); None: the
            driver does not say.
        ready_s: from the request until the snapshot can be restored, by this machine's clock.
        restored: None: it was not restored.
    """

    claim: str
    snapshot: str
    cut_s: float | None
    ready_s: float
    restored: RestoreTimes | None = None


class SnapshotAnswer(Record):
    """The times of the request of that number, or why there are none.

    Args:
        work_s: from the request to the API until the snapshot was ready or, where it was restored, read, or the
            claim had changed; seconds.
        changed: of a request to change the claim.
        ended_ago_s: from the end of that until this answer was written.
    """

    number: int
    work_s: float = 0.0
    ended_ago_s: float = 0.0
    times: SnapshotTimes | None = None
    changed: ClaimTimes | None = None
    failure: Failure | None = None


def answer_file(number: int) -> str:
    """Return the name of the file with the answer to the request of that number."""
    return f"snapshot-{number}.json"
