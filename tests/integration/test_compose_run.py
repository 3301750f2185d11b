"""docker/compose.yaml for real: a run in containers that are not root, have no rights and a read-only root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
from compose_v2 import compose_v2

from volbench.core.records.cell import ServerSpec
from volbench.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_USAGE
from volbench.machine.placement.capabilities import docker_image
from volbench.machine.placement.docker.image_names import SERVER_ALIAS, TOOLS_ALIAS, tools_image
from volbench.machine.placement.docker.images import server_image

ROOT = Path(__file__).parents[2]
USER = 999
PROJECT = "volbench-test-compose"
COMPOSE = compose_v2()
PLAIN = ROOT / "docker" / "compose.yaml"
BOUND_S = 600.0
FINISHED = (EXIT_OK, EXIT_UNDECIDED)
"""One cell of each volume decides nothing."""
SUITE = """
schema: 2
name: small
engine: {config: {innodb_buffer_pool_size: 32M}}
dataset: {tables: 1, rows: 2000}
limits: {foreign_iops: 1000000, foreign_cpu: 100%, missed_samples: 90%}
steps:
  - {kind: oltp, name: rw, test: oltp_read_write, threads: 2, warmup: 0s, duration: 2s}
repeats: 1
replacements: 0
"""

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(COMPOSE is None or os.geteuid() != 0, reason="needs docker-compose v2 and root"),
]


@dataclass(frozen=True, kw_only=True)
class Project:
    """One compose project with its variables and directories."""

    environment: dict[str, str]
    results: Path
    volumes: tuple[Path, ...]
    file: Path = PLAIN

    def run(self, *arguments: str, timeout_s: float = BOUND_S) -> subprocess.CompletedProcess[str]:
        """Run docker-compose to its end."""
        assert COMPOSE is not None
        return subprocess.run(
            [COMPOSE, "-f", self.file, *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    client = docker.from_env()
    try:
        server = server_image(client, ServerSpec(), pull=False)
    finally:
        client.close()
    locations = {name: tmp_path / name for name in ("a", "b", "c", "results", "suites")}
    for location in locations.values():
        location.mkdir(mode=0o755)
    (locations["a"] / "precious").write_text("not of volbench")
    (locations["suites"] / "small.yaml").write_text(SUITE)
    environment = {
        **os.environ,
        "VOLUME_A": str(locations["a"]),
        "VOLUME_B": str(locations["b"]),
        "NAME_A": "gp3",
        "NAME_B": "io2",
        "RESULTS": str(locations["results"]),
        "SUITES": str(locations["suites"]),
        "SUITE": "small.yaml",
        "SERVER_IMAGE": server,
        "TOOLS_IMAGE": tools_image(),
        "COMPOSE_PROJECT_NAME": PROJECT,
    }
    made = Project(environment=environment, results=locations["results"], volumes=(locations["a"], locations["b"]))
    yield made
    assert made.run("down", "-v", timeout_s=120).returncode == 0


def inspected(name: str) -> dict[str, Any] | None:
    """What the engine says of a container of the project while it runs."""
    result = subprocess.run(
        ["docker", "inspect", f"{PROJECT}-{name}-1"], capture_output=True, text=True, timeout=120, check=False
    )
    document = json.loads(result.stdout or "[]")
    return document[0] if document and document[0]["State"]["Running"] else None


def status_of(pid: int) -> dict[str, str]:
    """/proc/PID/status of a process of a container, as the kernel has it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def server_of(container: str) -> int | None:
    """The database server in a container, by the engine's list of its processes; None before there is one."""
    top = ["docker", "top", container, "-o", "pid,comm"]
    result = subprocess.run(top, capture_output=True, text=True, timeout=120, check=False)
    rows = [line.split(None, 1) for line in result.stdout.splitlines()[1:]]
    return next((int(pid) for pid, name in rows if name.strip() in ("mysqld", "mariadbd")), None)


def test_a_run_without_root_or_rights_makes_its_report(project: Project) -> None:
    """As docker/README.md writes it. Uid, capabilities and no_new_privs as the kernel has them while it serves."""
    prepared = project.run("run", "--rm", "prepare", timeout_s=120)
    assert prepared.returncode == 0, prepared.stdout + prepared.stderr
    assert [location.stat().st_uid for location in (*project.volumes, project.results)] == [USER] * 3
    assert (project.volumes[0] / "precious").stat().st_uid == 0
    assert COMPOSE is not None
    up = subprocess.Popen(
        [COMPOSE, "-f", PLAIN, "up", "--exit-code-from", "runner"],
        cwd=ROOT,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    server = None
    until = time.monotonic() + BOUND_S
    while server is None and up.poll() is None and time.monotonic() < until:
        container = inspected("server-a")
        server = server_of(f"{PROJECT}-server-a-1") if container else None
        time.sleep(0.1)
    if server is not None:
        status = status_of(server)
        assert container is not None
        host = container["HostConfig"]
        write = ["docker", "exec", f"{PROJECT}-server-a-1", "sh", "-c", "echo x >/written"]
        refused = subprocess.run(write, capture_output=True, text=True, timeout=120, check=False)
    logs, _ = up.communicate(timeout=BOUND_S)
    assert server is not None, logs[-3000:]
    assert set(status["Uid"].split()) == {str(USER)}
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert (host["ReadonlyRootfs"], host["NetworkMode"], host["PidsLimit"]) == (True, "none", 4096)
    assert refused.returncode != 0
    assert "Read-only file system" in refused.stderr
    assert up.returncode in FINISHED, logs[-3000:]
    (report,) = project.results.glob("*/report.json") or [None]
    assert report is not None, logs[-3000:]
    assert {path.stat().st_uid for path in project.results.rglob("*")} == {USER}
    cells = json.loads(report.read_bytes())["cells"]
    assert {cell["volume"] for cell in cells} == {"gp3", "io2"}
    assert all(cell["metrics"]["tps"]["value"] > 0 for cell in cells), logs[-3000:]
    assert (project.volumes[0] / "precious").read_text() == "not of volbench"
    assert [entry.name for volume in project.volumes for entry in volume.iterdir()] == ["precious"]


def test_a_run_that_fails_gives_its_exit_code(project: Project) -> None:
    assert project.run("run", "--rm", "prepare", timeout_s=120).returncode == 0
    (Path(project.environment["SUITES"]) / "small.yaml").write_text("schema: 2\nnmae: x\n")
    done = project.run("up", "--exit-code-from", "runner")
    assert done.returncode == EXIT_USAGE, done.stdout[-2000:] + done.stderr[-2000:]


def test_three_volumes_with_names_of_their_own_from_the_command(project: Project, tmp_path: Path) -> None:
    """`volbench compose` needs no checkout beside its file."""
    named = {"gp2": tmp_path / "a", "gp3": tmp_path / "b", "io2": tmp_path / "c"}
    options = [argument for name, location in named.items() for argument in ("--volume", f"{name}={location}")]
    printed = subprocess.run(
        [sys.executable, "-m", "volbench", "compose", *options], capture_output=True, text=True, check=True
    )
    file = tmp_path / "elsewhere" / "compose.yaml"
    file.parent.mkdir()
    file.write_text(
        printed.stdout.replace(
            "${RESULTS:-./results}:/results", f"${{RESULTS}}:/results\n    - {tmp_path}/suites:/suites:ro"
        )
    )
    environment = {**project.environment, "SUITE": "/suites/small.yaml", "RUN_AS": "1234:1234"}
    of_three = Project(environment=environment, results=project.results, volumes=tuple(named.values()), file=file)
    try:
        prepared = of_three.run("run", "--rm", "prepare", timeout_s=120)
        assert prepared.returncode == 0, prepared.stderr
        done = of_three.run("up", "--exit-code-from", "runner")
        assert done.returncode in FINISHED, (done.stdout + done.stderr)[-3000:]
    finally:
        assert of_three.run("down", "-v", timeout_s=120).returncode == 0
    (report,) = of_three.results.glob("*/report.json")
    assert [volume["name"] for volume in json.loads(report.read_bytes())["volumes"]] == list(named)
    assert {path.stat().st_uid for path in of_three.results.rglob("*")} == {1234}


def test_without_a_variable_the_images_are_those_of_make_images(project: Project) -> None:
    names = ("SERVER_IMAGE", "TOOLS_IMAGE")
    environment = {key: value for key, value in project.environment.items() if key not in names}
    plain = Project(environment=environment, results=project.results, volumes=project.volumes)
    fields = plain.run("config", "--images", timeout_s=60).stdout.split()
    assert set(fields) == {SERVER_ALIAS, TOOLS_ALIAS}
    for image in fields:
        assert docker_image(image).present, image


def test_without_prepare_the_log_says_what_to_run_and_nothing_is_written(project: Project) -> None:
    """Servers and runner fail at the same time; whichever is first ends the others."""
    up = project.run("up", "--exit-code-from", "runner")
    assert up.returncode != 0
    assert 'may not write to /control/a; with compose, run "prepare" first' in up.stdout + up.stderr
    assert [entry.name for volume in project.volumes for entry in volume.iterdir()] == ["precious"]
    assert list(project.results.iterdir()) == []
