"""Runner and server killed at random moments of one run, each followed by `resume`: nothing is lost or left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter

import live_run
import pytest
from live_run import FINISHED, Bench

from volbench.errors import EXIT_STEP_FAILED

SERVERS = ("mariadbd", "mysqld")
SECONDS_MAX = 7.0
"""Of a run after its start, or after the last kill: template, cells and the time between them are met."""


def kill_server(local: Bench, process: subprocess.Popen[bytes]) -> bool:
    """Kill the server that runs now; False where none does, or where it ended meanwhile."""
    pid = local.process(*SERVERS)
    if pid is None or process.poll() is not None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def kill_runner(local: Bench, process: subprocess.Popen[bytes]) -> bool:
    """Kill the command without warning; its agent goes on."""
    if process.poll() is not None:
        return False
    live_run.send(process, signal.SIGKILL)
    process.wait()
    return True


@pytest.mark.mysqld
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kills", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_runner_and_server_killed_at_random_moments(local: Bench, kills: int) -> None:
    """As many of the one as of the other; results that the journal acknowledged stay as they are."""
    chance = random.Random(370 + kills)
    settings = (f"repeats={2 + kills // 4}", "steps.0.duration=3s")
    process = local.start(*settings)
    victims = {"runner": kill_runner, "server": kill_server}
    killed: Counter[str] = Counter()
    acknowledged: dict[str, bytes] = {}
    while killed.total() < kills:
        try:
            process.wait(chance.uniform(0.2, SECONDS_MAX))
        except subprocess.TimeoutExpired:
            victim = min(victims, key=lambda name: killed[name])
            killed[victim] += victims[victim](local, process)
        else:
            assert process.returncode not in FINISHED, f"the run was too short for {kills} kills: {killed}"
        if process.poll() is not None:
            begun = list(local.results.glob("*/run.json"))
            process = local.resume() if begun else local.start(*settings)
        acknowledged |= {
            cell_id: (local.directory.cell_dir(cell_id) / "result.json").read_bytes()
            for cell_id, _ in local.events("cell_finished")
            if cell_id not in acknowledged
        }
    while (ended := local.end(process)).code not in FINISHED:  # two killed servers end a run with exit code 5
        assert ended.code == EXIT_STEP_FAILED, ended.output
        process = local.resume()
    local.assert_all_done_once()
    for cell_id, result in acknowledged.items():
        assert (local.directory.cell_dir(cell_id) / "result.json").read_bytes() == result
    assert abs(killed["runner"] - killed["server"]) <= 1
