"""What every target must fulfil, with a real agent on each: placed, found, interrupted, killed, removed twice."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import cluster_run
import pytest

from volbench.core.base.marker import MARKER
from volbench.core.profile.spec import parse_volume
from volbench.core.records.cell import CellSpec, SamplingSpec, ServerSpec, ValidityLimits
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.run import VolumeSpec
from volbench.machine.cluster.client import Cluster
from volbench.machine.engine.supervisor import supervisor_script
from volbench.machine.placement.docker.image_names import local_images, pick_server_image, tools_image
from volbench.machine.placement.docker.target import DockerTarget
from volbench.machine.placement.interface import Job, Target
from volbench.machine.placement.kubernetes.options import KubernetesOptions
from volbench.machine.placement.kubernetes.target import KubernetesTarget
from volbench.machine.placement.local import LocalTarget
from volbench.machine.placement.workspace import Workspace
from volbench.machine.volume.interface import OpenVolume
from volbench.machine.volume.kinds.claim import ClaimVolume
from volbench.machine.volume.kinds.run_owner import RunOwner
from volbench.results.store.files import write_record

BOUND_S = 180.0
RUN_ID = "20260101T000000Z-contract-{:06x}"


@dataclass(kw_only=True)
class Placed:
    """A target with a job that prepares a dataset: long enough to be looked at, and to be ended early."""

    target: Target
    workspace: Workspace
    job: Job

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a moment."""
        until_s = time.monotonic() + BOUND_S
        while not condition():
            assert time.monotonic() < until_s, self.target.find(self.job).evidence()
            time.sleep(0.05)

    def working(self) -> bool:
        """The agent has begun: it says what it does."""
        return self.target.find(self.job).running() and (self.job.out / "progress.json").exists()


@pytest.fixture(
    params=[
        pytest.param("local", marks=pytest.mark.mysqld),
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("kubernetes", marks=pytest.mark.kubernetes),
    ]
)
def placed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Placed]:
    """A job on each target, not yet placed."""
    workspace = Workspace(run_id=RUN_ID.format(os.getpid() % 0xFFFFFF), cache=tmp_path / "cache")
    opened = _in_cluster if request.param == "kubernetes" else _on_machine
    with opened(request.param, workspace, tmp_path) as (target, volume, server):
        cell = CellSpec(
            run_id=workspace.run_id,
            cell_id="01-a",
            suite="contract",
            volume="a",
            block=0,
            repeat=1,
            seed=1,
            server=server,
            dataset=DatasetSpec(tables=1, rows=2_000_000),
            steps=(),
            sampling=SamplingSpec(),
            limits=ValidityLimits(),
        )
        cell = target.with_server(cell, volume)
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
            assert workspace.leftovers() == []


@contextmanager
def _on_machine(name: str, workspace: Workspace, _: Path) -> Iterator[tuple[Target, OpenVolume, ServerSpec]]:
    """A directory in memory as the volume; nothing may be left in it."""
    memory = Path(tempfile.mkdtemp(prefix="volbench-test-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    memory.chmod(0o755)
    target: Target = LocalTarget(workspace) if name == "local" else DockerTarget(workspace)
    spec = VolumeSpec(name="a", kind="path", location=str(memory), text=f"path:{memory}")
    flavor = "mariadb" if name == "local" and shutil.which("mariadbd") else "mysql"
    server = ServerSpec.model_validate({"flavor": flavor})
    yield target, OpenVolume(name="a", spec=spec, host_path=memory), server
    assert list(memory.iterdir()) == []
    shutil.rmtree(memory)


@contextmanager
def _in_cluster(_: str, workspace: Workspace, root: Path) -> Iterator[tuple[Target, OpenVolume, ServerSpec]]:
    """A claim in a namespace of its own, in which nothing may be left."""
    (root / "output").touch()  # of commands; there are none here
    if cluster_run.with_lab():
        cluster_run.lab("images")
    with cluster_run.cluster_bench(root) as bench, closing(Cluster(namespace=bench.namespace)) as cluster:
        owner = RunOwner(cluster, workspace.run_id, ttl_s=600, image=tools_image())
        target = KubernetesTarget(workspace, cluster=cluster, options=KubernetesOptions(), owner=owner)
        spec = parse_volume(f"storage-class:{cluster_run.STORAGE_CLASS}?size=2Gi", name="a")
        image = pick_server_image(local_images(), "mysql")
        with ClaimVolume(spec, cluster=cluster, run_id=workspace.run_id, owner=owner) as volume:
            yield target, volume, ServerSpec(image=image.name if image else "")
        owner.end(objects_stay=False)
        bench.until(lambda: bench.leftovers() == [])  # a claim takes a moment


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
    placed.target.launch(placed.job)
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
    placement = placed.target.launch(placed.job)
    placed.until(placed.working)
    placement.kill()
    placed.until(lambda: not placement.running())
    assert not (placed.job.out / "result.json").exists()
    assert isinstance(placement.evidence(), str)
    assert placed.job.volume is not None
    if placed.job.volume.host_path is not None:  # what is on a claim, only a pod can see
        assert (placed.job.volume.host_path / placed.workspace.volume_folder / MARKER).exists()
