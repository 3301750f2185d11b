"""A runner's Job as seen from outside: submit it, follow its log, copy its results."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volbench.errors import EXIT_OK, EXIT_STEP_FAILED, EnvironmentLacks, StepFailed
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.refusals import RULES, NotFound
from volbench.machine.placement.kubernetes.collect import RUN_BYTES_MAX, collect
from volbench.machine.placement.kubernetes.manifests import KEEPER
from volbench.machine.placement.kubernetes.pods import describe_pod, is_over, is_running, status_of, waiting_trouble
from volbench.machine.placement.kubernetes.runner import (
    NAME,
    RUNNER,
    fetch_job,
    results_claim,
    runner_job,
    suite_map,
)
from volbench.machine.volume.kinds.run_owner import owned, references_to

Object = dict[str, Any]
START_S_MAX = 600.0
_POLL_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What a Job of the runner needs: see `runner_job`. `suite` is the text of the suite file."""

    name: str
    suite: str
    image: str
    options: tuple[str, ...] = ()
    resume: str = ""
    results_to: str = ""
    results_size: str = "5Gi"
    results_class: str = ""
    pull_secret: str = ""


def submit(cluster: Cluster, submission: Submission) -> str:
    """Create the Job, its ConfigMap and, if there is none, the claim for results; return the Job's name.

    Raises EnvironmentLacks where the runner's service account is missing, StepFailed for a refused object.
    """
    doing = f"submitting job {submission.name}"
    cluster.check_namespace()
    try:
        cluster.ask("GET", f"serviceaccounts/{NAME}", doing=doing)
    except NotFound as error:
        raise EnvironmentLacks(
            f"namespace {cluster.namespace} has no service account {NAME}",
            where=doing,
            evidence=error.evidence,
            next_step=RULES,
            cause="no_permission",
        ) from error
    claim = results_claim(size=submission.results_size, storage_class=submission.results_class)
    cluster.apply_once("persistentvolumeclaims", claim, doing=doing)
    job = cluster.ask(
        "POST",
        cluster.jobs(),
        runner_job(
            image=submission.image,
            name=submission.name,
            options=submission.options,
            resume=submission.resume,
            results_to=submission.results_to,
            pull_secret=submission.pull_secret,
        ),
        doing=doing,
    )
    files = suite_map(submission.name, submission.suite)  # the pod waits for it
    cluster.apply_once("configmaps", owned(files, references_to(job)), doing=doing)
    return submission.name


def follow(cluster: Cluster, name: str, *, write: Callable[[str], object], say: Callable[[str], object]) -> int:
    """Copy the log of the Job's pods to `write` until the Job ends; return the exit code of its last pod.

    Waits for the start. Raises EnvironmentLacks for a pod that does not start, NotFound without such a Job.
    """
    followed: set[str] = set()
    waiting_since_s = time.monotonic()
    while True:
        job = cluster.ask("GET", cluster.jobs(name), doing=f"following job {name}")
        pod = next((one for one in _pods(cluster, name) if one["metadata"]["uid"] not in followed), None)
        if pod is not None and (is_running(pod, RUNNER) or is_over(pod)):
            followed.add(pod["metadata"]["uid"])
            _copy_log(cluster, pod["metadata"]["name"], write)
            waiting_since_s = time.monotonic()
        elif (condition := _final_condition(job)) is not None:
            say(f"job {name}: {condition['type']} {condition.get('message', '')}".rstrip())
            return EXIT_OK if condition["type"] == "Complete" else _exit_code(_pods(cluster, name))
        elif time.monotonic() - waiting_since_s > START_S_MAX:
            _raise_not_started(cluster, name, pod)
        else:
            time.sleep(_POLL_S)


def fetch(cluster: Cluster, name: str, out: Path) -> list[Path]:
    """Copy the runs of a Job to `out`; return their directories. Raise EnvironmentLacks, StepFailed."""
    cluster.check_namespace()
    job = cluster.ask("GET", cluster.jobs(name), doing=f"looking for job {name}")
    image = job["spec"]["template"]["spec"]["containers"][0]["image"]
    secrets_of_job = job["spec"]["template"]["spec"].get("imagePullSecrets", [{}])
    out.mkdir(parents=True, exist_ok=True)
    staging = out / f".fetch-{job['metadata']['uid']}"
    staging.mkdir(exist_ok=True)
    with _fetcher(
        cluster,
        fetch_job(
            name=f"volbench-fetch-{secrets.token_hex(3)}",
            image=image,
            directory=job["metadata"]["uid"],
            pull_secret=secrets_of_job[0].get("name", ""),
        ),
    ) as pod:
        collect(cluster, pod, staging, complete=lambda _: None, bytes_max=RUN_BYTES_MAX)
    runs = sorted(path for path in staging.iterdir() if path.is_dir())
    for run in runs:
        _replace(run, out / run.name)
    with suppress(OSError):
        staging.rmdir()
    return [out / run.name for run in runs]


@contextmanager
def _fetcher(cluster: Cluster, job: Object) -> Iterator[str]:
    """Yield the name of the running pod; delete the Job with its pod at the end."""
    name = job["metadata"]["name"]
    doing = f"fetching results with job {name}"
    cluster.apply_once(cluster.jobs(), job, doing=doing)
    try:
        until_s = time.monotonic() + START_S_MAX
        while not ((pods := _pods(cluster, name)) and is_running(pods[0], KEEPER)):
            if time.monotonic() > until_s or (pods and is_over(pods[0])):
                _raise_not_started(cluster, name, pods[0] if pods else None)
            time.sleep(_POLL_S)
        yield pods[0]["metadata"]["name"]
    finally:
        cluster.delete(cluster.jobs(name), doing=doing)


def _replace(run: Path, target: Path) -> None:
    """Move a fetched run to its place; files of an earlier fetch are replaced, others stay."""
    for file in sorted(path for path in run.rglob("*") if path.is_file()):
        place = target / file.relative_to(run)
        place.parent.mkdir(parents=True, exist_ok=True)
        file.replace(place)
    for directory in sorted((path for path in run.rglob("*")), reverse=True):
        directory.rmdir()
    run.rmdir()


def _pods(cluster: Cluster, job: str) -> list[Object]:
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
        (one for one in conditions if one["type"] in {"Complete", "Failed"} and one["status"] == "True"), None
    )


def _exit_code(pods: list[Object]) -> int:
    """Return the last pod's exit code."""
    ends = [status_of(pod, RUNNER).get("state", {}).get("terminated", {}) for pod in pods]
    return next((int(end["exitCode"]) for end in reversed(ends) if end.get("exitCode")), EXIT_STEP_FAILED)


def _raise_not_started(cluster: Cluster, job: str, pod: Object | None) -> None:
    trouble = waiting_trouble(pod) if pod is not None else None
    events = []
    for name in filter(None, (job, pod["metadata"]["name"] if pod else "")):
        events += cluster.ask(
            "GET", "events", doing=f"reading the events of {name}", fieldSelector=f"involvedObject.name={name}"
        )["items"]
    failure = EnvironmentLacks if trouble is not None else StepFailed
    raise failure(
        trouble.what if trouble else "the pod does not start",
        where=f"job {job}",
        evidence=f"{trouble.evidence if trouble else ''}\n{describe_pod(pod, events, '')}".strip(),
        next_step=f"`kubectl describe pod -n {cluster.namespace} -l job-name={job}` shows more",
        cause=trouble.cause if trouble else "pod_pending",
    )
