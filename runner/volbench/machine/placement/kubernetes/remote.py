"""A runner's Job as seen from outside: submit it, follow its log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from volbench.errors import EXIT_OK, EXIT_STEP_FAILED, MissingPrerequisite, StepFailed, VolbenchError
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.marks import Marks
from volbench.machine.cluster.names import LABEL_RUN
from volbench.machine.cluster.queues import check_queue, join_queue
from volbench.machine.cluster.refusals import RULES, NotFound
from volbench.machine.placement.kubernetes.pods import describe_pod, is_over, is_running, status_of, waiting_trouble
from volbench.machine.placement.kubernetes.runner import (
    NAME,
    RUNNER,
    SUITE_FILE,
    input_map,
    results_claim,
    runner_job,
)
from volbench.machine.volume.kinds.run_owner import STARTED_BY, owned, references_to, this_user

Object = dict[str, Any]
START_S_MAX = 600.0
_POLL_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What a Job of the runner needs: see `runner_job`. `suite` is the text of the suite file.

    Args:
        files: of the user, by their absolute paths on this machine.
    """

    name: str
    suite: str
    image: str
    options: tuple[str, ...] = ()
    resume: str = ""
    results_to: str = ""
    results_size: str = "5Gi"
    results_class: str = ""
    pull_secret: str = ""
    queue: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)


def submit(cluster: Cluster, submission: Submission) -> str:
    """Create the Job, its ConfigMap and, if there is none, the claim for results; return the Job's name.

    Raises MissingPrerequisite where the runner's service account is missing, StepFailed for a refused object.
    """
    doing = f"submitting job {submission.name}"
    cluster.check_namespace()
    if submission.queue:
        check_queue(cluster, submission.queue)
    try:
        cluster.ask("GET", f"serviceaccounts/{NAME}", doing=doing)
    except NotFound as error:
        raise MissingPrerequisite(
            f"namespace {cluster.namespace} has no service account {NAME}",
            where=doing,
            evidence=error.evidence,
            next_step=RULES,
            cause="no_permission",
        ) from error
    job = runner_job(
        image=submission.image,
        name=submission.name,
        options=submission.options,
        resume=submission.resume,
        results_to=submission.results_to,
        pull_secret=submission.pull_secret,
        own=submission.files,
    )
    texts = {SUITE_FILE: submission.suite}
    files = input_map(submission.name, texts, submission.files)
    claim = results_claim(size=submission.results_size, storage_class=submission.results_class)
    start(cluster, job, files, claim=claim, queue=submission.queue, doing=doing)
    return submission.name


def start(cluster: Cluster, manifest: Object, files: Object, *, claim: Object, queue: str, doing: str) -> None:
    """Create a Job with what it reads, and the claim for results if there is none. `k8s list` finds it by its name.

    Args:
        files: its ConfigMap, which it owns.
        queue: of Kueue; empty: none.

    Raises MissingPrerequisite, StepFailed; then no Job stays.
    """
    name = manifest["metadata"]["name"]
    cluster.apply_once("persistentvolumeclaims", claim, doing=doing)
    job = cluster.ask("POST", cluster.jobs(), _listed(manifest), doing=doing)
    try:
        join_queue(cluster, job, queue, doing=doing)
        cluster.apply_once("configmaps", owned(_listed(files), references_to(job)), doing=doing)  # the pod waits
    except VolbenchError:
        cluster.delete(cluster.jobs(name), doing=doing)
        raise


def _listed(manifest: Object) -> Object:
    """Return an object of a Job with the label by which `k8s list` and `k8s clean` find it, and who made it."""
    metadata = manifest["metadata"]
    marks = Marks(labels={LABEL_RUN: metadata["name"]}, annotations={STARTED_BY: this_user()})
    return marks.on(manifest)


def follow(cluster: Cluster, name: str, *, write: Callable[[str], object], say: Callable[[str], object]) -> int:
    """Copy the log of the Job's pods to `write` until the Job ends; return the exit code of its last pod.

    Waits for the start. Raises MissingPrerequisite for a pod that does not start, NotFound without such a Job.
    """
    followed: set[str] = set()
    waiting_since_s = time.monotonic()
    while True:
        job = cluster.ask("GET", cluster.jobs(name), doing=f"following job {name}")
        pod = next(
            (candidate for candidate in pods_of(cluster, name) if candidate["metadata"]["uid"] not in followed),
            None,
        )
        if pod is not None and (is_running(pod, RUNNER) or is_over(pod)):
            followed.add(pod["metadata"]["uid"])
            _copy_log(cluster, pod["metadata"]["name"], write)
            waiting_since_s = time.monotonic()
        elif (condition := _final_condition(job)) is not None:
            say(f"job {name}: {condition['type']} {condition.get('message', '')}".rstrip())
            return EXIT_OK if condition["type"] == "Complete" else _exit_code(pods_of(cluster, name))
        elif time.monotonic() - waiting_since_s > START_S_MAX:
            raise_not_started(cluster, name, pod)
        else:
            time.sleep(_POLL_S)


def pods_of(cluster: Cluster, job: str) -> list[Object]:
    """Return the Job's pods, the oldest first."""
    answer = cluster.ask("GET", "pods", doing=f"looking for pods of job {job}", labelSelector=f"job-name={job}")
    return sorted(answer["items"], key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")))


def _copy_log(cluster: Cluster, pod: str, write: Callable[[str], object]) -> None:
    for chunk in cluster.stream_text(
        f"pods/{pod}/log", doing=f"reading the log of {pod}", container=RUNNER, follow="true"
    ):
        write(chunk)


def _final_condition(job: Object) -> Object | None:
    conditions = job.get("status", {}).get("conditions", [])
    return next(
        (
            condition
            for condition in conditions
            if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True"
        ),
        None,
    )


def _exit_code(pods: list[Object]) -> int:
    """Return the last pod's exit code."""
    ends = [status_of(pod, RUNNER).get("state", {}).get("terminated", {}) for pod in pods]
    return next((int(end["exitCode"]) for end in reversed(ends) if end.get("exitCode")), EXIT_STEP_FAILED)


def raise_not_started(cluster: Cluster, job: str, pod: Object | None) -> None:
    """Raise MissingPrerequisite or StepFailed for a Job whose pod does not start."""
    trouble = waiting_trouble(pod) if pod is not None else None
    events = []
    for name in filter(None, (job, pod["metadata"]["name"] if pod else "")):
        events += cluster.ask(
            "GET", "events", doing=f"reading the events of {name}", fieldSelector=f"involvedObject.name={name}"
        )["items"]
    failure = MissingPrerequisite if trouble is not None else StepFailed
    raise failure(
        trouble.what if trouble else "the pod does not start",
        where=f"job {job}",
        evidence=f"{trouble.evidence if trouble else ''}\n{describe_pod(pod, events, '')}".strip(),
        next_step=f"`kubectl describe pod -n {cluster.namespace} -l job-name={job}` shows more",
        cause=trouble.cause if trouble else "pod_pending",
    )
