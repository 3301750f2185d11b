"""Runs over several nodes of a real cluster: whole repeats on each, one verdict, and volumes that cannot follow."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import cluster_run
import live_run
import pytest
from cluster_run import ClusterBench, kubectl
from cluster_volumes import POD_USER, emulated_directory, shared_claims

pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("lab_images")]
only_lab = pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="the nodes share one machine")


CLAIM = f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: mine}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: {cluster_run.STORAGE_CLASS}
  resources: {{requests: {{storage: 1Gi}}}}
"""


@pytest.mark.timeout(400)
def test_a_claim_of_one_node_is_refused_for_a_run_over_two(cluster: ClusterBench) -> None:
    """The user's claim is one volume, a directory of a node; the first pod binds it, and no second cell starts."""
    kubectl("apply", "-n", cluster.namespace, "-f", "-", stdin=CLAIM)
    ended = cluster.end(cluster.start("repeats=2", options=["nodes=2"], volumes={"a": "pvc:mine"}))
    assert ended.code == 3, ended.output
    assert "is bound to node" in ended.output
    assert "cannot be on 2 nodes" in ended.output
    assert cluster.everything() == {"persistentvolumeclaim/mine"}
    cluster.quote("two nodes shall share a claim whose volume is one node's disk", ended)


@pytest.fixture(scope="module")
def nodes(request: pytest.FixtureRequest) -> Iterator[int]:
    """So many nodes for the tests, 2 or by their parameter: a node takes most of a minute."""
    count = getattr(request, "param", 2)
    for number in range(2, count + 1):
        cluster_run.lab("node", "add", str(number))
    yield count
    cluster_run.lab("node", "speed", "1", "0")
    for number in range(2, count + 1):
        cluster_run.lab("node", "remove", str(number))


@only_lab
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("nodes")
def test_two_nodes_measure_at_once_on_volumes_of_their_own(cluster: ClusterBench) -> None:
    """The class's volumes are directories of a node, which nothing could follow. One report comes out of both."""
    process = cluster.start("repeats=2", "steps.0.duration=8s", options=["nodes=2", "parallel=2"])
    cluster.until(lambda: len(running_nodes(cluster)) == 2, process)
    cluster.until(lambda: holders(cluster) == running_nodes(cluster), process)
    claims = cluster.objects("persistentvolumeclaims")
    assert sorted(claim["metadata"]["labels"]["volbench.org/lane"] for claim in claims) == [
        "node1",
        "node1",
        "node2",
        "node2",
    ]
    ended = cluster.end(process)
    assert ended.code in live_run.FINISHED, ended.output
    cluster.assert_all_done_once()
    results = cluster.directory.results()
    volumes = {(result.host.hostname, result.volume_facts.persistent_volume_uid) for result in results}
    assert len(volumes) == 4, "each node has a volume of each"
    assert len({node for node, _ in volumes}) == 2
    assert {row["metric"]: row["nodes"] for row in comparisons(cluster)}["pod_ready_s"] == 2
    assert cluster.everything() == set()
    cluster.quote("two nodes measure at once (nodes=2 parallel=2) on volumes that no other node can use", ended)


def running_nodes(cluster: ClusterBench) -> set[str]:
    """The nodes on which cells of the run are under way now."""
    pods = cluster.objects("pods", "app.kubernetes.io/component=cell")
    return {pod["spec"]["nodeName"] for pod in pods if pod["status"].get("phase") == "Running"}


def holders(cluster: ClusterBench) -> set[str]:
    """The nodes that the run keeps."""
    pods = cluster.objects("pods", "app.kubernetes.io/component=holder")
    return {pod["spec"]["nodeName"] for pod in pods if pod["status"].get("phase") == "Running"}


def comparisons(cluster: ClusterBench) -> list[dict[str, Any]]:
    """The rows of the report that compare volumes."""
    rows: list[dict[str, Any]] = cluster.report()["comparisons"]  # type: ignore[assignment]
    return rows


@only_lab
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("nodes")
def test_each_node_measures_whole_repeats_of_all_volumes(cluster: ClusterBench) -> None:
    """Four repeats on two nodes, on claims that move: two of each volume on either, compared within them."""
    directories = {name: cluster.root / f"shared-{name}" for name in "ab"}
    for directory in directories.values():
        directory.mkdir()
        os.chown(directory, POD_USER, POD_USER)
    with shared_claims(cluster, directories) as volumes:
        ended = cluster.end(cluster.start("repeats=4", options=["nodes=2"], volumes=volumes))
    assert ended.code in live_run.FINISHED, ended.output
    cluster.assert_all_done_once()
    node_of = {result.cell_id: result.host.hostname for result in cluster.directory.results()}
    of_repeats = [{node_of[f"{repeat:02d}-{name}"] for name in "ab"} for repeat in range(1, 5)]
    assert all(len(of_repeat) == 1 for of_repeat in of_repeats), of_repeats
    assert of_repeats[0] == of_repeats[1] != of_repeats[2] == of_repeats[3]
    assert {row["metric"]: row["nodes"] for row in comparisons(cluster)}["pod_ready_s"] == 2
    assert "Volumes are compared within each of 2 nodes" in ended.output


SPEEDS = {1: 0.5, 2: 0.9, 3: 1.6}
"""Node -> CPUs of its quota. The smallest container of a pod has a limit of half a CPU, and a control group of
version 1 refuses more than the one above it has. With 0.75 in the middle, a busy machine once hid it."""
RUN_S_MAX = 1200.0
SHARED = "limits.device_against_client=100%"
"""The nodes share one disk with all else on this machine."""


@pytest.fixture
def speeds(nodes: int) -> None:
    """Three nodes of different speed."""
    assert nodes == len(SPEEDS)
    for number, cpus in SPEEDS.items():
        cluster_run.lab("node", "speed", str(number), str(cpus))


def record(kind: str, cluster: ClusterBench) -> None:
    """Append nodes, figures and verdict to the file that VOLBENCH_NODE_RUNS names, for results/examples."""
    if file := os.environ.get("VOLBENCH_NODE_RUNS"):
        cells = [
            {"cell": result.cell_id, "node": result.host.hostname, "tps": result.steps[0].metrics["tps"].value}
            for result in cluster.directory.results()
        ]
        summary: dict[str, Any] = cluster.report()["summary"]  # type: ignore[assignment]
        rows = [{key: row[key] for key in ("metric", "verdict", "ratio")} for row in comparisons(cluster)]
        with Path(file).open("a") as lines:
            made = {"kind": kind, "speeds": SPEEDS, "sentence": summary["sentence"], "rows": rows, "cells": cells}
            lines.write(json.dumps(made) + "\n")


def medians(cluster: ClusterBench) -> dict[str, float]:
    """Node -> median transactions per second of its cells."""
    figures: dict[str, list[float]] = {}
    for result in cluster.directory.results():
        figures.setdefault(str(result.host.hostname), []).append(result.steps[0].metrics["tps"].value)
    return {node: median(values) for node, values in figures.items()}


@only_lab
@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("nodes", [3], indirect=True)
@pytest.mark.parametrize("run", [1, 2, 3])
@pytest.mark.usefixtures("speeds")
def test_equal_volumes_on_nodes_of_different_speed_are_not_told_apart(cluster: ClusterBench, run: int) -> None:
    """Two volumes of one class, six repeats on three nodes at once: the nodes differ, the volumes do not."""
    process = cluster.start("repeats=6", "steps.0.duration=4s", SHARED, options=["nodes=3", "parallel=3"])
    ended = cluster.end(process, RUN_S_MAX)
    assert ended.code in live_run.FINISHED, ended.output
    cluster.assert_all_done_once()
    record(f"equal, run {run}", cluster)
    cluster.quote(
        "two volumes of one class over three nodes of which each is twice as fast as the one before", ended
    )
    speeds = medians(cluster)
    assert len(speeds) == 3
    assert max(speeds.values()) > 1.3 * min(speeds.values()), speeds
    assert {row["verdict"] for row in comparisons(cluster)} <= {"inconclusive", "equivalent"}, ended.output


@only_lab
@pytest.mark.emulator
@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("nodes", [3], indirect=True)
@pytest.mark.usefixtures("speeds")
def test_a_difference_holds_over_three_nodes_of_different_speed(cluster: ClusterBench, root: Path) -> None:
    """An emulated io2 and an emulated EBS volume of 2016 move from node to node; one verdict comes out."""
    specs = {"fast": "emulated:ebs-io2?size=16GiB", "slow": "emulated:ebs-2016?size=16GiB"}
    small = ("dataset.rows=10000", "engine.config.innodb_buffer_pool_size=8M", "limits.emulator_late=100%", SHARED)
    with ExitStack() as stack:
        directories = {
            name: stack.enter_context(emulated_directory(cluster, root, *of))
            for name, *of in ((name, name, spec) for name, spec in specs.items())
        }
        volumes = stack.enter_context(shared_claims(cluster, directories))
        process = cluster.start("repeats=6", "steps.0.duration=4s", *small, options=["nodes=3"], volumes=volumes)
        ended = cluster.end(process, RUN_S_MAX)
    assert ended.code in live_run.FINISHED, ended.output
    cluster.assert_all_done_once()
    record("different", cluster)
    cluster.quote("a fast and a slow volume over the same three nodes", ended)
    (tps,) = [row for row in comparisons(cluster) if row["metric"] == "tps"]
    assert (tps["verdict"], tps["nodes"]) == ("worse", 3), ended.output
