"""Lanes of a run: each has volumes of its own, which are there from its first cell to its last."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fake_target import FakeTarget, disturbed, failed, good
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.records.cell import CellResult
from volbench.core.records.run import PlannedCell
from volbench.errors import StepFailed, VolbenchError, VolumeUnavailable
from volbench.machine.placement.interface import Job, Placement, TemplateScope
from volbench.machine.volume.interface import OpenVolume, VolumeBase
from volbench.measure.execute.run import Orchestrator, Outcome
from volbench.results.store.run_directory import RunDirectory


@dataclass
class LanesTarget(FakeTarget):
    """Two blocks in each lane; `used` is which claim each cell was launched on."""

    templates: TemplateScope = "volume"
    used: dict[str, str] = field(default_factory=dict)
    """By `VOLUME-rREPEAT`, or the template's name."""
    meet: threading.Barrier | None = None
    interrupt_at: str = ""

    def lane_of(self, cell: PlannedCell) -> str:
        return f"node{cell.block // 2 + 1}"

    def launch(self, job: Job) -> Placement:
        assert job.volume is not None
        assert job.volume.claim is not None
        self.used[short(job.cell.cell_id)] = job.volume.claim
        if self.meet is not None and "template" not in job.cell.cell_id:
            self.meet.wait(60)
        if short(job.cell.cell_id) == self.interrupt_at:
            raise KeyboardInterrupt
        return super().launch(job)


def short(cell_id: str) -> str:
    """`a-r1` of `001-a-r1`."""
    return cell_id if "template" in cell_id else cell_id.partition("-")[2]


class LaneVolume(VolumeBase):
    """A claim of a lane, or of all lanes; `log` is shared by all volumes and in their order."""

    def __init__(self, key: str, spec: object, log: list[str], error: VolbenchError | None = None) -> None:
        super().__init__(spec)  # type: ignore[arg-type]
        self.key, self.log, self.error = key, log, error

    def open(self) -> OpenVolume:
        self.log.append(f"make {self.key}")
        if self.error is not None:
            raise self.error
        return OpenVolume(name=self.spec.name, spec=self.spec, claim=self.key)

    def close(self) -> None:
        self.log.append(f"{'keep' if self.retained else 'delete'} {self.key}")


@dataclass
class Bench:
    """A run of two volumes with four cells each, on two lanes; volume b may be shared by the lanes."""

    root: Path
    shared: str = ""
    kept_busy: tuple[str, ...] = ()
    log: list[str] = field(default_factory=list)
    errors: dict[str, VolbenchError] = field(default_factory=dict)
    broken: str = ""
    """Cells of this lane fail."""

    def __post_init__(self) -> None:
        volumes = tuple(SyntheticVolume(name=name, kind="storage-class") for name in "ab")
        run = build_run(self.root / "whole", Synthetic(volumes=volumes, repeats=4))
        suite = run.run.suite.model_copy(update={"replacements": 0.5})
        self.results = {result.cell_id: result for result in run.results()}
        self.directory = RunDirectory.create(self.root, run.run.model_copy(update={"suite": suite}))

    def run(self, **target: object) -> tuple[Outcome, LanesTarget]:
        made = LanesTarget(results=self.results, script=self.script, **target)  # type: ignore[arg-type]
        volumes = {}
        for spec in self.directory.run.volumes:
            for lane in ("",) if spec.name == self.shared else ("node1", "node2"):
                key = f"{spec.name}@{lane}" if lane else spec.name
                volumes[key] = LaneVolume(key, spec, self.log, self.errors.get(key))
        orchestrator = Orchestrator(
            self.directory,
            made,
            volumes,
            invalid_cells=lambda directory: [
                result.cell_id for result in directory.results() if not all(step.valid for step in result.steps)
            ],
        )
        return orchestrator.run(), made

    def script(self, cell_id: str, attempt: int, result: CellResult) -> CellResult | None:
        lane = f"node{(int(short(cell_id).rpartition('-r')[2]) + 1) // 2}"
        if self.broken in (lane, "all"):
            return failed(result)
        busy = short(cell_id) in self.kept_busy and attempt == 1
        return disturbed(result, delayed_share=0.5) if busy else good(cell_id, attempt, result)


def test_each_lane_has_volumes_of_its_own_and_only_while_it_is_measured(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    outcome, target = bench.run()
    assert (len(outcome.done), outcome.exit_code) == (8, 0)
    claims = {
        f"{volume}-r{repeat}": f"{volume}@node{(repeat + 1) // 2}" for volume in "ab" for repeat in range(1, 5)
    }
    assert {name: claim for name, claim in target.used.items() if "template" not in name} == claims
    first = bench.log.index("make a@node2")
    assert bench.log[:first] == ["make a@node1", "make b@node1", "delete a@node1", "delete b@node1"]
    assert "keep" not in " ".join(bench.log)
    assert {name: claim for name, claim in target.used.items() if "template" in name} == {
        "template.node1-a": "a@node1",
        "template.node1-b": "b@node1",
        "template.node2-a": "a@node2",
        "template.node2-b": "b@node2",
    }


def test_lanes_run_at_once_and_cells_of_a_lane_one_after_the_other(tmp_path: Path) -> None:
    """Each cell waits until one of the other lane has begun too: nothing would end if lanes took turns."""
    bench = Bench(tmp_path)
    outcome, target = bench.run(parallel=2, meet=threading.Barrier(2))
    assert len(outcome.done) == 8
    lanes = [
        target.lane_of(cell)
        for item in target.launched
        for cell in bench.directory.run.cells
        if cell.cell_id == item
    ]
    assert all({*lanes[at : at + 2]} == {"node1", "node2"} for at in range(0, 8, 2))


def test_an_invalid_cell_is_repeated_before_its_lanes_volumes_are_deleted(tmp_path: Path) -> None:
    """Each lane has its share of the plan's repeats: half of its four cells."""
    bench = Bench(tmp_path, kept_busy=("a-r1", "b-r1", "a-r2", "b-r3"))
    outcome, target = bench.run()
    assert len(outcome.done) == 8
    repeated = [short(item) for item in target.launched if target.launched.count(item) == 2]
    assert len({*repeated} & {"a-r1", "b-r1", "a-r2"}) == 2
    assert "b-r3" in repeated
    assert target.used["b-r3"] == "b@node2"
    assert bench.log.count("make a@node1") == 1, "the volume was still there"


def test_an_interrupted_lane_keeps_its_volumes_and_a_lane_that_is_done_does_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        bench.run(interrupt_at="b-r4")
    assert [line for line in bench.log if line.startswith("keep")]
    assert {line for line in bench.log if line.startswith("keep")} <= {"keep a@node2", "keep b@node2"}
    assert "delete a@node1" in bench.log
    bench.log.clear()
    outcome, target = bench.run()
    assert len(outcome.done) == 8
    assert "make a@node1" not in bench.log
    assert {target.used[short(item)] for item in target.launched} <= {"a@node2", "b@node2"}


def test_a_volume_that_all_lanes_share_is_made_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, shared="b")
    outcome, target = bench.run()
    assert len(outcome.done) == 8
    assert bench.log.count("make b") == 1
    assert bench.log[-1].endswith(("b", "node2", "node1"))
    assert {target.used[f"b-r{block}"] for block in range(1, 5)} == {"b"}
    assert [item for item in target.used if "template" in item and item.endswith("-b")] == ["template-b"]


def test_a_volume_that_one_lane_cannot_have_costs_that_lanes_cells(tmp_path: Path) -> None:
    missing = VolumeUnavailable("no volume is bound to the claim", evidence="E", cause="volume_pending")
    bench = Bench(tmp_path, errors={"a@node2": missing})
    outcome, _ = bench.run()
    assert outcome.exit_code == 3
    assert sorted(map(short, outcome.done)) == ["a-r1", "a-r2", "b-r1", "b-r2", "b-r3", "b-r4"]


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_node_that_fails_all_cells_does_not_end_the_others(tmp_path: Path, parallel: int) -> None:
    bench = Bench(tmp_path, broken="node1")
    outcome, _ = bench.run(parallel=parallel)
    assert sorted(map(short, outcome.done)) == ["a-r3", "a-r4", "b-r3", "b-r4"]
    assert outcome.exit_code == 5
    assert {"delete a@node1", "delete a@node2"} <= {*bench.log}, "nothing was measured there that a resume needs"


def test_a_second_node_that_fails_ends_the_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, broken="all")
    with pytest.raises(StepFailed, match="sysbench failed"):
        bench.run()
