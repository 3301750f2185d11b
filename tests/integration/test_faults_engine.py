"""A Docker engine that goes away in mid-run: told as that, nothing lost, taken up again when it is back."""

from __future__ import annotations

import pytest
from engine_proxy import EngineProxy
from live_run import FINISHED, Bench

pytestmark = pytest.mark.docker


def test_an_engine_that_stops_answering(docker_run: Bench) -> None:
    """Exit code 3 with the way to go on; the containers are left as they are, and taken over by `resume`."""
    proxy = EngineProxy(docker_run.temporary / "engine.sock")
    docker_run.environment["DOCKER_HOST"] = proxy.host
    proxy.open()
    try:
        process = docker_run.start("steps.0.duration=6s")
        docker_run.until(docker_run.in_step, process)
        cell = docker_run.current_cell().name
        proxy.close()
        ended = docker_run.end(process)
        assert ended.code == 3, ended.output
        assert "the Docker engine does not answer" in ended.output
        assert "volbench resume" in ended.output

        proxy.open()
        resumed = docker_run.end(docker_run.resume())
        assert resumed.code in FINISHED, resumed.output
    finally:
        proxy.close()
    docker_run.assert_all_done_once()
    assert (cell, 1) in docker_run.events("cell_finished")
