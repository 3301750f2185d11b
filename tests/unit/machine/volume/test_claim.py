"""A run measures the claim it began with: another volume under the claim's name is refused, never pooled."""

from __future__ import annotations

import pytest
from fake_cluster import CLASSES, VOLUMES, FakeCluster

from volbench.core.profile.spec import parse_volume
from volbench.core.records.facts import VolumeFacts
from volbench.errors import MissingPrerequisite, VolumeUnavailable
from volbench.machine.volume.kinds.claim import ClaimVolume
from volbench.machine.volume.kinds.claim_facts import asked_for
from volbench.machine.volume.kinds.run_owner import RunOwner, owner_name

RUN_ID = "20260101T000000Z-quick-abcdef"
CLAIM = "volbench-abcdef-a"


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.put(f"{CLASSES}/gp2", volumeBindingMode="WaitForFirstConsumer")
    return made


def volume_of(
    cluster: FakeCluster, measured: VolumeFacts | None = None, spec: str = "storage-class:gp2"
) -> ClaimVolume:
    volume = ClaimVolume(parse_volume(spec, name="a"), cluster=cluster, run_id=RUN_ID)
    volume.measured = measured
    volume.retained = measured is not None
    return volume


def measured_on(cluster: FakeCluster, spec: str = "storage-class:gp2") -> VolumeFacts:
    """Return the facts of a first run, after whose interruption the claim stays."""
    with volume_of(cluster, spec=spec) as opened:
        assert opened.claim is not None
        cluster.bind(opened.claim, "pv-1")
    if spec.startswith("storage-class"):
        volume_of(cluster).open()
        cluster.bind(CLAIM, "pv-1")
    facts = volume_of(cluster, spec=spec).open().facts
    assert facts is not None
    assert facts.persistent_volume == "pv-1"
    assert facts.persistent_volume_uid
    return facts


def claims(cluster: FakeCluster) -> list[str]:
    return [path.rpartition("/")[2] for path in cluster.objects if "/persistentvolumeclaims/" in path]


def remake(cluster: FakeCluster, claim: str = CLAIM) -> None:
    """Delete the claim and make it anew, not bound yet."""
    cluster.put(f"persistentvolumeclaims/{claim}", spec={"storageClassName": "gp2"}, status={"phase": "Pending"})


def test_the_same_claim_is_resumed(cluster: FakeCluster) -> None:
    measured = measured_on(cluster)
    assert volume_of(cluster, measured).open().facts == measured


def test_a_claim_that_is_gone_is_refused_and_not_made_anew(cluster: FakeCluster) -> None:
    measured = measured_on(cluster)
    cluster.delete(f"persistentvolumeclaims/{CLAIM}", doing="by hand")
    with (
        pytest.raises(MissingPrerequisite, match=rf"{CLAIM} is not on the volume") as refused,
        volume_of(cluster, measured),
    ):
        pass
    assert (refused.value.exit_code, refused.value.cause) == (3, "volume_gone")
    assert not isinstance(refused.value, VolumeUnavailable), "it ends the resume: no cell runs"
    assert f"pv-1 (uid {measured.persistent_volume_uid})" in refused.value.evidence
    assert "the claim does not exist" in refused.value.evidence
    assert claims(cluster) == []


def test_another_volume_under_the_same_claim_is_refused_and_stays(cluster: FakeCluster) -> None:
    measured = measured_on(cluster)
    remake(cluster)
    cluster.bind(CLAIM, "pv-2")
    with pytest.raises(MissingPrerequisite, match="is not on the volume") as refused, volume_of(cluster, measured):
        pass
    assert "PersistentVolume pv-2" in refused.value.evidence
    assert claims(cluster) == [CLAIM]


def test_a_claim_made_anew_by_the_user_on_the_old_volume_is_the_same_volume(cluster: FakeCluster) -> None:
    cluster.put("persistentvolumeclaims/mine", spec={"storageClassName": ""}, status={"phase": "Bound"})
    measured = measured_on(cluster, "pvc:mine")
    remake(cluster, "mine")
    with pytest.raises(MissingPrerequisite, match="no volume bound"):
        volume_of(cluster, measured, "pvc:mine").open()
    cluster.objects[cluster.object_path("persistentvolumeclaims/mine")]["spec"]["volumeName"] = "pv-1"
    opened = volume_of(cluster, measured, "pvc:mine").open()
    assert opened.facts is not None
    assert opened.facts.claim_uid != measured.claim_uid


def test_without_the_right_to_read_volumes_the_claim_decides(cluster: FakeCluster) -> None:
    measured = measured_on(cluster)
    cluster.forbidden = (VOLUMES,)
    volume_of(cluster, measured).open()
    remake(cluster)
    with pytest.raises(MissingPrerequisite, match="is not on the volume"):
        volume_of(cluster, measured).open()


def test_results_of_older_versions_do_not_name_a_volume(cluster: FakeCluster) -> None:
    assert volume_of(cluster, VolumeFacts(path="/volbench/volume")).open().claim == CLAIM


def test_a_claim_is_deleted_unless_the_run_can_be_resumed_on_it(cluster: FakeCluster) -> None:
    volume = volume_of(cluster)
    volume.open()
    volume.retained = True
    volume.close()
    assert claims(cluster) == [CLAIM]
    assert volume.leftover().endswith(f"kubectl delete pvc -n bench {CLAIM}")
    volume.retained = False
    volume.close()
    assert claims(cluster) == []


def test_a_missing_class_or_claim_concerns_one_volume(cluster: FakeCluster) -> None:
    for spec in ("storage-class:fast", "pvc:none"):
        with pytest.raises(VolumeUnavailable):
            volume_of(cluster, spec=spec).open()


@pytest.mark.parametrize("spec", ["pvc:mine", "storage-class:gp2"])
def test_a_claim_being_deleted_is_refused_before_a_pod_waits_for_it(cluster: FakeCluster, spec: str) -> None:
    """It stays while a pod mounts it, and the scheduler gives it to no new one."""
    cluster.put("persistentvolumeclaims/mine", spec={"storageClassName": ""}, status={"phase": "Bound"})
    volume_of(cluster).open()
    for path, claim in cluster.objects.items():
        if "/persistentvolumeclaims/" in path:
            claim["metadata"]["deletionTimestamp"] = "2026-11-22T10:00:00Z"
            claim["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
    with pytest.raises(VolumeUnavailable, match="is being deleted") as refused:
        volume_of(cluster, spec=spec).open()
    assert (refused.value.exit_code, refused.value.cause) == (3, "volume_gone")
    assert "2026-11-22T10:00:00Z" in refused.value.evidence
    assert "kubernetes.io/pvc-protection" in refused.value.evidence
    assert "kubectl describe pvc -n bench" in refused.value.next_step


class TestAskedFor:
    """What the claim's class asks for, and whether that can be of the volume."""

    def asked(self, cluster: FakeCluster, **status: str) -> dict[str, object]:
        parameters = {"type": "gp3", "iops": "3000", "csi.storage.k8s.io/node-stage-secret-name": "s"}
        cluster.put(f"{CLASSES}/gp3", provisioner="ebs.csi.aws.com", parameters=parameters)
        spec = {"storageClassName": "gp3", "volumeName": "pv-1"}
        claim = cluster.put("persistentvolumeclaims/c", spec=spec, status=status)
        return asked_for(cluster, claim, cluster.put(f"{VOLUMES}/pv-1"))

    def test_parameters_without_secrets(self, cluster: FakeCluster) -> None:
        assert self.asked(cluster) == {
            "class_driver": "ebs.csi.aws.com",
            "class_parameters": {"type": "gp3", "iops": "3000"},
            "class_is_newer": False,
        }

    def test_the_attributes_class_comes_after_the_class(self, cluster: FakeCluster) -> None:
        attributes = {"iops": "6000", "throughput": "250"}
        cluster.put("/apis/storage.k8s.io/v1/volumeattributesclasses/fast", parameters=attributes)
        result = self.asked(cluster, currentVolumeAttributesClassName="fast")
        assert result["class_parameters"] == {"type": "gp3", **attributes}

    def test_an_attributes_class_that_nobody_may_read_leaves_nothing_to_compare(self, cluster: FakeCluster) -> None:
        assert self.asked(cluster, currentVolumeAttributesClassName="gone") == {}

    def test_a_class_that_was_made_again_is_newer(self, cluster: FakeCluster) -> None:
        self.asked(cluster)
        claim = cluster.objects[cluster.object_path("persistentvolumeclaims/c")]
        volume = cluster.objects[f"{VOLUMES}/pv-1"]
        cluster.objects[f"{CLASSES}/gp3"]["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
        assert asked_for(cluster, claim, volume)["class_is_newer"] is True

    def test_without_the_right_to_read_classes_nothing_is_said(self, cluster: FakeCluster) -> None:
        self.asked(cluster)
        cluster.forbidden = (CLASSES,)
        claim = cluster.objects[cluster.object_path("persistentvolumeclaims/c")]
        assert asked_for(cluster, claim, None) == {}


class TestLease:
    """A user's claim is one run's at a time."""

    OTHER = "20260101T000000Z-quick-fedcba"

    @pytest.fixture
    def shared(self, cluster: FakeCluster) -> FakeCluster:
        """A claim of the user, and another one on the same volume of its driver."""
        for name in ("mine", "again"):
            cluster.put(f"persistentvolumeclaims/{name}", spec={"storageClassName": "efs"})
            cluster.bind(name, f"pv-{name}", csi={"driver": "efs.csi.aws.com", "volumeHandle": "fs-1"})
        return cluster

    def volume(self, cluster: FakeCluster, run_id: str, claim: str = "mine") -> ClaimVolume:
        owner = RunOwner(cluster, run_id, ttl_s=7200, image="tools:1")
        spec = parse_volume(f"pvc:{claim}", name="a")
        return ClaimVolume(spec, cluster=cluster, run_id=run_id, owner=owner)

    @pytest.mark.parametrize("claim", ["mine", "again"])
    def test_another_run_is_refused_and_named(self, shared: FakeCluster, claim: str) -> None:
        with self.volume(shared, RUN_ID):
            with pytest.raises(MissingPrerequisite) as refused, self.volume(shared, self.OTHER, claim):
                pass
            assert (refused.value.exit_code, refused.value.cause) == (3, "claim_in_use")
            assert all(term in refused.value.evidence for term in (RUN_ID, "claim mine", "2026-01-01T02:00:00Z"))
        with self.volume(shared, self.OTHER, claim) as opened:
            assert opened.claim == claim, "it was given back"

    def test_a_resume_after_a_kill_keeps_the_lease(self, shared: FakeCluster) -> None:
        self.volume(shared, RUN_ID).open()
        with self.volume(shared, RUN_ID) as opened:
            assert opened.claim == "mine"

    def test_a_refused_run_takes_nobodys_lease_away(self, shared: FakeCluster) -> None:
        with self.volume(shared, RUN_ID):
            for _ in range(2):
                with pytest.raises(MissingPrerequisite, match=RUN_ID), self.volume(shared, self.OTHER):
                    pass

    def test_the_lease_of_an_owner_that_is_gone_is_made_anew(self, shared: FakeCluster) -> None:
        self.volume(shared, RUN_ID).open()
        shared.delete(shared.jobs(owner_name(RUN_ID)), doing="the cluster, after ttl")
        self.volume(shared, RUN_ID).open()
        (lease,) = [item for path, item in shared.objects.items() if "/leases/" in path]
        owner = shared.objects[shared.jobs(owner_name(RUN_ID))]
        assert lease["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]

    def test_a_claim_on_a_class_is_the_runs_own_and_needs_none(self, cluster: FakeCluster) -> None:
        owner = RunOwner(cluster, RUN_ID, ttl_s=7200, image="tools:1")
        ClaimVolume(parse_volume("storage-class:gp2", name="a"), cluster=cluster, run_id=RUN_ID, owner=owner).open()
        assert not [path for path in cluster.objects if "/leases/" in path]
