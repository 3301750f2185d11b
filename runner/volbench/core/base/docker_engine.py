"""A client of the Docker engine."""

from __future__ import annotations

import os
import socket

import docker
from docker.errors import DockerException

REQUEST_S_MAX = 60
_CONNECT_S_MAX = 5.0
_DEFAULT_HOST = "unix:///var/run/docker.sock"
_UNIX = "unix://"


def connect() -> docker.DockerClient:
    """Return a client of the engine of DOCKER_HOST, or of the default socket. Raise DockerException.

    The SDK leaves its socket open where nothing listens, so that is tried before.
    """
    host = os.environ.get("DOCKER_HOST") or _DEFAULT_HOST
    if host.startswith(_UNIX):
        _require_listener(host.removeprefix(_UNIX))
    return docker.from_env(timeout=REQUEST_S_MAX)


def _require_listener(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_CONNECT_S_MAX)
        try:
            connection.connect(path)
        except OSError as error:
            raise DockerException(f"no Docker engine answers at {path}: {error.strerror or error}") from error
