"""A kubernetes target with two claims and two nodes on the fake cluster, for tests of where cells are placed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake_cluster import CLASSES, NODES, FakeCluster

from volbench.core.profile.spec import parse_volume
from volbench.core.records.cell import CellSpec, ServerSpec
from volbench.core.records.dataset import DatasetSpec
from volbench.machine.cluster.names import LABEL_RUN
from volbench.machine.placement.interface import Job
from volbench.machine.placement.kubernetes.affinity import CELL, COMPONENT
from volbench.machine.placement.kubernetes.options import read_options, volumes_of
from volbench.machine.placement.kubernetes.target import KubernetesTarget
from volbench.machine.placement.workspace import Workspace
from volbench.machine.volume.interface import OpenVolume
from volbench.machine.volume.kinds.run_owner import RunOwner

RUN_ID = "20260101T000000Z-quick-abcdef"
LOCAL = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node3"]}]},
        ]
    }
}
ZONE = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["eu-1a"]}]},
        ]
    }
}

_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


@dataclass(frozen=True, kw_only=True)
class Followed:
    """Nodes, by their holders: of those that a pod must or should follow, and of those that it avoids."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()


class Bench:
    """A target with two claims and two nodes; the first pod runs on node2."""

    def __init__(self, root: Path, *, measured_node: str = "", **options: object) -> None:
        self.root, self.cluster = root, FakeCluster()
        self.cluster.put(f"{CLASSES}/efs", volumeBindingMode="Immediate")
        self.cluster.put(f"{CLASSES}/late", volumeBindingMode="WaitForFirstConsumer")
        for name in ("node2", "node3"):
            labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "eu-1a"}
            self.cluster.put(f"{NODES}/{name}", metadata={"labels": labels})
        for name in "ab":
            self.cluster.put(f"persistentvolumeclaims/claim-{name}", spec={"storageClassName": "efs"})
            self.cluster.bind(f"claim-{name}", f"pv-{name}")
        chosen = read_options(options)  # type: ignore[arg-type]
        self.owner = RunOwner(self.cluster, RUN_ID, ttl_s=chosen.ttl_s, image="tools:1", queue=chosen.queue)
        self.target = KubernetesTarget(
            Workspace(run_id=RUN_ID, cache=root),
            cluster=self.cluster,
            tools="tools:1",
            options=chosen,
            owner=self.owner,
            measured_nodes={"a": measured_node} if measured_node else {},
            volume_options={name: read_options(options, name) for name in volumes_of(options)},  # type: ignore[arg-type]
        )

    def job(self, cell_id: str, volume: str) -> Job:
        opened = OpenVolume(name=volume, spec=parse_volume("pvc:x", name=volume), claim=f"claim-{volume}")
        cell = CellSpec(
            run_id=RUN_ID,
            cell_id=cell_id,
            suite="s",
            volume=volume,
            block=0,
            repeat=1,
            seed=1,
            server=ServerSpec(),
            dataset=DatasetSpec(),
            steps=(),
        )
        cell = self.target.with_server(cell, opened)
        return Job(kind="run", cell=cell, out=self.root, supervisor_script=b"", volume=opened)

    def start_first(self, **spec: object) -> None:
        """Launch a cell on volume a; its pod gets node2."""
        job = self.job("01-a", "a")
        self.target.launch(job)
        made = self.launched("01-a")
        self.cluster.put(
            "pods/first",
            metadata={"labels": made["metadata"]["labels"]},
            spec={"nodeName": "node2", **spec},
            status={"containerStatuses": [{"name": "agent", "state": {"running": {}}}]},
        )
        assert self.target.find(job).running()

    def launched(self, cell_id: str) -> dict[str, Any]:
        """Return the Job of a launched cell."""
        jobs = [item for path, item in self.cluster.objects.items() if "/jobs/" in path and cell_id in path]
        (made,) = [job for job in jobs if job["metadata"]["labels"][COMPONENT] == CELL]
        return made

    def affinity_of(self, cell_id: str, volume: str) -> Followed:
        """Launch a cell and return which nodes its pod follows and avoids."""
        self.target.launch(self.job(cell_id, volume))
        return self.followed(self.launched(cell_id))

    def followed(self, job: dict[str, Any]) -> Followed:
        """Return which nodes the pod of a Job follows and avoids, by the holders on them."""
        pod = job["spec"]["template"]["spec"]
        assert "nodeAffinity" not in pod["affinity"], "Karpenter refuses names of nodes"
        follows, avoids = (pod["affinity"].get(kind, {}) for kind in ("podAffinity", "podAntiAffinity"))
        required = follows.get(_REQUIRED, [])
        preferred = [item["podAffinityTerm"] for item in follows.get(_PREFERRED, [])]
        of_run = [item for item in avoids[_REQUIRED] if LABEL_RUN in item["labelSelector"]["matchLabels"]]
        return Followed(
            required=self._nodes_of(required),
            preferred=self._nodes_of(preferred),
            avoided=self._nodes_of([item for item in of_run if not _is_of_cells(item)]),
        )

    def _nodes_of(self, terms: list[dict[str, Any]]) -> tuple[str, ...]:
        """Return the nodes of the holders that the terms select."""
        templates = [
            manifest["spec"]["template"] for path, manifest in self.cluster.objects.items() if "/jobs/" in path
        ]
        return tuple(
            template["spec"]["nodeName"]
            for term in terms
            for template in templates
            if "nodeName" in template["spec"]
            and term["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        )


def _is_of_cells(term: dict[str, Any]) -> bool:
    return bool(term["labelSelector"]["matchLabels"][COMPONENT] == CELL)


def required(followed: Followed) -> str:
    """Return the node that the pod must be on."""
    return next(iter(followed.required), "")


def preferred(followed: Followed) -> str:
    """Return the node that the pod had better be on."""
    return next(iter(followed.preferred), "")
