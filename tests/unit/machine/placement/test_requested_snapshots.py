"""Snapshots that an agent asks for: taken with the orchestrator's rights, answered in the pod, always removed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from snapshot_cluster import READ, SOURCE, SnapshotCluster
from waiting import wait_for

from volbench.core.records.snapshots import SnapshotAnswer
from volbench.errors import MissingPrerequisite, StepFailed
from volbench.machine.placement.kubernetes.options import KubernetesOptions
from volbench.machine.placement.kubernetes.rights import SNAPSHOTS
from volbench.machine.placement.kubernetes.snapshots import measure, requests
from volbench.machine.placement.kubernetes.snapshots.manifests import SnapshotPlan, reader_job, restored_claim
from volbench.machine.placement.kubernetes.snapshots.measure import require_snapshots
from volbench.machine.placement.kubernetes.snapshots.requests import RequestedSnapshots
from volbench.machine.volume.kinds.run_owner import RunOwner

ROOT = Path(__file__).parents[4]
RUN_ID = "20260101T000000Z-run-abcdef"
PLAN = SnapshotPlan(
    run_id=RUN_ID, claim="data", image="r/tools:1", options=KubernetesOptions(), request="volbench-abcdef-disk-1-1"
)
NAME = "volbench-abcdef-disk-1-1-s1"
REQUEST = {
    "number": 1,
    "step": "snapshot-1",
    "restore": True,
    "snapshot_class": "",
    "storage_class": "",
    "timeout_s": 60.0,
}


class Bench:
    """A fake cluster with the answers that were written into the pod."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **cluster: Any) -> None:
        self.cluster = SnapshotCluster(name=NAME, **cluster)
        self.answers: dict[str, str] = {}
        monkeypatch.setattr(requests, "run_in_pod", self.write)
        owner = RunOwner(self.cluster, RUN_ID, ttl_s=3600, image="r/tools:1")
        self.snapshots = RequestedSnapshots(self.cluster, PLAN, owner.references, requests_max=2)

    def write(self, _cluster: object, pod: str, command: Sequence[str], *, doing: str) -> str:
        assert doing
        arguments = shlex.split(command[-1].replace(">", " > "))
        self.answers[f"{pod}:{arguments[-1]}"] = arguments[2]
        return ""

    def answer(self) -> SnapshotAnswer:
        text = wait_for(lambda: self.answers.get("pod-1:/volbench/control/snapshot-1.json"))
        return SnapshotAnswer.model_validate_json(text)

    def left(self) -> set[str]:
        """Objects that have the snapshot's name."""
        return {path for path in self.cluster.objects if path.endswith(NAME)}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_POLL_S", 0.001)
    monkeypatch.setattr(measure, "FINAL_TROUBLE_AFTER_S", 0.01)


def test_a_request_is_answered_in_the_pod_and_its_objects_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    for _ in range(3):  # the log shows a pending request again and again
        bench.snapshots.follow(REQUEST, "pod-1")
    answer = bench.answer()
    times = answer.times
    assert times is not None
    assert 0 < answer.work_s < 60
    assert answer.ended_ago_s >= 0
    assert times.restored is not None
    assert (times.claim, times.snapshot, times.cut_s) == ("data", NAME, 3.0)
    assert times.restored.bytes == READ["bytes"]
    assert bench.left() == set()
    bench.snapshots.follow(REQUEST, "pod-1")
    bench.snapshots.end()
    paths = [path for path in bench.cluster.deleted if "volumesnapshots/" in path]
    assert len(paths) == 1, "an answered request is not taken twice"


def test_a_failure_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, snapshot_status={"error": {"message": "quota of snapshots"}})
    bench.snapshots.follow({**REQUEST, "timeout_s": 0.01}, "pod-1")
    failure = bench.answer().failure
    assert failure is not None
    assert (failure.cause, failure.evidence) == ("snapshot_failed", "quota of snapshots")
    assert bench.left() == set()


@pytest.mark.parametrize("withdrawn", [True, False], ids=["withdrawn by the agent", "the attempt ends"])
def test_what_nobody_waits_for_is_given_up_and_removed(monkeypatch: pytest.MonkeyPatch, *, withdrawn: bool) -> None:
    bench = Bench(monkeypatch, snapshot_status={})
    bench.snapshots.follow(REQUEST, "pod-1")
    wait_for(bench.left)
    if withdrawn:
        bench.snapshots.follow(None, "pod-1")
    bench.snapshots.end()
    assert bench.left() == set()
    assert bench.answers == {}


def test_a_snapshot_of_an_orchestrator_that_was_killed_is_removed_and_not_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(monkeypatch)
    bench.cluster.put(f"/apis/snapshot.storage.k8s.io/v1/namespaces/bench/volumesnapshots/{NAME}")
    bench.snapshots.follow(REQUEST, "pod-1")
    failure = bench.answer().failure
    assert failure is not None
    assert "the volbench that asked for it ended" in failure.message
    assert bench.left() == set()


@pytest.mark.parametrize("request_", ["x", 3, {}, {**REQUEST, "number": 0}, {**REQUEST, "number": 3}, []])
def test_what_no_step_asks_for_is_not_done(monkeypatch: pytest.MonkeyPatch, request_: object) -> None:
    bench = Bench(monkeypatch)
    bench.snapshots.follow(request_, "pod-1")
    bench.snapshots.end()
    assert bench.answers == {}
    assert {path.rpartition("/")[2] for path in bench.cluster.objects} == {"data"}


@pytest.mark.parametrize("change", [{"timeout_s": "NaN"}, {"timeout_s": 1e9}, {"new_option": 1}])
def test_a_request_of_another_version_is_answered_by_a_failure(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    bench = Bench(monkeypatch)
    bench.snapshots.follow({**REQUEST, **change}, "pod-1")
    failure = bench.answer().failure
    assert failure is not None
    assert "does not know" in failure.message


def test_an_answer_that_did_not_arrive_is_written_again_without_a_second_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(monkeypatch)
    calls: list[str] = []

    def fail_once(cluster: object, pod: str, command: Sequence[str], *, doing: str) -> str:
        calls.append(doing)
        if len(calls) == 1:
            raise StepFailed("the proxy refuses it")
        return bench.write(cluster, pod, command, doing=doing)

    monkeypatch.setattr(requests, "run_in_pod", fail_once)

    def asked_again() -> bool:
        bench.snapshots.follow(REQUEST, "pod-1")
        return bool(bench.answers)

    wait_for(asked_again)
    assert bench.answer().times is not None
    bench.snapshots.end()
    assert len([path for path in bench.cluster.deleted if "volumesnapshots/" in path]) == 1


def test_an_unexpected_failure_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, snapshot_status=None, log="[1, 2]")
    bench.snapshots.follow(REQUEST, "pod-1")
    assert bench.answer().failure is not None
    assert bench.left() == set()


def test_what_an_ended_attempt_left_is_removed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The orchestrator that took the second snapshot was killed, and the pod is gone: nobody asks any more."""
    bench = Bench(monkeypatch)
    left = NAME.replace("-s1", "-s2")
    bench.cluster.put(f"/apis/snapshot.storage.k8s.io/v1/namespaces/bench/volumesnapshots/{left}")
    bench.cluster.put(f"persistentvolumeclaims/{left}")
    bench.snapshots.end()
    assert {path.rpartition("/")[2] for path in bench.cluster.objects} == {"data"}


def test_a_reader_whose_job_failed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pod was evicted or deleted: the limit of a minute is not used up."""
    bench = Bench(monkeypatch, reader_fails=True)
    bench.snapshots.follow(REQUEST, "pod-1")
    failure = bench.answer().failure
    assert failure is not None
    assert "was not read" in failure.message
    assert bench.left() == set()


def test_the_reader_is_put_on_the_cells_node_and_reads_the_servers_files() -> None:
    plan = replace(PLAN, near_cell=True, directory="volbench-x/data")
    pod = reader_job(plan)["spec"]["template"]
    (preferred,) = pod["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    labels = preferred["podAffinityTerm"]["labelSelector"]["matchLabels"]
    assert (labels["volbench.org/run"], labels["app.kubernetes.io/component"]) == (PLAN.run_id, "cell")
    assert pod["spec"]["containers"][0]["command"][-1] == "/volbench/volume/volbench-x/data"
    assert pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"


@pytest.mark.parametrize(
    ("restore_size", "requested"), [("0", "12Gi"), ("", "12Gi"), ("1Gi", "12Gi"), ("20Gi", "20Gi"), ("x", "12Gi")]
)
def test_a_restored_claim_is_never_smaller_than_its_source(restore_size: str, requested: str) -> None:
    assert restored_claim(PLAN, SOURCE, restore_size)["spec"]["resources"]["requests"]["storage"] == requested


def test_text_of_the_cluster_reaches_no_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "it's '; touch /tmp/x; echo \"$(id)\" `id` > y"
    bench = Bench(monkeypatch, snapshot_status={"error": {"message": evil}})
    commands: list[str] = []

    def run_in_pod(_cluster: object, _pod: str, command: Sequence[str], *, doing: str) -> str:
        commands.append(f"{doing}: {command[-1]}")
        return ""

    monkeypatch.setattr(requests, "run_in_pod", run_in_pod)
    bench.snapshots.follow({**REQUEST, "timeout_s": 0.01}, "pod-1")
    script = wait_for(lambda: commands)[0].partition(": ")[2]
    quoted = shlex.split(script)[2]
    assert json.loads(quoted)["failure"]["evidence"] == evil


class Reviewed(SnapshotCluster):
    """A cluster that grants every right but the refused verbs."""

    def __init__(self, *refused: str) -> None:
        super().__init__()
        self.refused = refused
        self.put("/apis/snapshot.storage.k8s.io/v1")

    def ask(self, method: str, path: str, body: Any = None, *, doing: str, **query: Any) -> Any:
        if path.endswith("selfsubjectaccessreviews"):
            return {"status": {"allowed": body["spec"]["resourceAttributes"]["verb"] not in self.refused}}
        return super().ask(method, path, body, doing=doing, **query)


def test_a_run_with_snapshots_needs_the_api_and_the_rights() -> None:
    require_snapshots(Reviewed())
    with pytest.raises(MissingPrerequisite, match="permissions are missing") as refused:
        require_snapshots(Reviewed("create", "delete"))
    assert refused.value.evidence == "create volumesnapshots, delete volumesnapshots"
    assert "k8s/snapshots" in refused.value.next_step
    cluster = Reviewed()
    cluster.absent = ("/apis/snapshot.storage.k8s.io",)
    with pytest.raises(MissingPrerequisite, match="no snapshot API"):
        require_snapshots(cluster)


def test_the_rights_are_those_that_the_component_grants() -> None:
    role = next(iter(YAML(typ="safe").load_all((ROOT / "k8s/snapshots/rights.yaml").read_text())))
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == {(group, resource, verb) for group, resource, verbs in SNAPSHOTS for verb in verbs}
