"""Real Karpenter with its kwok provider: it makes nodes for a run, leaves them to it, and removes them after it.

Nodes are objects alone: no container runs on them, so no cell begins. What is judged is what volbench asks for,
what Karpenter and the scheduler do with it, and what Karpenter refuses and disrupts. The tests play the kubelet
where a cell's pod ends. `python3 tests/lab/kubernetes karpenter add` compiles Karpenter and kwok, once.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import cluster_run
import live_run
import pytest
from cluster_run import LAB_STATE, ClusterBench, kubectl, lab, sleeping_container

from volbench.errors import EXIT_ENVIRONMENT, EXIT_INTERRUPTED
from volbench.machine.placement.docker.image_names import tools_image
from volbench.machine.placement.kubernetes import manifests
from volbench.machine.placement.kubernetes.cell_objects import CellObjects
from volbench.machine.placement.kubernetes.options import read_options
from volbench.machine.placement.kubernetes.target import pod_paths

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.slow,
    pytest.mark.timeout(3600),  # the first one compiles
    pytest.mark.skipif("not __import__('cluster_run').with_lab()", reason="makes definitions of the whole cluster"),
    pytest.mark.usefixtures("karpenter"),
]
Object = dict[str, Any]
POOL, EXPIRING_POOL = "bench", "expiring"
"""As tests/lab/kubernetes/karpenter.py makes them."""
LABEL_POOL = "karpenter.sh/nodepool"
TAINT = "karpenter.sh/disrupted"
SIZES = ["server_cpu=3", "start_timeout=30m"]
"""A node for such a cell costs more than one for its holder alone, so Karpenter gains by replacing it."""
CLAIMS = 6
REFUSAL = re.compile(r"not supported|not allowed|restricted|invalid")
EVICTED = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}


def of_pool(pool: str) -> list[str]:
    return [f"selector={LABEL_POOL}={pool}", *SIZES]


@pytest.fixture(scope="module")
def karpenter() -> Iterator[None]:
    """Karpenter, with its pools."""
    lab("karpenter", "add", timeout_s=3000)
    yield
    lab("karpenter", "remove")


@pytest.fixture
def volumes(cluster: ClusterBench) -> Iterator[dict[str, str]]:
    """A storage class with volumes that any node can use: objects alone, as the nodes are."""
    name = f"nowhere-{cluster.namespace}"
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": "/nowhere"},
    }
    persistent = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{name}-{number}", "labels": {"volbench.org/test": cluster.namespace}},
            "spec": spec,
        }
        for number in range(CLAIMS)
    ]
    applied(storage_class, *persistent)
    yield {"a": f"storage-class:{name}?size=1Gi"}
    cluster.close()  # a test that failed may have left its run
    kubectl("delete", "jobs,pods,pvc", "--all", "-n", cluster.namespace)
    kubectl("delete", "pv", "--wait=false", "-l", f"volbench.org/test={cluster.namespace}")
    kubectl("delete", "storageclass", name)
    cluster_run.until(lambda: not nodes_of(POOL) and not nodes_of(EXPIRING_POOL), "no node is left")


def applied(*objects: Object) -> None:
    kubectl(
        "apply",
        "--server-side",
        "-f",
        "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
    )


def nodes_of(pool: str) -> dict[str, Object]:
    """The nodes that the cluster has of a pool."""
    listed = json.loads(kubectl("get", "nodes", "-l", f"{LABEL_POOL}={pool}", "-o", "json"))["items"]
    return {node["metadata"]["name"]: node for node in listed}


def is_disrupted(node: Object) -> bool:
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return TAINT in taints or "deletionTimestamp" in node["metadata"]


def placed(cluster: ClusterBench, component: str, attempt: str = "") -> dict[str, str]:
    """The run's pods of a component that have a node: holder, or cell -> node."""
    selector = f"app.kubernetes.io/component={component}"
    pods = cluster.objects("pods", selector + (f",volbench.org/attempt={attempt}" if attempt else ""))
    label = "volbench.org/holder" if component == "holder" else "volbench.org/cell"
    nodes = {pod["metadata"]["labels"][label]: pod["spec"].get("nodeName", "") for pod in pods}
    return {name: node for name, node in nodes.items() if node}


def events(reason: str) -> list[Object]:
    """What Karpenter said in the cluster's events."""
    items = json.loads(kubectl("get", "events", "-A", "--field-selector", f"reason={reason}", "-o", "json"))[
        "items"
    ]
    return [event for event in items if event.get("source", {}).get("component") == "karpenter"]


def refusals(namespace: str) -> list[str]:
    """Why Karpenter makes no node for pods of the namespace: from its events and its log."""
    message = [
        event["message"] for event in events("FailedScheduling") if event["metadata"]["namespace"] == namespace
    ]
    log = (LAB_STATE / "log" / "karpenter.log").read_text(errors="replace").splitlines()
    message += [line for line in log if namespace in line and "ignoring pod" in line]
    return [text for text in message if REFUSAL.search(text)]


def end_as_evicted(cluster: ClusterBench) -> None:
    """Say of the cells' pods what a kubelet says that has evicted them."""
    for pod in cluster.objects("pods", "app.kubernetes.io/component=cell"):
        change = json.dumps({"status": EVICTED})
        patch = ["patch", "pod", pod["metadata"]["name"], "--subresource=status", "--type=merge", "-p", change]
        kubectl(*patch, "-n", cluster.namespace)


def pod_of_others(cluster: ClusterBench, name: str, cpu: str, **spec: Any) -> Object:
    """A pod of another team on a node of the pool, which asks for no protection."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": cluster.namespace, "labels": {"team": name}},
        "spec": {"nodeSelector": {LABEL_POOL: POOL}, "containers": [sleeping_container(cpu)], **spec},
    }


def node_of_others(cluster: ClusterBench) -> str:
    """Make a node with a large pod of another team, then a small one, which alone would have a cheaper node."""

    def node_of(name: str) -> str:
        pod = json.loads(kubectl("get", "pod", name, "-n", cluster.namespace, "-o", "json"))
        return str(pod["spec"].get("nodeName", ""))

    def has_node(name: str) -> bool:
        return bool(node_of(name))

    of_runs = {"matchLabels": {"app.kubernetes.io/name": "volbench"}}
    apart = [{"labelSelector": of_runs, "topologyKey": "kubernetes.io/hostname"}]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}
    for name, cpu in (("large", "3"), ("small", "1m")):
        applied(pod_of_others(cluster, name, cpu, affinity=affinity))
        cluster_run.until(partial(has_node, name), f"the {name} pod has a node")
    assert node_of("small") == node_of("large")
    return node_of("large")


def why_left_alone(nodes: set[str]) -> dict[str, str]:
    """Node -> why Karpenter does not disrupt it, where that is a pod's wish."""
    blocked = [(event["involvedObject"]["name"], event["message"]) for event in events("DisruptionBlocked")]
    return {name: text for name, text in blocked if name in nodes and "do-not-disrupt" in text}


def interrupt(cluster: ClusterBench, process: Any) -> live_run.Ended:
    """Press Ctrl-C; nothing of the run is left, and no node that was made for it."""
    live_run.send(process, signal.SIGINT)
    ended = cluster.end(process)
    assert ended.code == EXIT_INTERRUPTED, ended.output
    assert cluster.leftovers() == []
    return ended


def test_nodes_of_a_run_are_made_from_none_and_left_to_it_between_cells(
    cluster: ClusterBench, volumes: dict[str, str]
) -> None:
    """Three cells at once get three nodes; without their cells Karpenter may not replace them by cheaper ones."""
    assert nodes_of(POOL) == {}
    process = cluster.start("repeats=3", options=[*of_pool(POOL), "nodes=3", "parallel=3"], volumes=volumes)
    cluster.until(lambda: len(placed(cluster, "holder")) == 3, process)
    cells, holders, made = placed(cluster, "cell"), placed(cluster, "holder"), nodes_of(POOL)
    assert len(made) == 3
    assert {*cells.values()} == {*holders.values()} == {*made}
    assert refusals(cluster.namespace) == []
    large_node = node_of_others(cluster)
    assert large_node not in made

    live_run.send(process, signal.SIGSTOP)  # no cell is begun meanwhile
    end_as_evicted(cluster)
    kubectl("delete", "pod", "large", "-n", cluster.namespace)
    cluster_run.until(lambda: large_node not in nodes_of(POOL), "Karpenter removes the node of the other team")
    cluster_run.until(lambda: {*why_left_alone({*made})} == {*made}, "Karpenter says why it leaves the run's nodes")
    stayed = nodes_of(POOL)
    assert {*made} <= {*stayed}
    assert not any(is_disrupted(stayed[name]) for name in made)
    assert placed(cluster, "holder") == holders
    reasons = "\n".join(sorted(set(why_left_alone({*made}).values())))
    live_run.send(process, signal.SIGCONT)

    cluster.until(lambda: len(placed(cluster, "cell", "2")) == 3, process)
    assert placed(cluster, "cell", "2") == cells
    for pod in cluster.objects("pods", "volbench.org/attempt=2"):
        assert pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert {*nodes_of(POOL)} >= {*made}
    ended = interrupt(cluster, process)
    cluster_run.until(lambda: nodes_of(POOL) == {}, "the nodes go with the run")
    message = live_run.Ended(code=ended.code, output=reasons)
    fault = "real Karpenter 1.14 makes three nodes (nodes=3 parallel=3), and leaves them between cells; then Ctrl-C"
    cluster.quote(fault, message)


def test_a_further_node_of_a_run_is_made(cluster: ClusterBench, volumes: dict[str, str]) -> None:
    """The pod of a next block, as the product makes it, avoids the nodes that the run holds."""
    process = cluster.start(options=of_pool(POOL), volumes=volumes)
    cluster.until(lambda: len(placed(cluster, "holder")) == 1, process)
    (holder_pods,) = placed(cluster, "holder").values()
    options = read_options(
        dict(option.split("=", 1) for option in [f"namespace={cluster.namespace}", *of_pool(POOL), "nodes=2"])
    )
    (claim,) = cluster.objects("pvc")
    further = CellObjects(
        run_id=cluster.directory.path.name,
        cell_id="02-a",
        attempt=1,
        kind="run",
        cell_json="{}",
        supervisor="",
        claim=claim["metadata"]["name"],
        server_image=tools_image(),
        tools_image=tools_image(),
        paths=pod_paths("further"),
        deadline_s=600.0,
        options=options,
        further=True,
    )
    for made in (manifests.config_map(further), manifests.job(further)):
        kubectl(
            "apply", "--server-side", "--validate=false", "-n", cluster.namespace, "-f", "-", stdin=json.dumps(made)
        )
    cluster_run.until(lambda: "02-a" in placed(cluster, "cell"), "the further cell has a node")
    assert placed(cluster, "cell")["02-a"] != holder_pods
    assert len(nodes_of(POOL)) == 2
    assert refusals(cluster.namespace) == []
    interrupt(cluster, process)
    cluster_run.until(lambda: nodes_of(POOL) == {}, "the nodes go with the run")


def test_an_expired_node_ends_the_run_and_resume_takes_another(
    cluster: ClusterBench, volumes: dict[str, str]
) -> None:
    """Karpenter removes it whatever its pods ask for, and puts nothing there any more."""
    process = cluster.start(options=of_pool(EXPIRING_POOL), volumes=volumes)
    cluster.until(lambda: len(placed(cluster, "holder")) == 1, process)
    (first,) = placed(cluster, "holder").values()
    live_run.send(process, signal.SIGSTOP)
    end_as_evicted(cluster)
    cluster_run.until(lambda: is_disrupted(nodes_of(EXPIRING_POOL)[first]), "the node expires")
    live_run.send(process, signal.SIGCONT)
    ended = cluster.end(process)
    assert ended.code == EXIT_ENVIRONMENT, ended.output
    assert f"it is being removed (taint {TAINT})" in ended.output
    assert "`volbench resume RUN`" in ended.output
    assert refusals(cluster.namespace) == []
    cluster.quote("a node of real Karpenter 1.14 expires (expireAfter) between two cells", ended)
    resumed = cluster.resume()
    cluster.until(lambda: len(placed(cluster, "holder")) == 1, resumed)
    assert {*placed(cluster, "cell").values()} == {*placed(cluster, "holder").values()} != {first}
    interrupt(cluster, resumed)
    cluster_run.until(lambda: nodes_of(EXPIRING_POOL) == {}, "the nodes go with the run")


NAMED = {
    "kubernetes.io/hostname": {
        "matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["somewhere"]},
        ]
    },
    "metadata.name": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["somewhere"]}]},
}


@pytest.mark.parametrize("field", NAMED)
def test_karpenter_makes_no_node_for_a_pod_that_names_one(cluster: ClusterBench, field: str) -> None:
    """So pods of a run name none; and the assertions above would see such a refusal."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NAMED[field]]}}
    applied(pod_of_others(cluster, "named", "1m", affinity={"nodeAffinity": required}))
    cluster_run.until(lambda: bool(refusals(cluster.namespace)), "Karpenter refuses the pod")
    assert nodes_of(POOL) == {}
    refused = live_run.Ended(code=0, output=refusals(cluster.namespace)[0])
    cluster.quote(f"a pod that is no run's names its node ({field}): what real Karpenter 1.14 says", refused)
