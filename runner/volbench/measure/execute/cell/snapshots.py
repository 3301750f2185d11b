"""What the orchestrator does with the cell's volume, snapshots and changes of its claim, on an agent's request.

It is asked for in progress.json, and answered by a file.
"""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

from pydantic import ValidationError

from volbench.core.records.failures import error_of
from volbench.core.records.snapshots import ClaimRequest, SnapshotAnswer, SnapshotRequest, answer_file
from volbench.core.records.steps.modify import ModifyStep
from volbench.core.records.steps.snapshot import SnapshotStep
from volbench.errors import StepFailed
from volbench.measure.execute.cell.progress import ProgressFile
from volbench.measure.workload.interface import ChangedClaim, TakenSnapshot
from volbench.results.store.files import read_file

ANSWER_BYTES_MAX = 1 << 20
CLAIM_LATE_S = 60.0
"""Beyond the time that a claim's change is waited for."""
_POLL_S = 0.1


class SnapshotRequests:
    """The requests of one cell's attempt, one at a time.

    Args:
        directory: into which the orchestrator writes its answers.
    """

    def __init__(self, progress: ProgressFile, directory: Path) -> None:
        self._progress = progress
        self._directory = directory
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def take(self, step: SnapshotStep, cancelled: threading.Event) -> TakenSnapshot:
        """Return a snapshot's times. Raises what the orchestrator met; StepFailed if it gives no answer."""
        with self._lock:
            request = SnapshotRequest(
                number=next(self._numbers),
                step=step.name or step.kind,
                restore=step.restore,
                snapshot_class=step.snapshot_class,
                storage_class=step.storage_class,
                timeout_s=step.timeout_s,
            )
            with self._progress.requesting(request):
                answer = self._await_answer(request, "snapshot", step.answer_s_max, cancelled)
        if answer.times is None:
            raise StepFailed("the orchestrator's answer has no times", where=f"step {step.name}")
        return TakenSnapshot(times=answer.times, work_s=answer.work_s, ended_ago_s=answer.ended_ago_s)

    def modify(self, step: ModifyStep, cancelled: threading.Event) -> ChangedClaim:
        """Return how the claim changed. Raises as `take`."""
        with self._lock:
            request = ClaimRequest(number=next(self._numbers), change=step.name or step.kind)
            with self._progress.requesting(request):
                answer = self._await_answer(
                    request, "change of the claim", step.wait_s_max + CLAIM_LATE_S, cancelled
                )
        if answer.changed is None:
            raise StepFailed("the orchestrator's answer has no times", where=f"step {step.name}")
        return ChangedClaim(times=answer.changed, work_s=answer.work_s, ended_ago_s=answer.ended_ago_s)

    def _await_answer(
        self, request: SnapshotRequest | ClaimRequest, noun: str, limit_s: float, cancelled: threading.Event
    ) -> SnapshotAnswer:
        """Return the answer. Raise the failure that it has."""
        path = self._directory / answer_file(request.number)
        until_s = time.monotonic() + limit_s
        where = f"step {request.step if isinstance(request, SnapshotRequest) else request.change}"
        while not path.exists():
            if cancelled.wait(_POLL_S):
                raise StepFailed(f"the {noun} was cancelled", where=where)
            if time.monotonic() > until_s:
                raise StepFailed(
                    f"volbench outside the pod gave no answer about the {noun}",
                    where=where,
                    evidence=f"no {path} after {limit_s:.0f} s",
                    next_step="keep `volbench run` connected, or run it in the cluster with `volbench k8s submit`",
                )
        try:
            answer = SnapshotAnswer.model_validate_json(read_file(path, bytes_max=ANSWER_BYTES_MAX))
        except (OSError, ValidationError) as error:
            message = f"the answer about the {noun} is damaged"
            raise StepFailed(message, where=where, evidence=str(error)) from error
        if answer.failure is not None:
            raise error_of(answer.failure)
        return answer
