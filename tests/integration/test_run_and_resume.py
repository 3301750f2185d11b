"""Whole runs on real servers: to the end, interrupted, killed, resumed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import live_run
import pytest
from json_schemas import check_record
from live_run import FINISHED, LONG_ENOUGH, UNTIL_ENDED, Bench


def test_a_run_measures_every_cell_and_leaves_only_its_results(bench: Bench) -> None:
    """The report validates, every cell is valid, nothing else is left; a second `resume` has nothing to do."""
    ended = bench.end(bench.start("sampling.summaries=true"))
    assert ended.code in FINISHED, ended.output
    bench.assert_all_done_once()
    assert_has_summaries(bench)
    report = bench.report()
    check_record("report", report)
    cells = report["cells"]
    assert isinstance(cells, list)
    assert [(cell["valid"], cell["invalid_reasons"]) for cell in cells] == [(True, [])] * 2

    events = len(bench.directory.events())
    for path in bench.volumes.values():
        path.rmdir()  # a run that is done needs its volumes no more
    again = bench.end(bench.resume())
    assert again.code in FINISHED, again.output
    assert "nothing to do: of 2 cells none is left" in again.output
    assert len(bench.directory.events()) == events


def assert_has_summaries(bench: Bench) -> None:
    """The real tools described host and server of each cell, where they are installed: in containers always."""
    if bench.target == "local" and shutil.which("pt-mysql-summary") is None:
        return
    for cell in bench.directory.run.cells:
        raw = bench.directory.cell_dir(cell.cell_id) / "raw"
        assert "# Percona Toolkit System Summary Report #" in (raw / "pt-summary.txt").read_text()
        page = (raw / "pt-mysql-summary.txt").read_text()
        assert "# Percona Toolkit MySQL Summary Report #" in page
        assert "Com_commit" in page, "the counters of the load"


@pytest.mark.timeout(400)
@pytest.mark.parametrize("moments", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_a_runner_killed_at_any_moment_loses_nothing_and_runs_nothing_twice(bench: Bench, moments: int) -> None:
    """Killed without warning at seeded moments, resumed each time; at the end all is done and nothing is left."""
    chance = random.Random(20 + moments)
    process = bench.start(f"repeats={moments // 4}")
    for _ in range(moments):
        try:
            process.wait(chance.uniform(0.2, 7.0))
        except subprocess.TimeoutExpired:
            live_run.send(process, signal.SIGKILL)
            process.wait()
        process = (
            bench.resume() if list(bench.results.glob("*/run.json")) else bench.start(f"repeats={moments // 4}")
        )
    ended = bench.end(process)
    assert ended.code in FINISHED, ended.output
    bench.assert_all_done_once()


def test_an_agent_that_went_on_is_taken_over(bench: Bench) -> None:
    """The cell that ran while its runner was killed is not begun anew; one that ended meanwhile is put down."""
    process = bench.start(LONG_ENOUGH)
    bench.until(bench.in_step, process)
    cell = bench.current_cell()
    live_run.send(process, signal.SIGKILL)
    process.wait()
    resumed = bench.resume()
    bench.until(lambda: len(bench.events("cell_started")) > 1 and bench.in_step(), resumed)
    live_run.send(resumed, signal.SIGKILL)
    resumed.wait()
    assert bench.events("cell_finished") == [(cell.name, 1)]
    second = bench.current_cell()
    bench.until((second / "result.json").exists)  # its agent ends with nobody there

    ended = bench.end(bench.resume())
    assert ended.code in FINISHED, ended.output
    bench.assert_all_done_once()
    assert all(attempt == 1 for _, attempt in bench.events("cell_started"))


def test_an_interrupted_run_keeps_what_is_done_and_cleans_up(bench: Bench) -> None:
    """Exit code 130, no container, process or directory left; `resume` runs what is not done, and only that."""
    process = bench.start(LONG_ENOUGH)
    bench.until(lambda: len(bench.events("cell_finished")) == 1, process)
    bench.until(bench.in_step, process)
    live_run.send(process, signal.SIGINT)
    ended = bench.end(process)
    assert ended.code == 130, ended.output
    assert "volbench resume" in ended.output
    assert bench.leftovers() == []
    assert len(bench.directory.results()) >= 1
    assert bench.directory.events()[-1].event == "run_interrupted"

    resumed = bench.end(bench.resume())
    assert resumed.code in FINISHED, resumed.output
    bench.assert_all_done_once()


@pytest.mark.mysqld
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_a_run_like_ctrl_c(local: Bench, number: signal.Signals) -> None:
    """A service manager's SIGTERM and a closed terminal."""
    process = local.start(UNTIL_ENDED)
    local.until(local.in_step, process)
    live_run.send(process, number)
    ended = local.end(process)
    assert ended.code == 130, ended.output
    assert "volbench resume" in ended.output
    assert local.leftovers() == []
    assert local.directory.events()[-1].event == "run_interrupted"


@pytest.mark.mysqld
def test_ctrl_c_before_the_first_cell_leaves_nothing(local: Bench) -> None:
    """Also while the dataset is prepared."""
    local.cache = local.root / "cache"
    process = local.start("dataset.rows=200000")
    local.until(lambda: local.process("sysbench") is not None, process)
    live_run.send(process, signal.SIGINT)
    ended = local.end(process)
    assert ended.code == 130, ended.output
    assert local.leftovers() == []


@pytest.mark.mysqld
def test_a_second_ctrl_c_does_not_wait_for_an_agent_that_hangs(local: Bench) -> None:
    """The agent is stopped (SIGSTOP), so that it cannot end in good order; the second signal has it killed."""
    process = local.start(UNTIL_ENDED)
    local.until(local.in_step, process)
    agent = local.agent()
    assert agent is not None
    os.kill(agent, signal.SIGSTOP)
    local.until(lambda: _is_stopped(agent), process)  # else it may take SIGTERM, the lower number, first
    live_run.send(process, signal.SIGINT)
    local.until(lambda: _pending_stop(agent), process)
    live_run.send(process, signal.SIGINT)
    ended = local.end(process)
    assert ended.code == 130, ended.output
    assert local.leftovers() == []


@pytest.mark.mysqld
def test_only_one_runner_works_on_a_run(local: Bench) -> None:
    """A second one is refused and disturbs nothing."""
    process = local.start(UNTIL_ENDED)
    local.until(local.in_step, process)
    second = local.end(local.resume())
    assert second.code == 4
    assert f"held by process {process.pid}" in second.output
    assert local.in_step()
    live_run.send(process, signal.SIGINT)
    assert local.end(process).code == 130
    assert local.failed_causes() == {}


@pytest.mark.mysqld
def test_agents_without_a_runner_end_by_themselves_and_remove_their_data(local: Bench) -> None:
    """Neither server nor data outlive the cell, although nobody ever resumes the run."""
    process = local.start(LONG_ENOUGH)
    local.until(local.in_step, process)
    live_run.send(process, signal.SIGKILL)
    process.wait()
    local.until(lambda: local.processes() == {})
    data = [entry.name for path in local.volumes.values() for entry in path.glob("volbench-*/*")]
    assert [name for name in data if name != ".volbench-owned.json"] == []


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def _pending_stop(pid: int) -> bool:
    """Whether SIGTERM waits for a stopped process."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = next(line for line in status.splitlines() if line.startswith("ShdPnd"))
    return bool(int(pending.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
