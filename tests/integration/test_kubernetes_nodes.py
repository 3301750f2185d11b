"""Runs over several nodes of a real cluster: whole repeats on each, one verdict, and volumes that cannot follow."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import cluster_run
import live_run
import pytest
from cluster_run import ClusterBench, kubectl
from cluster_volumes import POD_USER

CLASS = "lab-shared-by-nodes"
pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("lab_images")]
only_lab = pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="the nodes share one machine")


@pytest.mark.timeout(400)
def test_a_volume_of_one_node_is_refused_for_a_run_over_two(cluster: ClusterBench) -> None:
    """The class's volumes are directories of a node; the first pod binds one, and no second cell starts."""
    ended = cluster.end(cluster.start("repeats=2", options=["nodes=2"]))
    assert ended.code == 3, ended.output
    assert "is bound to node" in ended.output
    assert "cannot be on 2 nodes" in ended.output
    assert cluster.leftovers() == []


@pytest.fixture
def second_node() -> Iterator[None]:
    """One node more for the test."""
    cluster_run.lab("node", "add", "2")
    yield
    cluster_run.lab("node", "remove", "2")


@pytest.fixture
def shared_claims(cluster: ClusterBench) -> Iterator[dict[str, str]]:
    """Claims on directories that each node can mount, as with a file system in the network; the volumes' SPECs."""
    names = {name: f"{cluster.namespace}-{name}" for name in "ab"}
    objects = []
    for name, volume in names.items():
        directory = cluster.root / f"shared-{name}"
        directory.mkdir()
        os.chown(directory, POD_USER, POD_USER)
        size, common = {"storage": "4Gi"}, {"accessModes": ["ReadWriteOnce"], "storageClassName": CLASS}
        objects += [
            {
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
                "spec": {
                    **common, "capacity": size, "persistentVolumeReclaimPolicy": "Retain",
                    "hostPath": {"path": str(directory), "type": "Directory"},
                },
            },
            {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": cluster.namespace},
                "spec": {**common, "volumeName": volume, "resources": {"requests": size}},
            },
        ]  # fmt: skip
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    kubectl("apply", "-f", "-", stdin=json.dumps(listed))
    yield {name: f"pvc:{name}" for name in names}
    kubectl("delete", "pvc", *names, "-n", cluster.namespace, "--ignore-not-found", "--wait=false")
    kubectl("delete", "pv", *names.values(), "--ignore-not-found", "--wait=false")


@only_lab
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("second_node")
def test_each_node_measures_whole_repeats_of_all_volumes(
    cluster: ClusterBench, shared_claims: dict[str, str]
) -> None:
    """Four repeats on two nodes: two of each volume on either, and the report compares within them."""
    ended = cluster.end(cluster.start("repeats=4", options=["nodes=2"], volumes=shared_claims))
    assert ended.code in live_run.FINISHED, ended.output
    cluster.assert_all_done_once()
    node_of = {result.cell_id: result.host.hostname for result in cluster.directory.results()}
    nodes = [{node_of[f"{repeat:02d}-{name}"] for name in shared_claims} for repeat in range(1, 5)]
    assert all(len(of_repeat) == 1 for of_repeat in nodes), nodes
    assert nodes[0] == nodes[1] != nodes[2] == nodes[3]
    comparisons = cluster.report()["comparisons"]
    assert {row["nodes"] for row in comparisons} == {2}  # type: ignore[attr-defined]
    assert "Volumes are compared within each of 2 nodes" in ended.output
