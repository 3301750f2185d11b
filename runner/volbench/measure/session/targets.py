"""Selects the target of a run and makes its objects."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from volbench.core.base.extras import require
from volbench.core.base.nearest import suggestion
from volbench.core.profile.claim_path import parse_claim_path
from volbench.core.records.base import Scalar
from volbench.core.records.cell import AttachSpec, CellResult, ServerSpec
from volbench.core.records.own_files import snapshot_steps
from volbench.core.records.run import RunRecord, TargetName
from volbench.errors import UsageError, VolbenchError
from volbench.machine.placement import capabilities
from volbench.machine.placement.docker.image_names import tools_image
from volbench.machine.placement.interface import Target
from volbench.machine.placement.kubernetes.options import marks_of, parse_changes, read_options, volumes_of
from volbench.machine.placement.kubernetes.s3_access import dumps_to_s3
from volbench.machine.placement.local import LocalTarget
from volbench.machine.placement.workspace import Workspace, default_cache
from volbench.machine.volume.factory import make_volume
from volbench.machine.volume.interface import Volume
from volbench.measure.execute.attached_target import AttachedTarget
from volbench.measure.execute.volumes import volume_key
from volbench.measure.session.carried import files_of_run, suites_of_cells

if TYPE_CHECKING:
    from volbench.machine.placement.kubernetes.own_data import OwnData

_log = logging.getLogger(__name__)
NAMES: tuple[TargetName, ...] = ("local", "docker", "kubernetes", "attach")


def choose_target(requested: str, *, say: Callable[[str], None], tools: str = "") -> TargetName:
    """Return the named target; for `auto` docker where the engine and the images are available, else local.

    Args:
        requested: a target's name, or `auto`.
        say: is called with the reason for the choice.
        tools: image with volbench and the tools; empty: that of this version.

    Raises UsageError for an unknown name.
    """
    if requested == "auto":
        from volbench.machine.placement.docker.target import DockerTarget  # noqa: PLC0415 - the SDK takes 0.1 s

        try:
            DockerTarget(Workspace(run_id="none-000000", cache=default_cache()), tools=tools).check()
        except VolbenchError as error:
            say(f"target local: Docker is not available ({error.what}: {error.evidence or error.where})")
            return "local"
        say("target docker: the engine and the tools image are available")
        return "docker"
    for name in NAMES:
        if requested == name:
            return name
    raise UsageError(
        f"there is no target {requested!r}", where="--target", next_step=suggestion(requested, ("auto", *NAMES))
    )


def with_flavor(server: ServerSpec, target: TargetName) -> ServerSpec:
    """Return the server with a flavor instead of `any`: the installed one on the local target, else MySQL."""
    if server.flavor != "any":
        return server
    installed = capabilities.database_server() if target == "local" and not server.version else None
    mariadb = installed is not None and installed.present and "mariadb" in installed.evidence.lower()
    flavor = "mariadb" if mariadb else "mysql"
    _log.info(
        "engine any: %s on target %s (%s)", flavor, target, installed.evidence if installed else "not looked for"
    )
    return server.model_copy(update={"flavor": flavor})


def changed_options(run: RunRecord, texts: Sequence[str]) -> Mapping[str, Scalar] | None:
    """Return the run's target options with these instead, for a resumed run; None without. Raises UsageError."""
    if not texts:
        return None
    if run.target != "kubernetes":
        raise UsageError(
            f"the {run.target} target has no such options", where="--target-option", next_step="leave it out"
        )
    return {**run.target_options, **parse_changes(texts)}


def make_target(
    run: RunRecord,
    results: Sequence[CellResult] = (),
    *,
    attached: Mapping[str, AttachSpec] = MappingProxyType({}),
) -> tuple[Target, dict[str, Volume]]:
    """Return the run's target and its volumes by key, not yet opened; servers that run already have no volumes.

    Args:
        results: of earlier cells of the run.
        attached: servers that run already, by the name of the volume that stands for them.

    Raises MissingPrerequisite when the target's engine or cluster is not available.
    """
    workspace = Workspace(run_id=run.run_id, cache=default_cache())
    tools = str(run.target_options.get("tools", ""))
    if run.target == "kubernetes":
        return _kubernetes(run, workspace, tools, results)
    if run.target in ("local", "attach"):
        require("mysql")  # here, and not in the agent of the first cell
    if run.target == "attach":
        return AttachedTarget(workspace, attached), {}
    target: Target = _docker(workspace, tools) if run.target == "docker" else LocalTarget(workspace)
    return target, {spec.name: make_volume(spec, target=run.target, run_id=run.run_id) for spec in run.volumes}


def _docker(workspace: Workspace, tools: str) -> Target:
    from volbench.machine.placement.docker.target import DockerTarget  # noqa: PLC0415 - the SDK takes 0.1 s

    return DockerTarget(workspace, tools=tools)


def measured_nodes(run: RunRecord, results: Sequence[CellResult]) -> dict[str, str]:
    """Return volume -> the node that its last cell was measured on."""
    volume_of = {cell.cell_id: cell.volume for cell in run.cells}
    done = [result for result in results if result.status == "done" and result.cell_id in volume_of]
    return {volume_of[result.cell_id]: result.host.hostname for result in done if result.host.hostname}


def measured_blocks(run: RunRecord, results: Sequence[CellResult]) -> dict[int, str]:
    """Return block -> the node that its cells were measured on."""
    block_of = {cell.cell_id: cell.block for cell in run.cells}
    done = [result for result in results if result.status == "done" and result.cell_id in block_of]
    return {block_of[result.cell_id]: result.host.hostname for result in done if result.host.hostname}


def own_data_of(run: RunRecord) -> OwnData:
    """Return what the run's pods read of the user's own. Raise UsageError."""
    from volbench.machine.placement.kubernetes.own_data import OwnData  # noqa: PLC0415 - see _kubernetes

    datasets = [suite.dataset for suite in suites_of_cells(run)]
    paths = [parse_claim_path(dataset.path) for dataset in datasets]
    return OwnData(
        run_id=run.run_id,
        files=files_of_run(run),
        claims=tuple(dict.fromkeys(path.claim for path in paths if path is not None)),
        measured=tuple(spec.location for spec in run.volumes if spec.kind == "pvc"),
    )


def _kubernetes(
    run: RunRecord, workspace: Workspace, tools: str, results: Sequence[CellResult]
) -> tuple[Target, dict[str, Volume]]:
    # imported here: the client takes half a second, which other targets do not need
    from volbench.machine.cluster.client import Cluster  # noqa: PLC0415
    from volbench.machine.placement.kubernetes.target import KubernetesTarget  # noqa: PLC0415
    from volbench.machine.volume.kinds.run_owner import RunOwner  # noqa: PLC0415

    options = read_options(run.target_options)
    cluster = Cluster(context=options.context, namespace=options.namespace, marks=marks_of(options))
    owner = RunOwner(cluster, run.run_id, ttl_s=options.ttl_s, image=tools or tools_image(), queue=options.queue)
    target = KubernetesTarget(
        workspace,
        cluster=cluster,
        options=options,
        tools=tools,
        owner=owner,
        measured_nodes=measured_nodes(run, results),
        measured_blocks=measured_blocks(run, results),
        blocks=len({cell.block for cell in run.cells}),
        volume_options={name: read_options(run.target_options, name) for name in volumes_of(run.target_options)},
    )
    target.with_snapshots = bool(snapshot_steps(run.suite.steps))
    target.with_s3 = dumps_to_s3(run.suite.steps) or run.suite.dataset.url.startswith("s3://")
    target.own = own_data_of(run)
    volumes = {
        volume_key(spec.name, lane): make_volume(
            spec, target=run.target, run_id=run.run_id, cluster=cluster, owner=owner, keep=options.keep, lane=lane
        )
        for spec in run.volumes
        for lane in (dict.fromkeys(map(target.lane_of, run.cells)) if spec.kind == "storage-class" else ("",))
    }
    return target, volumes
