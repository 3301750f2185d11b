"""One attempt's job and pod: watch it, collect its results, diagnose and remove it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from volbench.core.base.parse import parse_json
from volbench.errors import MissingPrerequisite, StepFailed, VolbenchError, VolumeUnavailable
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.names import LABEL_CELL, LABEL_RUN
from volbench.machine.cluster.refusals import NotFound
from volbench.machine.placement.interface import Job
from volbench.machine.placement.kubernetes.cell_objects import LABEL_ATTEMPT, cell_name
from volbench.machine.placement.kubernetes.collect import RESULT, collect, run_in_pod
from volbench.machine.placement.kubernetes.creation import creation_refusal, creation_trouble
from volbench.machine.placement.kubernetes.events import Object, events_of
from volbench.machine.placement.kubernetes.manifests import AGENT, AGENT_PID, KEEPER
from volbench.machine.placement.kubernetes.occupants import NodeWait, pods_on_claim
from volbench.machine.placement.kubernetes.options import KubernetesOptions
from volbench.machine.placement.kubernetes.pods import (
    Trouble,
    describe_pod,
    ended_trouble,
    has_ended,
    is_over,
    is_running,
    mount_trouble,
    waiting_trouble,
)
from volbench.machine.placement.kubernetes.queue_wait import QueueWait
from volbench.machine.placement.kubernetes.result import enrich_from_cluster, needs_cause
from volbench.machine.placement.kubernetes.run_watch import RunWatch
from volbench.machine.placement.kubernetes.scheduling import QUEUED, spot_interruption, suspension
from volbench.machine.volume.kinds.claim_facts import asked_for, identity, persistent_volume

WATCH_S = 1
PROGRESS_EVERY_S = 1.0
LOGS_PER_S_MAX = 2
"""Of all lanes together; with many lanes each shows its progress less often."""
GONE_S_MAX = 90.0
FINAL_TROUBLE_AFTER_S = 20.0
"""How long to wait for an image that cannot be pulled: a registry may fail for a moment."""
LOG_LINES = 15
SETTLE_S = 10.0


class KubernetesPlacement:
    """The pod of a cell's attempt, found by its labels."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        options: KubernetesOptions,
        on_node: Callable[[Object], None] | None = None,
        on_poll: Callable[[], None] = lambda: None,
        *,
        watch: RunWatch,
        on_request: Callable[[Any, str, str], None] = lambda _request, _pod, _node: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask the cluster nothing yet.

        Args:
            on_node: called with the pod once it has a node.
            on_poll: called whenever the pod is looked at.
            on_request: called with what the agent asks for, None for nothing, and the names of pod and node.
            on_end: called when the agent cannot ask any more, in the end at the latest.
        """
        self._on_request, self._on_end = on_request, on_end
        self._on_node = on_node
        self._on_poll = on_poll
        self._watch = watch
        self._progress_every_s = max(PROGRESS_EVERY_S, options.parallel / LOGS_PER_S_MAX)
        self._cluster = cluster
        self._job = job
        self._options = options
        self.name = cell_name(job.cell.run_id, job.cell.cell_id, job.cell.attempt)
        self._pod: Object | None = None
        self._revision = 0
        self._waiting_since_s: float | None = None
        self._is_queued = False
        self._progress_s = 0.0
        self._has_ended = False
        self._deleted_pod: Object | None = None
        self._first_node: Object | None = None
        self._node_was_read = False
        self._other_pods: dict[str, None] = {}
        self._node_wait = NodeWait(cluster, job.cell.run_id)
        self._queue_wait = QueueWait(self._events)

    def wait_for_end(self, seconds: float) -> None:
        """Wait so long: `running` reads what the watch reported."""
        time.sleep(seconds)

    def running(self) -> bool:
        """Return whether the agent runs, or will run; after that its results are here.

        Raises MissingPrerequisite or StepFailed for a pod that fails to start.
        """
        if self._has_ended:
            return False
        self._on_poll()
        pod = self._refresh()
        if pod is None:
            return self._without_pod()
        if pod["spec"].get("nodeName"):
            if self._on_node is not None:
                self._on_node(pod)
            if not self._node_was_read:  # a provider removes it with its instance
                self._first_node, self._node_was_read = self._node(pod), True
                self._note_other_pods()
        if has_ended(pod, AGENT) or is_over(pod):
            return not self._finish(pod)
        if "deletionTimestamp" in pod["metadata"] and not is_running(pod, AGENT):
            return True  # terminating: the watch reports its end
        if is_running(pod, AGENT):
            self._waiting_since_s = None
            self._show_progress(pod)
        else:
            self._check_waiting(waiting_trouble(pod))
        return True

    def interrupt(self) -> None:
        """Send SIGTERM to the agent; delete a pod that does not run yet."""
        pod = self._refresh()
        if pod is None or not is_running(pod, AGENT):
            self.kill()
            return
        with contextlib.suppress(StepFailed):  # the agent may have ended
            command = ["sh", "-c", f"kill -TERM $(cat {AGENT_PID})"]
            run_in_pod(self._cluster, pod["metadata"]["name"], command, doing=f"interrupting {self.name}")

    def kill(self) -> None:
        """Delete job and pod; containers are killed after a second."""
        self._on_end()
        doing = f"ending {self.name}"
        self._cluster.delete(self._cluster.jobs(self.name), doing=doing)
        for pod in self._pods():
            self._cluster.delete(f"pods/{pod['metadata']['name']}", doing=doing, grace_s=1)
        self._wait_gone()

    def evidence(self) -> str:
        """Return node, containers, events and the agent's last log lines."""
        try:
            self._pod = self._pod or next(iter(self._pods()), None)
            return describe_pod(self._pod or self._deleted_pod, self._events(), self._log(AGENT, LOG_LINES))
        except VolbenchError as error:
            return f"{error.what} ({error.evidence})"

    def termination_cause(self) -> VolbenchError | None:
        """Return why the pod ended, if not by the agent: eviction, a lost node, lack of memory."""
        pod = self._pod or self._deleted_pod
        trouble = ended_trouble(pod) if pod else None
        if pod is None or trouble is None:
            return None
        if trouble.cause == "pod_deleted" and (evidence := self._preemption(pod)):
            trouble = replace(trouble, cause="evicted", what="the queue preempted the cell", evidence=evidence)
        if trouble.cause in {"evicted", "node_lost"} and (notice := self._spot_interruption(pod, trouble.cause)):
            message = "the cloud provider took back the spot instance that the pod ran on"
            trouble = replace(
                trouble, cause="spot_interruption", what=message, evidence=f"{notice}; {trouble.evidence}"
            )
        return StepFailed(
            trouble.what,
            where=self._where,
            evidence=f"{trouble.evidence}\n{self.evidence()}",
            next_step=trouble.next_step,
            cause=trouble.cause,
        )

    def remove(self) -> None:
        """Delete job, pod and config map, and wait until the pod is gone."""
        if self._options.keep:
            self._on_end()
            return
        self.kill()
        self._cluster.delete(f"configmaps/{self.name}", doing=f"deleting the config map {self.name}")

    @property
    def _where(self) -> str:
        return f"cell {self._job.cell.cell_id}, attempt {self._job.cell.attempt}, job {self.name}"

    @property
    def _selector(self) -> str:
        cell = self._job.cell
        return f"{LABEL_RUN}={cell.run_id},{LABEL_CELL}={cell.cell_id},{LABEL_ATTEMPT}={cell.attempt}"

    def _pods(self) -> list[Object]:
        answer = self._cluster.ask(
            "GET", "pods", doing=f"looking for the pod of {self.name}", labelSelector=self._selector
        )
        pods: list[Object] = answer["items"]
        return pods

    def _refresh(self) -> Object | None:
        """Return the pod as the run's watch has it, after waiting a moment for a change."""
        cell = self._job.cell
        state = self._watch.wait((cell.cell_id, str(cell.attempt)), self._revision, WATCH_S)
        self._revision, self._pod, self._deleted_pod = state.revision, state.pod, state.deleted
        return self._pod

    def _without_pod(self) -> bool:
        """Handle a missing pod: before its creation, and after its deletion."""
        try:
            job = self._watch.job(self.name)
        except NotFound:
            self._has_ended = True
            return False
        if any(
            condition["type"] == "Failed" and condition["status"] == "True"
            for condition in job["status"].get("conditions", [])
        ):
            return self._without_job()
        if job["spec"].get("suspend"):
            return self._suspended(job)
        events = self._events()
        if refusal := creation_refusal(self._where, events):
            raise refusal
        self._check_waiting(creation_trouble(events))
        return True

    def _without_job(self) -> bool:
        """Handle a failed job: it has ended, unless it has a pod that the watch has not reported yet."""
        self._has_ended = self._deleted_pod is not None or not self._pods()
        return not self._has_ended

    def _suspended(self, job: Object) -> bool:
        """Handle a suspended job: it waits for its queue, or the queue has preempted its pod, which is the end."""
        if self._deleted_pod is not None:
            self._has_ended = True
            return False
        message = "the cell waits until its queue admits it"
        evidence = self._queue_wait.evidence(job)
        self._check_waiting(Trouble(cause=QUEUED, what=message, evidence=evidence, final=False))
        return True

    def _preemption(self, pod: Object) -> str:
        """Return evidence that the pod's job was suspended, which deletes the pod; empty if it was not."""
        try:
            job = self._cluster.ask("GET", self._cluster.jobs(self.name), doing=f"looking for job {self.name}")
        except NotFound:
            return ""
        return suspension(job, after=str(pod["metadata"].get("creationTimestamp", "")))

    def _check_waiting(self, trouble: Trouble | None) -> None:
        """Raise if a pod cannot start, or did not start in time."""
        now_s = time.monotonic()
        queued = trouble is not None and trouble.cause == QUEUED
        if self._waiting_since_s is None or queued != self._is_queued:
            self._waiting_since_s, self._is_queued = now_s, queued  # each wait has a limit of its own
        waited_s = now_s - self._waiting_since_s
        final = trouble is not None and trouble.final and (trouble.at_once or waited_s > FINAL_TROUBLE_AFTER_S)
        limit_s = self._options.queue_timeout_s if queued else self._options.start_timeout_s
        if not final and waited_s < limit_s:
            if queued and self._pod is not None:
                self._node_wait.show(self._job.out)
            elif queued:
                self._queue_wait.show(self._job.out)
            return
        events = self._events()
        claims = [event for event in events if event["involvedObject"]["kind"] == "PersistentVolumeClaim"]
        trouble = (
            (waiting_trouble(self._pod, claims, events) if self._pod else None) or trouble or mount_trouble(events)
        )
        failure = VolumeUnavailable if trouble and trouble.cause == "volume_pending" else MissingPrerequisite
        option = "queue_timeout" if queued else "start_timeout"
        occupants = self._node_wait.find() if queued and self._pod is not None else []
        texts = "".join(f"\n{occupant.text}" for occupant in occupants)
        steps = [occupant.next_step for occupant in occupants[:1]] or [
            (trouble and trouble.next_step) or "fix that"
        ]
        raise failure(
            trouble.what if trouble else "the pod does not start",
            where=self._where,
            evidence=f"after {waited_s:.0f} s: {trouble.evidence if trouble else ''}{texts}\n{self.evidence()}",
            next_step=f"{steps[0]}; then `volbench resume RUN` (--target-option {option}=... waits longer)",
            cause=trouble.cause if trouble else "pod_pending",
        )

    def _finish(self, pod: Object) -> bool:
        """Collect the agent's results, if the keeper still has them; return whether the attempt has ended.

        It has not where the pod went meanwhile: the watch will report why.
        """
        if is_running(pod, KEEPER) and not (self._job.out / RESULT).exists():

            def complete(directory: Path) -> None:
                trouble = self._await_termination_cause(pod) if needs_cause(directory / RESULT) else None
                enrich_from_cluster(
                    directory / RESULT, pod, trouble, self._events(), node=self._node(pod), volume=self._identity()
                )

            try:
                collect(self._cluster, pod["metadata"]["name"], self._job.out, complete=complete)
            except StepFailed:  # a command that runs in a pod that goes is killed
                if not self._is_going(pod["metadata"]["name"]):
                    raise
                return False
        self._has_ended = True
        return True

    def _is_going(self, name: str) -> bool:
        """Return whether the pod is gone, or on its way: its results can no longer be collected."""
        try:
            pod = self._cluster.ask("GET", f"pods/{name}", doing=f"looking for the pod of {self.name}")
        except NotFound:
            return True
        return "deletionTimestamp" in pod["metadata"] or not is_running(pod, KEEPER)

    def _node(self, pod: Object) -> Object | None:
        """Return the pod's node; None if this user may not read nodes."""
        node: Object | None = self._cluster.ask_if_allowed(
            f"/api/v1/nodes/{pod['spec'].get('nodeName', '')}", doing=f"reading the node of {self.name}"
        )
        return node

    def _spot_interruption(self, pod: Object, cause: str) -> str:
        """Return evidence that the provider took the pod's node; empty without any.

        A provider may give the next instance the same name, so a node is told by its uid.
        """
        node, first = self._node(pod), self._first_node
        same = node is not None and (first is None or node["metadata"].get("uid") == first["metadata"].get("uid"))
        return spot_interruption(node if same else first, is_removed=not same and cause == "node_lost")

    def _note_other_pods(self) -> None:
        """Note who else mounts a claim of the user."""
        volume = self._job.volume
        if volume is not None and volume.claim is not None and volume.spec.kind == "pvc":
            pods = self._cluster.ask("GET", "pods", doing=f"looking who mounts claim {volume.claim}")["items"]
            self._other_pods.update(dict.fromkeys(pods_on_claim(pods, volume.claim, self._job.cell.run_id)))

    def _identity(self) -> dict[str, object]:
        """Return which volume the cell was on, bound by the pod at the latest, and which other pods were there."""
        self._note_other_pods()
        if self._job.volume is None or self._job.volume.claim is None:
            return {}
        path = f"persistentvolumeclaims/{self._job.volume.claim}"
        claim = self._cluster.ask_if_allowed(path, doing=f"reading the claim of {self.name}")
        if not claim:
            return {"foreign_pods": (*self._other_pods,)}
        bound = persistent_volume(self._cluster, claim)
        requested = asked_for(self._cluster, claim, bound)
        return {**identity(claim, bound), **requested, "foreign_pods": (*self._other_pods,)}

    def _await_termination_cause(self, pod: Object) -> Trouble | None:
        """Return why the server ended, if the cluster knows; the pod's status is updated a moment later."""
        until_s = time.monotonic() + SETTLE_S
        while (trouble := ended_trouble(self._pod or pod)) is None and time.monotonic() < until_s:
            self._refresh()
        return trouble

    def _show_progress(self, pod: Object) -> None:
        """Write the agent's last progress report to the run's directory."""
        if time.monotonic() - self._progress_s < self._progress_every_s:
            return
        self._progress_s = time.monotonic()
        with contextlib.suppress(ValueError, StepFailed):
            last = self._log(KEEPER, 1, pod).strip()
            if last:
                progress = parse_json(last)
                (self._job.out / "progress.json").write_text(f"{last}\n")
                request = progress.get("request") if isinstance(progress, dict) else None
                self._on_request(request, pod["metadata"]["name"], pod["spec"].get("nodeName", ""))

    def _log(self, container: str, lines: int, pod: Object | None = None) -> str:
        pod = pod or self._pod
        if pod is None:
            return ""
        path = f"pods/{pod['metadata']['name']}/log"
        try:
            return self._cluster.text(
                path, doing=f"reading the log of {self.name}", container=container, tailLines=lines
            )
        except StepFailed:  # a container that has not started has no log
            return ""

    def _events(self) -> list[Object]:
        """Return events of the claim, the job, its Workload of Kueue and its pod, the oldest first."""
        claim = self._job.volume.claim if self._job.volume else None
        pod = self._pod["metadata"]["name"] if self._pod else ""
        return events_of(self._cluster, [name for name in (claim, self.name, pod) if name])

    def _wait_gone(self) -> None:
        until_s = time.monotonic() + GONE_S_MAX
        while pods := self._pods():
            if time.monotonic() > until_s:
                raise StepFailed(
                    "the pod does not end: its node is lost, or a volume hangs",
                    where=self._where,
                    evidence=describe_pod(pods[0], [], ""),
                    next_step="repair the node, then `volbench resume RUN`",
                    cause="node_lost",
                )
            time.sleep(0.2)
        self._has_ended = True
