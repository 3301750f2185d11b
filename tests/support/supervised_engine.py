"""Servers under the supervisor for tests: MySQL in a container, mysqld or mariadbd as a child process."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from server_container import supervised

from volbench.core.records.base import Scalar
from volbench.core.records.cell import CellPlaces, ServerSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.machine.engine.server import Server
from volbench.machine.engine.supervisor import Supervisor
from volbench.machine.engine.template import Template, prepare_template, seed
from volbench.machine.placement.capabilities import SEARCH_PATH

DATASET = DatasetSpec(tables=2, rows=2000)
TINY = DatasetSpec(tables=1, rows=10)
CONFIG: dict[str, Scalar] = {"innodb_buffer_pool_size": "32MiB", "innodb_redo_log_capacity": "16MiB"}
LOCAL_FLAVOR = "mariadb" if shutil.which("mariadbd", path=SEARCH_PATH) else "mysql"
LOCAL = pytest.param(False, marks=pytest.mark.mysqld, id="local")
DOCKER = pytest.param(True, marks=pytest.mark.docker, id="docker")
ON_LOCAL = pytest.mark.parametrize("engine", [LOCAL], indirect=True)
"""For what does not depend on where the server is."""
IN_DOCKER = pytest.mark.parametrize("engine", [DOCKER], indirect=True)
DOCKER_IF_SLOW = pytest.mark.parametrize(
    "engine", [LOCAL, pytest.param(True, marks=[pytest.mark.docker, pytest.mark.slow], id="docker")], indirect=True
)
"""For what is the same on both: `make test` asks the server of this machine."""


@dataclass(kw_only=True)
class Bench:
    """A control directory with its supervisor, and a place for data."""

    places: CellPlaces
    supervisor: Supervisor
    flavor: str
    container: str = ""
    programs: Path | None = None

    def server(self, **changes: object) -> Server:
        spec = ServerSpec.model_validate({"flavor": self.flavor, "config": CONFIG, **changes})
        return Server(spec=spec, paths=self.places, supervisor=self.supervisor)

    def kill_from_outside(self, pid: int) -> None:
        if self.container:
            subprocess.run(["docker", "exec", self.container, "sh", "-c", f"kill -9 {pid}"], check=True)
        else:
            os.kill(pid, signal.SIGKILL)


@dataclass(kw_only=True)
class Engine:
    """A way of running servers, with the template of DATASET.

    Args:
        programs: a directory that goes before PATH while a dataset is prepared.
    """

    in_docker: bool
    base: Path
    flavor: str
    programs: Path | None = None

    @contextlib.contextmanager
    def bench(self, data_dir: Path | None = None, **options: str) -> Iterator[Bench]:
        """Everything below one short directory: a socket's path must be."""
        directory = Path(tempfile.mkdtemp(prefix="b", dir=self.base))
        control = directory / "c"
        control.mkdir()
        data_dir = data_dir or directory / "v" / "data"
        data_dir.parent.mkdir(exist_ok=True)
        locations = CellPlaces(
            data_dir=str(data_dir),
            volume_dir=str(data_dir.parent),
            control_dir=str(control),
            template_dir=str(self.base / "t"),
            scratch_dir=str(directory),
        )
        with supervised(control, self.base, self.flavor if self.in_docker else None, **options) as running:
            supervisor, container = running
            yield Bench(
                places=locations,
                supervisor=supervisor,
                flavor=self.flavor,
                container=container,
                programs=self.programs,
            )

    @contextlib.contextmanager
    def seeded(self, template: Template, data_dir: Path | None = None, **options: str) -> Iterator[Bench]:
        """A bench whose data directory is a copy of the template; options are those of `supervised`."""
        with self.bench(data_dir, **options) as bench:
            seed(template.path, Path(bench.places.data_dir))
            yield bench


def prepare(
    bench: Bench, dataset: DatasetSpec, *, cancelled: threading.Event | None = None, **changes: object
) -> tuple[Template, list[str]]:
    output: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        if bench.programs is not None:
            patch.setenv("PATH", str(bench.programs), prepend=os.pathsep)
        template = prepare_template(
            spec=bench.server(**changes).spec,
            dataset=dataset,
            paths=bench.places,
            supervisor=bench.supervisor,
            progress=lambda text, _: output.append(text),
            cancelled=cancelled,
            timeout_s=120.0,
        )
    return template, output
