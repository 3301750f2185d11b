"""Processes of a cell killed in mid-step: the cause is told, the cell is tried again, the run ends right."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, cast

import docker
import pytest
from kernel_kills import killing_for_memory, none_killed_for_memory
from live_run import FINISHED, Bench

KILLS: dict[str, tuple[Callable[[Bench], int | None], str]] = {
    "agent": (lambda bench: bench.agent(), "agent_gone"),
    "server": (lambda bench: bench.process("mariadbd", "mysqld"), "server_killed"),
    "sysbench": (lambda bench: bench.process("sysbench"), "tool_killed"),
    "supervisor": (lambda bench: bench.process(f"{bench.control_dir()}/supervisor.sh"), "supervisor_gone"),
}
"""Whom to kill, and the cause that is told."""


@pytest.mark.mysqld
def test_whatever_process_is_killed_the_cell_is_tried_again(local: Bench) -> None:
    """A run of four cells, another process of each killed in its first attempt."""
    process = local.start("repeats=2", "steps.0.duration=6s")
    for number, (victim, _) in enumerate(KILLS.values(), start=1):
        local.until(lambda begun=number: len(local.cells_started()) == begun and local.in_step(), process)  # type: ignore[misc]
        pid = victim(local)
        assert pid is not None, local.processes()
        os.kill(pid, signal.SIGKILL)
        local.until(lambda: len(local.failed_causes()) == number, process)  # noqa: B023 - asked at once
    ended = local.end(process)
    assert ended.code in FINISHED, ended.output
    local.assert_all_done_once()
    assert list(local.failed_causes().values()) == [cause for _, cause in KILLS.values()]
    assert all(attempt == 2 for _, attempt in local.events("cell_finished"))
    failures = local.report()["failures"]
    assert isinstance(failures, list)
    assert sorted(row["cause"] for row in failures) == sorted(cause for _, cause in KILLS.values())
    assert all(row["evidence"] and "volbench {" not in row["evidence"] for row in failures)


@pytest.mark.mysqld
def test_a_sampling_process_that_is_killed_makes_the_step_invalid(local: Bench) -> None:
    """The queries' numbers are kept; that the storage's are missing is a reason not to use them."""
    local.volumes.pop("b")
    process = local.start("steps.0.duration=6s", "limits.missed_samples=5%")
    local.until(local.in_step, process)
    pid = local.process("volbench.measure.sample.process")
    assert pid is not None
    cell = local.current_cell().name
    os.kill(pid, signal.SIGKILL)
    ended = local.end(process)
    assert ended.code in FINISHED, ended.output
    (step,) = next(result for result in local.directory.results() if result.cell_id == cell).steps
    assert not step.valid
    assert any("missed" in reason for reason in step.invalid_reasons), step.invalid_reasons
    assert local.leftovers() == []


@pytest.mark.mysqld
@pytest.mark.slow
def test_a_server_that_is_killed_again_and_again_ends_the_run(local: Bench) -> None:
    """Two attempts at each of two cells, then exit code 5, with the server's end and the next step told."""
    process = local.start("steps.0.duration=6s")
    for attempt in range(1, 5):
        local.until(lambda count=attempt: len(local.events("cell_started")) == count and local.in_step(), process)  # type: ignore[misc]
        pid = local.process("mariadbd", "mysqld")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    ended = local.end(process)
    assert ended.code == 5, ended.output
    assert "the server was killed with SIGKILL" in ended.output
    assert "volbench resume" in ended.output
    assert local.leftovers() == []
    again = local.end(local.resume())
    assert again.code == 0, again.output
    assert [attempt for _, attempt in local.events("cell_finished")] == [3, 3]


@pytest.mark.docker
@none_killed_for_memory()
def test_containers_that_are_killed_are_told_apart(docker_run: Bench) -> None:
    """The server's container killed in one cell, the agent's in the other: both are tried again."""
    client = docker.from_env()
    process = docker_run.start("steps.0.duration=6s")
    for number, (role, _) in enumerate((("server", "server_killed"), ("agent", "agent_gone")), start=1):
        docker_run.until(
            lambda started=number: len(docker_run.cells_started()) == started and docker_run.in_step(),  # type: ignore[misc]
            process,
        )
        container = client.containers.get(docker_run.container(role))
        if role == "agent":
            container.kill("SIGKILL")
        else:
            os.kill(server_in(container), signal.SIGKILL)
        docker_run.until(lambda: len(docker_run.failed_causes()) == number, process)  # noqa: B023
    client.close()
    ended = docker_run.end(process)
    assert ended.code in FINISHED, ended.output
    docker_run.assert_all_done_once()
    assert list(docker_run.failed_causes().values()) == ["server_killed", "agent_gone"]


def server_in(container: Any) -> int:
    """The server's process in a container: not the supervisor, which is its first."""
    top = container.top()
    command, pid = top["Titles"].index("CMD"), top["Titles"].index("PID")
    return next(int(row[pid]) for row in top["Processes"] if "supervisor" not in row[command])


@pytest.mark.docker
def test_a_server_out_of_memory_is_told_as_that(docker_run: Bench) -> None:
    """Its container has no memory to spare, and something beside the server wants more: the kernel kills it."""
    process = docker_run.start("steps.0.duration=60s")
    docker_run.until(docker_run.in_step, process)
    client = docker.from_env()
    container = client.containers.get(docker_run.container("server"))
    stats = cast("dict[str, Any]", container.stats(stream=False))
    limit = stats["memory_stats"]["usage"] + (16 << 20)
    container.update(mem_limit=limit, memswap_limit=limit)
    with killing_for_memory():
        container.exec_run(["sh", "-c", "head -c 200000000 /dev/zero | tail"], detach=True)  # tail keeps all of it
        client.close()
        docker_run.until(lambda: len(docker_run.failed_causes()) == 1, process)
    assert list(docker_run.failed_causes().values()) == ["oom"]
    process.send_signal(signal.SIGINT)
    assert docker_run.end(process).code == 130
    assert docker_run.leftovers() == []
