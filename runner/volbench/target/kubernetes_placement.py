"""One attempt's job and pod: watched, collected from, asked why it failed, removed."""

from __future__ import annotations

import contextlib
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from volbench.errors import EnvironmentLacks, StepFailed, VolbenchError
from volbench.records.parse import parse_json
from volbench.target.interface import Job
from volbench.target.kubernetes_collect import RESULT, collect, run_in_pod
from volbench.target.kubernetes_manifests import AGENT, AGENT_PID, KEEPER, LABEL_ATTEMPT, cell_name
from volbench.target.kubernetes_options import KubernetesOptions
from volbench.target.kubernetes_pods import (
    Trouble,
    ended_trouble,
    has_ended,
    is_over,
    is_running,
    told,
    waiting_trouble,
)
from volbench.target.kubernetes_result import add_what_the_cluster_knows, wants_a_cause
from volbench.volume.claim import LABEL_CELL, LABEL_RUN
from volbench.volume.cluster import Cluster, NotFound, cluster_errors, quota_exceeded

WATCH_S = 1
PROGRESS_EVERY_S = 2.0
GONE_S_MAX = 90.0
FINAL_AFTER_S = 20.0
"""An image that cannot be pulled is tried for so long: a registry may stumble."""
LOG_LINES = 15
SETTLE_S = 10.0
Object = dict[str, Any]


class KubernetesPlacement:
    """The pod of a cell's attempt, found by its labels."""

    def __init__(self, cluster: Cluster, job: Job, options: KubernetesOptions) -> None:
        self._cluster = cluster
        self._job = job
        self._options = options
        self.name = cell_name(job.cell.run_id, job.cell.cell_id, job.cell.attempt)
        self._pod: Object | None = None
        self._version = ""
        self._waiting_since_s: float | None = None
        self._progress_s = 0.0
        self._over = False
        self._gone: Object | None = None

    def running(self) -> bool:
        """Whether the agent works, or will; what it left is here when this says no.

        Raises EnvironmentLacks or StepFailed for a pod that does not come up.
        """
        if self._over:
            return False
        pod = self._look()
        if pod is None:
            return self._without_pod()
        if has_ended(pod, AGENT) or is_over(pod):
            self._finish(pod)
            return False
        if "deletionTimestamp" in pod["metadata"] and not is_running(pod, AGENT):
            return True  # on its way out: the watch tells when it is gone
        if is_running(pod, AGENT):
            self._waiting_since_s = None
            self._show_progress(pod)
        else:
            self._check_waiting(waiting_trouble(pod))
        return True

    def interrupt(self) -> None:
        """SIGTERM to the agent; a pod that does not run yet is deleted."""
        pod = self._look()
        if pod is None or not is_running(pod, AGENT):
            self.kill()
            return
        with contextlib.suppress(StepFailed):  # it may just have ended
            words = ["sh", "-c", f"kill -TERM $(cat {AGENT_PID})"]
            run_in_pod(self._cluster, pod["metadata"]["name"], words, doing=f"interrupting {self.name}")

    def kill(self) -> None:
        """Delete job and pod; a container that does not end by itself is killed after a second."""
        doing = f"ending {self.name}"
        self._cluster.delete(self._cluster.jobs(self.name), doing=doing)
        for pod in self._pods():
            self._cluster.delete(f"pods/{pod['metadata']['name']}", doing=doing, grace_s=1)
        self._wait_gone()

    def evidence(self) -> str:
        """Node, containers, events and the agent's last log lines."""
        try:
            self._pod = self._pod or next(iter(self._pods()), None)
            return told(self._pod or self._gone, self._events(), self._log(AGENT, LOG_LINES))
        except VolbenchError as error:
            return f"{error.what} ({error.evidence})"

    def why_ended(self) -> VolbenchError | None:
        """Who ended the pod, when that was not the agent: eviction, a lost node, want of memory."""
        pod = self._pod or self._gone
        trouble = ended_trouble(pod) if pod else None
        if trouble is None:
            return None
        return StepFailed(
            trouble.what, where=self._where, evidence=f"{trouble.evidence}\n{self.evidence()}", cause=trouble.cause
        )

    def remove(self) -> None:
        """Delete job, pod and config map, and wait until the pod is gone."""
        if self._options.keep:
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
        answer = self._cluster.ask("GET", "pods", doing=f"looking for the pod of {self.name}",
                                   labelSelector=self._selector)  # fmt: skip
        self._version = answer["metadata"]["resourceVersion"]
        found: list[Object] = answer["items"]
        return found

    def _look(self) -> Object | None:
        """The pod as it is now; waits a moment for a change. A watch that is too old begins anew."""
        if not self._version:
            self._pod = next(iter(self._pods()), None)
            return self._pod
        return self._cluster.with_retries(self._follow, doing=f"watching the pod of {self.name}")  # type: ignore[no-any-return]

    def _follow(self) -> Object | None:
        core, follower = client.CoreV1Api(self._cluster.api), watch.Watch()
        try:
            with cluster_errors(f"watching the pod of {self.name}"):
                for event in follower.stream(
                    core.list_namespaced_pod, self._cluster.namespace, label_selector=self._selector,
                    resource_version=self._version, timeout_seconds=WATCH_S, _request_timeout=WATCH_S + 10,
                ):  # fmt: skip
                    seen = event["raw_object"]
                    self._pod, self._gone = (None, seen) if event["type"] == "DELETED" else (seen, None)
                    self._version = seen["metadata"]["resourceVersion"]
                    if self._pod is None or has_ended(self._pod, AGENT):
                        break
        except StepFailed as error:
            if not isinstance(error.__cause__, ApiException) or error.__cause__.status != HTTPStatus.GONE:
                raise
            self._pod = next(iter(self._pods()), None)
        return self._pod

    def _without_pod(self) -> bool:
        """Before the job has made its pod, and after the pod was taken away."""
        try:
            job = self._cluster.ask("GET", self._cluster.jobs(self.name), doing=f"looking for job {self.name}")
        except NotFound:
            self._over = True
            return False
        if any(one["type"] == "Failed" and one["status"] == "True" for one in job["status"].get("conditions", [])):
            self._over = True
            return False
        for event in self._events():
            said = str(event.get("message"))
            if event.get("reason") == "FailedCreate" and "exceeded quota" in said:
                raise quota_exceeded(self._where, said)
            if event.get("reason") == "FailedCreate" and "forbidden" in said:
                raise EnvironmentLacks("the cluster refuses the pod", where=self._where, evidence=said,
                                       cause="no_permission")  # fmt: skip
        self._check_waiting(None)
        return True

    def _check_waiting(self, trouble: Trouble | None) -> None:
        """Raise for a pod that will not come up, or has not in time."""
        now_s = time.monotonic()
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        waited_s = now_s - self._waiting_since_s
        final = trouble is not None and trouble.final and waited_s > FINAL_AFTER_S
        if not final and waited_s < self._options.start_timeout_s:
            return
        raise EnvironmentLacks(
            trouble.what if trouble else "the pod does not come up",
            where=self._where,
            evidence=f"after {waited_s:.0f} s: {trouble.evidence if trouble else ''}\n{self.evidence()}",
            next_step="mend that, then `volbench resume`; --target-option start_timeout=10min waits longer",
            cause=trouble.cause if trouble else "pod_pending",
        )

    def _finish(self, pod: Object) -> None:
        """Collect what the agent left, while somebody keeps it."""
        if is_running(pod, KEEPER) and not (self._job.out / RESULT).exists():

            def complete(directory: Path) -> None:
                trouble = self._who_ended(pod) if wants_a_cause(directory / RESULT) else None
                add_what_the_cluster_knows(directory / RESULT, pod, trouble, self._events())

            collect(self._cluster, pod["metadata"]["name"], self._job.out, complete=complete)
        self._over = True

    def _who_ended(self, pod: Object) -> Trouble | None:
        """Who ended the server, if the cluster knows; the pod's status comes a moment after the fact."""
        until_s = time.monotonic() + SETTLE_S
        while (trouble := ended_trouble(self._pod or pod)) is None and time.monotonic() < until_s:
            self._look()
        return trouble

    def _show_progress(self, pod: Object) -> None:
        """The agent's last report into our directory, for whoever watches the run."""
        if time.monotonic() - self._progress_s < PROGRESS_EVERY_S:
            return
        self._progress_s = time.monotonic()
        with contextlib.suppress(ValueError, StepFailed):
            last = self._log(KEEPER, 1, pod).strip()
            if last:
                parse_json(last)
                (self._job.out / "progress.json").write_text(f"{last}\n")

    def _log(self, container: str, lines: int, pod: Object | None = None) -> str:
        pod = pod or self._pod
        if pod is None:
            return ""
        path = f"pods/{pod['metadata']['name']}/log"
        try:
            return self._cluster.text(path, doing=f"reading the log of {self.name}", container=container,
                                      tailLines=lines)  # fmt: skip
        except StepFailed:  # a container that has not begun has no log
            return ""

    def _events(self) -> list[Object]:
        """Events of the claim, the job and its pod, the oldest first."""
        found = []
        claim = self._job.volume.claim if self._job.volume else None
        pod = self._pod["metadata"]["name"] if self._pod else None
        for name in filter(None, (claim, self.name, pod)):
            answer = self._cluster.ask("GET", "events", doing=f"reading the events of {name}",
                                       fieldSelector=f"involvedObject.name={name}")  # fmt: skip
            found += answer["items"]
        return sorted(found, key=lambda one: one.get("lastTimestamp") or one.get("eventTime") or "")

    def _wait_gone(self) -> None:
        until_s = time.monotonic() + GONE_S_MAX
        while pods := self._pods():
            if time.monotonic() > until_s:
                raise StepFailed(
                    "the pod does not end: its node is lost, or a volume hangs",
                    where=self._where,
                    evidence=told(pods[0], [], ""),
                    next_step="see to the node, then `volbench resume`",
                    cause="node_lost",
                )
            time.sleep(0.2)
        self._over = True
