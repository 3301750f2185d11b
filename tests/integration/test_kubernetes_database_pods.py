"""`volbench k8s observe` of pods in the shapes of operators' databases. The operators themselves are not run."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cluster_run import STORAGE_CLASS, ClusterBench, kubectl
from waiting import wait_for

from volbench.machine.placement.docker.image_names import local_images, pick_server_image, tools_image

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.slow,
    pytest.mark.usefixtures("lab_images"),
    pytest.mark.timeout(600),
]
PROXY = "a-mysql-proxy"
"""A container that has a server's name and runs none."""
PASSWORD = "open-sesame"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a StatefulSet of an operator looks like where it matters: user, container, mount, directory."""

    name: str
    user: int
    container: str
    mount: str
    data: str
    volume: str = "datadir"
    sub_path: str = ""
    port: int = 3306
    shared_processes: bool = False


SHAPES = (
    Shape(name="percona", user=1001, container="pxc", mount="/var/lib/mysql", data="/var/lib/mysql/files"),
    Shape(
        name="oracle", user=27, container="mysql", mount="/var/lib/mysql", data="/var/lib/mysql", sub_path="mysql"
    ),
    Shape(
        name="moco",
        user=10000,
        container="mysqld",
        mount="/var/lib/mysql",
        data="/var/lib/mysql/data",
        volume="mysql-data",
    ),
    Shape(
        name="vitess",
        user=999,
        container="mysqld",
        mount="/vt/vtdataroot",
        data="/vt/vtdataroot/vt_0000000101/data",
        volume="vtdataroot",
        port=3307,
        shared_processes=True,
    ),
)


def stateful_set(shape: Shape, image: str) -> dict[str, Any]:
    """A server of that shape, with a second container that is none, and a claim."""
    script = f"""
data={shape.data}
mkdir -p $data
test -d $data/mysql || mysqld --no-defaults --initialize-insecure --datadir=$data
cat >/tmp/accounts.sql <<'END'
CREATE USER IF NOT EXISTS watch@'%' IDENTIFIED BY '{PASSWORD}';
GRANT PROCESS ON *.* TO watch@'%';
GRANT SELECT ON performance_schema.* TO watch@'%';
END
exec mysqld --no-defaults --datadir=$data --socket=/tmp/mysql.sock --mysqlx=OFF --port={shape.port} \\
  --init-file=/tmp/accounts.sql --innodb-buffer-pool-size=32M --secure-file-priv=NULL
"""
    security = {
        "runAsNonRoot": True,
        "runAsUser": shape.user,
        "runAsGroup": shape.user,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    mount = {"name": shape.volume, "mountPath": shape.mount}
    if shape.sub_path:
        mount["subPath"] = shape.sub_path
    server = {"name": shape.container, "image": image, "command": ["sh", "-ec", script], "volumeMounts": [mount]}
    second = {"name": PROXY, "image": tools_image(), "command": ["sleep", "3600"]}
    common = {"imagePullPolicy": "IfNotPresent", "securityContext": security}
    claim = {
        "metadata": {"name": shape.volume},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    labels = {"app": shape.name}
    pod = {
        "securityContext": {"fsGroup": shape.user},
        "containers": [{**second, **common}, {**server, **common}],
        "terminationGracePeriodSeconds": 1,
        **({"shareProcessNamespace": True} if shape.shared_processes else {}),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": shape.name},
        "spec": {
            "serviceName": shape.name,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            "volumeClaimTemplates": [claim],
        },
    }


@pytest.fixture
def databases(cluster: ClusterBench) -> ClusterBench:
    """All shapes at once, whose servers answer."""
    image = pick_server_image(local_images(), "mysql")
    assert image is not None
    sets = [stateful_set(shape, image.name) for shape in SHAPES]
    items = {"apiVersion": "v1", "kind": "List", "items": sets}
    kubectl("apply", "-n", cluster.namespace, "-f", "-", stdin=json.dumps(items))
    kubectl("create", "secret", "generic", "watch", f"--from-literal=password={PASSWORD}", "-n", cluster.namespace)

    def answers(shape: Shape) -> bool:
        ask = f"import socket; socket.create_connection(('127.0.0.1', {shape.port}), 5); print('open')"
        return "open" in inside(cluster, f"{shape.name}-0", PROXY, "python3", "-c", ask)

    for shape in SHAPES:
        wait_for(lambda shape=shape: answers(shape), f"{shape.name} does not answer")  # type: ignore[misc]
    return cluster


def inside(cluster: ClusterBench, pod: str, container: str, *command: str) -> str:
    """The output of a command in a container; empty after a failure."""
    argv = ["kubectl", "exec", "-n", cluster.namespace, pod, "-c", container, "--", *command]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120).stdout


def observed(cluster: ClusterBench, pod: str) -> dict[str, Any] | None:
    """The report of the observation in the ephemeral container, once there is one."""
    run = (cluster, pod, "volbench-observe")
    directory = inside(*run, "sh", "-c", "ls -d /tmp/results/observe-*").strip()
    if not directory or not inside(*run, "volbench", "observe", "report", directory):
        return None
    made: dict[str, Any] = json.loads(inside(*run, "cat", f"{directory}/report.json"))
    return made


def test_each_shape_is_found_and_observed_by_the_printed_command(databases: ClusterBench, tmp_path: Path) -> None:
    """Server, user, claim and device; then the printed `kubectl debug` observes that device without a restart."""
    for shape in SHAPES:
        pod = f"{shape.name}-0"
        ask = (
            "k8s",
            "observe",
            pod,
            "-n",
            databases.namespace,
            "--secret",
            "watch/password",
            "--out",
            str(tmp_path),
        )
        result = subprocess.run(
            [sys.executable, "-m", "volbench", *ask, "--json"],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
        document = json.loads(result.stdout)
        assert (document["container"], document["server"]["user"], document["port"]) == (
            shape.container,
            shape.user,
            shape.port,
        )
        assert document["claim"] == f"{shape.volume}-{pod}"
        assert document["owner"] == f"StatefulSet {shape.name}"
        assert document["notes"] == []
        inside_volume = f"{shape.sub_path}/{shape.data.removeprefix(shape.mount)}".strip("/")
        assert document["inside"] == inside_volume
        result = subprocess.run(
            [sys.executable, "-m", "volbench", *ask], check=True, capture_output=True, text=True, timeout=120
        )
        (command,) = [line for line in result.stdout.splitlines() if line.startswith("  kubectl debug")]
        arguments = shlex.split(command)
        arguments[2:2] = ["--image-pull-policy=IfNotPresent"]
        subprocess.run(arguments, check=True, capture_output=True, timeout=120)
        report = wait_for(lambda pod=pod: observed(databases, pod), f"no report of {pod}")  # type: ignore[misc]
        observation = report["observation"]
        assert observation["volume"]["path"] == f"/volbench-data/{inside_volume}".rstrip("/")
        number = observation["volume"]["device_number"]
        assert document["device"].startswith(f"{number} "), "two programs in two containers name one device"
        assert observation["server_pid"] is not None, observation["notes"]
        assert "diskstats" not in report["absent_sources"]


def test_a_pod_without_a_server_is_told(databases: ClusterBench) -> None:
    """A missing pod, and one whose containers run no server: exit code 3, and why."""
    missing = databases.end(databases.volbench("k8s", "observe", "nobody-0", "-n", databases.namespace))
    assert (missing.code, "has no pod 'nobody-0'" in missing.output) == (3, True)
    proxy = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "proxy"},
        "spec": {"containers": stateful_set(SHAPES[0], "")["spec"]["template"]["spec"]["containers"][:1]},
    }
    kubectl("apply", "-n", databases.namespace, "-f", "-", stdin=json.dumps(proxy))
    kubectl("wait", "-n", databases.namespace, "--for=condition=Ready", "--timeout=60s", "pod/proxy")
    message = databases.end(databases.volbench("k8s", "observe", "proxy", "-n", databases.namespace))
    assert message.code == 3
    assert f"container {PROXY}: no process mysqld or mariadbd" in message.output
