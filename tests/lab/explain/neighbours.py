"""Neighbours: processes of another container that compute without end, from one moment on.

To start a container takes seconds where CPUs are saturated on purpose. So theirs runs beforehand, each of its
processes waits at a gate, a FIFO that nobody writes to, and one system call lets all of them through.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import docker
from docker.errors import APIError, NotFound

from volbench.machine.placement.docker.images import tools_image

LABEL = "org.volbench.lab"
WEIGHT = 1024
"""Of a container, as Docker gives it."""
GATE = "go"
COMPUTE_S_MAX, WAIT_S_MAX = 120, 900
"""Bounds, should nobody remove them."""
_LOOP = "while :; do :; done"


class Neighbours:
    """One container with so many processes and the weight of as many containers.

    A context manager, at whose end it is removed. With the weight of one its processes would share a third of the
    CPUs with server and client, however many they are.

    Args:
        client: of the engine; it must see this machine's directories.
        processes: how many compute.
    """

    def __init__(self, client: docker.DockerClient, processes: int) -> None:
        self._client = client
        self._processes = processes
        self._place = Path()
        self._writer: int | None = None
        self.name = ""

    def __enter__(self) -> Neighbours:
        self._place = Path(tempfile.mkdtemp(prefix="volbench-lab-gate-"))
        self._place.chmod(0o755)  # the container's user is another one
        os.mkfifo(self._place / GATE)
        container = self._client.containers.run(
            tools_image(self._client, ""),
            ["sh", "-c", _waiting(self._processes)],
            entrypoint=[],
            labels={LABEL: "neighbour"},
            network_mode="none",
            cap_drop=["ALL"],
            cpu_shares=WEIGHT * self._processes,
            volumes={str(self._place): {"bind": "/gate", "mode": "ro"}},
            detach=True,
        )
        self.name = container.name or ""
        return self

    def release(self) -> None:
        """Let them compute from now on. Raises OSError (ENXIO) when none of them waits."""
        # Kept open to the end, so that one that comes late finds the gate open.
        self._writer = os.open(self._place / GATE, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            os.close(self._writer)
        with suppress(NotFound, APIError):
            self._client.containers.get(self.name).remove(force=True)
        shutil.rmtree(self._place, ignore_errors=True)


def remove_neighbours(client: docker.DockerClient) -> None:
    """Remove what an interrupted lab has left, by its label."""
    for container in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        with suppress(NotFound, APIError):
            container.remove(force=True)


def _waiting(processes: int) -> str:
    item = f": < /gate/{GATE}; exec timeout {COMPUTE_S_MAX} sh -c '{_LOOP}'"
    return f'for i in $(seq {processes}); do timeout {WAIT_S_MAX} sh -c "{item}" & done; wait'
