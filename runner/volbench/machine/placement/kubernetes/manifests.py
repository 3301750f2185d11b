"""The objects of a cell as plain manifests: pure functions, which `volbench k8s render` uses too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from volbench.machine.cluster.names import object_name
from volbench.machine.cluster.queues import QUEUE_NAME
from volbench.machine.placement.docker.image_names import is_local
from volbench.machine.placement.kubernetes.affinity import FURTHER_NODE, NODE_OF_RUN, affinity_of
from volbench.machine.placement.kubernetes.cell_objects import CellObjects, labels_of_run
from volbench.machine.placement.kubernetes.options import KubernetesOptions, has_holder, labels_of, tolerations_of
from volbench.machine.placement.kubernetes.requests import AGENT_REQUESTS
from volbench.machine.placement.kubernetes.s3_access import s3_environment, s3_labels, s3_pod
from volbench.machine.volume import node_helper
from volbench.machine.volume.facts import ebs_csi

SERVER, AGENT, KEEPER = "server", "agent", "results"
"""The containers: the server under its supervisor, the agent, and the keeper of the results."""
VOLUME_ROOT = "/volbench/volume"
CONTROL = "/volbench/control"
SCRATCH = "/volbench/scratch"
OUT = "/volbench/out"
TMP = "/tmp"
INPUT = "/volbench/given"
EMULATOR = "/volbench/emulator"
AGENT_PID = f"{CONTROL}/agent.pid"
SERVER_PID = f"{CONTROL}/container.pid"
"""Process ids of the containers' first processes, in the pod's one process namespace."""
_SHELL_PID = "$$$$"
"""`$$` of the shell: in a manifest's command each `$$` stands for one `$`."""
NODE_HELPER = "/volbench/node"
"""The directory for the socket of the node's privileged helper, if there is one."""
_EMPTY = {
    "control": {"sizeLimit": "256Mi"},
    "scratch": {},
    "out": {"sizeLimit": "20Gi"},
    "tmp-server": {"sizeLimit": "2Gi"},
    "tmp-agent": {"sizeLimit": "2Gi"},
    node_helper.DIRECTORY: {"sizeLimit": "16Mi"},
}
"""Directories on the node's disk -> their limits, above what any cell has, so that a fault fills no node.

Dumps and copies of a whole dataset go to `scratch`: the option `ephemeral_storage` alone limits it."""
TMP_LIMIT = {"sizeLimit": "2Gi"}
GRACE_S = 5
NO_DISRUPTION = {
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
"""Annotations that keep autoscalers from ending a pod to save a node."""
_SMALL = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}}
"""Of containers that only copy or erase files."""
NODE_LOST_S = 300
_SPARE_S = 3600


def config_map(cell: CellObjects) -> dict[str, Any]:
    """Return the pod's input: cell.json and the supervisor, without a password."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": cell.name, "labels": cell.labels},
        "immutable": True,
        "data": {"cell.json": cell.cell_json, "supervisor.sh": cell.supervisor},
    }


def job(cell: CellObjects) -> dict[str, Any]:
    """Return a job of one pod, never restarted or replaced: every attempt has a job of its own."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": cell.name,
            "labels": {**labels_of(cell.options.labels), **cell.labels, **_queue(cell.options)},
        },
        "spec": {
            **({"suspend": True} if cell.options.queue else {}),
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "activeDeadlineSeconds": int(cell.deadline_s + cell.options.ttl_s) + _SPARE_S,
            "ttlSecondsAfterFinished": int(cell.options.ttl_s),
            "template": {
                "metadata": {
                    "labels": {**labels_of(cell.options.labels), **cell.labels, **_network(cell)},
                    "annotations": _annotations(cell),
                },
                "spec": pod(cell),
            },
        },
    }


def _annotations(cell: CellObjects) -> dict[str, str]:
    """Return the pod's annotations: where no holder keeps autoscalers off the node, the pod does."""
    annotations = {} if has_holder(cell.options) else NO_DISRUPTION
    node = {NODE_OF_RUN: cell.node} if cell.near else {}
    further = {FURTHER_NODE: "true"} if cell.further else {}
    return {**labels_of(cell.options.annotations), **annotations, **node, **further}


def pod(cell: CellObjects) -> dict[str, Any]:
    """Return the pod, which meets the `restricted` Pod Security standard."""
    return {
        **pod_basics(cell.options),
        **(s3_pod(cell.options) if cell.outbound else {}),
        "shareProcessNamespace": True,  # the agent reads the account of the server's control group through /proc
        "affinity": affinity_of(cell),
        "initContainers": [_server(cell)],
        "containers": [_agent(cell), _keeper(cell)],
        "volumes": [
            {"name": "volume", "persistentVolumeClaim": {"claimName": cell.claim}},
            {"name": "given", "configMap": {"name": cell.name}},
            *([_emulator_volume(cell.emulator_claim)] if cell.emulator_claim else []),
            *({"name": own_input.name, **own_input.source} for own_input in cell.inputs),
            *({"name": name, "emptyDir": limit} for name, limit in _EMPTY.items()),
        ],
    }


def pod_basics(options: KubernetesOptions) -> dict[str, Any]:
    """Return the common parts of all pods: no permissions, no restarts, and the selected nodes."""
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsPolicy": "ClusterFirst" if options.ebs_csi else "Default",  # only the driver needs name resolution
        "terminationGracePeriodSeconds": GRACE_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": options.user,
            "runAsGroup": options.user,
            "fsGroup": options.user,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if options.pull_secret:
        spec["imagePullSecrets"] = [{"name": options.pull_secret}]
    if options.runtime_class:
        spec["runtimeClassName"] = options.runtime_class
    return {**spec, **scheduling(options)}


def scheduling(options: KubernetesOptions) -> dict[str, Any]:
    """Return on which nodes a pod may run, and with which priority."""
    selector = labels_of(options.selector)
    if options.node:
        selector["kubernetes.io/hostname"] = options.node
    return {
        "tolerations": [*tolerations_of(options.tolerations), *_unreachable_tolerations()],
        **({"nodeSelector": selector} if selector else {}),
        **({"priorityClassName": options.priority_class} if options.priority_class else {}),
    }


def eraser(
    *,
    run_id: str,
    volume: str,
    claim: str,
    tools_image: str,
    directories: tuple[str, ...],
    options: KubernetesOptions,
) -> dict[str, Any]:
    """Return a job that removes volbench's directories from a claim; it refuses directories without the marker."""
    labels = {**labels_of_run(run_id), "app.kubernetes.io/component": "eraser"}
    script = " && ".join(f"volbench cell erase {directory}" for directory in directories)
    container = {
        **container_basics(options, "eraser", tools_image, ["sh", "-c", script]),
        "resources": with_storage(_SMALL, options),
        "volumeMounts": [_mount("volume", VOLUME_ROOT), _mount("tmp", TMP)],
    }
    spec = {
        **pod_basics(options),
        "containers": [container],
        "volumes": [
            {"name": "volume", "persistentVolumeClaim": {"claimName": claim}},
            {"name": "tmp", "emptyDir": TMP_LIMIT},
        ],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": object_name("volbench", run_id.rsplit("-", 1)[-1], "erase", volume), "labels": labels},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


def _unreachable_tolerations() -> list[dict[str, Any]]:
    """Return tolerations that keep pods on a node that is unreachable for a while."""
    return [
        {
            "key": f"node.kubernetes.io/{taint}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": NODE_LOST_S,
        }
        for taint in ("not-ready", "unreachable")
    ]


def _server(cell: CellObjects) -> dict[str, Any]:
    """Return the server as a sidecar, which starts before the agent and ends after it."""
    script = f"echo {_SHELL_PID} >{SERVER_PID} && exec sh {INPUT}/supervisor.sh {CONTROL}"
    return {
        **container_basics(cell.options, SERVER, cell.server_image, ["sh", "-c", script]),
        "restartPolicy": "Always",
        "resources": with_storage(
            _resources(cell.options.server_cpu, cell.options.server_memory, cell.server_requests), cell.options
        ),
        "volumeMounts": [*_shared(cell), _mount("given", INPUT, read_only=True), _mount("tmp-server", TMP)],
    }


def _agent(cell: CellObjects) -> dict[str, Any]:
    script = f"echo {_SHELL_PID} >{AGENT_PID} && exec volbench cell {cell.kind} {INPUT}/cell.json --out {OUT}"
    container = container_basics(cell.options, AGENT, cell.tools_image, ["sh", "-c", script])
    return {
        **container,
        "env": [
            *container["env"],
            {"name": node_helper.VARIABLE, "value": f"{NODE_HELPER}/{node_helper.SOCKET}"},
            *([{"name": ebs_csi.VARIABLE, "value": cell.options.ebs_csi}] if cell.options.ebs_csi else []),
            *(s3_environment(cell.options) if cell.outbound else []),
        ],
        "resources": with_storage(
            _resources(cell.options.agent_cpu, cell.options.agent_memory, AGENT_REQUESTS), cell.options
        ),
        "volumeMounts": [
            *_shared(cell),
            _mount("given", INPUT, read_only=True),
            _mount("scratch", SCRATCH),
            _mount("out", OUT),
            _mount("tmp-agent", TMP),
            _mount(node_helper.DIRECTORY, NODE_HELPER, read_only=True),
            *([_mount("emulator", EMULATOR, read_only=True)] if cell.emulator_claim else []),
            *(_mount(own_input.name, own_input.path, read_only=True) for own_input in cell.inputs),
        ],
    }


def _emulator_volume(claim: str) -> dict[str, Any]:
    """Return a read-only volume: its socket still works, and the kubelet does not change its owner."""
    return {"name": "emulator", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}


def _keeper(cell: CellObjects) -> dict[str, Any]:
    """Return the container that logs the agent's progress and keeps the results after the agent's end."""
    # Without inotify, tail looks for a replaced file after five readings of the old one, which takes seconds.
    polling = ["--sleep-interval=0.5", "--max-unchanged-stats=1"]
    follow = ["tail", "--quiet", "--lines=+1", "--follow=name", "--retry", *polling, f"{OUT}/progress.json"]
    return {
        **container_basics(
            cell.options,
            KEEPER,
            cell.tools_image,
            ["timeout", str(int(cell.deadline_s + cell.options.ttl_s)), *follow],
        ),
        "resources": with_storage(_SMALL, cell.options),
        "volumeMounts": [_mount("out", OUT), _mount("control", CONTROL)],
    }


def container_basics(options: KubernetesOptions, name: str, image: str, command: list[str]) -> dict[str, Any]:
    """Return the common parts of all containers: no privileges, a root file system that is read-only."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": pull_policy_of(image, options.pull_policy),
        "command": command,
        "workingDir": "/",
        "env": [
            {"name": "HOME", "value": TMP},
            {"name": "PYTHONUNBUFFERED", "value": "1"},
            {"name": "VOLBENCH_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _queue(options: KubernetesOptions) -> dict[str, str]:
    """Return Kueue's label of a job; Kueue ends the job's suspension when its queue has room."""
    return {QUEUE_NAME: options.queue} if options.queue else {}


def _network(cell: CellObjects) -> dict[str, str]:
    """Return the label that takes a cell out of the NetworkPolicy of k8s/base, which lets cells speak to nobody."""
    if cell.outbound:
        return s3_labels()
    return {"volbench.org/network": "ebs-csi"} if cell.options.ebs_csi else {}


def pull_policy_of(image: str, policy: str) -> str:
    """Return `Never` for an image of the set-up, which no registry has."""
    return "Never" if is_local(image) else policy


def _shared(cell: CellObjects) -> list[dict[str, Any]]:
    return [_mount("volume", VOLUME_ROOT), _mount("control", cell.paths.control_dir)]


def _mount(name: str, path: str, *, read_only: bool = False) -> dict[str, Any]:
    mount: dict[str, Any] = {"name": name, "mountPath": path}
    return {**mount, "readOnly": True} if read_only else mount


def _resources(cpu: str, memory: str, requests: Mapping[str, str]) -> dict[str, Any]:
    """Return requests equal to limits for set amounts; else requests alone: the pod may use the whole node."""
    amounts = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value}
    limits = {"limits": amounts} if amounts else {}
    return {"requests": {**requests, **amounts}, **limits}


def with_storage(resources: Mapping[str, Mapping[str, str]], options: KubernetesOptions) -> dict[str, Any]:
    """Return a container's resources with its share of the node's disk, where the options name one."""
    if not options.ephemeral_storage:
        return dict(resources)
    amount = {"ephemeral-storage": options.ephemeral_storage}
    return {kind: {**resources.get(kind, {}), **amount} for kind in ("requests", "limits")}
