"""Whole runs as pods of a real cluster: to the end, through faults, and with clear words where nothing can run."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cluster_run
import live_run
import pytest
from cluster_run import ClusterBench, kubectl
from cluster_volumes import emulated_claim
from json_schemas import check_record

from volbench.core.records.cell import CellResult
from volbench.machine.placement.docker.image_names import tools_image

ROOT = Path(__file__).parents[2]
SPEC = "emulated:ebs-gp3?size=4GiB"
pytestmark = [pytest.mark.kubernetes, pytest.mark.usefixtures("lab_images")]
ONE_VOLUME = {"a": f"storage-class:{cluster_run.STORAGE_CLASS}"}
"""For a test that compares nothing: a second volume would need a dataset of its own."""
WHILE_KUBECTL_ACTS = "steps.0.duration=12s"
"""For a test whose commands must come before the step's end: each takes seconds on a busy machine."""
only_lab = pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="stops an API server or a node")


def test_a_run_in_pods_leaves_an_ordinary_run_directory_and_an_empty_namespace(cluster: ClusterBench) -> None:
    """The report validates; every cell says on which node it ran and how long its pod took; nothing is left."""
    ended = cluster.end(cluster.start("sampling.summaries=true"))
    assert ended.code in live_run.FINISHED, ended.output
    cluster.assert_all_done_once()
    assert cluster.everything() == set()
    check_record("report", cluster.report())
    results = cluster.directory.results()
    assert len({result.host.hostname for result in results}) == 1, "cells of a comparison share a node"
    for result in results:
        placed = result.steps[-1]
        assert placed.kind == "placement"
        assert placed.metrics["pod_ready_s"].value < 60
        assert placed.details["node"] == result.host.hostname
        node = kubectl("get", "node", str(result.host.hostname), "-o", "jsonpath={.status.nodeInfo.kubeletVersion}")
        assert result.host.kubelet == node
        assert result.volume_facts.claim_uid
        assert result.volume_facts.persistent_volume_uid
        assert result.volume_facts.mount_point == "/volbench/volume"
        present = {source.source for source in result.sources if source.available}
        assert {"diskstats", "innodb", "performance_schema", "cpu"} <= present
        directory = cluster.directory.cell_dir(result.cell_id)
        assert (directory / "series.parquet").stat().st_size > 1000
        assert "Com_commit" in (directory / "raw" / "pt-mysql-summary.txt").read_text()
        assert "System Summary Report" in (directory / "raw" / "pt-summary.txt").read_text()


@only_lab
@pytest.mark.timeout(400)
def test_an_api_server_and_a_runner_that_go_away_lose_nothing(cluster: ClusterBench) -> None:
    """The first cell outlives the API server, the second the runner; neither is begun again."""
    process = cluster.start("steps.0.duration=8s", "repeats=2", volumes=ONE_VOLUME)
    cluster.until(cluster.in_step, process)
    first = cluster.current_cell().name
    cluster_run.lab("api", "stop")
    cluster_run.lab("api", "start")
    cluster.until(lambda: cluster.current_cell().name != first and cluster.in_step(), process)
    live_run.send(process, signal.SIGKILL)
    process.wait()
    ended = cluster.end(cluster.resume())
    assert ended.code in live_run.FINISHED, ended.output
    cluster.assert_all_done_once()
    assert [attempt for _, attempt in cluster.events("cell_started")] == [1, 1]
    cluster.quote("the API server goes away in mid-cell and comes back; then the orchestrator is killed", ended)


@pytest.mark.timeout(400)
def test_a_pod_and_a_server_that_are_killed_are_named_and_tried_again(cluster: ClusterBench) -> None:
    """Each attempt is kept apart, with the cause; at the end every cell is done."""
    process = cluster.start(WHILE_KUBECTL_ACTS, "repeats=2", volumes=ONE_VOLUME)
    cluster.until(cluster.in_step, process)
    first = cluster.current_cell().name
    kubectl("delete", "pod", cluster.pod(), "-n", cluster.namespace, "--wait=false")
    cluster.until(lambda: (first, 2) in cluster.events("cell_started"), process)
    cluster.until(lambda: cluster.current_cell().name != first and cluster.in_step(), process)
    second = cluster.current_cell().name
    kill = "kill -KILL $(cat /volbench/control/container.pid)"
    kubectl("exec", "-n", cluster.namespace, cluster.pod(), "-c", "results", "--", "sh", "-c", kill)
    ended = cluster.end(process)
    assert ended.code in live_run.FINISHED, ended.output
    cluster.assert_all_done_once()
    assert cluster.failed_causes() == {(first, 1): "pod_deleted", (second, 1): "server_killed"}
    cluster.quote("somebody deletes a cell's pod; later the server's process is killed", ended)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_evicted_pod_is_named_and_tried_again(cluster: ClusterBench) -> None:
    """What `kubectl drain` does to a cell: it is told from a pod that somebody deleted."""
    process = cluster.start("steps.0.duration=8s", volumes={"a": f"storage-class:{cluster_run.STORAGE_CLASS}"})
    cluster.until(cluster.in_step, process)
    cell, pod = cluster.current_cell().name, cluster.pod()
    assert evict(cluster, pod).returncode == 0
    ended = cluster.end(process)
    assert ended.code in live_run.FINISHED, ended.output
    cluster.assert_all_done_once()
    assert cluster.failed_causes() == {(cell, 1): "evicted"}
    cluster.quote("a cell's pod is evicted", ended)


def test_a_drain_waits_for_the_cell_that_measures_and_for_no_other(cluster: ClusterBench) -> None:
    """By the budget of k8s/base: an agent that runs is not evicted; a pod that only keeps its results is."""
    budget = (ROOT / "k8s" / "base" / "disruptions.yaml").read_text()
    kubectl("apply", "-f", "-", stdin=budget.replace("namespace: volbench}", f"namespace: {cluster.namespace}}}"))
    process = cluster.start(WHILE_KUBECTL_ACTS, volumes=ONE_VOLUME)
    cluster.until(cluster.in_step, process)
    pod = cluster.pod()

    def allowed() -> str:
        path = "jsonpath={.status.expectedPods} {.status.currentHealthy} {.status.disruptionsAllowed}"
        return kubectl("get", "pdb", "volbench-cells", "-n", cluster.namespace, "-o", path)

    cluster.until(lambda: allowed() == "1 1 0", process)
    refused = evict(cluster, pod)
    assert refused.returncode != 0
    assert "Cannot evict pod as it would violate the pod's disruption budget" in refused.stderr
    live_run.send(process, signal.SIGKILL)
    process.wait()
    agent = 'jsonpath={.status.containerStatuses[?(@.name=="agent")].state.terminated.exitCode}'
    cluster.until(lambda: kubectl("get", "pod", pod, "-n", cluster.namespace, "-o", agent) == "0")
    evicted: list[str] = []

    def is_evicted() -> bool:  # the budget counts the pod as healthy until its controller has seen its change
        answer = evict(cluster, pod)
        evicted.append(answer.stderr)
        return answer.returncode == 0

    cluster.until(is_evicted)
    ended = cluster.end(cluster.resume())
    assert ended.code in live_run.FINISHED, ended.output
    cluster.assert_all_done_once()
    displayed = f"while it measures: {refused.stderr.strip()}\nwhen it only keeps its results: evicted\n"
    cluster.quote("a node is drained under a cell", live_run.Ended(code=ended.code, output=displayed))


def evict(cluster: ClusterBench, pod: str) -> subprocess.CompletedProcess[str]:
    """Do what `kubectl drain` does to one pod."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/{pod}/eviction"
    command = ["kubectl", "create", "--raw", path, "-f", "-"]
    return subprocess.run(
        command, input=json.dumps(eviction), capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_server_that_gets_too_little_memory_is_named(cluster: ClusterBench) -> None:
    """The kernel ends it, the container's status tells it, and so does the message."""
    claim = {"a": f"storage-class:{cluster_run.STORAGE_CLASS}"}
    ended = cluster.end(cluster.start(options=["server_memory=100Mi"], volumes=claim))
    assert ended.code == 5, ended.output
    assert "for lack of memory" in ended.output
    cluster.quote("the server has too little memory", ended)
    assert cluster.leftovers() == []


@pytest.mark.parametrize(
    ("settings", "options", "volume", "message"),
    [
        (
            ["engine.image=nobody.invalid/mysql:1"],
            ["pull_policy=Never"],
            "",
            "nobody.invalid/mysql:1 cannot be pulled",
        ),
        (["engine.image=127.0.0.1:9/mysql:1"], [], "", "127.0.0.1:9/mysql:1 cannot be pulled"),
        ([], ["start_timeout=8s", "selector=volbench.org/no=where"], "", "no node can run the pod"),
        ([], [], "pvc:missing", "has no claim 'missing'"),
        ([], [], "storage-class:missing", "no storage class 'missing'"),
        ([], ["start_timeout=8s"], "storage-class:never-binds", "the class's provisioner has not made the volume"),
    ],
    ids=["image", "registry", "unschedulable", "no-claim", "no-class", "never-binds"],
)
def test_what_keeps_a_pod_from_coming_up_is_told(
    cluster: ClusterBench, settings: list[str], options: list[str], volume: str, message: str
) -> None:
    """Exit code 3, the cause in the message, nothing left in the namespace."""
    if volume == "storage-class:never-binds":
        kubectl(
            "apply",
            "-f",
            "-",
            stdin=json.dumps(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "StorageClass",
                    "metadata": {"name": "never-binds"},
                    "provisioner": "volbench.org/nobody",
                }
            ),
        )
    ended = cluster.end(cluster.start(*settings, options=options, volumes={"a": volume} if volume else None))
    assert ended.code == 3, ended.output
    assert message in ended.output
    assert "next step" in ended.output
    assert cluster.leftovers() == []
    cluster.quote(f"nothing can run: {' '.join((*settings, *options, volume)).strip()}", ended)


def test_a_quota_that_is_used_up_is_told(cluster: ClusterBench) -> None:
    """The pod is refused after its job was made: that is seen too."""
    kubectl("create", "quota", "none", "--hard=pods=0", "-n", cluster.namespace)
    ended = cluster.end(cluster.start())
    assert ended.code == 3, ended.output
    assert "quota is used up" in ended.output
    assert "exceeded quota: none" in ended.output
    cluster.quote("the namespace's quota allows no pod", ended)
    assert cluster.leftovers() == []


def test_rights_that_are_missing_are_listed_before_anything_is_made(cluster: ClusterBench) -> None:
    """By verb and resource, with the way to have them granted."""
    kubectl("create", "serviceaccount", "nobody", "-n", cluster.namespace)
    token = kubectl("create", "token", "nobody", "-n", cluster.namespace).strip()
    config = json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    kubeconfig = cluster.root / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    cluster.environment["KUBECONFIG"] = str(kubeconfig)
    ended = cluster.end(cluster.start())
    assert ended.code == 3, ended.output
    assert re.search(r"create jobs,.*create pods/exec", ended.output)
    assert "kubectl apply -k k8s/base" in ended.output
    cluster.quote("the user has no rights in the namespace", ended)
    assert cluster.leftovers() == []


@only_lab
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_ctrl_c_keeps_what_is_done_and_cleans_up(cluster: ClusterBench) -> None:
    """Exit code 130; the agent ends in good order, and nothing is left in the namespace."""
    process = cluster.start("steps.0.duration=30s", volumes=ONE_VOLUME)
    cluster.until(cluster.in_step, process)
    cell = cluster.current_cell()
    live_run.send(process, signal.SIGINT)
    ended = cluster.end(process)
    assert ended.code == 130, ended.output
    assert '"status": "interrupted"' in (cell / "result.json").read_text()
    cluster.quote("Ctrl-C in the first cell", ended)
    assert cluster.leftovers() == []


@pytest.mark.timeout(400)
def test_a_measured_claim_stays_after_ctrl_c_and_another_one_is_refused(cluster: ClusterBench) -> None:
    """The result names the PersistentVolume by its uid; a claim made anew would be another volume."""
    process = cluster.start("repeats=3", "steps.0.duration=8s", volumes=ONE_VOLUME)
    cluster.until(lambda: len(cluster.events("cell_finished")) == 1 and cluster.in_step(), process)
    cell = cluster.current_cell()
    live_run.send(process, signal.SIGINT)
    ended = cluster.end(process)
    assert ended.code == 130, ended.output
    result = CellResult.model_validate_json((cell / "result.json").read_text())
    assert result.status in {"interrupted", "done"}, "the agent ended in good order, or had ended before the signal"
    (claim,) = cluster.objects("persistentvolumeclaims")
    name = claim["metadata"]["name"]
    assert f"kubectl delete pvc -n {cluster.namespace} {name}" in ended.output
    measured = [result for result in cluster.directory.results() if result.status == "done"]
    uid = kubectl("get", "pv", claim["spec"]["volumeName"], "-o", "jsonpath={.metadata.uid}")
    assert {result.volume_facts.persistent_volume_uid for result in measured} == {uid}
    kubectl("delete", "pvc", "-n", cluster.namespace, name)
    refused = cluster.end(cluster.resume())
    assert refused.code == 3, refused.output
    assert f"claim {name} is not on the volume that the cells of this run measured" in refused.output
    assert uid in refused.output
    cluster.quote("Ctrl-C after a cell is done; somebody deletes its claim; `volbench resume`", refused)
    assert cluster.leftovers() == []


@pytest.mark.timeout(400)
def test_a_class_that_does_not_exist_costs_its_own_cells(cluster: ClusterBench) -> None:
    """The other volume is measured, and its claim waits for a resume."""
    volumes = {"bad": "storage-class:missing", "good": f"storage-class:{cluster_run.STORAGE_CLASS}"}
    ended = cluster.end(cluster.start(volumes=volumes))
    assert ended.code == 3, ended.output
    assert "Volume bad could not be used" in ended.output
    cluster.quote("one of two volumes names a storage class that does not exist", ended)
    (result,) = cluster.directory.results()
    assert (result.cell_id[-4:], result.status) == ("good", "done")
    (claim,) = cluster.objects("persistentvolumeclaims")
    kubectl("delete", "pvc", "-n", cluster.namespace, claim["metadata"]["name"])


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_cell_waits_while_another_runs_cell_is_on_every_node(cluster: ClusterBench) -> None:
    """The scheduler itself keeps them apart; the wait is not taken for a pod that cannot start."""
    labels = {
        "app.kubernetes.io/name": "volbench",
        "app.kubernetes.io/component": "cell",
        "volbench.org/run": "another",
    }
    nodes = [node["metadata"]["name"] for node in json.loads(kubectl("get", "nodes", "-o", "json"))["items"]]
    security = {
        "runAsNonRoot": True,
        "runAsUser": 999,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for number, node in enumerate(nodes):
        container = {
            "name": "cell",
            "image": tools_image(),
            "imagePullPolicy": "IfNotPresent",
            "command": ["sleep", "600"],
            "securityContext": security,
        }
        kubectl(
            "apply",
            "-n",
            cluster.namespace,
            "-f",
            "-",
            stdin=json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": f"other-{number}", "labels": labels},
                    "spec": {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 1},
                }
            ),
        )
    remaining = [f"pod/other-{number}" for number in range(len(nodes))]
    kubectl("wait", "-n", cluster.namespace, "--for=condition=Ready", "--timeout=60s", *remaining)
    volumes = {"a": f"storage-class:{cluster_run.STORAGE_CLASS}"}
    process = cluster.start(options=["start_timeout=40s"], volumes=volumes)

    def queued_s() -> float:
        pods = cluster.objects("pods")
        begun = [datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) for pod in pods]
        return max(((datetime.now(UTC) - moment).total_seconds() for moment in begun), default=0.0)

    cluster.until(lambda: queued_s() > 45, process)
    events = kubectl("get", "events", "-n", cluster.namespace, "--field-selector", "reason=FailedScheduling")
    assert "anti-affinity" in events
    kubectl("delete", "-n", cluster.namespace, *remaining)
    ended = cluster.end(process)
    assert ended.code in live_run.FINISHED, ended.output
    cluster.quote("cells of another run are on every node", ended)


@pytest.fixture
def three_nodes() -> Iterator[None]:
    """Two nodes more for the test."""
    for number in (2, 3):
        cluster_run.lab("node", "add", str(number))
    yield
    for number in (2, 3):
        cluster_run.lab("node", "remove", str(number))


@only_lab
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("three_nodes")
def test_six_cells_on_three_nodes_run_three_at_a_time_and_never_two_on_one(cluster: ClusterBench) -> None:
    """One node is cut off for a while in mid-cell: its cell goes on, and is not begun again."""
    specs = dict.fromkeys("abc", f"storage-class:{cluster_run.STORAGE_CLASS}?size=1Gi")
    process = cluster.start("repeats=2", "steps.0.duration=20s", options=["parallel=3"], volumes=specs)
    cluster.until(lambda: len(cluster.cells_started()) >= 3 and cluster.in_step(), process)
    pods = cluster.objects("pods", "app.kubernetes.io/component=cell")
    nodes = [pod["spec"]["nodeName"] for pod in pods if pod["status"]["phase"] == "Running"]
    assert len(nodes) == len(set(nodes))
    cut = next(int(node.removeprefix("node")) for node in nodes if node != "node1")
    before = cluster.cells_started()
    cluster_run.lab("node", "cut", str(cut))
    cluster.until(lambda: "NotReady" in kubectl("get", "node", f"node{cut}"), process)
    cluster_run.lab("node", "heal", str(cut))
    ended = cluster.end(process)
    assert ended.code in live_run.FINISHED, ended.output
    cluster.quote("the network of a node is cut off for a while under its cell", ended)
    cluster.assert_all_done_once()
    results = cluster.directory.results()
    on = {result.cell_id[-1]: result.host.hostname for result in results}
    assert len(set(on.values())) == 3, "each volume is on a node of its own"
    assert all(cluster.events_of(cell) == [(cell, 1)] for cell in before), "none was begun again"
    assert max(len(running_with(result, results)) for result in results) == 3, "three ran at once"
    for item in results:
        nodes = [alternative.host.hostname for alternative in running_with(item, results)]
        assert len(nodes) == len(set(nodes)), "two ran on one node"


def running_with(item: CellResult, results: list[CellResult]) -> list[CellResult]:
    """Cells that ran when this one began, itself among them. The lab's nodes have one monotonic clock."""
    moment_ns = item.zero_monotonic_ns
    return [
        result
        for result in results
        if result.zero_monotonic_ns <= moment_ns < result.zero_monotonic_ns + result.wall_s * 1e9
    ]


@only_lab
@pytest.mark.emulator
@pytest.mark.slow
def test_an_emulated_volume_as_a_local_one_is_labelled_as_such(cluster: ClusterBench) -> None:
    """A claim on it says what it emulates; the claim stays, with nothing of ours left on it."""
    with emulated_claim(cluster, "rehearsal", SPEC) as data:
        ended = cluster.end(cluster.start(volumes={"gp3": "pvc:rehearsal"}))
        assert ended.code in live_run.FINISHED, ended.output
        volumes: Any = cluster.report()["volumes"]
        (volume,) = volumes
        assert volume["profile"] == "ebs-gp3"
        assert volume["emulated"] is True
        (result,) = cluster.directory.results()
        assert "emulator" in {source.source for source in result.sources if source.available}
        assert result.steps[0].metrics["tps"].value > 0
        assert cluster.leftovers() == []
        assert [path.name for path in data.iterdir()] == []
