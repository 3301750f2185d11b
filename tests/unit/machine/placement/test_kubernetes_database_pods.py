"""What `volbench k8s observe` finds in a pod, and the commands that it prints, on objects as operators make."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from fake_cluster import VOLUMES, FakeCluster

from volbench.errors import MissingPrerequisite, StepFailed
from volbench.machine.placement.kubernetes import database_pods
from volbench.machine.placement.kubernetes.database_pods import DatabasePod, look_at, parse_look
from volbench.machine.placement.kubernetes.observation import (
    Access,
    custom_profile,
    debug_command,
    describe,
    sidecar,
    tcp_commands,
)

MOUNTS = """mount 30 29 0:40 / / rw - overlay overlay rw
mount 36 35 259:3 /mysql /var/lib/mysql rw,noatime master:1 - ext4 /dev/nvme1n1 rw
"""
ACCESS = Access(user="watch", secret="db", key="watch", image="r/tools:1")


def output(user: int = 27, directory: str = "/var/lib/mysql", *arguments: str) -> str:
    lines = [f"process 1 {user} {user} mysqld", f"directory {directory}", "argument mysqld"]
    return "\n".join([*lines, *(f"argument {argument}" for argument in arguments), MOUNTS])


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the script prints, by container; the others refuse it."""
    made: dict[str, str] = {}

    def run(_cluster: FakeCluster, _pod: str, _command: list[str], *, container: str, **_: Any) -> str:
        if container not in made:
            raise StepFailed("a command in the pod failed", where="test", evidence="no shell")
        return made[container]

    monkeypatch.setattr(database_pods, "run_in_pod", run)
    return made


def cluster_with(containers: list[dict[str, Any]], owner: dict[str, str], **spec: Any) -> FakeCluster:
    made = FakeCluster()
    made.put("persistentvolumeclaims/datadir-db-0", spec={"storageClassName": "gp3", "volumeName": "pv-1"})
    csi = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123"}
    made.put(f"{VOLUMES}/pv-1", spec={"csi": csi})
    path = f"/apis/apps/v1/namespaces/{made.namespace}/statefulsets/db"
    made.put(path, metadata={"ownerReferences": [owner]})
    made.put(
        "pods/db-0",
        metadata={"ownerReferences": [{"kind": "StatefulSet", "name": "db", "apiVersion": "apps/v1"}]},
        spec={
            "nodeName": "node1",
            "containers": containers,
            "volumes": [{"name": "datadir", "persistentVolumeClaim": {"claimName": "datadir-db-0"}}],
            **spec,
        },
        status={
            "podIP": "10.0.0.7",
            "containerStatuses": [
                {"name": container["name"], "state": {"running": {}}} for container in containers
            ],
        },
    )
    return made


def oracle() -> FakeCluster:
    mount = {"name": "datadir", "mountPath": "/var/lib/mysql", "subPath": "mysql"}
    containers: list[dict[str, Any]] = [{"name": "sidecar"}, {"name": "mysql", "volumeMounts": [mount]}]
    owner = {"kind": "InnoDBCluster", "name": "shop", "apiVersion": "mysql.oracle.com/v2"}
    return cluster_with(containers, owner)


def test_an_oracle_shape_names_user_claim_device_and_volume_handle(outputs: dict[str, str]) -> None:
    outputs["mysql"] = output()
    result = look_at(oracle(), "db-0")
    assert (result.container, result.server.user, result.port) == ("mysql", 27, 3306)
    assert (result.volume, result.inside, result.claim) == ("datadir", "mysql", "datadir-db-0")
    assert result.device == "259:3 ext4 /dev/nvme1n1"
    assert result.handle == "ebs.csi.aws.com vol-0123"
    assert result.owner == "InnoDBCluster shop"
    assert result.operator is not None
    assert result.operator.sidecars == "spec.podSpec.containers"
    assert result.notes == ()
    text = "\n".join(describe(result))
    assert all(phrase in text for phrase in ("user 27:27", "class gp3", "vol-0123", "MySQL Operator (Oracle)"))


def test_the_ways_to_observe_use_the_servers_user_volume_and_secret(outputs: dict[str, str]) -> None:
    outputs["mysql"] = output(27, "/var/lib/mysql", "--port=3307")
    result = look_at(oracle(), "db-0")
    profile = custom_profile(result, ACCESS)
    assert profile["securityContext"]["runAsUser"] == 27
    assert profile["volumeMounts"] == [{"name": "datadir", "mountPath": "/volbench-data", "readOnly": True}]
    assert profile["env"][1]["valueFrom"]["secretKeyRef"] == {"name": "db", "key": "watch"}
    arguments = shlex.split(debug_command(result, ACCESS, "x.yaml"))
    assert {"--target=mysql", "--profile=restricted", "--custom=x.yaml"} <= {*arguments}
    assert "@127.0.0.1:3307/" in arguments[-1]
    assert arguments[-1].endswith("--volume /volbench-data/mysql")
    assert sidecar(result, ACCESS)["image"] == "r/tools:1"
    assert list(tcp_commands(result, ACCESS))[-1].endswith("--add cloudwatch:vol-0123")


def test_in_a_pod_that_shares_its_processes_the_container_with_the_claim_tells_the_mounts(
    outputs: dict[str, str],
) -> None:
    mount = {"name": "datadir", "mountPath": "/vt/vtdataroot"}
    containers: list[dict[str, Any]] = [{"name": "a-mysql-proxy"}, {"name": "server", "volumeMounts": [mount]}]
    owner = {"kind": "VitessShard", "name": "v", "apiVersion": "planetscale.com/v2"}
    cluster = cluster_with(containers, owner, shareProcessNamespace=True)
    outputs["a-mysql-proxy"] = output(999, "/vt/vtdataroot/vt_1/data")
    outputs["server"] = outputs["a-mysql-proxy"].replace("/var/lib/mysql rw", "/vt/vtdataroot rw")
    result = look_at(cluster, "db-0")
    assert (result.container, result.inside, result.device) == ("server", "vt_1/data", "259:3 ext4 /dev/nvme1n1")


def test_the_longest_mount_and_a_directory_below_it_are_found(outputs: dict[str, str]) -> None:
    mounts = [{"name": "tmp", "mountPath": "/var"}, {"name": "datadir", "mountPath": "/var/lib/mysql"}]
    owner = {"kind": "MySQLCluster", "name": "m", "apiVersion": "moco.cybozu.com/v1beta2"}
    cluster = cluster_with([{"name": "mysqld", "volumeMounts": mounts}], owner)
    outputs["mysqld"] = output(10000, "/var/lib/mysql/data")
    result = look_at(cluster, "db-0")
    assert (result.volume, result.inside, result.server.user) == ("datadir", "data", 10000)


def test_an_unknown_directory_is_taken_from_the_only_claim(outputs: dict[str, str]) -> None:
    outputs["mysql"] = output(1001, "/")
    result = look_at(oracle(), "db-0")
    assert (result.volume, result.inside, result.device) == ("datadir", "mysql", "259:3 ext4 /dev/nvme1n1")


def test_data_in_the_containers_layer_is_said(outputs: dict[str, str]) -> None:
    outputs["mysql"] = output(999, "/srv/data")
    result = look_at(oracle(), "db-0")
    assert (result.volume, result.claim) == ("", "")
    assert result.notes == (
        "the data directory /srv/data is on no volume of the pod, but in the container's layer",
    )
    assert "volumeMounts" not in custom_profile(result, ACCESS)
    assert debug_command(result, ACCESS, "x").endswith("--volume none'")


def test_a_server_in_no_container_is_an_error_that_says_what_was_tried(outputs: dict[str, str]) -> None:
    outputs["sidecar"] = MOUNTS
    with pytest.raises(MissingPrerequisite) as raised:
        look_at(oracle(), "db-0")
    assert raised.value.exit_code == 3
    assert raised.value.evidence == "container mysql: no shell; container sidecar: no process mysqld or mariadbd"


def test_a_pod_that_is_missing_is_named() -> None:
    with pytest.raises(MissingPrerequisite, match="has no pod 'db-9'"):
        look_at(oracle(), "db-9")


def test_without_the_right_to_read_volumes_the_claim_is_still_named(outputs: dict[str, str]) -> None:
    outputs["mysql"] = output()
    cluster = oracle()
    cluster.forbidden = (VOLUMES,)
    result = look_at(cluster, "db-0")
    assert (result.claim, result.persistent_volume, result.handle) == ("datadir-db-0", "pv-1", "")
    assert isinstance(result, DatabasePod)


@pytest.mark.parametrize(
    "text",
    ["", "process x 1 1 mysqld", "process 1 1 1 bash", "process 1 1 mysqld", f"process {'9' * 5000} 1 1 mysqld"],
)
def test_output_without_a_server_is_none(text: str) -> None:
    assert parse_look(text) is None


def test_arguments_of_another_process_are_not_the_servers() -> None:
    text = "process 7 1 1 mysqld\nargument --port=1\nprocess 9 1 1 mysqld\nargument --port=2\n"
    result = parse_look(text)
    assert result is not None
    assert (result.pid, result.option("port")) == (7, "1")
