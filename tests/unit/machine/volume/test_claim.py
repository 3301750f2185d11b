"""A run measures the claim it began with: another volume under the claim's name is refused, never pooled."""

from __future__ import annotations

import pytest
from fake_cluster import CLASSES, VOLUMES, FakeCluster

from volbench.core.profile.spec import parse_volume
from volbench.core.records.facts import VolumeFacts
from volbench.errors import EnvironmentLacks, VolumeUnavailable
from volbench.machine.volume.kinds.claim import ClaimVolume

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
        pytest.raises(EnvironmentLacks, match=rf"{CLAIM} is not on the volume") as refused,
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
    with pytest.raises(EnvironmentLacks, match="is not on the volume") as refused, volume_of(cluster, measured):
        pass
    assert "PersistentVolume pv-2" in refused.value.evidence
    assert claims(cluster) == [CLAIM]


def test_a_claim_made_anew_by_the_user_on_the_old_volume_is_the_same_volume(cluster: FakeCluster) -> None:
    cluster.put("persistentvolumeclaims/mine", spec={"storageClassName": ""}, status={"phase": "Bound"})
    measured = measured_on(cluster, "pvc:mine")
    remake(cluster, "mine")
    with pytest.raises(EnvironmentLacks, match="no volume bound"):
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
    with pytest.raises(EnvironmentLacks, match="is not on the volume"):
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
