"""The kubernetes target: each attempt at a cell is a Job whose pod has the server as a sidecar of the agent.

Both share the claim's volume, the control directory and one process namespace. The pod keeps the results until they
are collected, so that orchestrator and API server need not run all the time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from volbench.core.records.cell import CellPlaces, CellSpec, ServerSpec
from volbench.core.records.own_files import claim_changes, snapshot_steps
from volbench.core.records.run import PlannedCell
from volbench.errors import MissingPrerequisite, StepFailed
from volbench.machine.cluster.client import Cluster
from volbench.machine.cluster.names import LABEL_RUN
from volbench.machine.cluster.queues import check_queue, join_queue
from volbench.machine.cluster.refusals import RULES
from volbench.machine.placement.docker import image_names
from volbench.machine.placement.docker.images import OFFICIAL_IMAGES
from volbench.machine.placement.interface import Job, Placement, TemplateScope
from volbench.machine.placement.kubernetes import manifests
from volbench.machine.placement.kubernetes.cell_objects import CellObjects, cell_name
from volbench.machine.placement.kubernetes.claim_changes import require_change
from volbench.machine.placement.kubernetes.holders import Holders
from volbench.machine.placement.kubernetes.job_access import check_s3
from volbench.machine.placement.kubernetes.node_blocks import (
    lane_of_block,
    refuse_bound_volume,
)
from volbench.machine.placement.kubernetes.options import KubernetesOptions, has_holder
from volbench.machine.placement.kubernetes.own_claims import check_dataset_claims
from volbench.machine.placement.kubernetes.own_data import OwnData
from volbench.machine.placement.kubernetes.placement import KubernetesPlacement
from volbench.machine.placement.kubernetes.requests import server_requests
from volbench.machine.placement.kubernetes.rights import missing_rights
from volbench.machine.placement.kubernetes.run_nodes import RunNodes, holder_key
from volbench.machine.placement.kubernetes.run_watch import RunWatch
from volbench.machine.placement.kubernetes.s3_access import leaves_the_cluster
from volbench.machine.placement.kubernetes.snapshots.manifests import COMPONENT as SNAPSHOT
from volbench.machine.placement.kubernetes.snapshots.manifests import SnapshotPlan
from volbench.machine.placement.kubernetes.snapshots.measure import require_snapshots
from volbench.machine.placement.kubernetes.snapshots.requests import RequestedSnapshots
from volbench.machine.placement.workspace import Workspace
from volbench.machine.volume.emulated.control import CONTROL_SOCKET
from volbench.machine.volume.interface import OpenVolume
from volbench.machine.volume.kinds.claim_facts import fits_node, persistent_volume
from volbench.machine.volume.kinds.run_owner import NOT_OWNER, RunOwner, owned

_COMPONENT = "app.kubernetes.io/component"
_POLL_S = 0.5


class KubernetesTarget:
    """Jobs in one namespace of a cluster."""

    name = "kubernetes"
    templates: TemplateScope = "volume"
    with_snapshots = False
    """Steps of the run take snapshots of volumes."""
    with_s3 = False
    """The run dumps to a bucket, or loads a dump from one."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        cluster: Cluster,
        options: KubernetesOptions,
        owner: RunOwner,
        tools: str = "",
        measured_nodes: Mapping[str, str] | None = None,
        volume_options: Mapping[str, KubernetesOptions] | None = None,
        blocks: int = 1,
        measured_blocks: Mapping[int, str] | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            owner: owns all objects of the run, and is extended while the run goes on.
            tools: name of the tools image; empty: that of this code, which the nodes must have or be able to pull.
            measured_nodes: volume -> name of the node that earlier cells of the run measured it on.
            volume_options: of volumes whose cells run elsewhere than those of others.
            blocks: of the run, which are spread over `nodes` of the options.
            measured_blocks: block -> name of the node that earlier cells of the run measured it on.
        """
        self._workspace = workspace
        self._cluster = cluster
        self._options = options
        self._owner = owner
        self.parallel = options.parallel
        self._watch = RunWatch(cluster, workspace.run_id)
        self._tools = tools or image_names.tools_image()
        self._blocks = blocks
        self._holders = Holders(cluster, workspace.run_id, owner=owner, image=self._tools)
        self._run_nodes = RunNodes(
            cluster,
            workspace.run_id,
            options=options,
            holders=self._holders,
            measured_nodes=measured_nodes,
            volume_options=volume_options,
            blocks=blocks,
            measured_blocks=measured_blocks,
        )
        self._nodes: dict[str, dict[str, Any] | None] = {}
        self.own = OwnData(run_id=workspace.run_id)

    def check(self) -> None:
        """Check that the cluster answers and grants the permissions that a run needs."""
        self._cluster.ask("GET", "/version", doing="reading the cluster's version")
        self._cluster.check_namespace()
        missing = missing_rights(self._cluster)
        if missing:
            raise MissingPrerequisite(
                f"permissions are missing in namespace {self._cluster.namespace}",
                where="kubernetes target",
                evidence=", ".join(missing),
                next_step=RULES,
                cause="no_permission",
            )
        if self._options.queue:
            check_queue(self._cluster, self._options.queue)
        if self.with_snapshots:
            require_snapshots(self._cluster)
        if self.with_s3:
            check_s3(self._cluster, self._options)
        check_dataset_claims(self._cluster, self.own, options=self._options)

    def lane_of(self, cell: PlannedCell) -> str:
        """Return the lane of the cell's node, of a run on several."""
        return lane_of_block(cell.block, blocks=self._blocks, nodes=self._options.nodes)

    def with_server(self, cell: CellSpec, volume: OpenVolume | None) -> CellSpec:
        """Return the cell with paths inside the pod; the dataset's template is on the volume itself."""
        paths = pod_paths(self._workspace.volume_folder)
        if volume is not None and volume.emulator_claim is not None:
            paths = paths.model_copy(update={"emulator_socket": f"{manifests.EMULATOR}/{CONTROL_SOCKET}"})
        return self.own.in_pod(cell.model_copy(update={"places": paths}))

    def launch(self, job: Job) -> Placement:
        """Create the attempt's config map and job, and that of the user's own files, unless they exist."""
        self._require_change(job)
        options = self._run_nodes.options_of(job.volume)
        apart = options.parallel > 1 and not options.share_nodes
        near = self._run_nodes.node_of(job) if has_holder(options) else ""
        if options.nodes > 1:
            self._refuse_bound(job, near)
        self._holders.extend(job.cell.deadline_s)
        is_held = bool(near) and self._run_nodes.hold(job, near)
        further = options.nodes > 1 and not is_held
        if further:
            self._run_nodes.hold_measured(job)
        cell = replace(
            objects_of(job, options=options, tools=self._tools, apart=apart, own=self.own),
            near=holder_key(self._run_nodes.pool_of(job)) if is_held else "",
            node=near,
            pinned=is_held and options.pin_node and self._fits(job, near),
            further=further,
        )
        doing = f"launching cell {cell.cell_id}, attempt {cell.attempt}"
        self._owner.extend()
        references = self._owner.references()
        if self.own.files:
            carrying = "carrying the user's own files to the pods"
            self._cluster.apply_once("configmaps", owned(self.own.config_map(), references), doing=carrying)
        self._cluster.apply_once("configmaps", owned(manifests.config_map(cell), references), doing=doing)
        self._cluster.apply_once(self._cluster.jobs(), owned(manifests.job(cell), references), doing=doing)
        return self.find(job)

    def find(self, job: Job) -> Placement:
        """Return the attempt's job and pod."""
        options = self._run_nodes.options_of(job.volume)
        note = partial(self._run_nodes.note, self._run_nodes.pool_of(job), options)
        snapshots = self._requested_snapshots(job, options)
        return KubernetesPlacement(
            self._cluster,
            job,
            options,
            on_node=note,
            on_poll=self._extend,
            watch=self._watch,
            on_request=snapshots.follow,
            on_end=snapshots.end,
        )

    def _extend(self) -> None:
        self._owner.extend()
        self._holders.extend()

    def close_volume(self, volume: OpenVolume) -> None:
        """Erase the run's directories on a claim that stays."""
        if volume.spec.kind == "pvc" and volume.claim is not None and not self._options.keep:
            self._erase(volume, volume.claim)

    def clean_up(self) -> None:
        """Remove every object with the run's label except claims, and wait until no pod is left.

        The owner of claims that stay for `resume` stays with them for `ttl`.
        """
        self._watch.close()
        if self._options.keep:
            self._owner.end(objects_stay=True)
            return
        selector = f"{LABEL_RUN}={self._workspace.run_id}"
        doing = "removing the run's objects"
        for path in (self._cluster.jobs(), "configmaps"):
            for item in self._cluster.ask("GET", path, doing=doing, labelSelector=f"{selector},{NOT_OWNER}")[
                "items"
            ]:
                self._cluster.delete(f"{self._cluster.object_path(path)}/{item['metadata']['name']}", doing=doing)
        claims = self._cluster.ask("GET", "persistentvolumeclaims", doing=doing, labelSelector=selector)["items"]
        claims = [claim["metadata"] for claim in claims if "deletionTimestamp" not in claim["metadata"]]
        restored = [claim for claim in claims if claim["labels"].get(_COMPONENT) == SNAPSHOT]
        for claim in restored:  # of a snapshot whose orchestrator was killed
            self._cluster.delete(f"persistentvolumeclaims/{claim['name']}", doing=doing)
        self._owner.end(objects_stay=len(claims) > len(restored))
        until_s = time.monotonic() + self._options.start_timeout_s
        while pods := self._cluster.ask("GET", "pods", doing=doing, labelSelector=selector)["items"]:
            if time.monotonic() > until_s:
                names = ", ".join(pod["metadata"]["name"] for pod in pods)
                raise StepFailed("pods do not end", where=doing, evidence=names, cause="node_lost")
            time.sleep(_POLL_S)

    def _requested_snapshots(self, job: Job, options: KubernetesOptions) -> RequestedSnapshots:
        cell = job.cell
        plan = SnapshotPlan(
            run_id=self._workspace.run_id,
            claim=(job.volume and job.volume.claim) or "",
            image=self._tools,
            options=options,
            request=cell_name(cell.run_id, cell.cell_id, cell.attempt),
            directory=str(PurePosixPath(cell.own_places.data_dir).relative_to(manifests.VOLUME_ROOT)),
        )
        changes = claim_changes(cell.steps)
        count = (len(changes) or len(snapshot_steps(cell.steps))) if job.kind == "run" else 0
        return RequestedSnapshots(self._cluster, plan, self._owner.references, requests_max=count, changes=changes)

    def _require_change(self, job: Job) -> None:
        """Raise UsageError, MissingPrerequisite for a change of the claim that cannot be made."""
        for step in claim_changes(job.cell.steps).values():
            if step.claim_change is not None and job.volume is not None and job.volume.claim is not None:
                require_change(self._cluster, job.volume.claim, step.claim_change)

    def _refuse_bound(self, job: Job, node_name: str) -> None:
        """Raise MissingPrerequisite for a user's claim that cannot be on several nodes, or on this block's."""
        if job.volume is None or job.volume.claim is None or job.volume.spec.kind != "pvc":
            return
        doing = f"looking where claim {job.volume.claim} can be used"
        claim = self._cluster.ask("GET", f"persistentvolumeclaims/{job.volume.claim}", doing=doing)
        volume = persistent_volume(self._cluster, claim)
        node = self._node(node_name, doing=doing) if node_name else None
        refuse_bound_volume(job.volume.name, claim, volume, node=node, nodes=self._options.nodes)

    def _node(self, name: str, *, doing: str) -> dict[str, Any] | None:
        if self._nodes.get(name) is None:
            self._nodes[name] = self._cluster.ask_if_allowed(f"/api/v1/nodes/{name}", doing=doing)
        return self._nodes[name]

    def _fits(self, job: Job, node_name: str) -> bool:
        """Return whether the claim's own topology certainly allows the node."""
        if job.volume is None or job.volume.claim is None:
            return False
        doing = f"looking where claim {job.volume.claim} can be used"
        claim = self._cluster.ask("GET", f"persistentvolumeclaims/{job.volume.claim}", doing=doing)
        class_name = claim["spec"].get("storageClassName")
        storage_class = class_name and self._cluster.ask_if_allowed(
            f"/apis/storage.k8s.io/v1/storageclasses/{class_name}", doing=doing
        )
        volume = persistent_volume(self._cluster, claim)
        return fits_node(claim, volume, self._node(node_name, doing=doing), node_name, storage_class)

    def _erase(self, volume: OpenVolume, claim: str) -> None:
        """Run a job on the claim that removes volbench's directories, and nothing without the marker."""
        paths = pod_paths(self._workspace.volume_folder)
        eraser = manifests.eraser(
            run_id=self._workspace.run_id,
            volume=volume.name,
            claim=claim,
            tools_image=self._tools,
            directories=(paths.volume_dir, paths.template_dir),
            options=self._run_nodes.options_of(volume),
        )
        name, doing = eraser["metadata"]["name"], f"erasing the run's directories on claim {claim}"
        self._cluster.apply_once(self._cluster.jobs(), owned(eraser, self._owner.references()), doing=doing)
        until_s = time.monotonic() + self._options.start_timeout_s
        status: dict[str, Any] = {}
        while not (status.get("succeeded") or status.get("failed")):
            job = self._cluster.ask("GET", self._cluster.jobs(name), doing=doing)
            join_queue(self._cluster, job, self._options.queue, doing=doing)
            status = job["status"]
            if status.get("failed") or time.monotonic() > until_s:
                raise StepFailed(
                    "the run's directories were not erased",
                    where=f"claim {claim}",
                    evidence=str(status),
                    next_step=f"remove {paths.volume_dir} and {paths.template_dir} by hand",
                )
            time.sleep(_POLL_S)
        self._cluster.delete(self._cluster.jobs(name), doing=doing)


def pod_paths(folder: str) -> CellPlaces:
    """Return the paths in the pod, with the run's directory on the volume."""
    directory = PurePosixPath(manifests.VOLUME_ROOT) / folder
    return CellPlaces(
        volume_dir=str(directory),
        data_dir=str(directory / "data"),
        control_dir=manifests.CONTROL,
        template_dir=f"{directory}-templates",
        scratch_dir=manifests.SCRATCH,
        supervisor="waiting",
        snapshots=True,
    )


def objects_of(
    job: Job, *, options: KubernetesOptions, tools: str, own: OwnData, apart: bool = False
) -> CellObjects:
    """Return the data for the manifests of an attempt.

    Raises MissingPrerequisite for a volume that is not a claim.
    """
    if job.volume is None or job.volume.claim is None:
        raise MissingPrerequisite("a cell in a cluster needs a claim", where=f"cell {job.cell.cell_id}")
    return CellObjects(
        run_id=job.cell.run_id,
        cell_id=job.cell.cell_id,
        attempt=job.cell.attempt,
        kind=job.kind,
        cell_json=job.cell.model_dump_json(indent=1, by_alias=True),
        supervisor=job.supervisor_script.decode(),
        claim=job.volume.claim,
        server_image=server_image(job.cell.server),
        tools_image=tools,
        paths=job.cell.own_places,
        deadline_s=job.cell.deadline_s,
        options=options,
        apart=apart,
        emulator_claim=job.volume.emulator_claim or "",
        server_requests=server_requests(job.cell),
        inputs=own.inputs(job.cell, job.kind),
        outbound=leaves_the_cluster(job.cell.dataset, job.cell.steps, job.kind),
    )


def server_image(server: ServerSpec) -> str:
    """Return the suite's image, else the official one of its flavor and version."""
    if server.image:
        return server.image
    repository, version = OFFICIAL_IMAGES["mysql" if server.flavor == "any" else server.flavor]
    return f"{repository}:{server.version or version}"
