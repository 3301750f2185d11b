"""What a pod's status tells: a cause and evidence, or nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from volbench.errors import UsageError
from volbench.machine.placement.kubernetes.cell_objects import cell_name
from volbench.machine.placement.kubernetes.options import labels_of, parse_changes, tolerations_of
from volbench.machine.placement.kubernetes.pods import (
    describe_pod,
    ended_trouble,
    has_ended,
    is_running,
    waiting_trouble,
)
from volbench.machine.placement.kubernetes.requests import limits_refused
from volbench.machine.placement.kubernetes.result import enrich_from_cluster, pod_times_s
from volbench.machine.placement.kubernetes.scheduling import spot_interruption, suspension
from volbench.machine.volume.kinds.claim import kubernetes_size


def pod(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Pending", **status},
    }


def container(name: str, **state: Any) -> dict[str, Any]:
    return {"name": name, "image": "i:1", "restartCount": 0, "state": {}, "lastState": {}, **state}


def scheduled(message: str) -> dict[str, Any]:
    return pod(conditions=[{"type": "PodScheduled", "status": "False", "message": message}])


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("0/1 nodes are available: 1 Insufficient cpu.", "unschedulable"),
        ("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "volume_pending"),
        ("0/3 nodes are available: 3 node(s) had volume node affinity conflict.", "volume_pending"),
    ],
)
def test_a_pod_without_a_node_says_why(message: str, cause: str) -> None:
    result = waiting_trouble(scheduled(message))
    assert result is not None
    assert (result.cause, result.evidence, result.final) == (cause, message, False)


RECORDED = json.loads(
    (Path(__file__).parents[3] / "fixtures" / "kubernetes" / "events" / "v1.34.4.json").read_bytes()
)
"""Pods and events of a real cluster, by tests/lab/kubernetes/troubles.py."""
CONDITIONS = {
    "zone-conflict": ("volume_pending", "the claim's volume is in a zone or on a node that no allowed node is in"),
    "attach-limit": ("volume_pending", "their attach limit is reached"),
    "no-default-class": (
        "volume_pending",
        "the claim names no storage class, and the cluster has no default class",
    ),
    "class-missing": ("volume_pending", "the claim's storage class does not exist"),
    "nobody-provisions": ("volume_pending", "the class's provisioner has not made the volume"),
    "no-volume-of-class": ("volume_pending", "the claim's class has no volume to give on an allowed node"),
    "claim-missing": ("volume_pending", "the claim does not exist any more"),
    "selector": ("unschedulable", "nodes lack the labels of `selector` or `node`"),
    "memory": ("unschedulable", "nodes lack free capacity"),
}


def test_every_recorded_condition_has_a_name() -> None:
    assert set(CONDITIONS) == set(RECORDED["conditions"])


@pytest.mark.parametrize("condition", sorted(CONDITIONS))
def test_what_a_real_scheduler_says_is_named(condition: str) -> None:
    """One cause alone, in words; the message of the cluster is the evidence."""
    observed = RECORDED["conditions"][condition]
    claims = [event for event in observed["events"] if event["involvedObject"]["kind"] == "PersistentVolumeClaim"]
    result = waiting_trouble(observed["pod"], claims)
    assert result is not None
    cause, subject = CONDITIONS[condition]
    assert result.cause == cause
    assert result.what.endswith(subject)
    assert [alternative for alternative in CONDITIONS.values() if alternative[1] in result.what] == [
        CONDITIONS[condition]
    ]
    assert result.evidence == next(
        condition["message"]
        for condition in observed["pod"]["status"]["conditions"]
        if condition["status"] == "False"
    )


def test_several_reasons_are_all_named() -> None:
    """As the scheduler's documentation shows them."""
    result = waiting_trouble(
        scheduled("0/6 nodes are available: 2 Insufficient memory, 4 node(s) had untolerated taint {spot: true}.")
    )
    assert result is not None
    assert result.what == (
        "no node can run the pod: nodes have taints that the pod does not tolerate; nodes lack free capacity"
    )


def node(taints: Sequence[str] = (), labels: dict[str, str] | None = None) -> dict[str, Any]:
    spec = {"taints": [{"key": key} for key in taints]}
    return {"metadata": {"name": "n1", "labels": labels or {}}, "spec": spec}


def test_a_spot_interruption_needs_a_notice_or_a_spot_node_that_goes() -> None:
    spot = {"karpenter.sh/capacity-type": "spot"}
    assert "spot-itn" in spot_interruption(node(["aws-node-termination-handler/spot-itn"]))
    assert "is a spot instance" in spot_interruption(node(["karpenter.sh/disrupted"], spot))
    assert spot_interruption(node(labels=spot)) == "", "somebody evicted the pod: the node stays"
    assert spot_interruption(node(["karpenter.sh/disrupted"])) == "", "an on-demand node that is consolidated"
    assert spot_interruption(None) == ""
    assert "was a spot instance" in spot_interruption(node(labels=spot), is_removed=True)
    assert spot_interruption(node(), is_removed=True) == "", "somebody removed an on-demand node"


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"])
def test_an_image_that_cannot_be_had_is_final(reason: str) -> None:
    waiting = container("server", state={"waiting": {"reason": reason, "message": "no such host"}})
    result = waiting_trouble(pod(initContainerStatuses=[waiting]))
    assert result is not None
    assert result.final
    assert result.cause == "image_missing"
    assert result.at_once == (reason != "ImagePullBackOff"), "a registry may fail for a moment"
    assert "no such host" in result.evidence


def test_a_pod_that_is_just_being_made_is_in_no_trouble() -> None:
    waiting = container("server", state={"waiting": {"reason": "ContainerCreating"}})
    assert waiting_trouble(pod(initContainerStatuses=[waiting])) is None
    assert waiting_trouble(pod()) is None


def ended(reason: str, code: int) -> dict[str, Any]:
    return {"terminated": {"reason": reason, "exitCode": code, "finishedAt": "2026-01-01T00:01:00Z"}}


def disrupted(reason: str) -> dict[str, Any]:
    return {"type": "DisruptionTarget", "status": "True", "reason": reason}


def restarted(reason: str) -> dict[str, Any]:
    return container("server", lastState=ended(reason, 137), restartCount=1)


@pytest.mark.parametrize(
    ("observed", "cause"),
    [
        (pod(phase="Failed", reason="Evicted", message="low on memory"), "evicted"),
        (
            pod(
                phase="Failed", reason="Evicted", message='Usage of EmptyDir volume "out" exceeds the limit "5Gi". '
            ),
            "storage_limit",
        ),
        (
            pod(
                phase="Failed",
                reason="Evicted",
                message='Container agent exceeded its local ephemeral storage limit "1Gi". ',
            ),
            "storage_limit",
        ),
        (pod(phase="Failed", reason="NodeLost"), "node_lost"),
        (pod(conditions=[disrupted("DeletionByTaintManager")]), "node_lost"),
        (pod(conditions=[disrupted("EvictionByEvictionAPI")]), "evicted"),
        (pod(containerStatuses=[container("agent", state=ended("OOMKilled", 137))]), "oom"),
        (pod(initContainerStatuses=[restarted("OOMKilled")]), "oom"),
        (pod(initContainerStatuses=[restarted("Error")]), "server_killed"),
        (pod(initContainerStatuses=[container("server", state=ended("Error", 137))]), "server_killed"),
    ],
)
def test_who_ended_a_pod_is_named(observed: dict[str, Any], cause: str) -> None:
    result = ended_trouble(observed)
    assert result is not None
    assert result.cause == cause


def test_a_supervisor_that_was_asked_to_end_was_not_killed() -> None:
    """The agent ends it when the cell is done; the kubelet then starts it again, for nothing."""
    status = container("server", lastState=ended("Completed", 0), restartCount=1)
    assert ended_trouble(pod(initContainerStatuses=[status])) is None


def test_a_pod_that_somebody_deleted_is_told_as_that() -> None:
    observed = pod()
    observed["metadata"]["deletionTimestamp"] = "2026-01-01T00:02:00Z"
    result = ended_trouble(observed)
    assert result is not None
    assert result.cause == "pod_deleted"


def test_containers_are_told_with_reason_exit_code_and_events() -> None:
    agent = container("agent", state=ended("Error", 3))
    text = describe_pod(
        pod(containerStatuses=[agent]), [{"reason": "Pulled", "message": "image", "count": 2}], "last line"
    )
    assert "pod p on n1: Pending" in text
    assert "container agent: terminated Error, exit code 3" in text
    assert "event Pulled: image (x2)" in text
    assert text.endswith("last line")
    assert has_ended(pod(containerStatuses=[agent]), "agent")
    assert not is_running(pod(), "agent")
    assert describe_pod(None, [], "") == "pod: none"


def test_pod_times_are_spans_between_what_the_cluster_put_down() -> None:
    """What is not known is absent."""
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:04Z"},
        {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"},
    ]
    server = container("server", state={"running": {"startedAt": "2026-01-01T00:00:50Z"}})
    agent = container("agent", state={"terminated": {"startedAt": "2026-01-01T00:01:00Z"}})
    observed = pod(conditions=conditions, initContainerStatuses=[server], containerStatuses=[agent])
    assert pod_times_s(observed) == {
        "pod_scheduled_s": 4.0,
        "pod_sandbox_s": 5.0,
        "pod_server_started_s": 50.0,
        "pod_ready_s": 60.0,
    }
    assert pod_times_s(pod()) == {}


def test_pulls_and_attached_volumes_are_told_by_events() -> None:
    """A server's container that ended with its cell and was started again counts by its first start."""
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:04Z"}]
    events = [
        {"reason": "SuccessfulAttachVolume", "lastTimestamp": "2026-01-01T00:00:12Z"},
        {"reason": "Pulled", "message": 'Successfully pulled image "a:1" in 1m2.5s (1m3s including waiting)'},
        {"reason": "Pulled", "message": 'Successfully pulled image "b:1" in 500ms (500ms including waiting)'},
        {"reason": "Pulled", "message": 'Container image "c:1" already present on machine'},
    ]
    first = {"terminated": {"startedAt": "2026-01-01T00:01:20Z", "exitCode": 0}}
    server = container("server", restartCount=1, lastState=first)
    assert pod_times_s(pod(conditions=conditions, initContainerStatuses=[server]), events) == {
        "pod_scheduled_s": 4.0,
        "pod_volume_attached_s": 8.0,
        "pod_server_started_s": 80.0,
        "pod_image_pull_s": 63.0,
    }


def test_a_cell_without_result_stays_without(tmp_path: Path) -> None:
    enrich_from_cluster(tmp_path / "result.json", pod(), None)
    assert list(tmp_path.iterdir()) == []


def test_names_of_cells_that_differ_only_in_what_kubernetes_does_not_allow_differ() -> None:
    names = {cell_name("20260101T000000Z-quick-ab12cd", cell, 1) for cell in ("01-gp3.a", "01-gp3-a", "01-GP3_a")}
    assert len(names) == 3
    long = cell_name("20260101T000000Z-quick-ab12cd", "01-" + "x" * 41, 12)
    assert len(long) <= 63
    assert long.endswith("-12")


def test_sizes_are_binary_in_kubernetes_too() -> None:
    assert [kubernetes_size(text) for text in ("100Gi", "100GiB", "100G", "1.5T", "500MB")] == [
        "100Gi",
        "100Gi",
        "100Gi",
        "1.5Ti",
        "500M",
    ]


def test_selectors_and_tolerations_are_read_or_refused() -> None:
    assert labels_of("a=b, c/d=e") == {"a": "b", "c/d": "e"}
    assert tolerations_of("k=v:NoSchedule,spot:NoExecute") == [
        {"key": "k", "effect": "NoSchedule", "operator": "Equal", "value": "v"},
        {"key": "spot", "effect": "NoExecute", "operator": "Exists"},
    ]
    with pytest.raises(UsageError, match="key=value"):
        labels_of("a")
    with pytest.raises(UsageError, match="key=value:Effect"):
        tolerations_of("NoSchedule")


@pytest.mark.parametrize(
    ("message", "description"),
    [
        (
            'Error creating: pods "p" is forbidden: failed quota: sizes: must specify limits.cpu for: agent,server',
            "ResourceQuota demands sizes",
        ),
        (
            'Error creating: pods "p" is forbidden: minimum cpu usage per Container is 50m, but request is 10m',
            "LimitRange refuses the sizes",
        ),
        (
            'Error creating: pods "p" is forbidden: maximum memory usage per Container is 1Gi, but limit is 4Gi',
            "LimitRange refuses the sizes",
        ),
    ],
)
def test_sizes_that_a_namespace_refuses_are_told(message: str, description: str) -> None:
    refusal = limits_refused("cell 1", message)
    assert refusal is not None
    assert description in refusal.what
    assert "server_memory=" in refusal.next_step
    assert limits_refused("cell 1", 'pods "p" is forbidden: violates PodSecurity "restricted"') is None


def test_a_quota_of_the_nodes_disk_asks_for_the_option_of_that() -> None:
    demanded = 'pods "p" is forbidden: failed quota: q: must specify limits.ephemeral-storage for: agent,server'
    refusal = limits_refused("cell 1", demanded)
    assert refusal is not None
    assert refusal.next_step == "name them, such as --target-option ephemeral_storage=10Gi"


def test_a_resumed_run_changes_where_it_waits_and_not_what_it_measures() -> None:
    assert parse_changes(["start_timeout=10min", "tolerations=spot:NoSchedule"]) == {
        "start_timeout": "10min",
        "tolerations": "spot:NoSchedule",
    }
    for text in ("server_memory=4Gi", "namespace=other", "parallel=2"):
        with pytest.raises(UsageError, match="the same for all cells"):
            parse_changes([text])


def test_a_pod_that_its_queue_preempted_is_told_from_a_deleted_one() -> None:
    """Times as the API server writes them: a first release is no later than the pod's creation."""
    created = "2026-01-01T00:00:10Z"

    def job(suspend: bool, changed: str) -> dict[str, Any]:
        condition = {"type": "Suspended", "status": str(suspend), "lastTransitionTime": changed}
        return {"metadata": {"name": "j"}, "spec": {"suspend": suspend}, "status": {"conditions": [condition]}}

    assert suspension(job(True, "2026-01-01T00:00:20Z"), after=created) == "job j is suspended"
    assert suspension(job(False, "2026-01-01T00:00:30Z"), after=created).endswith(
        "released at 2026-01-01T00:00:30Z"
    )
    assert suspension(job(False, created), after=created) == ""
    assert suspension({"metadata": {"name": "j"}, "spec": {}}, after=created) == ""


CONTAINERD = (
    'Back-off pulling image "i:1": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image '
    '"docker.io/library/i:1": no match for platform in manifest: not found'
)
DOCKER = "no matching manifest for linux/arm64/v8 in the manifest list entries"
CRI_O = 'choosing image instance: no image found in image index for architecture "arm64", variant "v8", OS "linux"'
KERNEL = "exec /bin/sh: exec format error\n"


@pytest.mark.parametrize("message", [CONTAINERD, DOCKER, CRI_O])
def test_an_image_without_the_nodes_architecture_is_named(message: str) -> None:
    """Messages as issues of these programs quote them; none was made on a node of another architecture."""
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
    result = waiting_trouble(pod(containerStatuses=[container("agent", state=waiting)]))
    assert result is not None
    assert (result.cause, result.final) == ("image_architecture", True)
    assert result.what == "the image i:1 is not for the architecture of node n1"
    assert message in result.evidence
    assert "--platform" in result.next_step


def test_a_pull_whose_reason_is_only_in_an_event_is_named() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "i:1"'}}
    stuck = pod(containerStatuses=[container("agent", state=waiting)])
    second = {"reason": "Failed", "message": f'Failed to pull image "another:2": {DOCKER}'}
    unnamed = waiting_trouble(stuck, (), [second])
    named = waiting_trouble(stuck, (), [second, {"reason": "Failed", "message": f'Failed to pull "i:1": {DOCKER}'}])
    assert unnamed is not None
    assert named is not None
    assert (unnamed.cause, named.cause) == ("image_missing", "image_architecture")


def test_a_program_that_the_kernel_refuses_is_named_for_server_and_agent() -> None:
    ended = {"terminated": {"reason": "Error", "exitCode": 255, "message": KERNEL}}
    backoff = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}
    server = pod(initContainerStatuses=[container("server", state=backoff, lastState=ended)])
    agent = pod(containerStatuses=[container("agent", state=ended)])
    for result in (waiting_trouble(server), ended_trouble(server), ended_trouble(agent)):
        assert result is not None
        assert result.cause == "image_architecture"
        assert "exec format error" in result.evidence
