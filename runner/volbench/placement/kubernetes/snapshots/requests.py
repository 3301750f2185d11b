"""The snapshots that a cell's agent asks for: the orchestrator, which has the rights, takes them in a thread."""

from __future__ import annotations

import logging
import shlex
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from volbench.errors import StepFailed, VolbenchError
from volbench.placement.kubernetes.collect import run_in_pod
from volbench.placement.kubernetes.manifests import CONTROL
from volbench.placement.kubernetes.snapshots.manifests import SnapshotPlan
from volbench.placement.kubernetes.snapshots.measure import measure_snapshot, remove_snapshot
from volbench.records.failures import failure_of
from volbench.records.snapshots import SnapshotAnswer, SnapshotRequest, SnapshotTimes, answer_file
from volbench.volume.cluster import Cluster

_log = logging.getLogger(__name__)
CLEAN_UP_S = 120.0


class RequestedSnapshots:
    """Takes the snapshots of one attempt, one at a time; the agent withdraws a request that it no longer waits for.

    Args:
        plan: of the attempt's claim; each request has a snapshot of its own name.
        references: returns the `ownerReferences` of the run's objects.
    """

    def __init__(
        self, cluster: Cluster, plan: SnapshotPlan, references: Callable[[], list[dict[str, str]]]
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._references = references
        self._number = 0
        self._thread: threading.Thread | None = None
        self._cancelled = threading.Event()

    def follow(self, request: Any, pod: str) -> None:
        """Begin what the agent asks for in its progress, None for nothing. The pod is not trusted."""
        if request is None:
            self._cancelled.set()
            return
        try:
            asked = SnapshotRequest.model_validate(request)
        except ValidationError as error:
            _log.warning("pod %s asks for a snapshot in a form that this volbench does not know: %s", pod, error)
            return
        if asked.number == self._number or (self._thread is not None and self._thread.is_alive()):
            return
        self._number, self._cancelled = asked.number, threading.Event()
        self._thread = threading.Thread(
            target=self._answer, args=(asked, pod, self._cancelled), name="snapshot", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Give up what is under way, and wait until its objects are removed."""
        self._cancelled.set()
        if self._thread is not None:
            self._thread.join(CLEAN_UP_S)

    def _answer(self, request: SnapshotRequest, pod: str, cancelled: threading.Event) -> None:
        """Take the snapshot, and write the answer into the pod; a pod that is gone needs none."""
        try:
            answer = SnapshotAnswer(number=request.number, times=self._take(request, cancelled))
        except VolbenchError as error:
            answer = SnapshotAnswer(number=request.number, failure=failure_of(error))
        except (KeyError, TypeError, ValueError) as error:  # an object of the API that is not as it is documented
            failure = StepFailed(
                "the cluster's answer cannot be read", where=f"step {request.step}", evidence=repr(error)
            )
            answer = SnapshotAnswer(number=request.number, failure=failure_of(failure))
        if not cancelled.is_set():
            self._write(answer, pod)

    def _take(self, request: SnapshotRequest, cancelled: threading.Event) -> SnapshotTimes:
        plan = replace(
            self._plan, request=f"{self._plan.request}-{request.number}", snapshot_class=request.snapshot_class,
            storage_class=request.storage_class,
        )  # fmt: skip
        if remove_snapshot(self._cluster, plan):
            raise StepFailed(
                "the snapshot's time is unknown: the volbench that asked for it ended",
                where=f"step {request.step}", evidence=f"VolumeSnapshot {plan.name} existed; it is removed",
            )  # fmt: skip
        return measure_snapshot(
            self._cluster, plan, self._references, timeout_s=request.timeout_s, restore=request.restore,
            cancelled=cancelled,
        )  # fmt: skip

    def _write(self, answer: SnapshotAnswer, pod: str) -> None:
        path = f"{CONTROL}/{answer_file(answer.number)}"
        script = f"printf %s {shlex.quote(answer.model_dump_json())} >{path}.partial && mv {path}.partial {path}"
        try:
            run_in_pod(self._cluster, pod, ["sh", "-c", script], doing=f"answering the agent of {pod}")
        except VolbenchError:  # the pod is gone, which its placement reports
            return
