"""The runner in the cluster: the orchestrator as a Job, whose runs are on a claim.

k8s/runner and the chart make the same objects.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from volbench.core.records.own_places import OWN
from volbench.machine.cluster.names import MANAGED_BY
from volbench.machine.placement.kubernetes.affinity import away_from_cells
from volbench.machine.placement.kubernetes.manifests import KEEPER, pull_policy_of
from volbench.machine.placement.kubernetes.own_data import binary_data, files_source

RUNNER, FETCHER = "runner", "fetch"
NAME = "volbench-runner"
"""Default name of the Job, and the name of its service account."""
RESULTS_CLAIM = "volbench-results"
RESULTS = "/results"
RUN_FILES = "/volbench/run"
SUITE_FILE = "suite.yaml"
JOB_UID, RESUME = "VOLBENCH_JOB_UID", "VOLBENCH_RESUME"
"""Environment: the Job whose pods continue one run; the id of a run of another Job that is to be continued."""
PERMANENT_EXIT_CODES = (2, 3, 4)
"""A usage error, a missing prerequisite, a refusal: another pod would end in the same way."""
_WEEK_S = 7 * 24 * 3600
_FETCH_S = 3600
USER = 999
IGNORE_DISRUPTIONS = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
"""Of a pod failure policy: the next pod replaces one that the cluster disrupts, and that is no failure."""


def labels_of(component: str) -> dict[str, str]:
    """Return the labels of the runner's objects."""
    return {"app.kubernetes.io/name": "volbench", "app.kubernetes.io/component": component, **MANAGED_BY}


def input_map(name: str, texts: Mapping[str, str], files: Mapping[str, bytes] | None = None) -> dict[str, Any]:
    """Return the ConfigMap of the Job.

    Args:
        texts: of files in RUN_FILES by their names, such as SUITE_FILE.
        files: of the user, by their absolute paths on the user's machine.
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels_of(RUNNER)},
        "data": dict(texts),
        **({"binaryData": binary_data(files)} if files else {}),
    }


def results_claim(*, size: str = "5Gi", storage_class: str = "") -> dict[str, Any]:
    """Return the claim for runs; without a class it is of the cluster's default one."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": RESULTS_CLAIM, "labels": labels_of("results")},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **({"storageClassName": storage_class} if storage_class else {}),
        },
    }


def runner_job(
    *,
    image: str,
    name: str = NAME,
    options: Sequence[str] = (),
    resume: str = "",
    results_to: str = "",
    pull_secret: str = "",
    own: Collection[str] = (),
) -> dict[str, Any]:
    """Return the Job: a pod that the cluster disrupts is replaced, a failure that stays one ends the Job.

    Args:
        name: of the Job and of the ConfigMap with its suite.
        options: further words of the runner's command line, such as `--volume=a=pvc:x`.
        resume: id of a run on the claim to continue; empty: a new run.
        results_to: address of a bucket for copies of the results.
        own: paths of the user's files in the ConfigMap, see `input_map`.
    """
    optional = {RESUME: resume, "VOLBENCH_RESULTS_TO": results_to}
    container = {
        **container_of(RUNNER, image, ["volbench", "k8s", "in-cluster", f"{RUN_FILES}/{SUITE_FILE}"]),
        "args": list(options),
        "env": [
            *environment_of(image),
            *({"name": key, "value": value} for key, value in optional.items() if value),
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
        "volumeMounts": mounts_of(own),
    }
    pod = {
        **pod_of(pull_secret),
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": 120,
        "affinity": away_from_cells(),
        "containers": [container],
        "volumes": volumes_of(name, own),
    }
    rules = [
        IGNORE_DISRUPTIONS,
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": RUNNER, "operator": "In", "values": list(PERMANENT_EXIT_CODES)},
        },
    ]
    return job_of(name, RUNNER, pod, backoffLimit=3, podFailurePolicy={"rules": rules})


def environment_of(image: str) -> list[dict[str, Any]]:
    """Return the environment of a Job's pod: a home, the image for cells, and which Job it is."""
    uid = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}}
    return [
        {"name": "HOME", "value": "/tmp"},
        {"name": "PYTHONUNBUFFERED", "value": "1"},
        {"name": "VOLBENCH_TOOLS_IMAGE", "value": image},
        {"name": JOB_UID, "valueFrom": uid},
    ]


def mounts_of(own: Collection[str]) -> list[dict[str, Any]]:
    """Return where the container has `volumes_of` its Job."""
    return [
        {"name": "results", "mountPath": RESULTS},
        {"name": "run", "mountPath": RUN_FILES, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},
        *([{"name": "own", "mountPath": OWN, "readOnly": True}] if own else []),
    ]


def volumes_of(name: str, own: Collection[str]) -> list[dict[str, Any]]:
    """Return the volumes of the pod of a Job of that name: claim for results, ConfigMap, temporary files.

    Args:
        own: paths of the user's files in the ConfigMap.
    """
    return [
        {"name": "results", "persistentVolumeClaim": {"claimName": RESULTS_CLAIM}},
        {"name": "run", "configMap": {"name": name}},
        {"name": "tmp", "emptyDir": {}},
        *([{"name": "own", **files_source(name, own)}] if own else []),
    ]


def fetch_job(*, name: str, image: str, claim: str = RESULTS_CLAIM, pull_secret: str = "") -> dict[str, Any]:
    """Return a Job that holds a claim for results within reach of `exec`, for an hour at most."""
    container = {
        **container_of(KEEPER, image, ["sleep", str(_FETCH_S)]),
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        "volumeMounts": [
            {"name": "results", "mountPath": RESULTS, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    pod = {
        **pod_of(pull_secret),
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [
            {"name": "results", "persistentVolumeClaim": {"claimName": claim}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    return job_of(name, FETCHER, pod, backoffLimit=0, activeDeadlineSeconds=_FETCH_S)


def job_of(name: str, component: str, pod: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a Job of one pod, whose log stays for a week."""
    labels = labels_of(component)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            **spec,
            "ttlSecondsAfterFinished": _WEEK_S,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def pod_of(pull_secret: str) -> dict[str, Any]:
    """Return the common parts of the pods, which meet the `restricted` Pod Security standard."""
    return {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **({"imagePullSecrets": [{"name": pull_secret}]} if pull_secret else {}),
    }


def container_of(name: str, image: str, command: list[str]) -> dict[str, Any]:
    """Return the common parts of the pods' container."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": pull_policy_of(image, "IfNotPresent"),
        "command": command,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
