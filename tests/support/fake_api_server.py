"""The API server of a cluster over HTTP, as far as a run asks it: objects, lists, watches, logs.

It has no scheduler and no kubelet; a test sets the pods, in `on_create` of their jobs too. Resource versions,
bookmarks, `410 Gone` and the end of a watch after `timeoutSeconds` are as the Kubernetes documentation describes
them ("API Concepts").
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
LISTS = ("pods", "jobs", "configmaps", "persistentvolumeclaims", "events")


class FakeApiServer:
    """Objects by path. `requests` counts by kind: `list pods`, `watch pods`, `get pods`, `log`, ..."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.requests: Counter[str] = Counter()
        self.oldest = 0
        """Versions before this one are gone."""
        self.gone_in_stream = False
        """Whether `410 Gone` is an event of the watch rather than the status of the answer; servers do both."""
        self.events: list[tuple[str, str, Object]] = []
        self.on_create: Callable[[str, Object], None] = lambda _path, _made: None
        """Called with each object that a client has created."""
        self._changed = threading.Condition(threading.RLock())
        self._cut = 0

    def put(self, path: str, made: Object) -> None:
        """Create or replace an object."""
        with self._changed:
            kind = "MODIFIED" if path in self.objects else "ADDED"
            self.objects[path] = made
            self._record(kind, path, made)

    def remove(self, path: str) -> None:
        """Delete an object."""
        with self._changed:
            self._record("DELETED", path, self.objects.pop(path))

    def create(self, path: str, body: Object) -> Object | None:
        """Create an object below a path; None if there is one of that name."""
        location = f"{path}/{body['metadata']['name']}"
        with self._changed:
            if location in self.objects:
                return None
            moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            metadata = {**body["metadata"], "uid": f"uid-{len(self.events)}", "creationTimestamp": moment}
            made = {"spec": {}, "status": {}, **body, "metadata": metadata}
            self.put(location, made)
        self.on_create(location, made)
        return made

    def expire(self) -> None:
        """Forget all changes, and end the watches: a watch from an old version is answered with 410 Gone."""
        with self._changed:
            self.oldest = len(self.events) + 1
        self.cut()

    def cut(self) -> None:
        """End all watches in the middle of a line."""
        with self._changed:
            self._cut += 1
            self._changed.notify_all()

    def _record(self, kind: str, path: str, made: Object) -> None:
        made["metadata"]["resourceVersion"] = str(len(self.events) + 1)
        self.events.append((kind, path, json.loads(json.dumps(made))))
        self._changed.notify_all()

    def listed(self, path: str, selector: str) -> Object:
        """Return the objects below a path with these labels."""
        with self._changed:
            items = [
                item
                for location, item in self.objects.items()
                if location.startswith(f"{path}/") and is_selected(item, selector)
            ]
            return {"metadata": {"resourceVersion": str(len(self.events))}, "items": items}

    def watched(
        self, path: str, selector: str, version: int, timeout_s: float, *, bookmarks: bool
    ) -> Iterator[str]:
        """Yield a watch's lines."""
        until_s, cut = time.monotonic() + timeout_s, self._cut
        while (left_s := until_s - time.monotonic()) > 0:
            with self._changed:
                self._changed.wait_for(lambda at=version: len(self.events) > at or self._cut != cut, left_s)  # type: ignore[misc]
                if self._cut != cut:
                    yield '{"type": "MODIF'
                    return
                news, version = self.events[version:], len(self.events)
            for kind, location, made in news:
                if location.startswith(f"{path}/") and is_selected(made, selector):
                    yield json.dumps({"type": kind, "object": made}) + "\n"
        if bookmarks:
            bookmark = {"kind": "Pod", "metadata": {"resourceVersion": str(version)}}
            yield json.dumps({"type": "BOOKMARK", "object": bookmark}) + "\n"


def is_selected(made: Object, selector: str) -> bool:
    """Whether an object has the labels of `key=value,key!=value,key`."""
    labels = made["metadata"].get("labels", {})
    terms = [field.partition("=") for field in selector.split(",") if field]
    return all(
        labels.get(key[:-1]) != value
        if key.endswith("!")
        else key in labels and (not equal or labels[key] == value)
        for key, equal, value in terms
    )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: FakeApiServer

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        is_list = url.path.rpartition("/")[2] in LISTS
        resource = "log" if url.path.endswith("/log") else url.path.split("/")[-1 if is_list else -2]
        verb = "watch" if query.get("watch") else "list" if is_list else "get"
        self.state.requests[resource if resource == "log" else f"{verb} {resource}"] += 1
        if verb == "watch":
            self._watch(url.path, query)
        elif verb == "list":
            self._answer(self.state.listed(url.path, query.get("labelSelector", "")))
        elif resource == "log":
            self._send(b'{"phase": "measure"}\n', "text/plain")
        elif url.path in self.state.objects:
            self._answer(self.state.objects[url.path])
        else:
            self._answer({"kind": "Status", "code": 404, "message": "not found"}, 404)

    def do_POST(self) -> None:
        body = self._body()
        resource = self.path.rpartition("/")[2]
        self.state.requests[f"create {resource}"] += 1
        if resource == "selfsubjectaccessreviews":
            self._answer({"status": {"allowed": True}}, 201)
            return
        made = self.state.create(urlsplit(self.path).path, body)
        self._answer(made or {"kind": "Status", "code": 409, "message": "exists"}, 201 if made else 409)

    def do_PATCH(self) -> None:
        change = self._body()
        self.state.requests[f"patch {self.path.split('/')[-2]}"] += 1
        result = self.state.objects.get(self.path)
        if result is not None:
            result["spec"].update(change["spec"])
        self._answer(result or {"kind": "Status", "code": 404, "message": "not found"}, 200 if result else 404)

    def do_DELETE(self) -> None:
        self._body()
        path = urlsplit(self.path).path
        self.state.requests[f"delete {path.split('/')[-2]}"] += 1
        result = self.state.objects.get(path)
        if result is not None:
            self.state.remove(path)
        self._answer(result or {"kind": "Status", "code": 404, "message": "not found"}, 200 if result else 404)

    def _body(self) -> Object:
        made: Object = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        return made

    def _watch(self, path: str, query: dict[str, str]) -> None:
        version = int(query["resourceVersion"])
        gone = {"kind": "Status", "code": 410, "message": "too old resource version"}
        if version < self.state.oldest and not self.state.gone_in_stream:
            self._answer(gone, 410)
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        selector = query.get("labelSelector", "")
        bookmarks, timeout_s = "allowWatchBookmarks" in query, float(query["timeoutSeconds"])
        lines = self.state.watched(path, selector, version, timeout_s, bookmarks=bookmarks)
        if version < self.state.oldest:
            lines = iter([json.dumps({"type": "ERROR", "object": gone}) + "\n"])
        for line in lines:
            self.wfile.write(f"{len(line):x}\r\n{line}\r\n".encode())
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _answer(self, made: Object, status: int = 200) -> None:
        self._send(json.dumps(made).encode(), "application/json", status)

    def _send(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is no fault of the server."""


@contextmanager
def serving(state: FakeApiServer, kubeconfig: Path) -> Iterator[str]:
    """Serve on loopback; `kubeconfig` is written and names the server."""
    handler = type("Handler", (_Handler,), {"state": state})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "fake",
                "clusters": [{"name": "fake", "cluster": {"server": address}}],
                "users": [{"name": "fake", "user": {}}],
                "contexts": [
                    {"name": "fake", "context": {"cluster": "fake", "user": "fake", "namespace": NAMESPACE}}
                ],
            }
        )
    )
    try:
        yield address
    finally:
        state.cut()
        server.shutdown()
        server.server_close()
        thread.join()
