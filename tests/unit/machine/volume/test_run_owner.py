"""All objects of a run have one owner, whose time runs out when nobody extends it; `pvc:` claims have none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import kubernetes_schemas
import pytest
from fake_cluster import CLASSES, FakeCluster

from volbench.core.profile.spec import parse_volume
from volbench.errors import StepFailed
from volbench.machine.volume.kinds import run_owner
from volbench.machine.volume.kinds.claim import ClaimVolume
from volbench.machine.volume.kinds.run_owner import RunOwner, expires_at, owner_manifest, owner_name

RUN_ID = "20260101T000000Z-quick-abcdef"
TTL_S = 3600.0


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.put(f"{CLASSES}/gp2", volumeBindingMode="WaitForFirstConsumer")
    made.put("persistentvolumeclaims/mine")
    return made


def owner_of(cluster: FakeCluster) -> RunOwner:
    return RunOwner(cluster, RUN_ID, ttl_s=TTL_S, image="tools:1")


def job(cluster: FakeCluster) -> dict[str, Any]:
    return cluster.objects[cluster.jobs(owner_name(RUN_ID))]


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
def test_the_owner_fits_the_api_and_has_no_pods(version: str) -> None:
    manifest = owner_manifest(RUN_ID, ttl_s=TTL_S, image="tools:1")
    kubernetes_schemas.check(manifest, version)
    assert manifest["spec"]["parallelism"] == 0
    assert manifest["spec"]["ttlSecondsAfterFinished"] == 0


def test_a_runs_claim_is_owned_and_a_users_is_not(cluster: FakeCluster) -> None:
    owner = owner_of(cluster)
    for spec in ("storage-class:gp2", "pvc:mine"):
        ClaimVolume(parse_volume(spec, name="a"), cluster=cluster, run_id=RUN_ID, owner=owner).open()
    made = cluster.objects[cluster.object_path("persistentvolumeclaims/volbench-abcdef-a")]
    assert [owner_reference["uid"] for owner_reference in made["metadata"]["ownerReferences"]] == [
        job(cluster)["metadata"]["uid"]
    ]
    mine = cluster.objects[cluster.object_path("persistentvolumeclaims/mine")]
    assert "ownerReferences" not in mine["metadata"]


def test_time_is_extended_by_the_servers_clock_when_it_is_due(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine's clock may be wrong: the fake cluster's is apart by months."""
    clock_s = 1_000_000.0
    monkeypatch.setattr("volbench.machine.volume.kinds.run_owner.time.time", lambda: clock_s)
    owner = owner_of(cluster)
    owner.extend()
    assert job(cluster)["spec"]["activeDeadlineSeconds"] == TTL_S
    cluster.now += timedelta(seconds=600)
    clock_s += TTL_S / 8 - 1
    owner.extend()
    assert job(cluster)["spec"]["activeDeadlineSeconds"] == TTL_S
    clock_s += 1
    owner.extend()
    assert job(cluster)["spec"]["activeDeadlineSeconds"] == 600 + TTL_S
    assert expires_at(job(cluster)) == "2026-01-01T01:10:00Z"


def test_at_the_end_objects_that_stay_have_their_time_and_without_them_the_owner_goes(cluster: FakeCluster) -> None:
    owner = owner_of(cluster)
    owner.extend()
    cluster.now += timedelta(seconds=60)
    owner.end(objects_stay=True)
    assert job(cluster)["spec"]["activeDeadlineSeconds"] == 60 + TTL_S
    owner.end(objects_stay=False)
    assert cluster.jobs(owner_name(RUN_ID)) not in cluster.objects
    owner.end(objects_stay=True)
    assert cluster.jobs(owner_name(RUN_ID)) not in cluster.objects, "nothing was made, so nothing is owned"


def test_an_owner_that_has_ended_is_waited_for_and_made_anew(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its objects are being deleted; new ones must not be owned by it."""
    first = owner_of(cluster).references()
    job(cluster)["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        cluster.objects.pop(cluster.jobs(owner_name(RUN_ID)))

    monkeypatch.setattr("volbench.machine.volume.kinds.run_owner.time.sleep", sleep)
    assert owner_of(cluster).references() != first
    assert len(waited) == 1


def test_an_ended_owner_that_does_not_go_is_an_error(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    owner_of(cluster).references()
    job(cluster)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    monkeypatch.setattr(run_owner, "_ENDED_WAIT_S", -1.0)
    with pytest.raises(StepFailed, match="still being deleted"):
        owner_of(cluster).references()


def test_an_owner_that_somebody_deleted_is_made_anew(cluster: FakeCluster) -> None:
    owner = owner_of(cluster)
    first = owner.references()
    cluster.objects.pop(cluster.jobs(owner_name(RUN_ID)))
    owner.extend()
    assert owner.references() != first
