"""The API server of a cluster as a dictionary, for tests of what is asked of it: no scheduler, no kubelet."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from kubernetes.client.exceptions import ApiException

from volbench.machine.cluster.client import Cluster, cluster_errors
from volbench.machine.cluster.marks import Marks
from volbench.machine.cluster.queues import QUEUE_NAME

Object = dict[str, Any]
NAMESPACE = "bench"
NAMESPACES = "/api/v1/namespaces"
NODES, VOLUMES, CLASSES = "/api/v1/nodes", "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/storageclasses"


class FakeCluster(Cluster):
    """Objects by path; `forbidden` are beginnings of paths that this user may not read."""

    def __init__(self) -> None:
        self.namespace = NAMESPACE
        self.marks = Marks()
        self.objects: dict[str, Object] = {}
        self.forbidden: tuple[str, ...] = ()
        self.absent: tuple[str, ...] = ()
        """Beginnings of paths that this cluster does not serve."""
        self.suspends_jobs = False
        """It suspends each Job at its creation, and admits one that is given a queue: Kueue that manages all."""
        self._uids = itertools.count(1)
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.changes: list[tuple[str, str, Object]] = []
        """Of objects, in order: ADDED or DELETED, path, object; its length is the server's resource version."""
        self._changed = threading.Condition()

    def put(self, path: str, **parts: Any) -> Object:
        """Create or replace an object; returns it."""
        name = path.rpartition("/")[2]
        metadata = {
            "name": name,
            "uid": f"uid-{next(self._uids)}",
            "creationTimestamp": self.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            **parts.pop("metadata", {}),
        }
        made: Object = {"metadata": metadata, "spec": {}, "status": {}, **parts}
        self.objects[self.object_path(path)] = made
        self._record("ADDED", self.object_path(path), made)
        return made

    def _record(self, kind: str, path: str, made: Object) -> None:
        with self._changed:
            self.changes.append((kind, path, made))
            made["metadata"]["resourceVersion"] = str(len(self.changes))
            self._changed.notify_all()

    def stream_text(self, path: str, **query: Any) -> Iterator[str]:
        """A watch: the changes since the version, as they come; ends after a second without any."""
        observed, prefix = int(query["resourceVersion"]), f"{self.object_path(path)}/"
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda count=observed: len(self.changes) > count, timeout=1):  # type: ignore[misc]
                    return
                kind, location, made = self.changes[observed]
            observed += 1
            if location.startswith(prefix) and _is_selected(made, query.get("labelSelector", "")):
                yield json.dumps({"type": kind, "object": made}) + "\n"

    def bind(self, claim: str, volume: str, **spec: Any) -> None:
        """Bind a claim to a new PersistentVolume."""
        self.put(f"{VOLUMES}/{volume}", spec=spec)
        self.objects[self.object_path(f"persistentvolumeclaims/{claim}")]["spec"]["volumeName"] = volume

    def close(self) -> None:
        """Nothing is open."""

    def with_retries(self, request: Callable[[], Any], *, doing: str) -> Any:
        """Ask once: this server never goes away."""
        with cluster_errors(doing):
            return request()

    def _request(self, method: str, path: str, body: Any, query: dict[str, Any]) -> Any:
        path = self.object_path(path)
        if path.startswith(self.forbidden) and self.forbidden:
            raise ApiException(status=403, reason="forbidden")
        if path.startswith(self.absent) and self.absent:
            _refuse(404)
        if method == "POST":
            return self._create(f"{path}/{body['metadata']['name']}", body)
        if method == "PATCH":
            return self._patch(path, body)
        if method == "DELETE":
            removed = self.objects.pop(path, None) or _refuse(404)
            self._record("DELETED", path, removed)
            return removed
        if path == f"{NAMESPACES}/{NAMESPACE}":
            return {"metadata": {"name": NAMESPACE}}
        if path in self.objects:
            return self.objects[path]
        return self._listed(path, query) if not path.startswith((NODES, VOLUMES, CLASSES)) else _refuse(404)

    def _raw(self, method: str, path: str, body: Any, query: dict[str, Any]) -> bytes:  # noqa: ARG002
        return b""  # logs

    def server_time(self, *, doing: str) -> datetime:  # noqa: ARG002
        """The server's clock, which the test sets."""
        return self.now

    def _patch(self, path: str, change: Object) -> Object:
        """A merge patch of `spec` and of labels."""
        result = self.objects.get(path) or _refuse(404)
        assert set(change) <= {"spec", "metadata"}
        result["spec"].update(change.get("spec", {}))
        labels = change.get("metadata", {}).get("labels", {})
        result["metadata"]["labels"] = {**result["metadata"].get("labels", {}), **labels}
        if self.suspends_jobs and QUEUE_NAME in labels:
            result["spec"]["suspend"] = False
            result["status"] = _started(result)
        return result

    def _create(self, path: str, body: Object) -> Object:
        if path in self.objects:
            _refuse(409)
        values = {key: value for key, value in body.items() if key != "metadata"}
        if self.suspends_jobs and "/jobs/" in path:
            values["spec"] = {**values["spec"], "suspend": True}
        else:
            values["status"] = _started(body)
        return self.put(path, metadata=body["metadata"], **values)

    def _listed(self, path: str, query: dict[str, Any]) -> Object:
        if path.rpartition("/")[2] not in {"pods", "jobs", "configmaps", "persistentvolumeclaims", "events"}:
            _refuse(404)
        prefix = f"{path}/" if path != "/api/v1/pods" else self.object_path("pods/")
        items = [
            item
            for location, item in self.objects.items()
            if location.startswith(prefix)
            and _is_selected(item, query.get("labelSelector", ""))
            and _is_about(item, query.get("fieldSelector", ""))
        ]
        return {"metadata": {"resourceVersion": str(len(self.changes))}, "items": items}


def _is_selected(made: Object, selector: str) -> bool:
    labels = made["metadata"].get("labels", {})
    terms = [field.partition("=") for field in selector.split(",") if field]
    return all(
        labels.get(key[:-1]) != value
        if key.endswith("!")
        else key in labels and (not equal or labels[key] == value)
        for key, equal, value in terms
    )


def _is_about(event: Object, selector: str) -> bool:
    """Return whether an event is about the object that `involvedObject.name=NAME` names."""
    name = selector.removeprefix("involvedObject.name=")
    return not selector or event.get("involvedObject", {}).get("name") == name


def _started(job: Object) -> Object:
    """Return the status of a Job: a pod that needs no scheduler runs at once."""
    pod = job.get("spec", {}).get("template", {}).get("spec", {})
    return {"active": 1} if pod.get("nodeName") else {}


def _refuse(status: int) -> Object:
    raise ApiException(status=status, reason={404: "not found", 409: "exists"}[status])
