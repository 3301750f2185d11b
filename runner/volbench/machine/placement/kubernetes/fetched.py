"""Copies runs from the claim for results: through a pod that has it already, else through one made for that.

A volume such as one of EBS is on one node at a time. While a runner works, a second pod would have to be on its
node, and might find no room there; the runner's own container has all that is needed.
"""

from __future__ import annotations

import re
import secrets
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from volbench.errors import UsageError
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.marks import Marks
from volbench.machine.cluster.names import MANAGED_BY
from volbench.machine.cluster.refusals import NotFound
from volbench.machine.placement.kubernetes.collect import RUN_BYTES_MAX, SUMS, collect, run_in_pod
from volbench.machine.placement.kubernetes.manifests import KEEPER
from volbench.machine.placement.kubernetes.pods import is_over, is_running
from volbench.machine.placement.kubernetes.remote import START_S_MAX, pods_of, raise_not_started
from volbench.machine.placement.kubernetes.runner import RESULTS, RESULTS_CLAIM, RUNNER, fetch_job

Object = dict[str, Any]
_POLL_S = 1.0
_FOREIGN = re.compile(r"^([a-z.]*(kubernetes|k8s|helm|volbench)[a-z.]*/|(job-name|controller-uid)$)")
"""Keys whose meaning is that of a program."""
_MANAGED = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())


@dataclass(frozen=True, kw_only=True)
class _Chosen:
    """What is copied: all runs of a Job, or one run by its id; with what is known of the claim and the image."""

    name: str
    uid: str = ""
    claim: str = RESULTS_CLAIM
    image: str = ""
    pull_secret: str = ""
    marks: Marks = field(default_factory=Marks)
    """Of the Job, which the pod that reads its claim needs as well."""


def fetch(cluster: Cluster, name: str, out: Path, *, image: str) -> list[Path]:
    """Copy the runs of a Job, or the run of that id, to `out`; return their directories.

    Args:
        name: of a Job; else the id of a run, whose Job may be gone.
        image: for a pod that reads the claim, where no Job names one.

    Raises UsageError for a run that the claim does not have, MissingPrerequisite, StepFailed.
    """
    cluster.check_namespace()
    chosen = _choose(cluster, name, image)
    cluster.marks = chosen.marks
    out.mkdir(parents=True, exist_ok=True)
    staging = out / f".fetch-{chosen.uid or chosen.name}"
    staging.mkdir(exist_ok=True)
    with _reader(cluster, chosen) as (pod, container):
        if not chosen.uid:
            _check_run(cluster, pod, container, chosen.name)
        collect(
            cluster,
            pod,
            staging,
            complete=lambda _: None,
            bytes_max=RUN_BYTES_MAX,
            container=container,
            script=copy_script(chosen.uid, chosen.name),
        )
    runs = sorted(path for path in staging.iterdir() if path.is_dir())
    for run in runs:
        _replace(run, out / run.name)
    with suppress(OSError):
        staging.rmdir()
    return [out / run.name for run in runs]


def copy_script(uid: str, name: str, *, results: str = RESULTS) -> str:
    """Return the shell script that sends an archive with checksums of the Job's runs, or of the run of that name.

    The files are copied first, since a run that goes on appends to some of them while they are read.

    Args:
        results: directory in the pod where the claim is mounted.
    """
    source = f"{results}/{uid}/." if uid else f"{results}/*/{shlex.quote(name)}"
    copied = f'cp -R {source} "$d/out/"'
    return (
        'd=$(mktemp -d /tmp/fetch-XXXXXX) || exit 1; trap \'rm -rf "$d"\' EXIT; mkdir "$d/out";'
        f' ls -d {source} >"$d/found" 2>/dev/null && {{ {copied} || {copied} || {copied} || exit 1; }};'  # files go
        " cd \"$d/out\" && find . -type f ! -name '*.partial' -printf '%P\\0' >\"$d/list\""
        f' && xargs -0 -r sha256sum <"$d/list" >"$d/{SUMS}"'
        f' && tar -cf - -C "$d/out" --null -T "$d/list" -C "$d" {SUMS}'
    )


def _choose(cluster: Cluster, name: str, image: str) -> _Chosen:
    try:
        job = cluster.ask("GET", cluster.jobs(name), doing=f"looking for job {name}")
    except NotFound:
        return _Chosen(name=name, image=image)
    pod = job["spec"]["template"]["spec"]
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    ]
    return _Chosen(
        name=name,
        uid=job["metadata"]["uid"],
        claim=next(iter(claims), RESULTS_CLAIM),
        image=pod["containers"][0]["image"],
        pull_secret=next((secret["name"] for secret in pod.get("imagePullSecrets", [])), ""),
        marks=_marks(job),
    )


def _marks(job: Object) -> Marks:
    """Return labels and annotations of a Job that neither volbench nor the cluster nor Helm put there."""
    kinds = ("labels", "annotations")
    values = {kind: job["metadata"].get(kind, {}) for kind in kinds}
    own = {kind: {key: value for key, value in values[kind].items() if not _FOREIGN.search(key)} for kind in kinds}
    return Marks(labels=own["labels"], annotations=own["annotations"])


def _check_run(cluster: Cluster, pod: str, container: str, run_id: str) -> None:
    """Raise UsageError if the claim has no run of that id."""
    doing = f"looking for run {run_id}"
    listing = f"cd {RESULTS} && ls -d */*/ 2>/dev/null || true"
    lines = run_in_pod(cluster, pod, ["sh", "-c", listing], doing=doing, container=container).splitlines()
    runs = sorted(line.rstrip("/").partition("/")[2] for line in lines)
    if run_id not in runs:
        raise UsageError(
            f"namespace {cluster.namespace} has no job {run_id}, and its results have no such run",
            where="volbench k8s fetch",
            evidence=f"runs there: {', '.join(runs) or 'none'}",
        )


@contextmanager
def _reader(cluster: Cluster, chosen: _Chosen) -> Iterator[tuple[str, str]]:
    """Yield pod and container in which the claim is mounted; a pod that is made for that is deleted at the end."""
    runner = _runner_with(cluster, chosen.claim)
    if runner:
        yield runner, RUNNER
        return
    name = f"volbench-fetch-{secrets.token_hex(3)}"
    job = fetch_job(name=name, image=chosen.image, claim=chosen.claim, pull_secret=chosen.pull_secret)
    doing = f"fetching results with job {name}"
    cluster.apply_once(cluster.jobs(), job, doing=doing)
    try:
        until_s = time.monotonic() + START_S_MAX
        while not ((pods := pods_of(cluster, name)) and is_running(pods[0], KEEPER)):
            if time.monotonic() > until_s or (pods and is_over(pods[0])):
                raise_not_started(cluster, name, pods[0] if pods else None)
            time.sleep(_POLL_S)
        yield pods[0]["metadata"]["name"], KEEPER
    finally:
        cluster.delete(cluster.jobs(name), doing=doing)


def _runner_with(cluster: Cluster, claim: str) -> str:
    """Return the name of a runner's pod that works on the claim now; empty if there is none."""
    doing = f"looking for a pod with claim {claim}"
    pods = cluster.ask("GET", "pods", doing=doing, labelSelector=_MANAGED)["items"]
    for pod in pods:
        names = [
            volume.get("persistentVolumeClaim", {}).get("claimName") for volume in pod["spec"].get("volumes", [])
        ]
        if claim in names and is_running(pod, RUNNER) and "deletionTimestamp" not in pod["metadata"]:
            return str(pod["metadata"]["name"])
    return ""


def _replace(run: Path, target: Path) -> None:
    """Move a fetched run to its place; files of an earlier fetch are replaced, others stay."""
    for file in sorted(path for path in run.rglob("*") if path.is_file()):
        destination = target / file.relative_to(run)
        destination.parent.mkdir(parents=True, exist_ok=True)
        file.replace(destination)
    for directory in sorted((path for path in run.rglob("*")), reverse=True):
        directory.rmdir()
    run.rmdir()
