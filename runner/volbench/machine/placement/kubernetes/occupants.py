"""Who else is on the nodes and claims of a run: pods of other runs, whose they are, until when, and what to do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volbench.errors import MissingPrerequisite, VolbenchError
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.names import LABEL_RUN
from volbench.machine.placement.kubernetes.affinity import CELL, COMPONENT, HOLDER
from volbench.machine.placement.kubernetes.manifests import AGENT, KEEPER
from volbench.machine.placement.kubernetes.pods import has_ended, is_over, is_running
from volbench.machine.volume.kinds.run_owner import expires_at, owner_name, started_by

Object = dict[str, Any]
_SELECTOR = f"app.kubernetes.io/name=volbench,{LABEL_RUN}"
_RUNS_MAX = 4
"""Named in a message."""
_LOOK_EVERY_S = 30.0
"""A list of all pods is no small question."""


@dataclass(frozen=True, kw_only=True)
class Occupant:
    """Another run's pods on a node.

    Args:
        keeps_results: the run's cells here have ended, and nobody has collected their results.
        started_by: `user@machine`; empty: not known.
        expires_at: when the cluster deletes all of it, in UTC; empty: not known.
    """

    run_id: str
    namespace: str
    node: str
    pods: tuple[str, ...]
    keeps_results: bool
    started_by: str = ""
    expires_at: str = ""

    @property
    def text(self) -> str:
        """Whose it is, what it does, and until when."""
        whose = f" (started by {self.started_by})" if self.started_by else ""
        until = f", until {self.expires_at} at the latest" if self.expires_at else ""
        does = "only keeps results that nobody has collected" if self.keeps_results else "measures or waits to"
        name = f"pod {self.pods[0]}" if len(self.pods) == 1 else f"pods {', '.join(self.pods)}"
        return f"run {self.run_id}{whose} {does} on node {self.node}{until}: {name} in namespace {self.namespace}"

    @property
    def next_step(self) -> str:
        """How the node becomes free."""
        if not self.keeps_results:
            return f"wait for run {self.run_id}"
        delete = f"volbench k8s clean -n {self.namespace} {self.run_id} --force"
        return f"`volbench resume {self.run_id}` where it was started collects the results, `{delete}` deletes them"


def find_occupants(cluster: Cluster, run_id: str) -> list[Occupant]:
    """Return other runs' pods on nodes, those that only keep results first. Raise MissingPrerequisite.

    A user who may not list the pods of all namespaces is told those of this one.
    """
    doing = "looking for pods of other runs"
    try:
        answer = cluster.ask("GET", "/api/v1/pods", doing=doing, labelSelector=_SELECTOR)
    except MissingPrerequisite as error:
        if error.cause != "no_permission":
            raise
        answer = cluster.ask("GET", "pods", doing=doing, labelSelector=_SELECTOR)
    groups: dict[tuple[str, str, str], list[Object]] = {}
    for pod in answer["items"]:
        metadata, node = pod["metadata"], pod["spec"].get("nodeName", "")
        labels = metadata["labels"]
        if node and not is_over(pod) and labels.get(COMPONENT) in {CELL, HOLDER} and labels[LABEL_RUN] != run_id:
            key = (labels[LABEL_RUN], metadata.get("namespace", cluster.namespace), node)
            groups.setdefault(key, []).append(pod)
    chosen = sorted(groups.items(), key=lambda group: (not _keep_results(group[1]), group[0]))[:_RUNS_MAX]
    return [_occupant(cluster, *key, pods) for key, pods in chosen]


class NodeWait:
    """The wait of a cell for nodes that others occupy."""

    def __init__(self, cluster: Cluster, run_id: str) -> None:
        self._cluster, self._run_id = cluster, run_id
        self._looked_s = float("-inf")

    def find(self) -> list[Occupant]:
        """Return who occupies nodes; none where that cannot be asked now."""
        try:
            return find_occupants(self._cluster, self._run_id)
        except VolbenchError:
            return []

    def show(self, directory: Path) -> None:
        """Write who is in the way, and what to do, as the cell's progress; the cluster is asked now and then."""
        if time.monotonic() - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s = time.monotonic()
        if occupants := self.find():
            first = occupants[0]
            progress = {"text": f"waits for a node: {first.text}; {first.next_step}"}
            (directory / "progress.json").write_text(json.dumps(progress) + "\n")


def _occupant(cluster: Cluster, run_id: str, namespace: str, node: str, pods: Sequence[Object]) -> Occupant:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{owner_name(run_id)}"
    owner = cluster.ask_if_allowed(path, doing=f"reading until when run {run_id} may stay")
    return Occupant(
        run_id=run_id,
        namespace=namespace,
        node=node,
        pods=tuple(sorted(pod["metadata"]["name"] for pod in pods)),
        keeps_results=_keep_results(pods),
        started_by=started_by(owner) if owner else "",
        expires_at=expires_at(owner) if owner else "",
    )


def _keep_results(pods: Sequence[Object]) -> bool:
    cells = [pod for pod in pods if pod["metadata"]["labels"][COMPONENT] == CELL]
    return bool(cells) and all(has_ended(pod, AGENT) and is_running(pod, KEEPER) for pod in cells)


def users_of_claim(pods: Iterable[Object], claim: str, run_id: str) -> Iterator[Object]:
    """Yield each pod on a node, not of the run, that mounts the claim."""
    for pod in pods:
        volumes = pod["spec"].get("volumes", [])
        names = {volume.get("persistentVolumeClaim", {}).get("claimName") for volume in volumes}
        is_own = pod["metadata"].get("labels", {}).get(LABEL_RUN, "") == run_id
        if claim in names and not is_own and pod["spec"].get("nodeName") and not is_over(pod):
            yield pod


def pods_on_claim(pods: Iterable[Object], claim: str, run_id: str) -> Iterator[str]:
    """Yield the name of each pod on a node, not of the run, that mounts the claim: `pod X`, `pod X of run Y`."""
    for pod in users_of_claim(pods, claim, run_id):
        run = pod["metadata"].get("labels", {}).get(LABEL_RUN, "")
        yield f"pod {pod['metadata']['name']}" + (f" of run {run}" if run else "")
