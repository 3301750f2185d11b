"""A claim's backup by the snapshot API on a fake cluster; its objects against the real API's definitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_schemas
import pytest
from command_line import volbench
from ruamel.yaml import YAML
from snapshot_cluster import NAME, RUN_ID, SOURCE, SnapshotCluster

from volbench.core.records.snapshots import RestoreTimes, SnapshotTimes
from volbench.errors import MissingPrerequisite, StepFailed, VolumeUnavailable
from volbench.machine.placement.kubernetes.options import KubernetesOptions
from volbench.machine.placement.kubernetes.snapshots import measure
from volbench.machine.placement.kubernetes.snapshots.manifests import (
    SnapshotPlan,
    reader_job,
    restored_claim,
    volume_snapshot,
)
from volbench.machine.placement.kubernetes.snapshots.measure import measure_snapshot
from volbench.machine.volume.kinds.run_owner import RunOwner
from volbench.measure.workload.cold.first_touch import read_twice

ROOT = Path(__file__).parents[4]
PLAN = SnapshotPlan(run_id=RUN_ID, claim="data", image="r/tools:1", options=KubernetesOptions())


def measured(cluster: SnapshotCluster, *, keep: bool = False, timeout_s: float = 0.0) -> SnapshotTimes:
    owner = RunOwner(cluster, RUN_ID, ttl_s=3600, image="r/tools:1")
    try:
        return measure_snapshot(cluster, PLAN, owner.references, timeout_s=timeout_s, keep=keep)
    finally:
        if not keep:
            owner.end(objects_stay=False)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_POLL_S", 0.0)


def test_a_snapshot_is_taken_restored_and_read_and_nothing_of_it_stays() -> None:
    cluster = SnapshotCluster()
    times = measured(cluster)
    assert times.cut_s == 3.0
    assert times.restored == RestoreTimes(
        restore_s=7.0, files=3, bytes=3 << 20, unreadable=0, first_read_s=2.0, second_read_s=0.5
    )
    left = {path.rpartition("/namespaces/bench/")[2] for path in cluster.objects}
    assert left == {"persistentvolumeclaims/data", f"pods/{NAME}-x"}, "the cluster deletes the Job's pod"
    order = [path.rpartition("/")[0].rpartition("/")[2] for path in cluster.deleted]
    assert order[:3] == ["jobs", "persistentvolumeclaims", "volumesnapshots"], (
        "what uses another is deleted before it"
    )


def test_all_of_it_is_owned_so_that_the_cluster_deletes_what_a_lost_laptop_leaves() -> None:
    cluster = SnapshotCluster()
    measured(cluster, keep=True)
    made = {path: item for path, item in cluster.objects.items() if path.endswith(NAME)}
    assert len(made) == 3
    owners = {manifest["metadata"]["ownerReferences"][0]["name"] for manifest in made.values()}
    assert owners == {"volbench-abcdef-owner"}
    assert cluster.deleted == []


@pytest.mark.parametrize(
    ("status", "evidence"),
    [
        ({}, "nobody has acted on it"),
        (
            {"error": {"message": "Failed to get snapshot class with error cannot find default snapshot class"}},
            "cannot find default snapshot class",
        ),
    ],
)
def test_a_snapshot_that_does_not_come_is_named_and_removed(status: dict[str, Any], evidence: str) -> None:
    cluster = SnapshotCluster(snapshot_status=status)
    with pytest.raises(StepFailed, match="the snapshot is not ready") as failed:
        measured(cluster, timeout_s=-1)
    assert evidence in failed.value.evidence
    assert not [path for path in cluster.objects if NAME in path]


def test_a_cluster_without_the_api_or_the_rights_says_what_to_apply() -> None:
    cluster = SnapshotCluster()
    cluster.forbidden = ("/apis/snapshot.storage.k8s.io",)
    with pytest.raises(MissingPrerequisite) as refused:
        measured(cluster)
    assert "k8s/snapshots" in refused.value.next_step
    missing = SnapshotCluster()
    missing.absent = ("/apis/snapshot.storage.k8s.io",)
    with pytest.raises(MissingPrerequisite, match="no snapshot API") as absent:
        measured(missing)
    assert "external-snapshotter" in absent.value.next_step
    assert {path.rpartition("/")[2] for path in missing.objects} == {"data"}


def test_a_claim_without_a_volume_is_refused_before_anything_is_made() -> None:
    cluster = SnapshotCluster()
    cluster.put("persistentvolumeclaims/data", spec={"resources": {}})
    with pytest.raises(VolumeUnavailable, match="no volume is bound"):
        measured(cluster)
    del cluster.objects[cluster.object_path("persistentvolumeclaims/data")]
    with pytest.raises(VolumeUnavailable, match="no such claim"):
        measured(cluster)
    assert cluster.objects == {}


def test_a_reader_that_failed_is_shown() -> None:
    with pytest.raises(StepFailed, match="was not read"):
        measured(SnapshotCluster(log="Permission denied\n"))


def test_the_restored_claim_is_as_large_as_its_source() -> None:
    claim = restored_claim(PLAN, SOURCE, "11Gi")["spec"]
    assert claim["resources"]["requests"]["storage"] == "12Gi"
    assert claim["dataSource"] == {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": NAME}
    assert claim["storageClassName"] == "gp3"
    assert restored_claim(PLAN, SOURCE)["spec"]["resources"]["requests"]["storage"] == "12Gi"


def test_the_snapshot_fits_the_definition_of_the_real_api() -> None:
    """The custom resource definition of external-snapshotter v8.2.0; no driver with snapshots could be had."""
    for chosen in ("", "ebs"):
        plan = SnapshotPlan(run_id=RUN_ID, claim="data", snapshot_class=chosen, options=KubernetesOptions())
        kubernetes_schemas.check_snapshot(volume_snapshot(plan))
    made = volume_snapshot(PLAN)
    unknown = {**made, "spec": {**made["spec"], "sourceClaim": "x"}}
    with pytest.raises(jsonschema.ValidationError, match="Additional properties"):
        kubernetes_schemas.check_snapshot(unknown)


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
def test_claim_reader_and_rights_fit_the_api(version: str) -> None:
    for manifest in (restored_claim(PLAN, SOURCE), reader_job(PLAN)):
        kubernetes_schemas.check(manifest, version)
    for document in YAML(typ="safe").load_all((ROOT / "k8s/snapshots/rights.yaml").read_text()):
        kubernetes_schemas.check(json.loads(json.dumps(document)), version)


def test_the_reader_is_restricted_and_writes_nothing_to_the_volume() -> None:
    pod = reader_job(PLAN)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["volumeMounts"][0]["readOnly"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container["command"] == ["volbench", "cell", "first-touch", "/volbench/volume"]


def test_files_are_read_twice_and_links_never(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name, length in (("a", 3 << 20), ("deep/b", 5)):
        (tmp_path / name).write_bytes(b"x" * length)
    (tmp_path / "link").symlink_to("/etc/passwd")
    read = read_twice(tmp_path)
    assert (read.files, read.bytes, read.unreadable) == (2, (3 << 20) + 5, 1)
    assert read.first_s > 0
    assert read.second_s > 0
    ended = volbench("cell", "first-touch", str(tmp_path))
    assert json.loads(ended.stdout)["bytes"] == read.bytes
