"""The runner in the cluster: the orchestrator as a Job, whose runs are on a claim.

k8s/runner and the chart make the same objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from volbench.machine.cluster.names import MANAGED_BY
from volbench.machine.placement.kubernetes.affinity import away_from_cells
from volbench.machine.placement.kubernetes.manifests import KEEPER, pull_policy_of

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


def labels_of(component: str) -> dict[str, str]:
    """Return the labels of the runner's objects."""
    return {"app.kubernetes.io/name": "volbench", "app.kubernetes.io/component": component, **MANAGED_BY}


def input_map(name: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the ConfigMap of the Job: the texts of its files by their names, such as SUITE_FILE."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels_of(RUNNER)},
        "data": dict(texts),
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
) -> dict[str, Any]:
    """Return the Job: a pod that the cluster disrupts is replaced, a failure that stays one ends the Job.

    Args:
        name: of the Job and of the ConfigMap with its suite.
        options: further words of the runner's command line, such as `--volume=a=pvc:x`.
        resume: id of a run on the claim to continue; empty: a new run.
        results_to: address of a bucket for copies of the results.
    """
    optional = {RESUME: resume, "VOLBENCH_RESULTS_TO": results_to}
    uid = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}}
    container = {
        **_container(RUNNER, image, ["volbench", "k8s", "in-cluster", f"{RUN_FILES}/{SUITE_FILE}"]),
        "args": list(options),
        "env": [
            {"name": "HOME", "value": "/tmp"},
            {"name": "PYTHONUNBUFFERED", "value": "1"},
            {"name": "VOLBENCH_TOOLS_IMAGE", "value": image},
            {"name": JOB_UID, "valueFrom": uid},
            *({"name": key, "value": value} for key, value in optional.items() if value),
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
        "volumeMounts": [
            {"name": "results", "mountPath": RESULTS},
            {"name": "run", "mountPath": RUN_FILES, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    pod = {
        **_pod(pull_secret),
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": 120,
        "affinity": away_from_cells(),
        "containers": [container],
        "volumes": [
            {"name": "results", "persistentVolumeClaim": {"claimName": RESULTS_CLAIM}},
            {"name": "run", "configMap": {"name": name}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": RUNNER, "operator": "In", "values": list(PERMANENT_EXIT_CODES)},
        },
    ]
    return _job(name, RUNNER, pod, backoffLimit=3, podFailurePolicy={"rules": rules})


def fetch_job(*, name: str, image: str, claim: str = RESULTS_CLAIM, pull_secret: str = "") -> dict[str, Any]:
    """Return a Job that holds a claim for results within reach of `exec`, for an hour at most."""
    container = {
        **_container(KEEPER, image, ["sleep", str(_FETCH_S)]),
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        "volumeMounts": [
            {"name": "results", "mountPath": RESULTS, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    pod = {
        **_pod(pull_secret),
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [
            {"name": "results", "persistentVolumeClaim": {"claimName": claim}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    return _job(name, FETCHER, pod, backoffLimit=0, activeDeadlineSeconds=_FETCH_S)


def _job(name: str, component: str, pod: dict[str, Any], **spec: Any) -> dict[str, Any]:
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


def _pod(pull_secret: str) -> dict[str, Any]:
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


def _container(name: str, image: str, command: list[str]) -> dict[str, Any]:
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
