"""docker/volumes: an emulated volume as a container, beside a plain directory, by docker-compose."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from compose_v2 import compose_v2

from volbench.core.records.cell import ServerSpec
from volbench.machine.placement.docker.image_names import tools_image
from volbench.machine.placement.docker.images import server_image
from volbench.machine.volume.emulated.attachments import attachments

ROOT = Path(__file__).parents[2]
IMAGE = "volbench/volume:test"
DAEMON = ROOT / ".venv" / "bin" / "volbench-volume"

pytestmark = [
    pytest.mark.docker,
    pytest.mark.emulator,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(compose_v2() is None, reason="needs docker-compose v2"),
]


@pytest.fixture
def shared(root: Path) -> Iterator[Path]:
    """A directory that is mounted shared, as docker/volumes/README.md says."""
    directory = root / "shared"
    directory.mkdir()
    subprocess.run(["mount", "--bind", directory, directory], check=True)
    subprocess.run(["mount", "--make-shared", directory], check=True)
    yield directory
    subprocess.run(["umount", directory], check=True)


@pytest.fixture
def image(tmp_path: Path) -> str:
    for file in (*(ROOT / "docker" / "volumes").iterdir(), DAEMON):
        shutil.copy2(file, tmp_path)
    build = [
        "docker",
        "build",
        "-q",
        "--network=host",
        "-t",
        IMAGE,
        "--build-arg",
        f"TOOLS={tools_image()}",
        str(tmp_path),
    ]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    return IMAGE


def compose_run(
    argv: list[str], environment: dict[str, str], *, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def test_a_run_compares_a_directory_with_an_emulated_volume_and_leaves_nothing(
    root: Path, shared: Path, image: str
) -> None:
    plain, results = root / "plain", root / "results"
    plain.mkdir()
    client = docker.from_env()
    try:
        server = server_image(client, ServerSpec(), pull=False)
    finally:
        client.close()
    environment = {
        **os.environ,
        "PLACE": str(shared),
        "VOLUME_A": str(plain),
        "VOLUME_B": str(shared),
        "RESULTS": str(results),
        "SERVER_IMAGE": server,
        "TOOLS_IMAGE": tools_image(),
        "VOLUME_IMAGE": image,
        "COMPOSE_PROJECT_NAME": "volbench-test-volumes",
    }
    compose = [str(compose_v2()), "-f", "docker/compose.yaml", "-f", "docker/volumes/compose.yaml"]
    up = [*compose, "up", "--exit-code-from", "runner"]
    try:
        done = subprocess.run(
            up, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=700, check=False
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    finally:
        subprocess.run(
            [*compose, "down", "-v"], cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120
        )
    (report,) = results.glob("*/report.json")
    volumes = {volume["name"]: volume for volume in json.loads(report.read_bytes())["volumes"]}
    assert (volumes["a"]["emulated"], volumes["b"]["emulated"]) == (False, True)
    assert volumes["b"]["profile"] == "ebs-gp3"
    assert not attachments(shared / "b")
    assert list(shared.iterdir()) == []
