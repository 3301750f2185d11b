"""What runs and submitted Jobs have in a namespace, by their labels, and its deletion.

Claims that `pvc:` names have no label, and neither has the claim for results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from volbench.errors import Refused, UsageError
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.names import LABEL_RUN
from volbench.machine.placement.kubernetes.affinity import COMPONENT, HOLDER
from volbench.machine.placement.kubernetes.pods import is_over
from volbench.machine.volume.kinds.run_owner import OWNER, expires_at, owner_name, started_by

Object = dict[str, Any]
_MANAGED = f"app.kubernetes.io/managed-by=volbench,{LABEL_RUN}"


@dataclass(frozen=True, kw_only=True)
class RunObjects:
    """The objects of a run, or of a submitted Job, in the namespace.

    Args:
        run_id: of the run; of a submitted Job its name.
        created_at: of the oldest object, as the API server writes it.
        active_pods: pods that run, or keep results that nobody has collected.
        claims: names of claims with their sizes, each of which is a volume that costs.
        started_by: `user@machine`; empty: not known.
        expires_at: when the cluster deletes all of it unless the run is resumed; empty: never, nothing owns it.
    """

    run_id: str
    created_at: str
    jobs: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    active_pods: tuple[str, ...] = ()
    claims: tuple[tuple[str, str], ...] = ()
    expires_at: str = ""
    started_by: str = ""


def runs_in(cluster: Cluster) -> list[RunObjects]:
    """Return the runs that have objects in the namespace, the oldest first. Raise MissingPrerequisite."""
    cluster.check_namespace()
    kinds = {
        kind: cluster.ask("GET", path, doing=f"listing {kind} of runs", labelSelector=_MANAGED)["items"]
        for kind, path in (
            ("jobs", cluster.jobs()),
            ("configmaps", "configmaps"),
            ("pods", "pods"),
            ("claims", "persistentvolumeclaims"),
        )
    }
    run_ids = {item["metadata"]["labels"][LABEL_RUN] for items in kinds.values() for item in items}
    return sorted((_run(run_id, kinds) for run_id in run_ids), key=lambda run: (run.created_at, run.run_id))


def delete_runs(cluster: Cluster, run_ids: Sequence[str], *, force: bool = False) -> list[RunObjects]:
    """Delete jobs, pods, config maps and claims of these runs, with the claims' data; return what was deleted.

    Raises UsageError for a run without objects, Refused for one with active pods unless `force`; then nothing was
    deleted.
    """
    present = {run.run_id: run for run in runs_in(cluster)}
    for run_id in run_ids:
        if run_id not in present:
            raise UsageError(
                f"run {run_id} has no objects in namespace {cluster.namespace}",
                where="volbench k8s clean",
                evidence=f"runs there: {', '.join(present) or 'none'}",
            )
        if present[run_id].active_pods and not force:
            raise Refused(
                f"pods of run {run_id} are active: they run, or keep results that nobody has collected",
                where=f"namespace {cluster.namespace}",
                evidence=", ".join(present[run_id].active_pods),
                next_step="`volbench resume RUN` collects the results, those of a submitted job are on its claim; "
                "--force deletes the pods",
            )
    chosen = [present[run_id] for run_id in dict.fromkeys(run_ids)]
    for run in chosen:
        doing = f"deleting the objects of run {run.run_id}"
        for name in run.jobs:
            cluster.delete(cluster.jobs(name), doing=doing)
        for name in run.active_pods:
            cluster.delete(f"pods/{name}", doing=doing)
        for name in run.config_maps:
            cluster.delete(f"configmaps/{name}", doing=doing)
        for name, _ in run.claims:
            cluster.delete(f"persistentvolumeclaims/{name}", doing=doing)
        cluster.delete(cluster.jobs(owner_name(run.run_id)), doing=doing)
    return chosen


def _run(run_id: str, kinds: dict[str, list[Object]]) -> RunObjects:
    items = {
        kind: [item for item in objects if item["metadata"]["labels"][LABEL_RUN] == run_id]
        for kind, objects in kinds.items()
    }
    owners = [job for job in items["jobs"] if _is_owner(job)]
    created = [str(item["metadata"].get("creationTimestamp", "")) for objects in items.values() for item in objects]
    return RunObjects(
        run_id=run_id,
        created_at=min(created),
        jobs=tuple(job["metadata"]["name"] for job in items["jobs"] if not _is_owner(job)),
        config_maps=tuple(config_map["metadata"]["name"] for config_map in items["configmaps"]),
        active_pods=tuple(
            pod["metadata"]["name"] for pod in items["pods"] if not is_over(pod) and not _is_holder(pod)
        ),
        claims=tuple(
            (claim["metadata"]["name"], claim["spec"]["resources"]["requests"]["storage"])
            for claim in items["claims"]
        ),
        expires_at=next(map(expires_at, owners), ""),
        started_by=next(filter(None, map(started_by, items["jobs"])), ""),
    )


def _is_holder(pod: Object) -> bool:
    return bool(pod["metadata"]["labels"].get(COMPONENT) == HOLDER)


def _is_owner(job: Object) -> bool:
    return bool(job["metadata"]["labels"].get(COMPONENT) == OWNER)
