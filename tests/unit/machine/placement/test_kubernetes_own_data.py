"""The user's own data in pods: a ConfigMap of the run, a claim that is only read, and what refuses a claim."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_schemas
import pytest
from fake_cluster import FakeCluster
from node_bench import LOCAL, RUN_ID, Bench

from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.own_places import OWN
from volbench.core.records.steps.oltp import OltpStep
from volbench.errors import MissingPrerequisite, Refused, UsageError, VolbenchError
from volbench.machine.placement.interface import Job, JobKind
from volbench.machine.placement.kubernetes.cell_objects import labels_of_run
from volbench.machine.placement.kubernetes.options import parse_options, read_options
from volbench.machine.placement.kubernetes.own_claims import check_dataset_claims
from volbench.machine.placement.kubernetes.own_data import OwnData

LUA, MODULE = "/home/dba/own.lua", "/home/dba/keys.lua"
FILES = OwnData(run_id=RUN_ID, files={LUA: b"x", MODULE: b"y"})


def launched(bench: Bench, kind: JobKind, *, dataset: DatasetSpec, script: str = "") -> dict[str, Any]:
    """The Job of a cell with that data."""
    job = bench.job("01-a", "a")
    steps = (OltpStep(name="own", test=script),) if script else ()
    cell = job.cell.model_copy(update={"dataset": dataset, "steps": steps})
    cell = bench.target.with_server(cell, job.volume)
    bench.target.launch(Job(kind=kind, cell=cell, out=bench.root, supervisor_script=b"", volume=job.volume))
    return bench.launched("01-a")


def config_maps(bench: Bench) -> dict[str, dict[str, Any]]:
    every = {path: item for path, item in bench.cluster.objects.items() if "/configmaps/" in path}
    return {path.rpartition("/")[2]: item for path, item in every.items() if "own-files" in path}


def mounts_of(made: dict[str, Any], volume: str) -> dict[str, dict[str, Any]]:
    pod = made["spec"]["template"]["spec"]
    return {
        container["name"]: mount
        for container in (*pod["initContainers"], *pod["containers"])
        for mount in container["volumeMounts"]
        if mount["name"] == volume
    }


@pytest.mark.parametrize("kind", ["run", "prepare"])
@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
def test_files_of_this_machine_come_by_a_config_map_that_the_agent_alone_reads(
    tmp_path: Path, version: str, kind: JobKind
) -> None:
    bench = Bench(tmp_path)
    bench.target.own = FILES
    made = launched(bench, kind, dataset=DatasetSpec(), script=LUA)
    ((name, map_),) = config_maps(bench).items()
    kubernetes_schemas.check(FILES.config_map(), version)
    assert {key: base64.b64decode(value) for key, value in map_["binaryData"].items()} == {
        "file-1": b"y",
        "file-2": b"x",
    }
    assert map_["metadata"]["ownerReferences"] == bench.owner.references()
    assert map_["metadata"]["labels"].items() >= labels_of_run(RUN_ID).items()
    kubernetes_schemas.check(made, version)
    (volume,) = [item for item in made["spec"]["template"]["spec"]["volumes"] if item["name"] == "own"]
    items = [{"key": "file-1", "path": MODULE[1:]}, {"key": "file-2", "path": LUA[1:]}]
    assert volume["configMap"] == {"name": name, "items": items}
    assert mounts_of(made, "own") == {"agent": {"name": "own", "mountPath": OWN, "readOnly": True}}
    (given,) = [
        item["data"]["cell.json"]
        for path, item in bench.cluster.objects.items()
        if path.endswith(f"/configmaps/{made['metadata']['name']}")
    ]
    assert f'"test": "{OWN}{LUA}"' in given


def test_one_config_map_serves_all_cells_and_goes_with_the_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.target.own = FILES
    for kind in ("prepare", "run"):
        launched(bench, kind, dataset=DatasetSpec(), script=LUA)
        assert len(config_maps(bench)) == 1
    bench.target.clean_up()
    assert config_maps(bench) == {}


def test_a_path_with_dots_is_one_that_a_config_map_can_have(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.target.own = OwnData(run_id=RUN_ID, files={"/home/dba/suites/../own.lua": b"x"})
    made = launched(bench, "run", dataset=DatasetSpec(), script="/home/dba/suites/../own.lua")
    (volume,) = [item for item in made["spec"]["template"]["spec"]["volumes"] if item["name"] == "own"]
    assert volume["configMap"]["items"] == [{"key": "file-1", "path": "home/dba/own.lua"}]
    assert f'"test": "{OWN}/home/dba/own.lua"' in str(bench.cluster.objects)


def test_files_that_have_changed_have_another_config_map() -> None:
    changed = replace(FILES, files={**FILES.files, LUA: b"z"})
    assert changed.name != FILES.name
    assert FILES.name.startswith("volbench-abcdef-own-files-")


def test_a_run_without_own_files_makes_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    made = launched(bench, "run", dataset=DatasetSpec())
    assert config_maps(bench) == {}
    assert mounts_of(made, "own") == mounts_of(made, "dataset") == {}


DUMP = DatasetSpec.model_validate({"kind": "dump", "path": "pvc:dumps/shop.sql"})


@pytest.mark.parametrize("version", kubernetes_schemas.VERSIONS)
def test_the_pod_that_loads_the_dataset_has_its_claim_read_only_twice_over(tmp_path: Path, version: str) -> None:
    """So that the kubelet changes no owner on it either."""
    made = launched(Bench(tmp_path), "prepare", dataset=DUMP)
    kubernetes_schemas.check(made, version)
    (volume,) = [item for item in made["spec"]["template"]["spec"]["volumes"] if item["name"] == "dataset"]
    assert volume["persistentVolumeClaim"] == {"claimName": "dumps", "readOnly": True}
    mount = {"name": "dataset", "mountPath": "/volbench/dataset", "readOnly": True}
    assert mounts_of(made, "dataset") == {"agent": mount}


def test_the_pods_that_measure_do_not_have_it(tmp_path: Path) -> None:
    made = launched(Bench(tmp_path), "run", dataset=DUMP)
    assert mounts_of(made, "dataset") == {}
    assert "dumps" not in str(made["spec"])


def with_claim(*modes: str, affinity: dict[str, Any] | None = None, **spec: Any) -> FakeCluster:
    """A cluster with a bound claim `dumps`, and the claim `data` that is measured, on node2."""
    cluster = FakeCluster()
    for name in ("dumps", "data"):
        cluster.put(
            f"persistentvolumeclaims/{name}", spec={"accessModes": list(modes), **spec}, status={"phase": "Bound"}
        )
    cluster.bind("dumps", "pv-dumps", **({"nodeAffinity": affinity} if affinity else {}))
    cluster.bind("data", "pv-data", nodeAffinity=_on("node2"))
    return cluster


def _on(node: str) -> dict[str, Any]:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def check(cluster: FakeCluster, *options: str, measured: Sequence[str] = ()) -> None:
    own = OwnData(run_id=RUN_ID, claims=("dumps",), measured=measured)
    before = dict(cluster.objects)
    try:
        check_dataset_claims(cluster, own, options=read_options(parse_options(options)))
    finally:
        assert cluster.objects == before, "a check changes nothing"


def refusal(cluster: FakeCluster, *options: str, measured: Sequence[str] = ()) -> VolbenchError:
    with pytest.raises(VolbenchError) as refused:
        check(cluster, *options, measured=measured)
    assert refused.value.where == "dataset on claim dumps"
    return refused.value


def use(cluster: FakeCluster, node: str, *, run: str = "", phase: str = "Running") -> None:
    cluster.put(
        "pods/app",
        metadata={"labels": labels_of_run(run) if run else {}},
        spec={"nodeName": node, "volumes": [{"persistentVolumeClaim": {"claimName": "dumps"}}]},
        status={"phase": phase},
    )


def test_a_claim_that_is_free_or_that_every_node_can_mount_is_taken() -> None:
    check(with_claim("ReadWriteOnce"))
    check(with_claim("ReadWriteOnce"), measured=["data"])
    check(with_claim("ReadWriteOnce", affinity=_on("node2")), measured=["data"])
    check(with_claim("ReadWriteOnce"), "parallel=2", "share_nodes=true")
    shared = with_claim("ReadWriteOnce", "ReadOnlyMany")
    use(shared, "node3")
    check(shared, "parallel=2")
    check(shared, "nodes=2", "parallel=2")


def test_a_claim_that_is_missing_is_told_with_the_namespace() -> None:
    error = refusal(FakeCluster())
    assert isinstance(error, MissingPrerequisite)
    assert error.what == "namespace bench has no claim 'dumps'"
    assert "--target-option namespace=NAME" in error.next_step


def test_a_claim_without_a_volume_has_nothing_on_it() -> None:
    cluster = FakeCluster()
    cluster.put(
        "persistentvolumeclaims/dumps", spec={"accessModes": ["ReadWriteOnce"]}, status={"phase": "Pending"}
    )
    error = refusal(cluster)
    assert isinstance(error, MissingPrerequisite)
    assert "has no volume yet" in error.what
    assert error.evidence == "phase Pending"


def test_a_block_device_and_a_claim_being_deleted_are_refused_as_measured_ones_are() -> None:
    assert isinstance(refusal(with_claim("ReadWriteOnce", volumeMode="Block")), Refused)
    going = with_claim("ReadWriteOnce")
    claim = going.objects[going.object_path("persistentvolumeclaims/dumps")]
    claim["metadata"]["deletionTimestamp"] = "2026-11-22T10:00:00Z"
    assert "is being deleted" in refusal(going).what


def test_the_measured_claim_is_no_place_for_the_dataset() -> None:
    error = refusal(with_claim("ReadWriteOnce"), measured=["dumps"])
    assert isinstance(error, UsageError)
    assert "a claim that the run measures" in error.what


@pytest.mark.parametrize("affinity", [None, LOCAL], ids=["any-node", "node3"])
def test_a_pod_on_another_node_pins_the_claim_unless_its_volume_is_there_anyway(
    affinity: dict[str, Any] | None,
) -> None:
    cluster = with_claim("ReadWriteOnce", affinity=affinity)
    use(cluster, "node3")
    if affinity:
        check(cluster)
        return
    error = refusal(cluster)
    assert isinstance(error, MissingPrerequisite)
    assert error.cause == "unschedulable"
    assert error.what == "claim dumps can be mounted on one node at a time, now node3"
    assert "pod app on node node3 mounts it" in error.evidence
    assert "--target-option node=node3" in error.next_step
    check(cluster, "node=node3")
    assert refusal(cluster, "node=node2").what == error.what


def test_pods_that_are_over_and_those_of_the_run_pin_nothing() -> None:
    cluster = with_claim("ReadWriteOnce")
    use(cluster, "node3", phase="Succeeded")
    check(cluster)
    use(cluster, "node3", run=RUN_ID)
    check(cluster)


def test_a_claim_for_one_pod_is_refused_while_a_pod_has_it() -> None:
    cluster = with_claim("ReadWriteOncePod")
    check(cluster)
    assert "one pod at a time" in refusal(cluster, "parallel=2", "share_nodes=true").what
    use(cluster, "node3")
    assert refusal(cluster, "node=node3").next_step == "end pod app"


def test_a_claim_for_one_node_is_refused_where_several_load_at_once() -> None:
    cluster = with_claim("ReadWriteOnce")
    assert "2 nodes load the dataset at once" in refusal(cluster, "parallel=2").what
    check(cluster, "nodes=2")
    bound = with_claim("ReadWriteOnce", affinity=LOCAL)
    assert "is bound to node node3, and each of 2 nodes loads" in refusal(bound, "nodes=2").what


def test_claims_that_no_node_can_mount_both_of_are_refused() -> None:
    error = refusal(with_claim("ReadWriteOnce", affinity=LOCAL), measured=["data"])
    assert error.what == "claim dumps and the measured claim data are on different nodes, so no pod can mount both"
    assert error.evidence.startswith("node3 against node2")


def test_without_the_right_to_read_volumes_the_scheduler_decides() -> None:
    cluster = with_claim("ReadWriteOnce", affinity=LOCAL)
    cluster.forbidden = ("/api/v1/persistentvolumes",)
    check(cluster, measured=["data"])
