"""The pods and jobs of a run as the cluster has them now: one list and one stream of changes for all its lanes.

Each lane of a run waits for its own pod. A watch of its own in each lane would ask the API server about once a
second for every lane; here one thread lists the run's pods, follows one stream of their changes, and wakes the
lanes. The stream ends every half minute and is opened again where it ended, so a connection that is dead without a
word is noticed. Where the API server no longer has the changes since then (410 Gone), the pods are listed again,
and those that are missing count as deleted.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from kubernetes.client.exceptions import ApiException

from volbench.errors import StepFailed, VolbenchError
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.names import LABEL_CELL, LABEL_RUN
from volbench.machine.placement.kubernetes.cell_objects import LABEL_ATTEMPT

_log = logging.getLogger(__name__)
STREAM_S = 30
"""How long one stream lasts."""
READ_TIMEOUT_S = STREAM_S + 15
"""A connection without a byte for so long is dead: the server ends each stream before."""
REOPEN_S = 0.5
"""The pause before a stream is opened again, so that a server that ends it at once is not asked in a loop."""
JOBS_S = 2.0
"""How old the list of the run's jobs may be."""
Object = dict[str, Any]
PodKey = tuple[str, str]
"""Cell id and attempt, as in the pod's labels."""


@dataclass(frozen=True, kw_only=True)
class PodState:
    """The pod of an attempt; `revision` grows with each change. A deleted pod is as it was last."""

    pod: Object | None = None
    deleted: Object | None = None
    revision: int = 0


_NONE = PodState()


class RunWatch:
    """The pods of one run, followed by one thread from the first question on, and its jobs."""

    def __init__(self, cluster: Cluster, run_id: str) -> None:
        self._cluster = cluster
        self._selector = f"{LABEL_RUN}={run_id}"
        self._states: dict[PodKey, PodState] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._listed = False
        self._error: VolbenchError | None = None
        self._closed = threading.Event()
        self._jobs: dict[str, Object] = {}
        self._jobs_at_s = -JOBS_S
        self._jobs_lock = threading.Lock()

    def wait(self, key: PodKey, revision: int, timeout_s: float) -> PodState:
        """Return the state of an attempt's pod: at once if it is a new one, else after a change or the timeout.

        Args:
            revision: of the state that the caller knows; 0: none.

        Raises what ended the watch: MissingPrerequisite for an API server that stays away, StepFailed.
        """
        with self._changed:
            self._start()
            self._changed.wait_for(lambda: self._listed or self._error is not None)  # with_retries has a limit
            self._changed.wait_for(
                lambda: self._error is not None or self._states.get(key, _NONE).revision != revision, timeout_s
            )
            if self._error is not None:
                raise self._error
            return self._states.get(key, _NONE)

    def job(self, name: str) -> Object:
        """Return a job of the run, as it was at most JOBS_S ago; one list serves all lanes. Raises NotFound."""
        with self._jobs_lock:
            if time.monotonic() - self._jobs_at_s >= JOBS_S:
                answer = self._cluster.ask(
                    "GET", self._cluster.jobs(), doing="looking at the run's jobs", labelSelector=self._selector
                )
                self._jobs = {job["metadata"]["name"]: job for job in answer["items"]}
                self._jobs_at_s = time.monotonic()
            job = self._jobs.get(name)
        # A job may be newer than the list.
        return job or self._cluster.ask("GET", self._cluster.jobs(name), doing=f"looking for job {name}")

    def close(self) -> None:
        """Follow no longer; the thread ends with its stream."""
        self._closed.set()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow_pods, name="pods-of-run", daemon=True)
            self._thread.start()

    def _follow_pods(self) -> None:
        """Follow until the watch is closed or cannot go on; whatever ends it is raised in the lanes."""
        try:
            self._list_and_follow()
        except VolbenchError as error:
            self._fail(error)
        except Exception as error:
            self._fail(StepFailed("the watch of the run's pods failed", where=self._selector, evidence=repr(error)))
            raise

    def _list_and_follow(self) -> None:
        version = ""
        while not self._closed.is_set():
            try:
                version = self._follow(version or self._list())
            except StepFailed as error:
                if not _is_gone(error):
                    raise
                version = ""
            self._closed.wait(REOPEN_S)

    def _fail(self, error: VolbenchError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _list(self) -> str:
        """Replace all states by what the API server has now, and return the version of that."""
        answer = self._cluster.ask("GET", "pods", doing="listing the run's pods", labelSelector=self._selector)
        pods = {_key(pod): pod for pod in answer["items"]}
        with self._changed:
            for key, state in list(self._states.items()):
                if state.pod is not None and key not in pods:
                    self._set(key, None, state.pod)
            for key, pod in pods.items():
                if pod["metadata"].get("resourceVersion") != _version(self._states.get(key, _NONE).pod):
                    self._set(key, pod, None)
            self._listed = True
            self._changed.notify_all()
        return str(answer["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> str:
        """Apply the changes of one stream, and return the last version; empty: list again."""
        for event in self._events(version):
            changed = event.get("object", {})
            if event.get("type") == "ERROR":
                _log.info("the watch of the run's pods ended: %s", changed.get("message"))
                return ""
            version = changed["metadata"]["resourceVersion"]
            if event["type"] == "BOOKMARK":
                continue
            with self._changed:
                is_deleted = event["type"] == "DELETED"
                self._set(_key(changed), None if is_deleted else changed, changed if is_deleted else None)
                self._changed.notify_all()
        return version

    def _events(self, version: str) -> Iterator[Object]:
        """Yield the events of one stream, a line of JSON each."""
        line_begin = ""
        for text in self._cluster.stream_text(
            "pods",
            doing="watching the run's pods",
            read_timeout_s=READ_TIMEOUT_S,
            labelSelector=self._selector,
            watch="true",
            resourceVersion=version,
            timeoutSeconds=STREAM_S,
            allowWatchBookmarks="true",
        ):
            *lines, line_begin = (line_begin + text).split("\n")
            for line in filter(None, lines):
                yield json.loads(line)
            if self._closed.is_set():
                return

    def _set(self, key: PodKey, pod: Object | None, deleted: Object | None) -> None:
        if pod is not None:
            pod["metadata"].pop("managedFields", None)  # half of a pod's size, and nobody reads them
        revision = self._states.get(key, _NONE).revision + 1
        self._states[key] = PodState(pod=pod, deleted=deleted, revision=revision)


def _key(pod: Object) -> PodKey:
    labels = pod["metadata"].get("labels", {})
    return labels.get(LABEL_CELL, ""), labels.get(LABEL_ATTEMPT, "")


def _version(pod: Object | None) -> str | None:
    return None if pod is None else pod["metadata"].get("resourceVersion", "")


def _is_gone(error: StepFailed) -> bool:
    """Return whether the API server no longer has the changes since the version asked for."""
    cause = error.__cause__
    return isinstance(cause, ApiException) and cause.status == HTTPStatus.GONE
