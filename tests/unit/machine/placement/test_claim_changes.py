"""Claims that change under load: what is refused before, and what the claim's status says meanwhile."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import CLASSES, FakeCluster
from ruamel.yaml import YAML
from waiting import wait_for

from volbench.core.base.units import GIB
from volbench.core.records.own_files import claim_changes
from volbench.core.records.snapshots import SnapshotAnswer
from volbench.core.records.steps.modify import ClaimChange, ModifyStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import MissingPrerequisite, StepFailed, UsageError
from volbench.machine.placement.kubernetes import claim_changes as changes
from volbench.machine.placement.kubernetes.claim_changes import change_claim, quantity_bytes, require_change
from volbench.machine.placement.kubernetes.options import KubernetesOptions
from volbench.machine.placement.kubernetes.rights import CLAIM_CHANGES
from volbench.machine.placement.kubernetes.snapshots import requests
from volbench.machine.placement.kubernetes.snapshots.manifests import SnapshotPlan
from volbench.machine.placement.kubernetes.snapshots.requests import RequestedSnapshots

ROOT = Path(__file__).parents[4]
ATTRIBUTES = "/apis/storage.k8s.io/v1/volumeattributesclasses"
DRIVER = "ebs.csi.aws.com"
FAST = ClaimChange(attributes_class="fast")
LARGER = ClaimChange(size_bytes=200 * GIB)
BOTH = ClaimChange(attributes_class="fast", size_bytes=200 * GIB)
SLOW_STATUS = {"phase": "Bound", "capacity": {"storage": "100Gi"}, "currentVolumeAttributesClassName": "slow"}
FAST_STATUS = {**SLOW_STATUS, "currentVolumeAttributesClassName": "fast"}


def modifying(state: str) -> dict[str, Any]:
    return {**SLOW_STATUS, "modifyVolumeStatus": {"status": state, "targetVolumeAttributesClassName": "fast"}}


class ClaimCluster(FakeCluster):
    """Has a claim `data`; after a change each look at it finds the next of `statuses`, in the end the last one."""

    def __init__(self, *statuses: dict[str, Any], refused: bool = False) -> None:
        super().__init__()
        self.statuses = list(statuses)
        self.refused = refused
        self.patches: list[dict[str, Any]] = []
        self.put(f"{CLASSES}/gp3", provisioner=DRIVER, allowVolumeExpansion=True)
        for name in ("slow", "fast"):
            self.put(f"{ATTRIBUTES}/{name}", driverName=DRIVER, parameters={"iops": "6000"})
        self.put(
            "persistentvolumeclaims/data",
            spec={
                "storageClassName": "gp3",
                "volumeAttributesClassName": "slow",
                "resources": {"requests": {"storage": "100Gi"}},
            },
            status=SLOW_STATUS,
        )

    @property
    def claim(self) -> dict[str, Any]:
        return self.objects[self.object_path("persistentvolumeclaims/data")]

    def ask(self, method: str, path: str, body: Any = None, *, doing: str, **query: Any) -> Any:
        if path.endswith("selfsubjectaccessreviews"):
            return {"status": {"allowed": not self.refused}}
        if method == "GET" and self.patches and path == "persistentvolumeclaims/data" and self.statuses:
            self.claim["status"] = self.statuses.pop(0)
        return super().ask(method, path, body, doing=doing, **query)

    def _patch(self, path: str, change: dict[str, Any]) -> dict[str, Any]:
        self.patches.append(change)
        return super()._patch(path, change)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_POLL_S", 0.001)


def changed(cluster: ClaimCluster, change: ClaimChange, *, timeout_s: float = 60.0) -> Any:
    return change_claim(cluster, "data", change, timeout_s=timeout_s, cancelled=threading.Event())


def test_another_class_is_asked_for_and_its_states_are_noted() -> None:
    cluster = ClaimCluster(SLOW_STATUS, modifying("Pending"), modifying("InProgress"), FAST_STATUS)
    times = changed(cluster, FAST)
    assert cluster.patches == [{"spec": {"volumeAttributesClassName": "fast"}}]
    assert times.completed
    assert [state for state, _ in times.states] == ["attributes Pending", "attributes InProgress", "completed"]
    seconds = [t_s for _, t_s in times.states]
    assert seconds == sorted(seconds)


def test_a_larger_claim_is_complete_with_its_file_system() -> None:
    """The capacity grows last; in between, the node's kubelet has the file system to grow."""
    pending = {"type": "FileSystemResizePending", "status": "True"}
    cluster = ClaimCluster(
        {**SLOW_STATUS, "conditions": [{"type": "Resizing", "status": "True"}]},
        {**SLOW_STATUS, "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"}},
        {**SLOW_STATUS, "conditions": [pending]},
        {**SLOW_STATUS, "capacity": {"storage": "200Gi"}, "conditions": [pending]},
        {**SLOW_STATUS, "capacity": {"storage": "200Gi"}, "conditions": []},
    )
    times = changed(cluster, LARGER)
    assert cluster.patches == [{"spec": {"resources": {"requests": {"storage": str(200 * GIB)}}}}]
    assert [state for state, _ in times.states] == [
        "size Resizing",
        "size ControllerResizeInProgress",
        "size FileSystemResizePending",
        "completed",
    ]


def test_both_are_waited_for() -> None:
    cluster = ClaimCluster(FAST_STATUS, {**FAST_STATUS, "capacity": {"storage": "200Gi"}})
    times = changed(cluster, BOTH)
    assert times.completed
    assert cluster.statuses == []


@pytest.mark.parametrize(
    "status",
    [
        {
            **modifying("Infeasible"),
            "conditions": [{"type": "ModifyingVolume", "status": "True", "message": "why"}],
        },
        {
            **SLOW_STATUS,
            "allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"},
            "conditions": [{"type": "ControllerResizeError", "status": "True", "message": "why"}],
        },
    ],
    ids=["attributes", "size"],
)
def test_what_the_driver_refuses_for_good_is_not_waited_for(status: dict[str, Any]) -> None:
    with pytest.raises(MissingPrerequisite, match="the driver refuses the change") as refused:
        changed(ClaimCluster(SLOW_STATUS, status), BOTH)
    assert "Infeasible" in refused.value.evidence
    assert "why" in refused.value.evidence
    assert "kubectl patch pvc data -n bench" in refused.value.next_step


def test_a_change_that_is_not_completed_in_time_has_its_states_and_errors() -> None:
    error = {"type": "ModifyVolumeError", "status": "True", "message": "the rate limit of changes"}
    cluster = ClaimCluster({**modifying("InProgress"), "conditions": [error]})
    times = changed(cluster, FAST, timeout_s=0.01)
    assert not times.completed
    assert [state for state, _ in times.states] == [
        "attributes InProgress",
        "ModifyVolumeError: the rate limit of changes",
    ]


def test_a_change_of_a_volbench_that_ended_is_not_timed() -> None:
    cluster = ClaimCluster()
    cluster.claim["spec"]["volumeAttributesClassName"] = "fast"
    with pytest.raises(MissingPrerequisite, match="time of the claim's change is unknown"):
        changed(cluster, FAST)
    assert cluster.patches == []


def test_nobody_waits_for_what_is_cancelled() -> None:
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(StepFailed, match="cancelled"):
        change_claim(ClaimCluster(SLOW_STATUS), "data", FAST, timeout_s=60.0, cancelled=cancelled)


@pytest.mark.parametrize("change", [FAST, LARGER, BOTH])
def test_a_change_that_the_cluster_makes_is_taken_and_nothing_is_made(change: ClaimChange) -> None:
    cluster = ClaimCluster()
    require_change(cluster, "data", change)
    assert cluster.patches == []


def test_who_may_not_read_classes_learns_it_from_the_claim() -> None:
    cluster = ClaimCluster()
    cluster.forbidden = ("/apis/storage.k8s.io",)
    require_change(cluster, "data", BOTH)


@pytest.mark.parametrize(
    ("change", "message", "step"),
    [
        (
            ClaimChange(attributes_class="gone"),
            "no VolumeAttributesClass 'gone'",
            "kubectl get volumeattributesclass",
        ),
        (ClaimChange(size_bytes=50 * GIB), "no claim becomes smaller", "at least as large"),
        (ClaimChange(attributes_class="slow"), "nothing would change", "another class"),
        (ClaimChange(size_bytes=100 * GIB), "nothing would change", "a larger size"),
    ],
)
def test_what_is_no_change_or_none_that_can_be_made_is_refused(
    change: ClaimChange, message: str, step: str
) -> None:
    with pytest.raises((UsageError, MissingPrerequisite), match=message) as refused:
        require_change(ClaimCluster(), "data", change)
    assert step in refused.value.next_step
    assert refused.value.where == "claim data of namespace bench"


def test_a_storage_class_that_does_not_let_claims_grow_is_named() -> None:
    cluster = ClaimCluster()
    cluster.put(f"{CLASSES}/gp3", provisioner=DRIVER)
    with pytest.raises(MissingPrerequisite, match="storage class gp3 does not let its claims grow") as refused:
        require_change(cluster, "data", LARGER)
    assert "allowVolumeExpansion" in refused.value.next_step
    require_change(cluster, "data", FAST)


def test_a_class_of_another_driver_is_refused() -> None:
    cluster = ClaimCluster()
    cluster.put(f"{ATTRIBUTES}/fast", driverName="pd.csi.storage.gke.io")
    with pytest.raises(UsageError, match="of another driver") as refused:
        require_change(cluster, "data", FAST)
    assert DRIVER in refused.value.evidence


def test_a_change_under_way_and_a_missing_right_are_refused() -> None:
    cluster = ClaimCluster()
    cluster.claim["status"] = modifying("InProgress")
    with pytest.raises(MissingPrerequisite, match="earlier change of the claim is not completed"):
        require_change(cluster, "data", LARGER)
    with pytest.raises(MissingPrerequisite, match="permissions are missing") as refused:
        require_change(ClaimCluster(refused=True), "data", FAST)
    assert refused.value.evidence == "patch persistentvolumeclaims"
    assert "k8s/modify" in refused.value.next_step


def test_the_rights_are_those_that_the_component_grants() -> None:
    role = next(iter(YAML(typ="safe").load_all((ROOT / "k8s/modify/rights.yaml").read_text())))
    (rule,) = role["rules"]
    ((group, resource, verbs),) = CLAIM_CHANGES
    assert rule == {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("100Gi", 100 * GIB), ("100G", 10**11), ("1.5Ti", 1536 * GIB), ("5000", 5000), ("1k", 1000), ("x", None)],
)
def test_quantities_are_those_of_kubernetes(text: str, size_bytes: int | None) -> None:
    assert quantity_bytes(text) == size_bytes


STEPS = [
    OltpStep.model_validate(
        {
            "name": "load",
            "duration": "30min",
            "concurrent": [{"kind": "modify", "to": "claim?attributes_class=fast", "wait": "10min"}],
        }
    )
]


def answered(cluster: ClaimCluster, request: object, monkeypatch: pytest.MonkeyPatch) -> SnapshotAnswer:
    def write(_cluster: object, pod: str, command: Sequence[str], *, doing: str) -> str:
        assert (pod, bool(doing)) == ("pod-1", True)
        written.append(shlex.split(command[-1])[2])
        return ""

    written: list[str] = []
    monkeypatch.setattr(requests, "run_in_pod", write)
    plan = SnapshotPlan(run_id="r-abcdef", claim="data", options=KubernetesOptions(), request="cell")
    subject = RequestedSnapshots(cluster, plan, list, requests_max=1, changes=claim_changes(STEPS))
    subject.follow(request, "pod-1")
    answer = SnapshotAnswer.model_validate(json.loads(wait_for(lambda: written)[0]))
    subject.end()
    return answer


def test_an_agent_gets_the_change_that_the_suite_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the pod writes: it names the step, and no class or size."""
    cluster = ClaimCluster(modifying("InProgress"), FAST_STATUS)
    answer = answered(cluster, {"number": 1, "change": "modify"}, monkeypatch)
    assert answer.changed is not None
    assert (answer.changed.claim, answer.changed.completed) == ("data", True)
    assert answer.work_s > 0
    assert cluster.patches == [{"spec": {"volumeAttributesClassName": "fast"}}]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"number": 1, "change": "another"}, "no such change"),
        ({"number": 1, "change": "modify", "size_bytes": 1 << 50}, "does not know"),
    ],
)
def test_what_the_suite_does_not_ask_for_is_not_changed(
    monkeypatch: pytest.MonkeyPatch, request_: dict[str, object], message: str
) -> None:
    cluster = ClaimCluster()
    answer = answered(cluster, request_, monkeypatch)
    assert answer.failure is not None
    assert message in answer.failure.message
    assert cluster.patches == []


def test_only_claims_are_changed_by_a_cluster() -> None:
    plain = ModifyStep.model_validate({"name": "grow", "to": "ebs-gp3"})
    assert claim_changes([plain]) == {}
    assert list(claim_changes(STEPS)) == ["modify"]
