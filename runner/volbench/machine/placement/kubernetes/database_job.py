"""A command of volbench as a Job in the cluster of a database: it observes, captures, compares, or measures.

The server runs already, and the Job asks nothing of the cluster: its pod has no rights there. Results, log and
clean-up are those of the runner's Job (runner.py, remote.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.queues import check_queue
from volbench.machine.placement.kubernetes.affinity import away_from_cells
from volbench.machine.placement.kubernetes.job_access import (
    JobMount,
    PasswordKey,
    check_account,
    check_host,
    check_mounts,
    check_s3,
    check_secret,
)
from volbench.machine.placement.kubernetes.manifests import scheduling
from volbench.machine.placement.kubernetes.options import KubernetesOptions
from volbench.machine.placement.kubernetes.remote import start
from volbench.machine.placement.kubernetes.runner import (
    IGNORE_DISRUPTIONS,
    JOB_UID,
    RESULTS,
    RUNNER,
    container_of,
    environment_of,
    input_map,
    job_of,
    mounts_of,
    pod_of,
    results_claim,
    volumes_of,
)
from volbench.machine.placement.kubernetes.s3_access import s3_environment

Object = dict[str, Any]
POD = "VOLBENCH_POD"
"""Environment: the pod's name, which its directory of results has too: the next pod of a Job has another one."""
JOB_RESULTS = f"{RESULTS}/$({JOB_UID})"
"""In arguments of the pod's command line, where Kubernetes puts in the values."""
POD_RESULTS = f"{JOB_RESULTS}/$({POD})"
_ACCOUNT = "VOLBENCH_MYSQL_PASSWORD"
"""Environment: how the account logs in."""
_START = 'mkdir -p "$0" && exec volbench "$@"'


@dataclass(frozen=True, kw_only=True)
class DatabaseJob:
    """What such a Job needs.

    Args:
        arguments: after `volbench`; JOB_RESULTS and POD_RESULTS stand for directories of results.
        directory: made before the command starts.
        texts: name -> text of files that the pod has in /volbench/run.
        files: of the user, by their absolute paths on this machine; the pod has them below OWN.
        directory_of_files: where the command starts, below OWN; empty: anywhere.
        hosts: of the servers that it connects to.
        cpu, memory: requests and limits; no cpu: no limit, since one throttles a load.
        service_account: whose role it has, for IAM tokens and results in a bucket; empty: none.
        options: those of OF_JOBS.
    """

    name: str
    image: str
    arguments: Sequence[str]
    directory: str
    texts: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    directory_of_files: str = ""
    hosts: Sequence[str] = ()
    password: PasswordKey | None = None
    mounts: Sequence[JobMount] = ()
    service_account: str = ""
    cpu: str = ""
    memory: str = "2Gi"
    options: KubernetesOptions = field(default_factory=KubernetesOptions)
    results_size: str = "5Gi"
    results_class: str = ""


def submit_command(cluster: Cluster, requested: DatabaseJob) -> str:
    """Create the Job, its ConfigMap and, if there is none, the claim for results; return the Job's name.

    Raises UsageError, MissingPrerequisite for what the namespace does not have, StepFailed for a refused object.
    """
    cluster.check_namespace()
    options = requested.options
    if options.queue:
        check_queue(cluster, options.queue)
    if requested.password is not None:
        check_secret(cluster, requested.password.secret, [requested.password.key], option="--secret NAME/KEY")
    check_mounts(cluster, requested.mounts)
    check_account(cluster, requested.service_account)
    check_s3(cluster, options)
    for host in dict.fromkeys(requested.hosts):
        check_host(cluster, host)
    claim = results_claim(size=requested.results_size, storage_class=requested.results_class)
    doing = f"submitting job {requested.name}"
    files = input_map(requested.name, requested.texts, requested.files)
    start(cluster, database_job(requested), files, claim=claim, queue=options.queue, doing=doing)
    return requested.name


def database_job(requested: DatabaseJob) -> Object:
    """Return the Job: a pod that the cluster disrupts is replaced, one that fails is not."""
    mounts = [(f"mount-{number}", mount) for number, mount in enumerate(requested.mounts, start=1)]
    limits = {"memory": requested.memory, **({"cpu": requested.cpu} if requested.cpu else {})}
    container = {
        **container_of(RUNNER, requested.image, ["sh", "-c", _START, requested.directory]),
        "args": list(requested.arguments),
        **({"workingDir": requested.directory_of_files} if requested.directory_of_files else {}),
        "env": [
            *environment_of(requested.image),
            _pod_name(),
            *_password(requested.password),
            *s3_environment(requested.options),
        ],
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi", **limits}, "limits": limits},
        "volumeMounts": [
            *mounts_of(requested.files),
            *({"name": name, "mountPath": mount.directory, "readOnly": True} for name, mount in mounts),
        ],
    }
    pod = {
        **pod_of(requested.options.pull_secret),
        **scheduling(requested.options),
        **({"serviceAccountName": requested.service_account} if requested.service_account else {}),
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 120,
        "affinity": away_from_cells(),
        "containers": [container],
        "volumes": [
            *volumes_of(requested.name, requested.files),
            *({"name": name, **mount.source()} for name, mount in mounts),
        ],
    }
    return job_of(requested.name, RUNNER, pod, backoffLimit=0, podFailurePolicy={"rules": [IGNORE_DISRUPTIONS]})


def plain(text: str) -> str:
    """Return a word of the user as a manifest has it: Kubernetes makes one `$` of two, and puts in no variable."""
    return text.replace("$", "$$")


def _pod_name() -> Object:
    return {"name": POD, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def _password(password: PasswordKey | None) -> list[Object]:
    if password is None:
        return []
    source = {"secretKeyRef": {"name": password.secret, "key": password.key}}
    return [{"name": _ACCOUNT, "valueFrom": source}]
