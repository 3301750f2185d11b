"""Where no engine listens, one error, and no socket that stays open."""

from __future__ import annotations

import gc
import socket
import warnings
from pathlib import Path

import pytest
from docker.errors import DockerException

from volbench.core.base import docker_engine


@pytest.mark.parametrize("listens", [False, True], ids=["no file", "a socket that nobody serves"])
def test_without_an_engine_no_socket_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listens: bool
) -> None:
    path = tmp_path / "docker.sock"
    if listens:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(DockerException, match=f"no Docker engine answers at {path}"):
            docker_engine.connect()
        gc.collect()
    assert not [warning for warning in caught if issubclass(warning.category, ResourceWarning)]
