"""The commands of the documentation's pages on Kubernetes, in their order, on a cluster that has nothing yet.

What the lab lacks is played: `aws` does nothing, a pushed image goes to the nodes, the driver of the EBS classes is
that of the lab. Suites are made small by a `volbench` on PATH that adds settings. All else is as the page has it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import live_run
import pytest
from cluster_run import LAB_STATE, has_namespace, kubectl, until

from volbench.machine.placement.docker.image_names import local_images, pick_server_image, tools_image

ROOT = Path(__file__).parents[2]
REGISTRY = "registry.invalid/team"
FILLED_IN = {"REGISTRY": REGISTRY, "CLUSTER": "lab", "REGION": "none"}
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
BOUND_S = 900.0
CONTAINERD = LAB_STATE / "nodes" / "node1" / "containerd.sock"
pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.timeout(1500),
    pytest.mark.usefixtures("lab_images"),
    pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="makes the namespace volbench"),
]


def blocks(page: Path) -> list[list[str]]:
    """Return the commands of each of a page's blocks: lines that go on are joined, comments dropped."""
    matches = re.findall(r"^```\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [
        [line.partition("  #")[0].strip() for line in block.replace("\\\n", " ").splitlines() if line.strip()]
        for block in matches
    ]


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Path]:
    """A directory with k8s/ and suites/ of the project, and the programs of a user's PATH in bin/."""
    assert not has_namespace(), "somebody uses the namespace"
    for name in ("k8s", "suites"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for storage in (tmp_path / "k8s" / "overlays").glob("*/storage.yaml"):
        storage.write_text(storage.read_text().replace("ebs.csi.aws.com", "rancher.io/local-path"))
    server = pick_server_image(local_images(), "mysql")
    assert server is not None
    settings = [
        f"--set={setting}"
        for setting in (*live_run.SMALL, f"engine.image={server.name}", "comparison.until=all_cells")
    ]
    small = " ".join(shlex.quote(setting) for setting in settings)
    write_program(tmp_path, "aws", "exit 0")
    volbench = f"{shlex.quote(sys.executable)} -m volbench"
    write_program(
        tmp_path,
        "volbench",
        f'case $1 in run) set -- "$@" --yes {small};; esac\n'
        f'{volbench} "$@"; code=$?\n[ $code -eq 6 ] || exit $code',  # 6: no verdict of so few cells
    )
    docker = shutil.which("docker")
    write_program(
        tmp_path,
        "docker",
        f'case $1 in tag) exec {docker} tag {tools_image()} "$3";; push) '
        f'{docker} save "$2" | ctr -a {CONTAINERD} -n k8s.io images import - ;; esac',
    )
    kubectl("label", "node", "node1", "--overwrite", f"{INSTANCE_TYPE}=m5.xlarge")
    yield tmp_path
    kubectl("label", "node", "node1", f"{INSTANCE_TYPE}-")
    for overlay in ("ebs-gp2", "ebs-gp3"):
        kubectl("delete", "--ignore-not-found", "-k", str(tmp_path / "k8s" / "overlays" / overlay))
    kubectl("delete", "--ignore-not-found", "--wait=false", "-k", str(tmp_path / "k8s" / "base"))
    until(lambda: not has_namespace(), "the namespace is gone")


def write_program(workplace: Path, name: str, script: str) -> None:
    file = workplace / "bin" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def execute(command: str, workplace: Path) -> str:
    for term, value in FILLED_IN.items():
        command = re.sub(rf"\b{term}\b", value, command)
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=workplace,
        env={**os.environ, "PATH": f"{workplace / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def test_the_short_guide_works_from_an_empty_cluster(workplace: Path) -> None:
    """docs/kubernetes.md: from the login to the deletion; the run leaves no claim, and the overlays go."""
    commands = blocks(ROOT / "docs" / "kubernetes.md")[0]
    assert sum(command.startswith("volbench run") for command in commands) == 1
    for command in commands:
        execute(command, workplace)
    assert "volbench-ebs-gp3" not in kubectl("get", "storageclass", "-o", "name")
    assert kubectl("get", "jobs,pods,pvc", "-n", "volbench", "-o", "name") == ""


def test_the_first_steps_of_the_complete_page_work(workplace: Path) -> None:
    """k8s/README.md: apply, and what a run would apply."""
    outputs = [execute(command, workplace) for command in blocks(ROOT / "k8s" / "README.md")[0]]
    assert "kind: Job" in outputs[-1]


def test_the_rights_of_two_teams_do_not_replace_each_other(workplace: Path) -> None:
    """Each has the base with one line changed, its namespace; rights to the cluster's objects are named by it."""
    base, second = workplace / "k8s" / "base", workplace / "k8s" / "team-b"
    shutil.copytree(base, second)
    kustomization = second / "kustomization.yaml"
    kustomization.write_text(kustomization.read_text().replace("namespace: volbench ", "namespace: team-b "))
    try:
        for directory in (base, second):
            kubectl("apply", "-k", str(directory))
        for namespace in ("volbench", "team-b"):
            account = f"--as=system:serviceaccount:{namespace}:volbench-runner"
            assert kubectl("auth", "can-i", "get", "storageclasses", account).strip() == "yes"
            assert kubectl("auth", "can-i", "create", "jobs", account, "-n", namespace).strip() == "yes"
    finally:
        kubectl("delete", "--ignore-not-found", "--wait=false", "-k", str(second))
