"""`volbench observe` beside a MySQL of a real cluster, by the two manifests as docs/observe.md applies them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster_run import STORAGE_CLASS, ClusterBench, kubectl
from waiting import wait_for

from volbench.machine.placement.docker.image_names import local_images, pick_server_image, tools_image

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.slow,
    pytest.mark.usefixtures("lab_images"),
    pytest.mark.timeout(600),
]
OBSERVE = Path(__file__).parents[2] / "k8s" / "observe"
POD = "mysql-0"
RATE = 50
LOAD_S = 20.0
"""Between two reports."""
PASSWORD = "open-sesame"
SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 999,
    "runAsGroup": 999,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
SERVER = f"""
data=/var/lib/mysql/data
test -d $data/mysql || mysqld --no-defaults --initialize-insecure --datadir=$data
cat >/tmp/accounts.sql <<'END'
CREATE DATABASE IF NOT EXISTS app;
CREATE USER IF NOT EXISTS watch@'%' IDENTIFIED BY '{PASSWORD}';
GRANT PROCESS ON *.* TO watch@'%';
GRANT SELECT ON performance_schema.* TO watch@'%';
CREATE USER IF NOT EXISTS app@'%' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON app.* TO app@'%';
END
exec mysqld --no-defaults --datadir=$data --socket=/tmp/mysql.sock --mysqlx=OFF --init-file=/tmp/accounts.sql \\
  --innodb-buffer-pool-size=64M --secure-file-priv=NULL
"""
LOAD = f"""
call() {{ sysbench --mysql-host=127.0.0.1 --mysql-user=app --mysql-password={PASSWORD} --mysql-db=app --tables=1 \\
  --table-size=20000 --threads=2 --db-ps-mode=disable oltp_read_write "$@"; }}
until call prepare || call --time=1 run; do sleep 1; done
call --rate={RATE} --time=0 run
"""
"""An open loop: transactions that arrive at a rate which the observation is compared with."""


def stateful_set(server_image: str) -> dict[str, Any]:
    """A MySQL with its load, as somebody might run one: one claim, a container of the server, one of the client."""
    server = {
        "name": "mysql",
        "image": server_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-ec", SERVER],
        "securityContext": SECURITY,
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/mysql"}],
    }
    client = {
        "name": "load",
        "image": tools_image(),
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", LOAD],
        "securityContext": SECURITY,
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": "2Gi"}},
        },
    }
    labels = {"app": "mysql"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"securityContext": {"fsGroup": 999}, "containers": [server, client]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "mysql"},
        "spec": {
            "serviceName": "mysql",
            "selector": {"matchLabels": labels},
            "template": template,
            "volumeClaimTemplates": [claim],
        },
    }


def ready(cluster: ClusterBench, containers: int) -> bool:
    """Whether that many containers of the server's pod run."""
    pods = json.loads(kubectl("get", "pods", "-n", cluster.namespace, "-o", "json"))["items"]
    statuses = pods[0]["status"].get("containerStatuses", []) if pods else []
    return len(statuses) == containers and all(status["ready"] for status in statuses)


def inside(cluster: ClusterBench, container: str) -> Callable[..., str]:
    """Run a command in a container of the server's pod; its output, empty after a failure."""

    def run(*command: str) -> str:
        argv = ["kubectl", "exec", "-n", cluster.namespace, POD, "-c", container, "--", *command]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120).stdout

    return run


def reported(run: Callable[..., str], results: str, *, until_s: float = 0.0) -> dict[str, Any]:
    """The observation's report once it has the load's commits, and lasts for so long."""

    def report() -> dict[str, Any] | None:
        directory = run("sh", "-c", f"ls -d {results}/observe-*").strip()
        if not directory:
            return None
        run("volbench", "observe", "report", directory)
        text = run("cat", f"{directory}/report.json")
        if not text:
            return None
        made: dict[str, Any] = json.loads(text)
        return made if made["window_s"][1] > until_s and commits(made) else None

    return wait_for(report, "no report with statements")


def commits(made: dict[str, Any]) -> float:
    return float(sum(statement["statements"] for statement in made["statements"] if statement["text"] == "COMMIT"))


def check(run: Callable[..., str], results: str) -> None:
    """Two reports: the load's rate between them, the server's process, and the device behind the claim."""
    first = reported(run, results)
    made = reported(run, results, until_s=first["window_s"][1] + LOAD_S)
    observation = made["observation"]
    assert observation["host"] is not None
    assert observation["server_pid"] is not None, observation["notes"]
    assert observation["volume"]["path"].startswith("/var/lib/mysql"), observation["volume"]
    assert observation["server"]["flavor"] == "mysql"
    rate = (commits(made) - commits(first)) / (made["window_s"][1] - first["window_s"][1])
    assert rate == pytest.approx(RATE, rel=0.2)
    assert made["statement_time"]["ms"] > 0
    absent = made["absent_sources"]
    assert "innodb" not in absent, absent
    assert "diskstats" not in absent, absent


@pytest.fixture
def server(cluster: ClusterBench) -> None:
    image = pick_server_image(local_images(), "mysql")
    assert image is not None
    kubectl("apply", "-n", cluster.namespace, "-f", "-", stdin=json.dumps(stateful_set(image.name)))
    wait_for(lambda: ready(cluster, 2), "the server's pod is not ready")


@pytest.mark.usefixtures("server")
def test_the_sidecar_sees_statements_volume_and_server_and_serves_its_figures(
    cluster: ClusterBench, tmp_path: Path
) -> None:
    """As the page says: a secret, the patch with the image's name, `report` in the container."""
    option_file = tmp_path / "watch.cnf"
    option_file.write_text(f"[client]\npassword={PASSWORD}\n", encoding="utf-8")
    patch = tmp_path / "sidecar.yaml"
    patch.write_text(
        (OBSERVE / "sidecar.yaml").read_text().replace("volbench.invalid/tools:0.2.0", tools_image()),
        encoding="utf-8",
    )
    named = ["-n", cluster.namespace]
    kubectl("create", "secret", "generic", "volbench-watch", f"--from-file=watch.cnf={option_file}", *named)
    kubectl("patch", "statefulset", "mysql", "--patch-file", str(patch), *named)
    wait_for(lambda: ready(cluster, 3), "the patched pod is not ready")
    run = inside(cluster, "observe")
    check(run, "/observations/results")
    request = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9104/metrics').read().decode())"
    served = run("python3", "-c", request)
    assert "mysql_" in served


@pytest.mark.usefixtures("server")
def test_an_ephemeral_container_sees_them_without_a_restart(cluster: ClusterBench, tmp_path: Path) -> None:
    before = kubectl("get", "pod", POD, "-n", cluster.namespace, "-o", "jsonpath={.metadata.uid}")
    custom = tmp_path / "ephemeral.yaml"
    content = yaml.safe_load((OBSERVE / "ephemeral.yaml").read_text())
    content["env"].append({"name": "VOLBENCH_MYSQL_PASSWORD", "value": PASSWORD})
    custom.write_text(json.dumps(content), encoding="utf-8")
    kubectl(
        "debug",
        POD,
        "-n",
        cluster.namespace,
        f"--image={tools_image()}",
        "--image-pull-policy=IfNotPresent",
        "--target=mysql",
        "--profile=restricted",
        f"--custom={custom}",
        "--container=observe",
        "--",
        "sh",
        "-c",
        'cd /tmp && exec volbench observe --server "mysql://watch@127.0.0.1:3306/?password-unverified=yes"',
    )
    check(inside(cluster, "observe"), "/tmp/results")
    after = kubectl("get", "pod", POD, "-n", cluster.namespace, "-o", "jsonpath={.metadata.uid}")
    assert before == after, "the pod was not restarted"
