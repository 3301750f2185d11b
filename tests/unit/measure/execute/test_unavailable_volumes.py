"""A volume that cannot be used loses its own cells only; claims stay while a run can be resumed on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fake_target import FakeTarget
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.records.cell import CellResult
from volbench.core.records.facts import VolumeFacts
from volbench.errors import MissingPrerequisite, StepFailed, VolbenchError, VolumeUnavailable
from volbench.machine.placement.interface import Job, Placement, TemplateScope
from volbench.machine.volume.interface import OpenVolume, VolumeBase
from volbench.measure.execute.run import DISRUPTIONS_MAX, TRIES, Orchestrator, Outcome
from volbench.results.report.build import build_report
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.store.run_directory import RunDirectory

NO_CLASS = VolumeUnavailable("the cluster has no storage class 'fast'", evidence="not found", cause="volume_gone")
PENDING = VolumeUnavailable("no volume is bound to the claim", evidence="0/3 nodes", cause="volume_pending")


class ListedVolume(VolumeBase):
    """A claim on a storage class, with what happened to it."""

    def __init__(self, name: str, specs: dict[str, object], error: VolbenchError | None = None) -> None:
        super().__init__(specs[name])  # type: ignore[arg-type]
        self.error, self.calls = error, list[str]()
        self.seen: VolumeFacts | None = None

    def open(self) -> OpenVolume:
        self.calls.append("open")
        self.seen = self.measured
        if self.error is not None:
            raise self.error
        return OpenVolume(name=self.spec.name, spec=self.spec, claim=self.spec.name)

    def close(self) -> None:
        self.calls.append("keep" if self.retained else "delete")

    def leftover(self) -> str:
        return f"claim {self.spec.name} stays"


def no_error(_job: Job, _launches: int) -> VolbenchError | None:
    return None


@dataclass
class FailingTarget(FakeTarget):
    """Raises an error for some launches: those of (volume, kind) or of a cell."""

    error_of: Callable[[Job, int], VolbenchError | None] = no_error
    launches: list[str] = field(default_factory=list)
    templates: TemplateScope = "volume"

    def launch(self, job: Job) -> Placement:
        self.launches.append(job.cell.cell_id)
        error = self.error_of(job, self.launches.count(job.cell.cell_id))
        if error is not None:
            raise error
        return super().launch(job)


@dataclass
class Bench:
    """A run of three volumes with two cells each."""

    directory: RunDirectory
    results: dict[str, CellResult]
    volumes: dict[str, ListedVolume]
    said: list[str] = field(default_factory=list)

    def run(
        self, error_of: Callable[[Job, int], VolbenchError | None] = no_error, parallel: int = 1
    ) -> tuple[Outcome, FailingTarget]:
        target = FailingTarget(
            results=self.results,
            error_of=error_of,
            parallel=parallel,
        )
        return Orchestrator(self.directory, target, self.volumes, on_message=self.said.append).run(), target


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    volumes = tuple(SyntheticVolume(name=name, kind="storage-class") for name in "abc")
    run = build_run(tmp_path / "whole", Synthetic(volumes=volumes, repeats=2, steps=()))
    results = {result.cell_id: result for result in run.results()}
    specs: dict[str, object] = {spec.name: spec for spec in run.run.volumes}
    return Bench(
        directory=RunDirectory.create(tmp_path, run.run),
        results=results,
        volumes={name: ListedVolume(name, specs) for name in "abc"},
    )


def cells_of(bench: Bench, *volumes: str) -> set[str]:
    return {cell.cell_id for cell in bench.directory.run.cells if cell.volume in volumes}


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_class_that_does_not_exist_costs_its_own_cells(bench: Bench, parallel: int) -> None:
    bench.volumes["a"].error = NO_CLASS
    outcome, _ = bench.run(parallel=parallel)
    assert set(outcome.done) == cells_of(bench, "b", "c")
    assert outcome.exit_code == 3
    assert outcome.failures == (NO_CLASS,)
    report = build_report(bench.directory)
    assert any("Volume a could not be used" in line and "'fast'" in line for line in summary_lines(report))
    assert not any("Volume b" in line for line in report.summary.caveats)


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("kind", ["prepare", "run"])
def test_a_claim_that_is_never_bound_costs_its_own_cells(bench: Bench, kind: str, parallel: int) -> None:
    outcome, target = bench.run(
        lambda job, _: PENDING if job.volume and job.volume.name == "b" and job.kind == kind else None, parallel
    )
    assert set(outcome.done) == cells_of(bench, "a", "c")
    assert outcome.exit_code == 3
    assert sum(cell in cells_of(bench, "b") or cell == "template-b" for cell in target.launches) <= 2


def test_a_run_without_any_usable_volume_ends(bench: Bench) -> None:
    for volume in bench.volumes.values():
        volume.error = NO_CLASS
    with pytest.raises(VolumeUnavailable):
        bench.run()


def test_claims_that_cells_were_measured_on_stay_until_the_run_is_complete(bench: Bench) -> None:
    """The class of a is fixed later: the other claims are still those that were measured."""
    bench.volumes["a"].error = NO_CLASS
    bench.run()
    assert [volume.calls[-1] for volume in bench.volumes.values()] == ["delete", "keep", "keep"]
    assert "claim b stays" in bench.said
    bench.volumes["a"].error = None
    outcome, target = bench.run()
    assert outcome.exit_code == 0
    assert cells_of(bench, "a") == set(target.launched)
    assert bench.volumes["b"].seen is not None
    assert bench.volumes["a"].seen is None
    assert {volume.calls[-1] for volume in bench.volumes.values()} == {"delete"}
    assert not any("could not be used" in caveat for caveat in build_report(bench.directory).summary.caveats)


def test_an_interruption_keeps_measured_claims_and_deletes_the_others(bench: Bench) -> None:
    first = bench.directory.run.cells[0]

    def interrupt(job: Job, _: int) -> VolbenchError | None:
        if job.kind == "run" and job.cell.cell_id != first.cell_id:
            raise KeyboardInterrupt
        return None

    with pytest.raises(KeyboardInterrupt):
        bench.run(interrupt)
    names = {name for name, volume in bench.volumes.items() if volume.calls[-1] == "keep"}
    assert names == {first.volume}


def test_a_measured_volume_that_cannot_be_opened_stays_too(bench: Bench) -> None:
    bench.volumes["a"].error = NO_CLASS
    bench.run()
    bench.volumes["b"].error = MissingPrerequisite("claim b is not on the volume that the cells measured")
    with pytest.raises(MissingPrerequisite, match="not on the volume"):
        bench.run()
    assert bench.volumes["b"].calls[-1] == "keep"


def test_pods_that_the_cluster_evicts_are_not_counted_as_tries(bench: Bench) -> None:
    evicted = StepFailed("the cluster ended the pod", cause="evicted")
    first = bench.directory.run.cells[0].cell_id
    outcome, target = bench.run(
        lambda job, launches: evicted if job.cell.cell_id == first and launches < 4 else None
    )
    assert outcome.exit_code == 0
    assert target.launches.count(first) == 4


def test_evictions_without_end_fail_the_cell(bench: Bench) -> None:
    evicted = StepFailed("the cluster ended the pod", cause="evicted")
    first = bench.directory.run.cells[0].cell_id
    outcome, target = bench.run(lambda job, _: evicted if job.cell.cell_id == first else None)
    assert outcome.exit_code == 5
    assert target.launches.count(first) == TRIES + DISRUPTIONS_MAX


def test_a_template_whose_pod_the_cluster_evicts_is_prepared_again(bench: Bench) -> None:
    evicted = StepFailed("the cluster ended the pod", cause="evicted")
    outcome, target = bench.run(lambda job, launches: evicted if job.kind == "prepare" and launches < 3 else None)
    assert outcome.exit_code == 0
    assert target.launches.count("template-a") == 3


def test_evictions_of_a_template_without_end_stop_the_run(bench: Bench) -> None:
    attempts: list[int] = []

    def evict(job: Job, _: int) -> VolbenchError | None:
        attempts.append(job.cell.attempt)
        return StepFailed("the cluster ended the pod", cause="evicted")

    with pytest.raises(StepFailed, match="the cluster ended the pod"):
        bench.run(evict)
    assert attempts == [*range(1, DISRUPTIONS_MAX + 2)]
