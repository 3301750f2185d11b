"""What these tests share: the template cache, so that the dataset is made once; places for volumes and pods."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import cluster_run
import hostile_user
import live_run
import pytest
from emulated_volumes import can_have_requests_over_io_uring, requests_over_io_uring

from volbench.machine.volume.emulated.teardown import take_down


@pytest.fixture(scope="session")
def run_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """VOLBENCH_CACHE of all runs of the session, in whichever worker: a dataset is made once."""
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    cache.mkdir(exist_ok=True)
    return cache


@pytest.fixture(scope="session", autouse=True)
def no_container_left() -> Iterator[None]:
    """At the end of the session, whatever happened to a test: its own containers are removed."""
    yield
    if "server_container" in sys.modules:  # else none was made, and perhaps no engine is there
        sys.modules["server_container"].remove_containers_of_session()


@pytest.fixture
def local(tmp_path: Path, run_cache: Path) -> Iterator[live_run.Bench]:
    """A place for runs on the local target."""
    with live_run.bench("local", tmp_path, run_cache) as opened:
        yield opened


@pytest.fixture
def docker_run(tmp_path: Path, run_cache: Path) -> Iterator[live_run.Bench]:
    """A place for runs in containers."""
    with live_run.bench("docker", tmp_path, run_cache) as opened:
        yield opened


@pytest.fixture(
    params=[pytest.param("local", marks=pytest.mark.mysqld), pytest.param("docker", marks=pytest.mark.docker)]
)
def bench(request: pytest.FixtureRequest, tmp_path: Path, run_cache: Path) -> Iterator[live_run.Bench]:
    """A place for runs on each target in turn."""
    with live_run.bench(request.param, tmp_path, run_cache) as opened:
        yield opened


@pytest.fixture(scope="session")
def lab_images() -> None:
    """The lab's nodes have the images of today's code; elsewhere a registry has."""
    if cluster_run.with_lab():
        cluster_run.lab("images")


@pytest.fixture
def cluster(tmp_path: Path, lab_images: None) -> Iterator[cluster_run.ClusterBench]:
    """A namespace of a cluster for the test."""
    with cluster_run.cluster_bench(tmp_path) as opened:
        yield opened


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file that only root may read."""
    path = tmp_path / "victim"
    path.write_text(hostile_user.TREASURE)
    path.chmod(0o600)
    return path


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory on a real disk for emulated volumes, taken down and removed whatever happens."""
    path = Path(tempfile.mkdtemp(prefix="vbe", dir="/var/tmp"))
    yield path
    for directory in filter(Path.is_dir, path.iterdir()):
        take_down(directory, force=True)
    shutil.rmtree(path)


@pytest.fixture(params=["dev_fuse", "io_uring"])
def transport(request: pytest.FixtureRequest) -> Iterator[str]:
    """How block volumes get their requests from the kernel: each way in turn, where it has both."""
    if request.param == "dev_fuse":
        yield request.param
        return
    if not can_have_requests_over_io_uring():
        pytest.skip("this kernel has no FUSE over io_uring")
    try:
        with requests_over_io_uring():
            yield request.param
    except PermissionError as error:
        pytest.skip(f"this kernel has no FUSE over io_uring that could be enabled: {error}")


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory on a real disk for a server and emulated volumes (in `volumes`); short, for the socket's path."""
    path = Path(tempfile.mkdtemp(prefix="vb", dir="/var/tmp"))
    (path / "volumes").mkdir()
    yield path
    for directory in (path / "volumes").iterdir():
        take_down(directory, force=True)
    shutil.rmtree(path)
