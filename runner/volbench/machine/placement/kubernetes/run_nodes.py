"""The nodes that a run measures on: which one a cell belongs to, and the holder that keeps it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from volbench.errors import MissingPrerequisite
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.names import LABEL_LANE, LABEL_RUN
from volbench.machine.cluster.refusals import NotFound
from volbench.machine.placement.interface import Job
from volbench.machine.placement.kubernetes.holders import Holders
from volbench.machine.placement.kubernetes.node_blocks import lane_of_block, measured_by_number, node_of_block
from volbench.machine.placement.kubernetes.options import KubernetesOptions, has_holder
from volbench.machine.placement.kubernetes.scheduling import removal
from volbench.machine.placement.kubernetes.snapshots.manifests import COMPONENT as SNAPSHOT
from volbench.machine.volume.interface import OpenVolume
from volbench.machine.volume.kinds.claim_facts import SELECTED_NODE

_FARGATE = "fargate-scheduler"
"""Scheduler of pods that each get a node of their own: a second pod cannot run there."""
_COMPONENT = "app.kubernetes.io/component"
Pool = tuple[str, str, str, int]
"""The options that decide which nodes cells may run on, and the number of the run's node."""


def _pool(options: KubernetesOptions, number: int = 0) -> Pool:
    return options.selector, options.tolerations, options.runtime_class, number


class RunNodes:
    """The nodes of one run. Lanes' threads share it.

    Args:
        measured_nodes: volume -> name of the node that earlier cells of the run measured it on.
        volume_options: of volumes whose cells run elsewhere than those of others.
        blocks: of the run, which are spread over `nodes` of the options.
        measured_blocks: block -> name of the node that earlier cells of the run measured it on.
    """

    def __init__(
        self,
        cluster: Cluster,
        run_id: str,
        *,
        options: KubernetesOptions,
        holders: Holders,
        measured_nodes: Mapping[str, str] | None = None,
        volume_options: Mapping[str, KubernetesOptions] | None = None,
        blocks: int = 1,
        measured_blocks: Mapping[int, str] | None = None,
    ) -> None:
        self._cluster = cluster
        self._run_id = run_id
        self._options = options
        self.holders = holders
        self._measured_nodes = dict(measured_nodes or {})
        self._volume_options = dict(volume_options or {})
        self._blocks = blocks
        self._measured_numbers = measured_by_number(measured_blocks or {}, blocks=blocks, nodes=options.nodes)
        self._node_names: dict[Pool, str] = {}

    def options_of(self, volume: OpenVolume | None) -> KubernetesOptions:
        """Return the options of the volume's cells; a variant of a volume has that volume's."""
        if volume is None:
            return self._options
        return self._volume_options.get(volume.spec.variant_of or volume.name, self._options)

    def hold(self, job: Job, node: str) -> bool:
        """Return whether a holder of the run is on the node, after making one where there is none.

        Raises MissingPrerequisite for a node that the cell must be on and that is gone, cordoned or being removed.
        """
        options, key = self.options_of(job.volume), holder_key(self.pool_of(job))
        if self.holders.keeps(key) and not self._is_being_removed(node):
            return True
        reason = self._why_unusable(node)
        if reason and options.pin_node:
            raise MissingPrerequisite(
                f"node {node}, on which this run measures, cannot run the pod: {reason}",
                where=f"cell {job.cell.cell_id}, attempt {job.cell.attempt}",
                evidence="the node's object in the cluster",
                next_step="`volbench resume RUN` measures the rest on another node, and the report says so",
                cause="unschedulable",
            )
        if reason:
            return False
        self.holders.hold(key, node, options)
        return self.holders.keeps(key)

    def node_of(self, job: Job) -> str:
        """Return the node on which the run measures the volumes that may use the same nodes.

        That of earlier cells, of the first pod, or of the first claim. A node of earlier cells that is gone or
        cordoned is given up: the report says that nodes differ.
        """
        options = self.options_of(job.volume)
        pool = self.pool_of(job)
        if options.node:
            return ""
        if options.nodes > 1:
            return self._node_of_number(pool, job)
        for volume, node_name in list(self._measured_nodes.items()):
            if _pool(self._volume_options.get(volume, self._options)) == pool:
                del self._measured_nodes[volume]
                if pool not in self._node_names and self._is_usable(node_name):
                    self._node_names[pool] = node_name
        if pool not in self._node_names and (node_name := self._node_of_claims(job)):
            self._node_names[pool] = node_name
        return self._node_names.get(pool, "")

    def hold_measured(self, job: Job) -> None:
        """Hold the nodes that earlier cells of the run measured, so that a further one is none of them."""
        options = self.options_of(job.volume)
        for number, node in self._measured_numbers.copy().items():  # other lanes take theirs
            if self._is_usable(node):
                self.holders.hold(holder_key(_pool(options, number)), node, options)

    def pool_of(self, job: Job) -> Pool:
        """Return the pool of the cell: cells of one pool are measured on one node."""
        options = self.options_of(job.volume)
        number = node_of_block(job.cell.block, blocks=self._blocks, nodes=options.nodes)
        return _pool(options, number)

    def _node_of_number(self, pool: Pool, job: Job) -> str:
        """Return the name of the node of that number, of a run on several; empty: the scheduler chooses it now."""
        measured = self._measured_numbers.pop(pool[-1], "")
        if measured and pool not in self._node_names and self._is_usable(measured):
            self._node_names[pool] = measured
        if pool not in self._node_names and (node_name := self._node_of_claims(job)):
            self._node_names[pool] = node_name
        return self._node_names.get(pool, "")

    def _is_usable(self, node_name: str) -> bool:
        node = self._cluster.ask_if_allowed(f"/api/v1/nodes/{node_name}", doing="reading the run's node")
        return node is not None and not node["spec"].get("unschedulable") and not removal(node)

    def _is_being_removed(self, node_name: str) -> bool:
        node = self._cluster.ask_if_allowed(f"/api/v1/nodes/{node_name}", doing="reading the run's node")
        return node is not None and bool(removal(node))

    def _why_unusable(self, node_name: str) -> str:
        """Return why no pod gets onto the node; empty where one does, or this user may not know."""
        try:
            node = self._cluster.ask("GET", f"/api/v1/nodes/{node_name}", doing="reading the run's node")
        except NotFound:
            return "the cluster has no such node any more"
        except MissingPrerequisite as error:
            if error.cause != "no_permission":
                raise
            return ""
        if taint := removal(node):
            return f"it is being removed (taint {taint})"
        return "it is cordoned" if node["spec"].get("unschedulable") else ""

    def _node_of_claims(self, job: Job) -> str:
        """Return the node that a claim of the run was bound for; only of those that must share the cell's node."""
        selector = f"{LABEL_RUN}={self._run_id}"
        selector += f",{_COMPONENT}!={SNAPSHOT}"  # a restored claim is where its reader was
        claims = self._cluster.ask(
            "GET", "persistentvolumeclaims", doing="looking at the run's claims", labelSelector=selector
        )["items"]
        if self._volume_options:
            own = job.volume.claim if job.volume else None
            claims = [claim for claim in claims if claim["metadata"]["name"] == own]
        if self._options.nodes > 1:
            lane = lane_of_block(job.cell.block, blocks=self._blocks, nodes=self._options.nodes)
            claims = [claim for claim in claims if claim["metadata"]["labels"].get(LABEL_LANE) == lane]
        nodes = [claim["metadata"].get("annotations", {}).get(SELECTED_NODE, "") for claim in claims]
        return next((name for name in nodes if name and self._is_usable(name)), "")

    def note(self, pool: Pool, options: KubernetesOptions, pod: dict[str, Any]) -> None:
        """Make the first pod's node that of its pool, and hold it; but for a node that runs one pod only."""
        if pod["spec"].get("schedulerName") == _FARGATE:
            return
        node = self._node_names.setdefault(pool, pod["spec"]["nodeName"])
        if has_holder(options):
            self.holders.hold(holder_key(pool), node, options)


def holder_key(pool: Pool) -> str:
    """Return the key of the holder of a node, by which cells follow it."""
    *kinds, number = pool
    if not any(kinds):
        return f"node{number + 1}"
    digest = hashlib.sha256("\n".join(kinds).encode()).hexdigest()[:6]
    return f"node{number + 1}-{digest}"
