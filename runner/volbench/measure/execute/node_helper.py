"""The privileged helper of a node (k8s/node-helper): drops its caches and reads EBS log pages for pods.

Cells are restricted pods, which can do neither. A cell's pod has an empty directory of a certain name; the helper
looks for such directories below the kubelet's and listens on a socket in each. Only processes that can reach the
socket can send requests: no network, no token, no right in the cluster. A request is one of two fixed operations,
never a command.

The pod's directory is not trusted: the helper works on a descriptor of the directory, and opens, reads or changes
nothing in it but the socket, which is created again by name.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from volbench.core.base.parse import parse_json
from volbench.machine.volume.coldness import DROP_CACHES
from volbench.machine.volume.node_helper import DIRECTORY, SOCKET
from volbench.measure.sample.device.ebs_nvme import read_log_page

_SOCKET_DIRECTORIES = f"*/volumes/kubernetes.io~empty-dir/{DIRECTORY}"
LOOK_EVERY_S = 1.0
PODS_MAX = 64
CALLERS_MAX = 4
"""Of one pod at once."""
_REQUEST_BYTES_MAX = 4096
_REQUEST_S_MAX = 10.0
EBS_MODEL = "Amazon Elastic Block Store"
_DEVICE = re.compile(r"nvme\d{1,4}n\d{1,4}")
DROP_EVERY_S = 1.0
"""Caches of a node are not dropped more often: all its pods would read from their disks only."""
REQUESTS_PER_S = 20.0
REQUESTS_BURST = 40
"""Of one pod. A cell asks for a log page at each tick, at most ten times a second, and drops before cold steps."""
Operation = Callable[[Mapping[str, Any]], dict[str, Any]]


class RateLimit:
    """A token bucket: so many requests at once, then so many a second."""

    def __init__(self, per_s: float, burst: int, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._burst, self._now_s = per_s, burst, now_s
        self._tokens, self._at_s = float(burst), now_s()
        self._lock = threading.Lock()

    def admit(self) -> bool:
        """Return whether another request is within the limit."""
        with self._lock:
            now_s = self._now_s()
            self._tokens = min(self._burst, self._tokens + (now_s - self._at_s) * self._per_s)
            self._at_s = now_s
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
            return True


@dataclass(frozen=True, kw_only=True)
class Node:
    """The node's own files, as the helper's container sees them."""

    devices: Path = Path("/dev")
    blocks: Path = Path("/sys/block")
    drop_caches: Path = DROP_CACHES
    dropping: threading.Lock = field(default_factory=threading.Lock)
    drop_every_s: float = DROP_EVERY_S
    _pause: threading.Event = field(default_factory=threading.Event)

    def answer(self, line: bytes) -> dict[str, Any]:
        """Return the answer to a request; an invalid or failed request is answered with the reason."""
        operations: dict[str, Operation] = {"drop_caches": self._drop, "log_page": self._log_page}
        try:
            request = parse_json(line)
            return {"ok": True, **operations[request["do"]](request)}
        except (KeyError, TypeError):
            return {"ok": False, "error": f"known requests: {', '.join(operations)}"}
        except (OSError, ValueError) as error:
            return {"ok": False, "error": str(error)}

    def _drop(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        """Sync, then drop: dirty pages would stay. A request soon after another one has to wait."""
        with self.dropping:
            os.sync()
            self.drop_caches.write_text("3\n", encoding="ascii")
            self._pause.wait(self.drop_every_s)
        return {}

    def _log_page(self, request: Mapping[str, Any]) -> dict[str, Any]:
        device = str(request["device"])
        if not _DEVICE.fullmatch(device):
            raise ValueError(f"{device!r} is not an NVMe namespace")
        model = (self.blocks / device / "device" / "model").read_text(encoding="ascii").strip()
        if model != EBS_MODEL:
            raise ValueError(f"{device} is not an EBS volume but {model!r}")
        return {"page": base64.b64encode(read_log_page(self.devices / device)).decode()}


class _Handler(socketserver.StreamRequestHandler):
    """One request, one answer."""

    timeout = _REQUEST_S_MAX
    server: _Listener

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # the caller may have gone
            line = self.rfile.readline(_REQUEST_BYTES_MAX)
            self.wfile.write(json.dumps(self.server.node.answer(line)).encode() + b"\n")


class _Listener(socketserver.ThreadingUnixStreamServer):
    """The socket in one pod's directory."""

    daemon_threads = True

    def __init__(self, directory: Path, node: Node) -> None:
        """Raise OSError if the directory is gone, or if something else has the name of the socket."""
        self.node = node
        self._callers = threading.BoundedSemaphore(CALLERS_MAX)
        self._rate = RateLimit(REQUESTS_PER_S, REQUESTS_BURST)
        self._directory_fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._unlink()
            super().__init__(f"/proc/self/fd/{self._directory_fd}/{SOCKET}", _Handler)
        except OSError:
            os.close(self._directory_fd)
            raise
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Refuse callers beyond the limits."""
        if self._rate.admit() and self._callers.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._callers.release()

    def end(self) -> None:
        """Stop, and remove the socket."""
        self.shutdown()
        self.server_close()
        self._unlink()
        os.close(self._directory_fd)

    def _unlink(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET, dir_fd=self._directory_fd)


class NodeHelper:
    """The sockets of all pods that have a directory for one.

    Args:
        pods: the kubelet's directory of pods.
    """

    def __init__(self, pods: Path, node: Node) -> None:
        self._pods = pods
        self._node = node
        self._listeners: dict[Path, _Listener] = {}

    def look(self) -> Iterator[str]:
        """Start listeners for new directories, end those of deleted ones; yield a line for each change."""
        directories = set(self._pods.glob(_SOCKET_DIRECTORIES))
        for directory in sorted(self._listeners.keys() - directories):
            self._listeners.pop(directory).end()
            yield f"{directory}: gone"
        for directory in sorted(directories - self._listeners.keys())[: PODS_MAX - len(self._listeners)]:
            try:
                self._listeners[directory] = _Listener(directory, self._node)
            except OSError as error:
                yield f"{directory}: {error}"
            else:
                yield f"{directory}: listening"

    def end(self) -> None:
        """Remove all sockets."""
        for listener in self._listeners.values():
            listener.end()
        self._listeners.clear()


@contextmanager
def node_helper(pods: Path, node: Node) -> Iterator[NodeHelper]:
    """Yield a helper whose sockets are removed afterwards. Every user of a pod may connect to its socket."""
    before = os.umask(0)  # not by chmod, which would follow a link that the pod may have put there
    helper = NodeHelper(pods, node)
    try:
        yield helper
    finally:
        helper.end()
        os.umask(before)
