"""Answers Prometheus from one address: a bounded number of connections, of bytes and of seconds for each.

wsgiref's own server has one thread for each connection and waits for ever for a request that does not come.
"""

from __future__ import annotations

import io
import ipaddress
import socket
import threading
import time
from contextlib import suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from volbench.errors import MissingPrerequisite, Refused, UsageError

CONNECTIONS_MAX = 16
"""Each has a thread. A scrape takes milliseconds; Prometheus opens one connection for a target."""
CONNECTION_S_MAX = 5.0
"""From the accepted connection to the last byte of its answer; a scrape's own time-out is 10 s by default."""
REQUEST_BYTES_MAX = 8192
"""Of the request line and its headers."""
EXPOSED = "status variables, statement counts and latencies, device counters, incidents and their causes"
"""What anybody who reaches the address can read."""


def parse_listen(text: str, *, remote: bool = False) -> tuple[str, int]:
    """Return address and port of `127.0.0.1:9104`, `[::1]:9104` or `localhost:9104`.

    Args:
        text: as the user gave it.
        remote: whether other machines may ask.

    Raises UsageError for another form, Refused for an address that is not this machine's loopback.
    """
    where = f"--listen {text}"
    address, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536 or not address:
        raise UsageError(
            "this is no address with a port", where=where, next_step="for example --listen 127.0.0.1:9104"
        )
    address = address.removeprefix("[").removesuffix("]")
    resolved = _resolve(address, where)
    if not remote and not ipaddress.ip_address(resolved.partition("%")[0]).is_loopback:
        raise Refused(
            "other machines could ask there, without a password",
            where=where,
            evidence=f"{resolved} is no loopback address; anybody who reaches it sees {EXPOSED}",
            next_step="listen on 127.0.0.1 or [::1], or add --listen-remote if a firewall lets Prometheus alone in",
        )
    return resolved, int(port)


def serve(address: str, port: int, collector: Collector) -> WSGIServer:
    """Answer Prometheus from a thread until the server's `shutdown`. Raises MissingPrerequisite."""
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server = (BoundedServer6 if ":" in address else BoundedServer)((address, port), _Handler)
    except OSError as error:
        raise MissingPrerequisite(
            "nobody can be answered there",
            where=f"--listen {address}:{port}",
            evidence=str(error),
            next_step="choose another port or address",
        ) from error
    server.set_app(make_wsgi_app(registry))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
    return server


def _resolve(address: str, where: str) -> str:
    """Return the numeric address that a name stands for. Raises UsageError."""
    try:
        addresses = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            "this address is not known",
            where=where,
            evidence=str(error),
            next_step="for example --listen 127.0.0.1:9104",
        ) from error
    return str(addresses[0][4][0])


class BoundedServer(ThreadingMixIn, WSGIServer):
    """Has a thread for each of a few connections, and ends those that take too long.

    A new connection takes the place of the oldest one where there are too many: a scrape is never kept out by
    connections that ask nothing.
    """

    daemon_threads = True
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._started_s: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(*arguments, **options)

    def server_bind(self) -> None:
        """Bind without looking up a name for the address, as HTTPServer does."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own."""
        with self._lock:
            self._started_s[request] = time.monotonic()
            excess = len(self._started_s) - CONNECTIONS_MAX
            oldest = sorted(self._started_s, key=self._started_s.__getitem__)[: max(0, excess)]
        self._end(oldest)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End the connections that take too long; called several times a second."""
        with self._lock:
            limit_s = time.monotonic() - CONNECTION_S_MAX
            expired = [request for request, started_s in self._started_s.items() if started_s < limit_s]
        self._end(expired)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and let another one have its place."""
        with self._lock:
            self._started_s.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""

    def _end(self, requests: list[socket.socket]) -> None:
        """Cut connections: their threads read the end of the request, or fail to write, and end."""
        for request in requests:
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)


class BoundedServer6(BoundedServer):
    """The same for an address of IPv6."""

    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    """One request, whose head is read whole and bounded before anything looks at it."""

    def handle(self) -> None:
        head = bytearray()
        while b"\r\n\r\n" not in head and b"\n\n" not in head:
            try:
                chunk = self.connection.recv(REQUEST_BYTES_MAX + 1 - len(head))
            except OSError:
                return
            head += chunk
            if not chunk:
                return
            if len(head) > REQUEST_BYTES_MAX:
                with suppress(OSError):
                    self.connection.sendall(b"HTTP/1.0 431 Request Header Fields Too Large\r\n\r\n")
                return
        self.rfile = io.BufferedReader(io.BytesIO(head))
        super().handle()

    def address_string(self) -> str:
        """Return the client's address; its name is not looked up."""
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base has this name
        """Say nothing: the live view has the terminal."""
