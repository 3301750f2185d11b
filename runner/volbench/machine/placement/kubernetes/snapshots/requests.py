"""What a cell's agent asks for, snapshots and the change of its claim: the orchestrator has the rights to do it.

It works in a thread. A claim changes as the suite says, whatever the pod asks for.
"""

from __future__ import annotations

import logging
import shlex
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from volbench.core.records.failures import failure_of
from volbench.core.records.snapshots import (
    ClaimRequest,
    SnapshotAnswer,
    SnapshotRequest,
    SnapshotTimes,
    answer_file,
)
from volbench.core.records.steps.modify import ModifyStep
from volbench.errors import StepFailed, VolbenchError
from volbench.machine.cluster.client import Cluster
from volbench.machine.placement.kubernetes.claim_changes import change_claim
from volbench.machine.placement.kubernetes.collect import run_in_pod
from volbench.machine.placement.kubernetes.manifests import CONTROL
from volbench.machine.placement.kubernetes.snapshots.manifests import SnapshotPlan
from volbench.machine.placement.kubernetes.snapshots.measure import measure_snapshot, remove_snapshot

_log = logging.getLogger(__name__)
CLEAN_UP_S = 120.0
"""How long to wait for the removal of a snapshot that is given up; its owner in the cluster removes it later."""


@dataclass
class _Work:
    """One request, its thread, and its answer once there is one."""

    request: SnapshotRequest | ClaimRequest
    pod: str
    node: str
    cancelled: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    answer: SnapshotAnswer | None = None
    ended_s: float = 0.0


class RequestedSnapshots:
    """Takes the snapshots of one attempt, one at a time; the agent withdraws a request that it no longer waits for.

    Args:
        plan: of the attempt's claim; its `request` is the beginning of the names of all snapshots.
        references: returns the `ownerReferences` of the run's objects.
        requests_max: how many the attempt may have made.
        changes: the steps that change the claim, by name; an attempt with one takes no snapshots.
    """

    def __init__(
        self,
        cluster: Cluster,
        plan: SnapshotPlan,
        references: Callable[[], list[dict[str, str]]],
        *,
        requests_max: int,
        changes: Mapping[str, ModifyStep] | None = None,
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._references = references
        self._requests_max = requests_max
        self._changes = changes or {}
        self._work: _Work | None = None

    def follow(self, request: Any, pod: str, node: str = "") -> None:
        """Begin what the agent asks for in its progress, None for nothing. The pod is not trusted.

        An answer that did not reach the pod is written again while the agent still asks.
        """
        work = self._work
        if request is None:
            if work is not None:
                work.cancelled.set()
            return
        if work is not None and work.thread is not None and work.thread.is_alive():
            return
        number = request.get("number") if isinstance(request, dict) else None
        if not isinstance(number, int) or not 1 <= number <= self._requests_max:
            return
        if work is None or number != work.request.number:
            work = self._new_work(request, number, pod, node)
        self._work = work
        work.thread = threading.Thread(target=self._answer, args=(work,), name="snapshot", daemon=True)
        work.thread.start()

    def end(self) -> None:
        """Give up what is under way, and remove what this or an earlier orchestrator made for the attempt."""
        work = self._work
        if work is not None:
            work.cancelled.set()
            if work.thread is not None:
                work.thread.join(CLEAN_UP_S)
            return
        if self._changes:
            return
        for number in range(1, self._requests_max + 1):
            remove_snapshot(self._cluster, self._plan_of(number))

    def _new_work(self, request: object, number: int, pod: str, node: str) -> _Work:
        try:
            kind = ClaimRequest if self._changes else SnapshotRequest
            return _Work(request=kind.model_validate(request), pod=pod, node=node)
        except ValidationError as error:
            message = f"the agent asks for {self._noun} in a form that this volbench does not know"
            failure = failure_of(StepFailed(message, where=f"pod {pod}", evidence=str(error)))
            snapshot_request = SnapshotRequest(number=number, step="", restore=False, timeout_s=1.0)
            answer = SnapshotAnswer(number=number, failure=failure)
            return _Work(request=snapshot_request, pod=pod, node=node, answer=answer, ended_s=time.monotonic())

    @property
    def _noun(self) -> str:
        return "a change of its claim" if self._changes else "a snapshot"

    def _answer(self, work: _Work) -> None:
        """Take the snapshot, unless that is done, and write the answer into the pod."""
        if work.answer is None:
            work.answer = self._take_snapshot(work)
        if not work.cancelled.is_set():
            self._write(work)

    def _take_snapshot(self, work: _Work) -> SnapshotAnswer:
        number, begun_s = work.request.number, time.monotonic()

        def ended() -> None:
            work.ended_s = time.monotonic()

        ended()
        request = work.request
        try:
            if isinstance(request, ClaimRequest):
                return self._changed(work, request, begun_s)
            times = self._take(work, request, ended)
        except VolbenchError as error:
            return SnapshotAnswer(number=number, failure=failure_of(error))
        except Exception as error:  # noqa: BLE001 - the agent waits for an answer, whatever it is
            step = request.change if isinstance(request, ClaimRequest) else request.step
            _log.exception("%s of %s", self._noun, step)
            message, where = f"{self._noun} failed", f"step {step}"
            unread = StepFailed(message, where=where, evidence=repr(error), cause="snapshot_failed")
            return SnapshotAnswer(number=number, failure=failure_of(unread))
        return SnapshotAnswer(number=number, times=times, work_s=work.ended_s - begun_s)

    def _changed(self, work: _Work, request: ClaimRequest, begun_s: float) -> SnapshotAnswer:
        """Change the claim as the suite's step of that name says. Raise what `change_claim` does."""
        step = self._changes.get(request.change)
        change = None if step is None else step.claim_change
        if step is None or change is None:
            raise StepFailed("the suite has no such change of a claim", where=f"step {request.change}")
        changed = change_claim(
            self._cluster, self._plan.claim, change, timeout_s=step.wait_s_max, cancelled=work.cancelled
        )
        work.ended_s = time.monotonic()
        return SnapshotAnswer(number=request.number, changed=changed, work_s=work.ended_s - begun_s)

    def _take(self, work: _Work, request: SnapshotRequest, ended: Callable[[], object]) -> SnapshotTimes:
        plan = self._plan_of(request.number)
        plan = replace(
            plan,
            snapshot_class=request.snapshot_class,
            storage_class=request.storage_class,
            near_cell=bool(work.node),
        )
        if remove_snapshot(self._cluster, plan):
            raise StepFailed(
                "the snapshot's time is unknown: the volbench that asked for it ended",
                where=f"step {request.step}",
                evidence=f"VolumeSnapshot {plan.name} existed; it is removed",
            )
        return measure_snapshot(
            self._cluster,
            plan,
            self._references,
            timeout_s=request.timeout_s,
            restore=request.restore,
            ended=ended,
            cancelled=work.cancelled,
        )

    def _plan_of(self, number: int) -> SnapshotPlan:
        return replace(self._plan, request=f"{self._plan.request}-s{number}")

    def _write(self, work: _Work) -> None:
        assert work.answer is not None
        answer = work.answer.model_copy(update={"ended_ago_s": time.monotonic() - work.ended_s})
        path = f"{CONTROL}/{answer_file(answer.number)}"
        script = f"printf %s {shlex.quote(answer.model_dump_json())} >{path}.partial && mv {path}.partial {path}"
        try:
            run_in_pod(self._cluster, work.pod, ["sh", "-c", script], doing=f"answering the agent of {work.pod}")
        except VolbenchError as error:  # the pod is gone, which its placement reports, or it is tried again
            _log.warning("the answer about a snapshot did not reach pod %s: %s", work.pod, error)
