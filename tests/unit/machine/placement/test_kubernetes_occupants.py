"""A cell that waits for a node says who is there, whose it is, until when, and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster

from volbench.machine.placement.kubernetes.affinity import CELL, COMPONENT, HOLDER
from volbench.machine.placement.kubernetes.cell_objects import labels_of_run
from volbench.machine.placement.kubernetes.manifests import KEEPER
from volbench.machine.placement.kubernetes.occupants import NodeWait, find_occupants, pods_on_claim
from volbench.machine.volume.kinds.run_owner import RunOwner, this_user

RUN, LOST, BUSY = (f"20260101T000000Z-quick-{name}" for name in ("aaaaaa", "bbbbbb", "cccccc"))
KEEPS = [
    {"name": "agent", "state": {"terminated": {"exitCode": 0}}},
    {"name": KEEPER, "state": {"running": {}}},
]
WORKS = [{"name": "agent", "state": {"running": {}}}, {"name": KEEPER, "state": {"running": {}}}]


def put(cluster: FakeCluster, name: str, run: str, component: str = CELL, **status: Any) -> None:
    cluster.put(
        f"pods/{name}",
        metadata={"labels": {**labels_of_run(run), COMPONENT: component}},
        spec={"nodeName": "node2"},
        status={"phase": "Running", **status},
    )


@pytest.fixture
def cluster() -> FakeCluster:
    """A lost laptop's pod that keeps results, a run that measures, and this run's own pods."""
    made = FakeCluster()
    put(made, "busy", BUSY, containerStatuses=WORKS)
    put(made, "busy-holder", BUSY, HOLDER)
    put(made, "kept", LOST, containerStatuses=KEEPS)
    put(made, "over", "gone", phase="Succeeded", containerStatuses=KEEPS)
    put(made, "own", RUN, containerStatuses=WORKS)
    RunOwner(made, LOST, ttl_s=7200, image="tools:1").references()
    return made


def test_the_pod_that_only_keeps_results_comes_first_with_owner_end_and_next_step(cluster: FakeCluster) -> None:
    lost, busy = find_occupants(cluster, RUN)
    assert (lost.run_id, lost.pods, lost.node, lost.keeps_results) == (LOST, ("kept",), "node2", True)
    assert (lost.started_by, lost.expires_at) == (this_user(), "2026-01-01T02:00:00Z")
    assert f"volbench k8s clean -n bench {LOST} --force" in lost.next_step
    assert (busy.run_id, busy.pods, busy.keeps_results) == (BUSY, ("busy", "busy-holder"), False)
    assert (busy.started_by, busy.expires_at) == ("", ""), "unknown is not made up"


def test_without_the_right_to_other_namespaces_this_one_is_looked_at(cluster: FakeCluster) -> None:
    cluster.forbidden = ("/api/v1/pods",)
    assert [occupant.run_id for occupant in find_occupants(cluster, RUN)] == [LOST, BUSY]


def test_the_wait_is_the_progress_of_the_cell(cluster: FakeCluster, tmp_path: Path) -> None:
    wait = NodeWait(cluster, RUN)
    wait.show(tmp_path)
    text = json.loads((tmp_path / "progress.json").read_text())["text"]
    assert all(phrase in text for phrase in (LOST, this_user(), "2026-01-01T02:00:00Z", "volbench resume"))
    (tmp_path / "progress.json").unlink()
    wait.show(tmp_path)
    assert not (tmp_path / "progress.json").exists(), "it asks every half minute alone"


def test_nothing_is_said_where_nobody_may_look(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.forbidden = ("/api",)
    NodeWait(cluster, RUN).show(tmp_path)
    assert not (tmp_path / "progress.json").exists()


def test_pods_that_mount_a_claim_are_named_with_their_run() -> None:
    def pod(name: str, claim: str, run: str = "", **status: Any) -> dict[str, Any]:
        labels = {"volbench.org/run": run} if run else {}
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}, {"name": "tmp", "emptyDir": {}}]
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": "node1", "volumes": volumes},
            "status": status,
        }

    pods = [
        pod("mysql-0", "data"),
        pod("other", "data", LOST),
        pod("own", "data", RUN),
        pod("elsewhere", "logs"),
        pod("ended", "data", phase="Failed"),
    ]
    assert list(pods_on_claim(pods, "data", RUN)) == ["pod mysql-0", f"pod other of run {LOST}"]
