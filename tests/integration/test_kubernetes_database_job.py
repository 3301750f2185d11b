"""`volbench k8s job` on databases of a real cluster: a suite, an observation, a capture, a validation, as Jobs.

The lab has no DNS, so a Service is named by its address; names are looked up in unit tests alone.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cluster_run import BOUND_S, STORAGE_CLASS, ClusterBench, kubectl, sleeping_container
from waiting import wait_for

from volbench.core.records.validation.capture import Capture
from volbench.machine.placement.docker.image_names import local_images, pick_server_image, tools_image
from volbench.results.store.run_directory import find_runs

pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("lab_images"), pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
PASSWORD = "open-sesame"
SERVERS = ("db-0", "db-1")
SUITE = """\
schema: 2
name: shop
dataset: {tables: 1, rows: 2000}
steps: [{kind: oltp, name: load, test: oltp_read_write, threads: 2, rate: 20, warmup: 0s, duration: 60s}]
repeats: 1
"""
ACCOUNTS = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, total INT NOT NULL)",
    "INSERT INTO shop.orders VALUES (1, 10), (2, 20)",
    "CREATE DATABASE drift",
    "CREATE TABLE drift.orders (id INT PRIMARY KEY, total INT NOT NULL)",
    "INSERT INTO drift.orders SELECT 1, IF(@@hostname = 'db-0', 10, 30)",
    *(f"CREATE USER {name}@'%' IDENTIFIED BY '{PASSWORD}'" for name in ("watch", "bench", "reader")),
    "GRANT PROCESS, REPLICATION CLIENT ON *.* TO watch@'%'",
    "GRANT SELECT ON performance_schema.* TO watch@'%'",
    "GRANT ALL ON volbench.* TO bench@'%'",
    "GRANT PROCESS ON *.* TO bench@'%'",
    "GRANT SELECT ON performance_schema.* TO bench@'%'",
    "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, EXECUTE, PROCESS, REPLICATION CLIENT ON *.* TO reader@'%'",
)
SQL = "".join(f"{statement};\n" for statement in ACCOUNTS)
SERVER = f"""
mysqld --no-defaults --initialize-insecure --datadir=/data/mysql
cat >/tmp/accounts.sql <<'END'
{SQL}END
exec mysqld --no-defaults --datadir=/data/mysql --socket=/tmp/mysql.sock --mysqlx=OFF \\
  --init-file=/tmp/accounts.sql --innodb-buffer-pool-size=64M --secure-file-priv=NULL
"""
OPTIONS = "?password-unverified=yes"


def database(name: str, server_image: str) -> dict[str, Any]:
    """A MySQL of its own, as a pod that goes with the test's namespace."""
    container = {
        **sleeping_container("100m"),
        "name": "mysql",
        "image": server_image,
        "command": ["sh", "-ec", SERVER],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "readinessProbe": {"tcpSocket": {"port": 3306}, "periodSeconds": 1},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "containers": [container],
            "securityContext": {"fsGroup": 999},
            "volumes": [{"name": "data", "emptyDir": {}}],
            "terminationGracePeriodSeconds": 1,
        },
    }


def service(name: str) -> dict[str, Any]:
    ports = [{"port": 3306}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": ports},
    }


@pytest.fixture
def hosts(cluster: ClusterBench, tmp_path: Path) -> list[str]:
    """Addresses of two servers' Services; their accounts' password is the key `password` of the Secret `watch`."""
    image = pick_server_image(local_images(), "mysql")
    assert image is not None
    items = [each for name in SERVERS for each in (database(name, image.name), service(name))]
    objects = {"apiVersion": "v1", "kind": "List", "items": items}
    kubectl("apply", "-n", cluster.namespace, "-f", "-", stdin=json.dumps(objects))
    (tmp_path / "password").write_text(PASSWORD)
    kubectl("create", "secret", "generic", "watch", f"--from-file={tmp_path}/password", "-n", cluster.namespace)
    for name in SERVERS:
        kubectl("wait", "-n", cluster.namespace, "--for=condition=Ready", "--timeout=120s", f"pod/{name}")
    return [address_of(cluster, name) for name in SERVERS]


def address_of(cluster: ClusterBench, name: str) -> str:
    return kubectl("get", "service", name, "-n", cluster.namespace, "-o", "jsonpath={.spec.clusterIP}")


def volbench(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "volbench", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT / "runner")},
    )


def submitted(cluster: ClusterBench, *arguments: str, options: tuple[str, ...] = ()) -> str:
    """Submit a Job; its name."""
    where = ("-n", cluster.namespace, f"--results-class={STORAGE_CLASS}", "--results-size=1Gi", *options)
    done = volbench("k8s", "job", *where, "--secret=watch/password", *arguments)
    assert done.returncode == 0, done.stderr
    return re.findall(r"submitted job (\S+);", done.stderr + done.stdout)[0]


def followed(cluster: ClusterBench, job: str) -> subprocess.CompletedProcess[str]:
    return volbench("k8s", "logs", "-n", cluster.namespace, job)


def log_of(cluster: ClusterBench, job: str) -> str:
    """What a Job has printed so far; nothing before its pod has begun."""
    command = ["kubectl", "logs", "-n", cluster.namespace, f"job/{job}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout


def fetched(cluster: ClusterBench, name: str, out: Path) -> list[Path]:
    """The directories that were fetched."""
    done = volbench("k8s", "fetch", "-n", cluster.namespace, name, "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    return [Path(path) for path in json.loads(done.stdout)]


@pytest.mark.slow
def test_a_suite_an_observation_and_a_capture_of_a_server_in_use(
    cluster: ClusterBench, hosts: list[str], tmp_path: Path
) -> None:
    """The observation and the capture see the suite's load; all results come home, and the Jobs go by `clean`.

    The load lasts a minute from its cell's begin on, so that both Jobs begin within it on a busy machine, too.
    """
    (tmp_path / "shop.yaml").write_text(SUITE)
    watched = f"--server=mysql://watch@{hosts[0]}/{OPTIONS}"
    run = submitted(
        cluster, "run", str(tmp_path / "shop.yaml"), f"--server=mysql://bench@{hosts[0]}/volbench{OPTIONS}"
    )
    wait_for(lambda: "cell 1/1" in log_of(cluster, run), "the suite begins no cell", within_s=BOUND_S)
    observation = submitted(cluster, "observe", watched, "--for=20s")
    capture = submitted(cluster, "capture", "shop.json", watched, "--for=5s", "--mask")
    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(lambda job: followed(cluster, job), (observation, run, capture)))
    for done in ended:
        assert done.returncode == 0, f"{done.args}: {done.stdout}{done.stderr}"
    (directory,) = fetched(cluster, run, tmp_path / "results")
    (made,) = find_runs(tmp_path / "results")
    assert made.path == directory
    assert [result.status for result in made.results()] == ["done"]
    (observed,) = fetched(cluster, observation, tmp_path / "results")
    reported = volbench("observe", "report", str(observed))
    assert reported.returncode == 0, reported.stderr
    statements = json.loads((observed / "report.json").read_text())["statements"]
    assert any("COMMIT" in statement["text"] for statement in statements), "it saw the suite's load"
    (captured,) = fetched(cluster, capture, tmp_path / "results")
    Capture.model_validate_json((captured / "shop.json").read_text())
    objects = json.dumps(cluster.objects("jobs,configmaps,pods"))
    assert PASSWORD not in objects + "".join(done.stdout for done in ended)


@pytest.mark.slow
def test_a_move_is_validated_where_both_servers_are(
    cluster: ClusterBench, hosts: list[str], tmp_path: Path
) -> None:
    """The exit code is the validation's; a no-go is no reason to read the source again."""
    plan = tmp_path / "move.yaml"
    access = "user: reader, password_unverified: true"
    plan.write_text(
        f"schema: 2\nsource: {{host: {hosts[0]}, {access}}}\ncandidate: {{host: {hosts[1]}, {access}}}\n"
        "schemas: [shop]\n"
    )
    code = followed(cluster, submitted(cluster, "validate", str(plan))).returncode
    assert code in {0, 6}
    plan.write_text(plan.read_text().replace("[shop]", "[shop, drift]"))
    job = submitted(cluster, "validate", str(plan))
    ended = followed(cluster, job)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    (directory,) = fetched(cluster, job, tmp_path / "results")
    assert json.loads((directory / "validation.json").read_text())["decision"] == "no-go"
    pods = json.loads(kubectl("get", "pods", "-n", cluster.namespace, "-l", f"job-name={job}", "-o", "json"))
    assert len(pods["items"]) == 1


def test_what_is_wrong_is_named_before_or_by_the_exit_code_of_the_log(
    cluster: ClusterBench, hosts: list[str]
) -> None:
    server = f"mysql://watch@{hosts[0]}/{OPTIONS}"
    where = ("k8s", "job", "-n", cluster.namespace)
    faults = (
        (("--secret=watches/password", "observe", f"--server={server}", "--for=1m"), 3, "no secret 'watches'"),
        (("--secret=watch/passwd", "observe", f"--server={server}", "--for=1m"), 3, "its keys: password"),
        (("--mount=secret:tls", "observe", f"--server={server}", "--for=1m"), 3, "no secret 'tls'"),
        (("observe", "--server=mysql://watch@bd", "--for=1m"), 3, "services there: db-0, db-1"),
        (("observe", "--server=mysql://watch@localhost", "--for=1m"), 2, "is the pod itself"),
    )
    for arguments, code, message in faults:
        done = volbench(*where, *arguments)
        assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    done = volbench("k8s", "job", "-n", f"{cluster.namespace}-no", *faults[0][0])
    assert (done.returncode, "the namespace does not exist" in done.stderr) == (3, True), done.stderr
    assert cluster.objects("jobs,configmaps,persistentvolumeclaims") == []
    unknown = submitted(cluster, "observe", f"--server=mysql://nobody@{hosts[0]}/{OPTIONS}", "--for=1m")
    ended = followed(cluster, unknown)
    assert ended.returncode in {2, 3}, ended.stdout
    assert "nobody" in ended.stdout


@pytest.mark.slow
def test_the_pages_commands_work_in_their_order(cluster: ClusterBench, hosts: list[str], tmp_path: Path) -> None:
    """docs/kubernetes.md, "A server that runs in the cluster"; its Service by its address, and a short time."""
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    section = page.split("## A server that runs in the cluster", 1)[1]
    block = re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[0]
    kubectl("delete", "secret", "watch", "-n", cluster.namespace)
    replaced = {"NAMESPACE": cluster.namespace, "SERVICE": hosts[0], "CLASS": STORAGE_CLASS}
    replaced |= {"REGISTRY/volbench-tools:0.2.0": tools_image(), "--for 30m": "--for 10s"}
    for line in block.replace("\\\n", " ").splitlines():
        command = line.partition("  #")[0].strip()
        for term, value in replaced.items():
            command = command.replace(term, value)
        command = command.replace("volbench ", f"{shlex.quote(sys.executable)} -m volbench ", 1)
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT / "runner")},
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        for job in re.findall(r"submitted job (\S+);", done.stderr):
            replaced["JOB"] = job
        for directory in re.findall(r"results: results/(\S+)", done.stderr):
            replaced["DIRECTORY"] = directory
    assert (tmp_path / "results" / replaced["DIRECTORY"] / "report.html").exists()
    wait_for(lambda: cluster.objects("jobs,pods,configmaps") == [], "`clean` leaves an object")
    assert [item["metadata"]["name"] for item in cluster.objects("persistentvolumeclaims")] == ["volbench-results"]
