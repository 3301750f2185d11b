"""Cells of a run share the node of its first pod, and say in their results on which node and volume they were."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import CLASSES, NODES, VOLUMES
from node_bench import LOCAL, RUN_ID, ZONE, Bench, Followed, preferred, required
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.records.cell import CellResult, CellSpec
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.cluster.refusals import NotFound
from volbench.machine.placement.interface import Job
from volbench.machine.placement.kubernetes.options import (
    check_volume_names,
    parse_options,
    read_options,
    volumes_of,
)
from volbench.machine.placement.kubernetes.placement import KubernetesPlacement
from volbench.machine.placement.kubernetes.pods import Trouble, mount_trouble, waiting_trouble
from volbench.machine.placement.kubernetes.result import enrich_from_cluster
from volbench.machine.volume.kinds.claim_facts import identity
from volbench.measure.session.targets import measured_nodes
from volbench.results.store.run_directory import RESULT_FILE


def test_a_claim_that_any_node_can_use_is_measured_on_the_first_pods_node(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.start_first()
    assert required(bench.affinity_of("02-b", "b")) == "node2"
    assert required(bench.affinity_of("03-a", "a")) == "node2"


@pytest.mark.parametrize(
    ("topology", "node"), [({}, "node2"), (ZONE, "node2"), (LOCAL, "")], ids=["none", "zone", "other-node"]
)
def test_a_claims_own_topology_decides(tmp_path: Path, topology: dict[str, Any], node: str) -> None:
    bench = Bench(tmp_path)
    bench.cluster.bind("claim-b", "pv-b", nodeAffinity=topology)
    bench.start_first()
    affinity = bench.affinity_of("02-b", "b")
    assert required(affinity) == node
    assert preferred(affinity) == ("" if node else "node2")


def test_a_volume_that_is_made_for_its_first_pod_is_made_for_that_node(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.cluster.put("persistentvolumeclaims/claim-b", spec={"storageClassName": "late"})
    bench.start_first()
    assert required(bench.affinity_of("02-b", "b")) == "node2"


def test_a_class_of_another_zone_is_not_forced_onto_the_node(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    zones = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["eu-1b"]}]}]
    bench.cluster.put(f"{CLASSES}/late", volumeBindingMode="WaitForFirstConsumer", allowedTopologies=zones)
    bench.cluster.put("persistentvolumeclaims/claim-b", spec={"storageClassName": "late"})
    bench.start_first()
    assert required(bench.affinity_of("02-b", "b")) == ""


def test_what_this_user_may_not_read_is_preferred_only(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.cluster.forbidden = (NODES, VOLUMES)
    bench.start_first()
    affinity = bench.affinity_of("02-b", "b")
    assert (required(affinity), preferred(affinity)) == ("", "node2")


@pytest.mark.parametrize(
    ("options", "spec", "expected"),
    [
        ({"pin_node": "false"}, {}, ("", "node2")),
        ({"node": "node3"}, {}, ("", "")),
        ({"parallel": "2"}, {}, ("", "")),
        ({"parallel": "2", "share_nodes": "true"}, {}, ("node2", "")),
        ({}, {"schedulerName": "fargate-scheduler"}, ("", "")),
    ],
    ids=["option", "named", "parallel", "shared", "fargate"],
)
def test_other_ways_to_place_cells(
    tmp_path: Path, options: dict[str, Any], spec: dict[str, Any], expected: tuple[str, str]
) -> None:
    bench = Bench(tmp_path, **options)
    bench.start_first(**spec)
    affinity = bench.affinity_of("02-b", "b")
    assert (required(affinity), preferred(affinity)) == expected


def test_a_resumed_run_stays_on_its_node_unless_that_is_cordoned(tmp_path: Path) -> None:
    bench = Bench(tmp_path, measured_node="node3")
    assert required(bench.affinity_of("01-a", "a")) == "node3"
    bench = Bench(tmp_path, measured_node="node3")
    bench.cluster.put(f"{NODES}/node3", spec={"unschedulable": True})
    assert required(bench.affinity_of("01-a", "a")) == ""


def test_cells_of_two_runs_are_never_on_one_node(tmp_path: Path) -> None:
    """The scheduler keeps them apart, in whichever namespaces they are; a cell waits for another run's cell."""
    bench = Bench(tmp_path)
    bench.target.launch(bench.job("01-a", "a"))
    made = bench.launched("01-a")
    (term,) = made["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["namespaceSelector"] == {}
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchExpressions"] == [
        {"key": "app.kubernetes.io/component", "operator": "In", "values": ["cell", "holder"]},
        {"key": "volbench.org/run", "operator": "NotIn", "values": [RUN_ID]},
    ]


@pytest.mark.parametrize(
    "message",
    [
        "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
        "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
        "0/2 nodes are available: 1 node(s) had volume node affinity conflict, 1 node(s) didn't match pod "
        "anti-affinity rules.",
    ],
)
def test_a_cell_that_waits_for_another_runs_cell_is_queued(message: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    trouble = waiting_trouble({"metadata": {}, "spec": {}, "status": {"conditions": [condition]}})
    assert trouble is not None
    assert trouble.cause == "queued"


def test_time_in_the_queue_does_not_count_as_time_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, start_timeout="60s", queue_timeout="1h")
    placement = bench.target.find(bench.job("01-a", "a"))
    assert isinstance(placement, KubernetesPlacement)
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    queued = Trouble(cause="queued", what="other cells occupy the nodes", evidence="", final=False)
    for now_s[0], trouble in ((0.0, None), (50.0, queued), (3000.0, queued), (3001.0, None), (3060.0, None)):
        placement._check_waiting(trouble)
    now_s[0] = 3062.0
    with pytest.raises(MissingPrerequisite, match="does not start") as failed:
        placement._check_waiting(None)
    assert "start_timeout" in failed.value.next_step
    for now_s[0] in (4000.0, 7500.0):
        placement._check_waiting(queued)
    now_s[0] = 7601.0
    with pytest.raises(MissingPrerequisite, match="occupy") as failed:
        placement._check_waiting(queued)
    assert "queue_timeout" in failed.value.next_step


def run_to_end(placement: KubernetesPlacement) -> None:
    """Until the watch has reported the end."""
    while placement.running():
        time.sleep(0.01)


@pytest.mark.parametrize("is_killed", [False, True], ids=["before", "meanwhile"])
def test_a_pod_that_goes_while_its_results_are_collected_has_not_ended_before_the_watch_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    """Gone before the command in it, or killed with it; a command that fails in a pod that stays is a failure."""
    bench = Bench(tmp_path)
    bench.start_first()
    placement = bench.target.find(bench.job("01-a", "a"))
    assert isinstance(placement, KubernetesPlacement)
    pod = bench.cluster.objects[bench.cluster.object_path("pods/first")]
    ended = {"name": "agent", "state": {"terminated": {"exitCode": 0}}}
    keeper = {"name": "results", "state": {"running": {}}}
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    status = {"containerStatuses": [ended, keeper], "conditions": [evicted]}
    bench.cluster.put("pods/first", metadata=pod["metadata"], spec=pod["spec"], status=status)

    def gone(*_: object, **__: object) -> None:
        if is_killed:
            raise StepFailed("a command in the pod failed", where="collecting", evidence="exit code 137: ")
        raise NotFound("the cluster does not have this object", where="collecting", evidence="pod does not exist")

    monkeypatch.setattr("volbench.machine.placement.kubernetes.placement.collect", gone)
    with pytest.raises(StepFailed):
        run_to_end(placement)
    pod = bench.cluster.objects[bench.cluster.object_path("pods/first")]
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert placement.running()
    (job,) = [path for path in bench.cluster.objects if "/jobs/" in path and path.endswith("01-a-1")]
    bench.cluster.objects[job]["status"]["conditions"] = [{"type": "Failed", "status": "True"}]
    bench.cluster.ask("DELETE", "pods/first", doing="evicting")
    run_to_end(placement)
    cause = placement.termination_cause()
    assert isinstance(cause, StepFailed)
    assert cause.cause == "evicted"


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_spot_node_that_is_removed_under_its_pod_is_named(tmp_path: Path, is_replaced: bool) -> None:
    """As the provider's controller and the collector of pods without a node leave it: no node, a condition."""
    bench = Bench(tmp_path)
    bench.start_first()
    node = bench.cluster.objects["/api/v1/nodes/node2"]
    node["metadata"].setdefault("labels", {})["eks.amazonaws.com/capacityType"] = "SPOT"
    placement = bench.target.find(bench.job("01-a", "a"))
    assert isinstance(placement, KubernetesPlacement)
    assert placement.running()
    del bench.cluster.objects["/api/v1/nodes/node2"]
    if is_replaced:  # under the same name, as a group of instances does
        bench.cluster.put(f"{NODES}/node2", metadata={"uid": "another"})
    pod = bench.cluster.objects[bench.cluster.object_path("pods/first")]
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
    }
    bench.cluster.put(
        "pods/first",
        metadata=pod["metadata"],
        spec=pod["spec"],
        status={"phase": "Failed", "conditions": [condition]},
    )
    (job,) = [path for path in bench.cluster.objects if "/jobs/" in path and path.endswith("01-a-1")]
    bench.cluster.objects[job]["status"]["conditions"] = [{"type": "Failed", "status": "True"}]
    bench.cluster.ask("DELETE", "pods/first", doing="collecting pods without a node")
    run_to_end(placement)
    cause = placement.termination_cause()
    assert isinstance(cause, StepFailed)
    assert cause.cause == "spot_interruption"
    assert "node node2 was a spot instance (eks.amazonaws.com/capacityType=SPOT) and is removed" in cause.evidence
    assert "node no longer exists" in cause.evidence


def pinned_pod(message: str) -> dict[str, Any]:
    """A pod that follows the holder on node2 and has no node."""
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    affinity: dict[str, Any] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}
    return {
        "metadata": {"annotations": {"volbench.org/node": "node2"}},
        "spec": {"affinity": affinity},
        "status": {"conditions": [condition]},
    }


def test_a_node_that_cannot_run_a_pinned_pod_is_named() -> None:
    trouble = waiting_trouble(
        pinned_pod("0/2 nodes: 1 Insufficient cpu, 1 node(s) didn't match pod affinity rules.")
    )
    assert trouble is not None
    assert "node node2, on which this run measures" in trouble.what
    assert trouble.what.endswith(": nodes lack free capacity"), "other nodes never have the run's holder"


def test_a_pinned_node_whose_holder_is_gone_is_told_as_that() -> None:
    trouble = waiting_trouble(pinned_pod("0/1 nodes are available: 1 node(s) didn't match pod affinity rules."))
    assert trouble is not None
    assert trouble.what.startswith("node node2, on which this run measures, cannot run the pod: ")
    assert "is gone or cordoned" in trouble.what
    assert "volbench resume" in trouble.next_step


@pytest.mark.parametrize("pin_node", [True, False])
@pytest.mark.parametrize("change", ["removed", "cordoned"])
def test_a_node_that_goes_in_mid_run_ends_the_run_at_its_next_cell(
    tmp_path: Path, change: str, pin_node: bool
) -> None:
    """Within seconds, and not when a pod has not started in time; a node that is only preferred is given up."""
    bench = Bench(tmp_path, pin_node=pin_node)
    bench.start_first()
    (holder,) = [path for path in bench.cluster.objects if path.endswith("holder-node1")]
    bench.cluster.objects[holder]["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    if change == "removed":
        del bench.cluster.objects[f"{NODES}/node2"]
    else:
        bench.cluster.put(f"{NODES}/node2", spec={"unschedulable": True})
    if not pin_node:
        assert bench.affinity_of("02-b", "b") == Followed()
        return
    with pytest.raises(
        MissingPrerequisite, match="node node2, on which this run measures, cannot run the pod"
    ) as raised:
        bench.affinity_of("02-b", "b")
    assert "volbench resume" in raised.value.next_step


@pytest.mark.parametrize("pin_node", [True, False])
@pytest.mark.parametrize("taint", ["karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler"])
def test_a_node_that_an_autoscaler_removes_is_told_though_its_holder_lives(
    tmp_path: Path, taint: str, pin_node: bool
) -> None:
    """Karpenter removes an expired node whatever annotations say; no pod gets onto it meanwhile."""
    bench = Bench(tmp_path, pin_node=pin_node)
    bench.start_first()
    bench.cluster.put(f"{NODES}/node2", spec={"taints": [{"key": taint, "effect": "NoSchedule"}]})
    if not pin_node:
        assert bench.affinity_of("02-b", "b") == Followed()
        return
    with pytest.raises(MissingPrerequisite, match=f"it is being removed .taint {taint}") as raised:
        bench.affinity_of("02-b", "b")
    assert "volbench resume" in raised.value.next_step
    resumed = Bench(tmp_path, measured_node="node3")
    resumed.cluster.put(f"{NODES}/node3", spec={"taints": [{"key": taint, "effect": "NoSchedule"}]})
    assert required(resumed.affinity_of("01-a", "a")) == ""


def test_a_holder_that_was_evicted_is_made_again_where_its_node_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.start_first()
    (holder,) = [path for path in bench.cluster.objects if path.endswith("holder-node1")]
    bench.cluster.objects[holder]["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    assert required(bench.affinity_of("02-b", "b")) == "node2"
    assert bench.cluster.objects[holder]["status"] == {"active": 1}


def test_a_holder_keeps_autoscalers_off_the_node_and_its_cells_need_not(tmp_path: Path) -> None:
    """It is the run's, lives as long as somebody follows the run, and asks Karpenter for no node by its name."""
    bench = Bench(tmp_path, labels="team=db", annotations="note=x")
    bench.start_first()
    (path,) = [path for path in bench.cluster.objects if path.endswith("holder-node1")]
    holder = bench.cluster.objects[path]
    template = holder["spec"]["template"]
    assert holder["metadata"]["ownerReferences"][0]["name"].endswith("owner")
    assert template["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    assert template["metadata"]["labels"]["team"] == "db"
    assert "nodeSelector" not in template["spec"]
    assert "nodeAffinity" not in template["spec"]["affinity"]
    bench.target.launch(bench.job("02-b", "b"))
    annotations = bench.launched("02-b")["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"note": "x", "volbench.org/node": "node2"}
    first_s = holder["spec"]["activeDeadlineSeconds"]
    bench.cluster.now += timedelta(hours=2)
    bench.target.launch(replace(bench.job("03-a", "a"), cell=long_cell(bench.job("03-a", "a"))))
    assert holder["spec"]["activeDeadlineSeconds"] >= first_s + 7200 + 3600


def long_cell(job: Job) -> CellSpec:
    """The cell of a job, of an hour more."""
    return job.cell.model_copy(update={"deadline_s": job.cell.deadline_s + 3600})


def test_a_volume_that_the_node_cannot_mount_is_named() -> None:
    events = [{"reason": "FailedMount", "message": "mount.nfs4: access denied"}, {"reason": "Pulled"}]
    trouble = mount_trouble(events)
    assert trouble is not None
    assert trouble.cause == "volume_pending"
    assert "access denied" in trouble.evidence
    assert mount_trouble([{"reason": "Pulled"}]) is None


def test_results_say_on_which_node_and_volume_a_cell_was(tmp_path: Path) -> None:
    directory = build_run(tmp_path, Synthetic(volumes=(SyntheticVolume(name="a"),), repeats=1, steps=()))
    file = directory.path / "cells" / directory.run.cells[0].cell_id / RESULT_FILE
    node = {
        "metadata": {
            "name": "node2",
            "labels": {
                "node.kubernetes.io/instance-type": "m5.large",
                "topology.kubernetes.io/zone": "eu-1a",
            },
        },
        "status": {
            "nodeInfo": {
                "kernelVersion": "6.1.0",
                "kubeletVersion": "v1.34.1",
                "containerRuntimeVersion": "containerd://2.1",
            }
        },
    }
    claim = {"metadata": {"name": "c", "uid": "u-1"}, "spec": {"volumeName": "pv"}}
    volume = {"metadata": {"name": "pv", "uid": "u-2"}}
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "node2"}}
    enrich_from_cluster(file, pod, None, node=node, volume=identity(claim, volume))
    result = CellResult.model_validate_json(file.read_bytes())
    assert result.host.cloud_instance_type == "m5.large"
    assert (result.host.zone, result.host.kernel) == ("eu-1a", "6.1.0")
    assert (result.host.kubelet, result.host.container_runtime) == ("v1.34.1", "containerd://2.1")
    assert (result.volume_facts.claim_uid, result.volume_facts.persistent_volume_uid) == ("u-1", "u-2")
    enrich_from_cluster(file, pod, None)
    assert CellResult.model_validate_json(file.read_bytes()).host == result.host


def test_volumes_that_are_placed_apart_have_a_node_for_each_place(tmp_path: Path) -> None:
    """The second volume's cells are not drawn to the first one's node, and those of one place stay together."""
    bench = Bench(tmp_path, **{"b.selector": "kind=fargate", "b.tolerations": "only=b:NoSchedule"})
    bench.start_first()
    assert bench.affinity_of("02-b", "b") == Followed()
    made = bench.launched("02-b")
    pod = made["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"kind": "fargate"}
    assert pod["tolerations"][0] == {"key": "only", "operator": "Equal", "value": "b", "effect": "NoSchedule"}
    assert required(bench.affinity_of("03-a", "a")) == "node2"


def test_a_resumed_run_stays_on_the_node_of_each_place(tmp_path: Path) -> None:
    bench = Bench(tmp_path, measured_node="node3", **{"b.selector": "kind=fargate"})
    assert bench.affinity_of("01-b", "b") == Followed(), "node3 is that of volume a"
    assert required(bench.affinity_of("02-a", "a")) == "node3"


def test_options_of_one_volume_say_where_it_runs_and_nothing_else() -> None:
    options = parse_options(["selector=a=b", "io2.selector=c=d", "my-vol.runtime-class=kata"])
    assert volumes_of(options) == ["io2", "my-vol"]
    assert read_options(options).selector == read_options(options, "my-vol").selector == "a=b"
    assert read_options(options, "io2").selector == "c=d"
    assert read_options(options, "my-vol").runtime_class == "kata"
    check_volume_names(options, ["io2", "my-vol"])
    with pytest.raises(UsageError, match="no volume 'io2'"):
        check_volume_names(options, ["io1", "my-vol"])
    with pytest.raises(UsageError, match="the same for all volumes"):
        parse_options(["io2.server_memory=4Gi"])


def test_a_volumes_node_is_that_of_its_last_cell(tmp_path: Path) -> None:
    """Found by the plan's cells: a result does not name its volume."""
    directory = build_run(tmp_path, Synthetic(volumes=(SyntheticVolume(name="a"), SyntheticVolume(name="b"))))
    results = directory.results()
    nodes = {result.cell_id: f"node-of-{result.cell_id}" for result in results}
    moved = [
        result.model_copy(update={"host": result.host.model_copy(update={"hostname": nodes[result.cell_id]})})
        for result in results
    ]
    last = {cell.volume: nodes[cell.cell_id] for cell in directory.run.cells}
    assert measured_nodes(directory.run, moved) == last
