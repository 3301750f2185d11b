"""The agent of the next cell starts before its turn, but not while anything is measured."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from fake_target import Bench, FakePlacement, FakeTarget

from volbench.core.records.cell import CellResult
from volbench.machine.engine.supervisor import supervisor_script
from volbench.machine.placement.interface import Job, Placement
from volbench.machine.placement.local import AGENT_LOG, LocalTarget
from volbench.machine.placement.processes import KnownProcess, kill_labelled
from volbench.machine.placement.workspace import Workspace
from volbench.measure.execute.cell.progress import JUDGING
from volbench.measure.execute.cell_spec import cell_spec
from volbench.results.report.rows.verdict.pairs import decision_of
from volbench.results.store.files import read_record
from volbench.results.store.run_directory import RESULT_FILE

REPORTS = ("read-write", JUDGING, JUDGING)
WAIT_S = 60.0


@dataclass
class StandingTarget(FakeTarget):
    """Records who stands by; each agent reports a step, then that it judges."""

    reports: dict[str, Callable[[], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.polls = {"template": 1, **dict.fromkeys(self.results, len(REPORTS))}

    def launch(self, job: Job) -> Placement:
        reports = iter(REPORTS)

        def report() -> None:
            if job.kind == "run":
                text = next(reports)
                self.calls.append(f"{text} {job.cell.cell_id}")
                (job.out / "progress.json").write_text(json.dumps({"text": text}))

        self.reports[job.cell.cell_id] = report
        return super().launch(job)

    def find(self, job: Job) -> Placement:
        cell_id = job.cell.cell_id
        polls = self.polls.pop(cell_id, 0)
        return FakePlacement(target=self, cell_id=cell_id, polls=polls, on_poll=partial(self._report, cell_id))

    def _report(self, cell_id: str) -> None:
        self.reports[cell_id]()

    def stand_by(self, cell_id: str) -> None:
        self.calls.append(f"stand by {cell_id}")


def test_an_agent_stands_by_once_the_cell_before_is_measured(tmp_path: Path) -> None:
    bench = Bench.create(tmp_path)
    target = StandingTarget(results=bench.results)
    bench.orchestrator(target).run()
    first, second = bench.cell_ids[:2]
    launch = target.calls.index(f"launch {first}")
    assert target.calls[launch - 2] == f"stand by {first}"
    assert target.calls[launch : target.calls.index(f"launch {second}")] == [
        f"launch {first}",
        f"read-write {first}",
        f"{JUDGING} {first}",
        f"stand by {second}",
        f"{JUDGING} {first}",
        f"remove {first}",
    ]
    standing = [call.removeprefix("stand by ") for call in target.calls if call.startswith("stand by ")]
    assert standing == bench.cell_ids


@pytest.mark.parametrize("parallel", [2])
def test_none_stands_by_where_cells_run_at_once(tmp_path: Path, parallel: int) -> None:
    bench = Bench.create(tmp_path)
    target = StandingTarget(results=bench.results, parallel=parallel)
    bench.orchestrator(target).run()
    assert not [call for call in target.calls if call.startswith("stand by ")]


def test_a_decided_run_launches_none_that_stands_by(tmp_path: Path) -> None:
    bench = Bench.create(tmp_path, until="decided", repeats=8)
    target = StandingTarget(results=bench.results)
    bench.orchestrator(target, decided=decision_of).run()
    assert len(target.launched) == 6
    assert target.calls[-1] == "clean up"


@pytest.fixture
def target(tmp_path: Path) -> LocalTarget:
    return LocalTarget(Workspace(run_id="20260101T000000Z-stand-5a5a5a", cache=tmp_path / "cache"))


def job_of(tmp_path: Path, target: LocalTarget) -> Job:
    bench = Bench.create(tmp_path / "run")
    run = bench.directory.run.model_copy(update={"run_id": "20260101T000000Z-stand-5a5a5a"})
    cell = target.with_server(cell_spec(run, run.cells[0], template_key="none"), None)
    bench.directory.write_cell(cell)
    out = bench.directory.cell_dir(cell.cell_id)
    return Job(kind="run", cell=cell, out=out, supervisor_script=supervisor_script())


def test_the_agent_that_stands_by_runs_the_cell(tmp_path: Path, target: LocalTarget) -> None:
    job = job_of(tmp_path, target)
    target.stand_by(job.cell.cell_id)
    assert not list(job.out.glob("*.pid"))
    waiting = target._next
    assert waiting is not None
    placement = target.launch(job)
    try:
        agent = KnownProcess.from_file(job.out / "agent.pid")
        assert agent is not None
        assert agent.pid == waiting[1].pid
        placement.wait_for_end(WAIT_S)
        assert not placement.running()
        result = read_record(job.out / RESULT_FILE, CellResult)
        assert result.failure is not None
        assert result.failure.cause == "template_missing"
        assert (job.out / "raw/samples.log").read_text() == ""
        assert "template" in (job.out / AGENT_LOG).read_text()
    finally:
        placement.remove()
        target.clean_up()


@pytest.mark.parametrize("ends", ["clean up", "dies"])
def test_an_agent_whose_turn_does_not_come_ends(tmp_path: Path, target: LocalTarget, ends: str) -> None:
    job = job_of(tmp_path, target)
    target.stand_by(job.cell.cell_id)
    assert target._next is not None
    agent = target._next[1]
    if ends == "dies":  # the orchestrator: the pipe closes
        assert agent.stdin is not None
        agent.stdin.close()
        assert agent.wait(WAIT_S) == 0
        placement = target.launch(job)
        placement.wait_for_end(WAIT_S)
        assert (job.out / RESULT_FILE).exists(), "an agent of its own runs the cell then"
        placement.remove()
    target.clean_up()
    until_s = time.monotonic() + WAIT_S
    while agent.poll() is None and time.monotonic() < until_s:
        time.sleep(0.01)
    assert agent.poll() is not None
    assert kill_labelled(f"{job.cell.run_id}/")
