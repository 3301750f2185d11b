"""The user's own data in a real cluster: a script and its module from this machine, a dump on a claim."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import cluster_run
import live_run
import pytest
from cluster_run import ClusterBench, kubectl

from volbench.machine.engine.own_data.content import hash_of_scripts
from volbench.machine.placement.docker.image_names import tools_image

pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("lab_images"), pytest.mark.timeout(400)]
ONE_VOLUME = {"a": f"storage-class:{cluster_run.STORAGE_CLASS}?size=1Gi"}
KEYS = 50
DUMP = (
    "CREATE TABLE counters (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB;\n"
    "INSERT INTO counters VALUES " + ", ".join(f"({number}, 0)" for number in range(1, KEYS + 1)) + ";\n"
)
OWN_LUA = """
require("own_keys")
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query(string.format("UPDATE counters SET n = n + 1 WHERE id = %d", own_key())) end
"""
OWN_KEYS = f"function own_key() return sysbench.rand.uniform(1, {KEYS}) end\n"
SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 999,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "dumps"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": cluster_run.STORAGE_CLASS,
        "resources": {"requests": {"storage": "100Mi"}},
    },
}
LISTED = "cd /data && find . -printf '%p %s %U:%G %m %T@ %C@\\n' | sort"
"""Names, sizes, owners, modes and times of change of all on the claim."""


@pytest.fixture
def dumps(cluster: ClusterBench) -> str:
    """A claim with 2026/shop.sql on it, and the pod `filler` that wrote it and stays."""
    container = {
        "name": "filler",
        "image": tools_image(),
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "900"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": SECURITY,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "filler"},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "dumps"}}],
            "terminationGracePeriodSeconds": 1,
        },
    }
    items = {"apiVersion": "v1", "kind": "List", "items": [CLAIM, pod]}
    kubectl("apply", "-n", cluster.namespace, "-f", "-", stdin=json.dumps(items))
    kubectl("wait", "-n", cluster.namespace, "--for=condition=Ready", "--timeout=60s", "pod/filler")
    in_pod(cluster, "mkdir /data/2026 && cat >/data/2026/shop.sql", stdin=DUMP)
    return "dumps"


def in_pod(cluster: ClusterBench, command: str, stdin: str | None = None) -> str:
    """What a command prints in the pod `filler`."""
    return kubectl("exec", "-i", "-n", cluster.namespace, "filler", "--", "sh", "-c", command, stdin=stdin)


def suite(root: Path, path: str, *, kind: str = "dump") -> Path:
    """A suite of one step, an own script, on a dataset of one's own."""
    (root / "own.lua").write_text(OWN_LUA)
    (root / "own_keys.lua").write_text(OWN_KEYS)
    file = root / "own.yaml"
    file.write_text(
        f"schema: 2\nname: own\ndataset: {{kind: {kind}, path: '{path}', schema: shop, size: 16MiB}}\n"
        "steps: [{kind: oltp, name: counters, test: own.lua}]\nrepeats: 1\n"
    )
    return file


def assert_ran_on_own_data(cluster: ClusterBench, root: Path) -> None:
    """The template has the dump's rows, the step ran the script with its module, and updated the rows."""
    cluster.assert_all_done_once()
    (ready,) = [event for event in cluster.directory.events() if event.event == "template_ready"]
    assert (ready.details["tables"], ready.details["rows"]) == (1, KEYS)
    (result,) = cluster.directory.results()
    step = next(step for step in result.steps if step.step == "counters")
    assert step.details["script_sha256"] == hash_of_scripts(root / "own.lua")
    assert step.metrics["tps"].value > 1
    assert step.details["errors"] == 0


def test_a_script_of_this_machine_runs_on_a_dump_that_lies_on_a_claim(
    cluster: ClusterBench, dumps: str, tmp_path: Path
) -> None:
    """And the claim is as it was: nothing written, no owner changed; the run's own objects are gone."""
    before = in_pod(cluster, LISTED)
    assert hashlib.sha256(DUMP.encode()).hexdigest() in in_pod(cluster, "sha256sum /data/2026/shop.sql")
    ended = cluster.end(cluster.start(volumes=ONE_VOLUME, suite=suite(tmp_path, f"pvc:{dumps}/2026/shop.sql")))
    assert ended.code in live_run.FINISHED, ended.output
    assert_ran_on_own_data(cluster, tmp_path)
    assert in_pod(cluster, LISTED) == before
    assert cluster.everything() == {"persistentvolumeclaim/dumps", "pod/filler"}


@pytest.mark.slow
def test_a_small_dump_of_this_machine_comes_by_a_config_map(cluster: ClusterBench, tmp_path: Path) -> None:
    (tmp_path / "shop.sql").write_text(DUMP)
    ended = cluster.end(cluster.start(volumes=ONE_VOLUME, suite=suite(tmp_path, "shop.sql", kind="script")))
    assert ended.code in live_run.FINISHED, ended.output
    assert_ran_on_own_data(cluster, tmp_path)
    assert cluster.everything() == set()


@pytest.mark.slow
def test_a_path_that_the_claim_does_not_have_is_told_by_the_first_pod(
    cluster: ClusterBench, dumps: str, tmp_path: Path
) -> None:
    """One message with the path and what is there, exit code 3, nothing left."""
    path = f"pvc:{dumps}/2025/shop.sql"
    ended = cluster.end(cluster.start(volumes=ONE_VOLUME, suite=suite(tmp_path, path)))
    assert ended.code == 3, ended.output
    assert f"claim {dumps} has no 2025/shop.sql" in ended.output
    assert f"dataset.path '{path}'" in ended.output
    assert "at the claim's root: 2026" in ended.output
    assert ended.output.count("has no 2025/shop.sql") == 1, ended.output
    assert cluster.everything() == {"persistentvolumeclaim/dumps", "pod/filler"}
    cluster.quote("the dataset's path is not on its claim", ended)


def test_a_claim_that_the_namespace_does_not_have_is_told_before_a_pod_starts(
    cluster: ClusterBench, tmp_path: Path
) -> None:
    ended = cluster.end(cluster.start(volumes=ONE_VOLUME, suite=suite(tmp_path, "pvc:elsewhere/shop.sql")))
    assert ended.code == 3, ended.output
    assert f"namespace {cluster.namespace} has no claim 'elsewhere'" in ended.output
    assert cluster.everything() == set()
    cluster.quote("the dataset's claim is missing, or in another namespace", ended)


@pytest.mark.slow
def test_a_quota_that_leaves_no_room_for_the_files_is_told_before_the_first_cell(
    cluster: ClusterBench, tmp_path: Path
) -> None:
    """Every namespace has one ConfigMap of its own (kube-root-ca.crt)."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"count/configmaps": "1"}},
    }
    kubectl("apply", "-n", cluster.namespace, "-f", "-", stdin=json.dumps(quota))
    used = "jsonpath={.status.used.count/configmaps}"
    cluster_run.until(
        lambda: kubectl("get", "resourcequota", "few", "-n", cluster.namespace, "-o", used) == "1",
        "the quota counts",
    )
    (tmp_path / "shop.sql").write_text(DUMP)
    ended = cluster.end(cluster.start(volumes=ONE_VOLUME, suite=suite(tmp_path, "shop.sql", kind="script")))
    assert ended.code == 3, ended.output
    assert "the namespace's quota is used up" in ended.output
    assert "carrying the user's own files to the pods" in ended.output
    assert cluster.everything() == {"resourcequota/few"}
