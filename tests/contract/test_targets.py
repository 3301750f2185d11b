"""What every target must fulfil, with a real agent on each: placed, found, interrupted, killed, removed twice."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from volbench.engine.supervisor import supervisor_script
from volbench.records.cell import CellSpec, DatasetSpec, SamplingSpec, ServerSpec, ValidityLimits
from volbench.records.run import VolumeSpec
from volbench.store.files import write_record
from volbench.target.docker import DockerTarget
from volbench.target.interface import Job, Target
from volbench.target.local import LocalTarget
from volbench.target.workspace import Workspace
from volbench.volume.interface import OpenVolume
from volbench.volume.ownership import MARKER

BOUND_S = 60.0
RUN_ID = "20260101T000000Z-contract-{:06x}"


@dataclass(kw_only=True)
class Placed:
    """A target with a job that prepares a dataset: long enough to be looked at, and to be ended early."""

    target: Target
    workspace: Workspace
    job: Job

    def until(self, asked: Callable[[], bool]) -> None:
        """Wait for a moment."""
        until_s = time.monotonic() + BOUND_S
        while not asked():
            assert time.monotonic() < until_s, self.target.find(self.job).evidence()
            time.sleep(0.05)

    def working(self) -> bool:
        """The agent has begun: it says what it does."""
        return (self.job.out / "progress.json").exists()


@pytest.fixture(
    params=[pytest.param("local", marks=pytest.mark.mysqld), pytest.param("docker", marks=pytest.mark.docker)]
)
def placed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Placed]:
    """A job on each target, not yet placed."""
    memory = Path(tempfile.mkdtemp(prefix="volbench-test-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    memory.chmod(0o755)
    run_id = RUN_ID.format(os.getpid() % 0xFFFFFF)
    workspace = Workspace(run_id=run_id, cache=tmp_path / "cache")
    target: Target = LocalTarget(workspace) if request.param == "local" else DockerTarget(workspace)
    spec = VolumeSpec(name="a", kind="path", place=str(memory), text=f"path:{memory}")
    volume = OpenVolume(name="a", spec=spec, host_path=memory)
    flavor = "mariadb" if request.param == "local" and shutil.which("mariadbd") else "mysql"
    cell = CellSpec(
        run_id=run_id, cell_id="01-a", suite="contract", volume="a", block=0, repeat=1, seed=1,
        server=ServerSpec.model_validate({"flavor": flavor}), dataset=DatasetSpec(tables=1, rows=2_000_000),
        steps=(), sampling=SamplingSpec(), limits=ValidityLimits(), places=target.places("01-a", volume),
    )  # fmt: skip
    out = tmp_path / "out"
    out.mkdir()
    write_record(out / "cell.json", cell)
    job = Job(kind="prepare", cell=cell, out=out, supervisor_script=supervisor_script(), volume=volume)
    try:
        yield Placed(target=target, workspace=workspace, job=job)
    finally:
        target.find(job).remove()
        target.close_volume(volume)
        target.clean_up()
        assert list(memory.iterdir()) == []
        assert workspace.leftovers() == []
        shutil.rmtree(memory)


def test_an_agent_that_was_not_placed_does_not_run(placed: Placed) -> None:
    """Asking, ending and removing it are no faults."""
    placement = placed.target.find(placed.job)
    assert not placement.running()
    assert isinstance(placement.evidence(), str)
    placement.interrupt()
    placement.kill()
    placement.remove()
    placement.remove()


def test_an_agent_runs_is_found_again_and_ends_in_good_order(placed: Placed) -> None:
    """Interrupted, it still writes its result; removing it twice leaves nothing but results."""
    placed.target.check()
    placed.target.place(placed.job)
    again = placed.target.find(placed.job)
    assert again.running()
    placed.until(placed.working)
    again.interrupt()
    placed.until(lambda: not again.running())
    assert '"status": "interrupted"' in (placed.job.out / "result.json").read_text()
    again.remove()
    assert not again.running()
    again.remove()


def test_a_killed_agent_leaves_evidence_and_no_result(placed: Placed) -> None:
    """Nothing runs afterwards, and the volume's directory is still known as ours."""
    placement = placed.target.place(placed.job)
    placed.until(placed.working)
    placement.kill()
    placed.until(lambda: not placement.running())
    assert not (placed.job.out / "result.json").exists()
    assert isinstance(placement.evidence(), str)
    assert placed.job.volume is not None
    assert placed.job.volume.host_path is not None
    assert (placed.job.volume.host_path / placed.workspace.volume_folder / MARKER).exists()
