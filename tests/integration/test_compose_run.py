"""docker/compose.yaml for real: a run in containers that are not root, have no rights and a read-only root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from volbench.errors import EXIT_ENVIRONMENT
from volbench.placement.docker.image_names import tools_image
from volbench.placement.docker.images import server_image
from volbench.records.cell import ServerSpec

ROOT = Path(__file__).parents[2]
USER = 999
PROJECT = "volbench-test-compose"
COMPOSE = ["docker-compose", "-f", "docker/compose.yaml"]
BOUND_S = 600.0
SUITE = """
schema: 1
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
    pytest.mark.skipif(
        shutil.which("docker-compose") is None or os.geteuid() != 0, reason="needs docker-compose and root"
    ),
]


@dataclass(frozen=True, kw_only=True)
class Project:
    """One compose project with its variables and directories."""

    environment: dict[str, str]
    results: Path
    volumes: tuple[Path, Path]

    def run(self, *arguments: str, timeout_s: float = BOUND_S) -> subprocess.CompletedProcess[str]:
        """Run docker-compose to its end."""
        return subprocess.run(
            [*COMPOSE, *arguments],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    client = docker.from_env()
    try:
        server = server_image(client, ServerSpec(), pull=False)
    finally:
        client.close()
    places = {name: tmp_path / name for name in ("a", "b", "results", "suites")}
    for place in places.values():
        place.mkdir(mode=0o755)
    (places["a"] / "precious").write_text("not of volbench")
    (places["suites"] / "small.yaml").write_text(SUITE)
    environment = {
        **os.environ,
        "VOLUME_A": str(places["a"]),
        "VOLUME_B": str(places["b"]),
        "RESULTS": str(places["results"]),
        "SUITES": str(places["suites"]),
        "SUITE": "small.yaml",
        "SERVER_IMAGE": server,
        "TOOLS_IMAGE": tools_image(),
        "COMPOSE_PROJECT_NAME": PROJECT,
    }
    made = Project(environment=environment, results=places["results"], volumes=(places["a"], places["b"]))
    yield made
    assert made.run("down", "-v", timeout_s=120).returncode == 0


def inspected(name: str) -> dict[str, Any] | None:
    """What the engine says of a container of the project while it runs."""
    shown = subprocess.run(
        ["docker", "inspect", f"{PROJECT}_{name}_1"], capture_output=True, text=True, timeout=30, check=False
    )
    found = json.loads(shown.stdout or "[]")
    return found[0] if found and found[0]["State"]["Running"] else None


def status_of(pid: int) -> dict[str, str]:
    """/proc/PID/status of a process of a container, as the kernel has it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def server_of(container: str) -> int | None:
    """The database server in a container, by the engine's list of its processes; None before there is one."""
    top = ["docker", "top", container, "-o", "pid,comm"]
    shown = subprocess.run(top, capture_output=True, text=True, timeout=30, check=False)
    rows = [line.split(None, 1) for line in shown.stdout.splitlines()[1:]]
    return next((int(pid) for pid, name in rows if name.strip() in ("mysqld", "mariadbd")), None)


def test_a_run_without_root_or_rights_makes_its_report(project: Project) -> None:
    """Uid, capabilities and no_new_privs as the kernel has them for the server while it serves."""
    prepared = project.run("run", "--rm", "prepare", timeout_s=120)
    assert prepared.returncode == 0, prepared.stdout + prepared.stderr
    assert [place.stat().st_uid for place in (*project.volumes, project.results)] == [USER] * 3
    assert (project.volumes[0] / "precious").stat().st_uid == 0
    assert project.run("up", "-d", timeout_s=120).returncode == 0
    server = None
    until = time.monotonic() + BOUND_S
    while time.monotonic() < until:
        container = inspected("server-a")
        server = server_of(f"{PROJECT}_server-a_1") if container else None
        if container is None or server is not None:
            break
        time.sleep(0.1)
    assert container is not None, project.run("logs").stdout[-3000:]
    assert server is not None
    status = status_of(server)
    assert set(status["Uid"].split()) == {str(USER)}
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    host = container["HostConfig"]
    assert (host["ReadonlyRootfs"], host["NetworkMode"], host["PidsLimit"]) == (True, "none", 4096)
    write = ["docker", "exec", f"{PROJECT}_server-a_1", "sh", "-c", "echo x >/written"]
    refused = subprocess.run(write, capture_output=True, text=True, timeout=30, check=False)
    assert refused.returncode != 0
    assert "Read-only file system" in refused.stderr
    while inspected("runner") is not None and time.monotonic() < until:
        time.sleep(0.5)
    logs = project.run("logs", "--no-color", "runner").stdout
    (report,) = project.results.glob("*/report.json") or [None]
    assert report is not None, logs[-3000:]
    cells = json.loads(report.read_bytes())["cells"]
    assert {cell["volume"] for cell in cells} == {"a", "b"}
    assert all(cell["metrics"]["tps"]["value"] > 0 for cell in cells), logs[-3000:]
    assert (project.volumes[0] / "precious").read_text() == "not of volbench"
    assert [entry.name for place in project.volumes for entry in place.iterdir()] == ["precious"]


def test_without_prepare_the_run_says_what_it_may_not_write_to(project: Project) -> None:
    """By one message and its exit code; the volumes are as they were."""
    assert project.run("up", "-d", timeout_s=120).returncode == 0
    until = time.monotonic() + BOUND_S
    while inspected("runner") is not None and time.monotonic() < until:
        time.sleep(0.2)
    shown = subprocess.run(
        ["docker", "inspect", "-f", "{{.State.ExitCode}}", f"{PROJECT}_runner_1"],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    logs = project.run("logs", "--no-color", "runner").stdout
    assert int(shown.stdout) == EXIT_ENVIRONMENT, logs
    assert "the run's directory cannot be made" in logs
    assert [entry.name for place in project.volumes for entry in place.iterdir()] == ["precious"]
