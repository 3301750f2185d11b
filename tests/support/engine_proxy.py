"""A Docker engine's socket that can be taken away: forwards to the real one, which others use meanwhile."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path

REAL = "/var/run/docker.sock"


class EngineProxy:
    """Listens on `path` between `open` and `close`; closing cuts the connections that are there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._server: socket.socket | None = None
        self._open: list[socket.socket] = []

    @property
    def host(self) -> str:
        """For DOCKER_HOST."""
        return f"unix://{self.path}"

    def open(self) -> None:
        """Let the engine answer."""
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self.path))
        self._server.listen(16)
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def close(self) -> None:
        """Take it away, as when its process dies."""
        if self._server is None:
            return
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        for item in (self._server, *self._open):
            with contextlib.suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)
            item.close()
        self._server, self._open = None, []

    def _accept(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(os.environ.get("DOCKER_HOST", REAL).removeprefix("unix://"))
                self._open += [client, engine]
                for source, sink in ((client, engine), (engine, client)):
                    threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
