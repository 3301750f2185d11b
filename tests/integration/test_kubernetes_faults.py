"""Faults of nodes and images, made on a real cluster: what the message names, and what the run does then."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import cluster_run
import live_run
import pytest
from cluster_run import ClusterBench, kubectl, until
from cluster_volumes import shared_claims

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.slow,
    pytest.mark.usefixtures("lab_images"),
    pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="the nodes share one machine"),
]
CLAIM = f"storage-class:{cluster_run.STORAGE_CLASS}"
NODE = "node1"
OTHER_ARCHITECTURE = "volbench-lab/other-architecture:1"


@contextmanager
def tainted() -> Iterator[None]:
    kubectl("taint", "node", NODE, "dedicated=batch:NoSchedule")
    try:
        yield
    finally:
        kubectl("taint", "node", NODE, "dedicated=batch:NoSchedule-")


@contextmanager
def cordoned() -> Iterator[None]:
    kubectl("cordon", NODE)
    try:
        yield
    finally:
        kubectl("uncordon", NODE)


@contextmanager
def as_it_is() -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("fault", "made", "option", "message", "evidence"),
    [
        (
            "the only node has a taint",
            tainted,
            "",
            "nodes have taints that the pod does not tolerate",
            "untolerated",
        ),
        ("the only node is cordoned", cordoned, "", "nodes are cordoned", "unschedulable"),
        (
            "the pod asks for more CPUs than a node has",
            as_it_is,
            "server_cpu=500",
            "nodes lack free capacity",
            "cpu",
        ),
    ],
    ids=["taint", "cordon", "capacity"],
)
def test_a_node_that_takes_no_pod_is_named(
    cluster: ClusterBench,
    fault: str,
    made: Callable[[], AbstractContextManager[None]],
    option: str,
    message: str,
    evidence: str,
) -> None:
    """The scheduler's own words are the evidence; nothing is left in the namespace."""
    options = ["start_timeout=8s", *([option] if option else [])]
    with made():
        ended = cluster.end(cluster.start(options=options, volumes={"a": CLAIM}))
    assert ended.code == 3, ended.output
    assert message in ended.output
    assert evidence in ended.output.partition("evidence:")[2]
    cluster.quote(fault, ended)
    assert cluster.leftovers() == []


def elf_of_arm64() -> bytes:
    """The header of an executable for AArch64 (e_machine 183), which no kernel of another machine executes."""
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    return ident + struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, 0x400000, 64, 0, 0, 64, 56, 0, 64, 0, 0)


def elf_of_x86() -> bytes:
    return elf_of_arm64().replace(struct.pack("<H", 183), struct.pack("<H", 62), 1)


@pytest.fixture
def other_architecture() -> Iterator[str]:
    """An image on the lab's first node whose programs are for another processor."""
    machine = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
    program = elf_of_x86() if machine == "aarch64" else elf_of_arm64()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("bin/sh", "bin/bash", "usr/sbin/mysqld", "usr/bin/python3"):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(program), 0o755
            tar.addfile(entry, io.BytesIO(program))
    imported = ["docker", "import", "-", OTHER_ARCHITECTURE]
    subprocess.run(imported, input=archive.getvalue(), check=True, capture_output=True, timeout=60)
    saved = subprocess.run(
        ["docker", "save", OTHER_ARCHITECTURE], check=True, capture_output=True, timeout=60
    ).stdout
    containerd = ["ctr", "-a", str(socket_of_node(1)), "-n", "k8s.io", "images"]
    subprocess.run([*containerd, "import", "-"], input=saved, check=True, capture_output=True, timeout=60)
    yield OTHER_ARCHITECTURE
    subprocess.run(
        [*containerd, "rm", f"docker.io/{OTHER_ARCHITECTURE}"], check=True, capture_output=True, timeout=60
    )
    subprocess.run(["docker", "rmi", OTHER_ARCHITECTURE], check=True, capture_output=True, timeout=60)


def socket_of_node(number: int) -> Path:
    (socket,) = cluster_run.LAB_STATE.glob(f"**/node{number}/containerd.sock")
    return socket


def test_an_image_for_another_processor_is_named(cluster: ClusterBench, other_architecture: str) -> None:
    """The kernel refuses its programs."""
    ended = cluster.end(
        cluster.start(
            f"engine.image={other_architecture}",
            options=["pull_policy=Never", "start_timeout=40s"],
            volumes={"a": CLAIM},
        )
    )
    assert ended.code == 3, ended.output
    assert f"{other_architecture} is not for the architecture of node {NODE}" in ended.output
    assert "exec format error" in ended.output
    cluster.quote("the server's image is for another processor", ended)
    assert cluster.leftovers() == []


@pytest.fixture
def second_node() -> Iterator[None]:
    cluster_run.lab("node", "add", "2")
    yield
    if "node2" in kubectl("get", "nodes"):
        cluster_run.lab("node", "remove", "2")


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("second_node")
def test_a_spot_instance_that_is_taken_back_is_named_and_a_resume_measures_elsewhere(cluster: ClusterBench) -> None:
    """The machine ends with all that ran on it, and a controller removes the node, as on EC2."""
    kubectl("label", "node", "node2", "eks.amazonaws.com/capacityType=SPOT")
    directory = cluster.root / "shared"
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    with shared_claims(cluster, {"a": directory}) as volumes:
        kubectl("cordon", NODE)
        try:
            process = cluster.start("steps.0.duration=30s", options=["start_timeout=20s"], volumes=volumes)
            cluster.until(cluster.in_step, process)
        finally:
            kubectl("uncordon", NODE)
        cluster_run.lab("node", "remove", "2")
        ended = cluster.end(process)
        assert ended.code == 3, ended.output
        assert set(cluster.failed_causes().values()) >= {"spot_interruption"}
        subject = (
            "node node2, on which this run measures, cannot run the pod: the cluster has no such node any more"
        )
        assert subject in ended.output
        cluster.quote("a spot instance is taken back under a cell", ended)
        resumed = cluster.end(cluster.resume())
        assert resumed.code in live_run.FINISHED, resumed.output
        cluster.quote("`volbench resume` after the spot instance was taken back", resumed)
        (result,) = [result for result in cluster.directory.results() if result.status == "done"]
        assert result.host.hostname == NODE


@contextmanager
def policy_for_labels(namespace: str) -> Iterator[None]:
    """The cluster's own admission refuses claims, Jobs and pods of the namespace without the label `team`."""
    name = f"team-{namespace}"
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": resources,
        }
        for group, resources in (("", ["pods", "persistentvolumeclaims", "configmaps"]), ("batch", ["jobs"]))
    ]
    expression = "has(object.metadata.labels) && 'team' in object.metadata.labels"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": expression, "message": "the label team is required"}],
        },
    }
    selected = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": selected},
        },
    }
    for manifest in (policy, binding):
        kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    try:
        until(lambda: "team is required" in refused_map(namespace), "the policy is in force")
        yield
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            kubectl("delete", kind, name)


def refused_map(namespace: str) -> str:
    """What the API server says to an object that is not made: a ConfigMap without labels."""
    command = ["kubectl", "create", "configmap", "x", "-n", namespace, "--dry-run=server"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stderr


def test_a_policy_that_wants_labels_is_named_and_satisfied(cluster: ClusterBench) -> None:
    """Named at the first object, so nothing is left; with the label on all of them, pods included, the run ends."""
    with policy_for_labels(cluster.namespace):
        refused = cluster.end(cluster.start())
        assert refused.code == 3, refused.output
        assert "a policy of the cluster refused the object" in refused.output
        assert "labels=KEY=VALUE" in refused.output
        cluster.quote("a policy of the cluster wants a label", refused)
        assert cluster.everything() == set()
        allowed = cluster.end(cluster.start(options=["labels=team=dba"]))
        assert allowed.code in live_run.FINISHED, allowed.output
    assert cluster.everything() == set()


def test_a_namespace_that_is_missing_is_named_before_anything_is_made(cluster: ClusterBench) -> None:
    ended = cluster.end(cluster.start(options=["namespace=nobody-has-made-it"]))
    assert ended.code == 3, ended.output
    assert "the namespace does not exist" in ended.output
    assert "kubectl apply -k k8s/base" in ended.output
    cluster.quote("the namespace is missing", ended)
