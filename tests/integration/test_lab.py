"""One condition of the explaining rules' lab, end to end: made, run, reported, named; and neighbours on time."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from explain.conditions import load_conditions, setup_of
from explain.injection import DEVICE_FILE
from explain.neighbours import Neighbours
from explain.observed import observed
from explain.runner import RECORDING, is_done, run_setup
from recordings.tools import IOSTAT_TEXT, SAR_TEXT
from volbench.machine.placement.docker.image_names import tools_image

pytestmark = [pytest.mark.docker, pytest.mark.emulator]
BOUND_S = 60.0
SECONDS = 9


def test_a_cap_that_was_made_is_named_with_its_level(
    tmp_path: Path, root: Path, run_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few seconds of load on a volume whose cap is set while it runs; a run of the lab is an ordinary run."""
    monkeypatch.setenv("VOLBENCH_CACHE", str(run_cache))
    setup = setup_of(load_conditions()["throughput-cap"], split="development", number=1, lab_seed=7)
    ran = run_setup(dataclasses.replace(setup, measured_s=float(SECONDS)), tmp_path / "run", disk=root)
    assert ran.failure == ""
    assert is_done(tmp_path / "run")
    (device,) = {path.read_text().strip() for path in tmp_path.glob(f"run/{RECORDING}/{DEVICE_FILE}")}
    for text in (SAR_TEXT, IOSTAT_TEXT):
        assert (tmp_path / "run" / RECORDING / text).read_text().count(device) >= SECONDS - 1
    result = observed(tmp_path / "run")
    assert result.top == "storage.throughput_limit"
    # A cap is never exceeded; on a busy machine the load does not reach it all the time.
    assert 0.85 < result.named[0].evidence["throughput"] / setup.drawn["throughput"] < 1.05


@pytest.fixture
def busy() -> Iterator[None]:
    """CPUs that are saturated."""
    loop = ["timeout", "60", "sh", "-c", "while :; do :; done"]
    processes = [subprocess.Popen(loop) for _ in range(2 * (os.cpu_count() or 1))]
    yield
    for process in processes:
        process.terminate()
        process.wait(timeout=60)


@pytest.mark.usefixtures("busy")
def test_neighbours_compute_at_the_moment_they_are_let_through() -> None:
    """They are there before it, and need the engine no more: no container is started for each of them."""
    client = docker.from_env()
    with Neighbours(client, 3) as neighbours:
        group = Path(f"/proc/{client.containers.get(neighbours.name).attrs['State']['Pid']}/cgroup").read_text()
        until_s = time.monotonic() + BOUND_S
        while _processes(group) < 1 + 2 * 3 and time.monotonic() < until_s:  # each has a `timeout` before it
            time.sleep(0.1)
        before_s = _cpu_s(group)
        released_s = time.monotonic()
        neighbours.release()
        while _cpu_s(group) < before_s + 0.1 and time.monotonic() < released_s + BOUND_S:
            time.sleep(0.02)
        took_s = time.monotonic() - released_s
    before_s = time.monotonic()
    client.containers.run(tools_image(), ["true"], entrypoint=[], network_mode="none", remove=True)
    assert took_s < 3 * (time.monotonic() - before_s)
    client.close()


def _stats(group: str) -> list[list[str]]:
    """The fields of /proc/PID/stat from the state on, of the processes of a control group."""
    results = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cgroup").read_text() == group:
                results.append((path / "stat").read_text().rpartition(")")[2].split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return results


def _processes(group: str) -> int:
    return len(_stats(group))


def _cpu_s(group: str) -> float:
    return sum(int(stat[11]) + int(stat[12]) for stat in _stats(group)) / os.sysconf("SC_CLK_TCK")
