"""`volbench k8s`: a run's manifests, runs in the cluster alone, and what runs have left there."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import walk_tree

from volbench.cli import console, options
from volbench.cli.cluster import k8s_job, k8s_observe, k8s_runner
from volbench.cli.quantities import parsed
from volbench.cli.tables import show_rows
from volbench.core.base.text import counted, size
from volbench.core.base.units import MIB
from volbench.core.records.base import parse_duration_s
from volbench.core.records.run import PlannedCell, RunRecord, VolumeSpec
from volbench.machine.engine.supervisor import supervisor_script
from volbench.machine.placement.docker.image_names import tools_image
from volbench.machine.placement.interface import Job, JobKind
from volbench.machine.placement.kubernetes.node_blocks import lane_of_block
from volbench.machine.placement.kubernetes.options import marks_of, parse_options, read_options
from volbench.machine.placement.workspace import Workspace, default_cache
from volbench.machine.volume.interface import OpenVolume
from volbench.measure.execute.cell_spec import cell_spec
from volbench.measure.execute.templates import template_cells
from volbench.measure.execute.volumes import volume_key
from volbench.measure.session.planner import make_plan
from volbench.measure.session.servers import TargetRequest
from volbench.measure.session.targets import own_data_of
from volbench.results.store.run_directory import new_run_id

if TYPE_CHECKING:
    from volbench.core.records.snapshots import SnapshotTimes
    from volbench.machine.placement.kubernetes.leftovers import RunObjects
    from volbench.machine.placement.kubernetes.own_data import OwnData

app = typer.Typer(help="Runs on Kubernetes: manifests, runs without this machine, leftovers.", no_args_is_help=True)
k8s_runner.add_commands(app)
app.command("job", context_settings=k8s_job.CONTEXT_SETTINGS)(k8s_job.job)
app.command("observe")(k8s_observe.observe)
COLUMNS = ("run", "since", "started by", "jobs", "active pods", "claims", "deleted at")
TEMPLATE_KEY = "KEY-FROM-THE-TEMPLATE"


@app.callback()
def _group() -> None:
    """Runs on Kubernetes: manifests, runs without this machine, leftovers."""


@app.command("render")
def render(
    suite: options.SuitePath,
    volume: options.Volumes = [],
    settings: options.Settings = [],
    target_option: options.TargetOptions = [],
    tools: options.Tools = "",
    everything: options.Everything = False,
    json: options.Json = False,
) -> None:
    """Print the manifests of a run: owner, claims, each volume's preparation and first cell. Contacts no cluster.

    The template's key, which the preparation makes, is a placeholder.
    """
    request = TargetRequest(target="kubernetes", options=target_option, tools=tools)
    planned = make_plan(suite, volume, request, settings=settings, command=console.typed_command(), say=console.say)
    chosen = read_options(planned.run.target_options)
    namespace, marks = chosen.namespace, marks_of(chosen)
    manifests = [marks.on(manifest) for manifest in manifests_of(planned.run, everything=everything)]
    for manifest in manifests if namespace else ():
        manifest["metadata"]["namespace"] = namespace
    if json:
        console.show_json(manifests)
        return
    printer = YAML()
    printer.default_flow_style = False
    printer.width = 1000
    for manifest in manifests:
        walk_tree(manifest)  # long texts as blocks
        sys.stdout.write("---\n")
        printer.dump(manifest, sys.stdout)


Context = Annotated[str, typer.Option("--context", help="Of the kubeconfig; default: the current one.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Default: the context's.")]


@app.command("list")
def list_runs(
    namespace: Namespace = "",
    context: Context = "",
    output: options.Output = options.OutputFormat.TABLE,
    json: options.Json = False,
) -> None:
    """List runs and submitted Jobs that have objects in a namespace; claims cost while they are there."""
    from volbench.machine.cluster.client import Cluster
    from volbench.machine.placement.kubernetes.leftovers import runs_in

    with closing(Cluster(context=context, namespace=namespace)) as cluster:
        runs = runs_in(cluster)
        output = options.OutputFormat.JSON if json else output
        if not runs and output == options.OutputFormat.TABLE:
            console.say(f"no run has objects in namespace {cluster.namespace}")
            return
        show_rows(COLUMNS, [_row(run) for run in runs], output, data=[asdict(run) for run in runs])


@app.command("clean")
def clean(
    run_ids: Annotated[list[str], typer.Argument(metavar="RUN_ID...", help="As `volbench k8s list` prints them.")],
    namespace: Namespace = "",
    context: Context = "",
    force: Annotated[bool, typer.Option("--force", help="Also runs with active pods; their results go.")] = False,
    json: options.Json = False,
) -> None:
    """Delete what runs have in a namespace: jobs, pods, config maps, and claims with their data."""
    from volbench.machine.cluster.client import Cluster
    from volbench.machine.placement.kubernetes.leftovers import delete_runs

    with closing(Cluster(context=context, namespace=namespace)) as cluster:
        deleted = []
        for run in delete_runs(cluster, run_ids, force=force):
            deleted.append(asdict(run))
            console.say(f"deleted: {_described(run)}")
    if json:
        console.show_json(deleted)


@app.command("snapshot")
def snapshot(
    claim: Annotated[
        str, typer.Argument(metavar="CLAIM", help="A snapshot is taken of its volume; a server may run.")
    ],
    namespace: Namespace = "",
    context: Context = "",
    snapshot_class: Annotated[str, typer.Option(help="VolumeSnapshotClass; default: that of the driver.")] = "",
    storage_class: Annotated[str, typer.Option(help="Of the restored claim; default: that of CLAIM.")] = "",
    tools: options.Tools = "",
    user: Annotated[int, typer.Option(help="User id that may read the files; 999 is the official images'.")] = 999,
    timeout: Annotated[str, typer.Option(help="Of each of snapshot, restore and reading.")] = "1h",
    keep: Annotated[bool, typer.Option("--keep", help="Leave all of it for a day.")] = False,
    target_option: options.TargetOptions = [],
    json: options.Json = False,
) -> None:
    """Back up a claim by the snapshot API, restore it to a new claim and read that; remove all of it again.

    The data is as after a power cut: a server that starts on it recovers first.
    """
    from volbench.machine.cluster.client import Cluster
    from volbench.machine.placement.kubernetes.snapshots.manifests import SnapshotPlan
    from volbench.machine.placement.kubernetes.snapshots.measure import measure_snapshot
    from volbench.machine.volume.kinds.run_owner import RunOwner

    timeout_s = parsed(parse_duration_s, "--timeout", timeout)
    image, run_id = tools or tools_image(), new_run_id("snapshot")
    chosen = read_options({"user": user, **parse_options(target_option)})
    plan = SnapshotPlan(
        run_id=run_id,
        claim=claim,
        snapshot_class=snapshot_class,
        storage_class=storage_class,
        image=image,
        options=chosen,
    )
    with closing(Cluster(context=context, namespace=namespace, marks=marks_of(chosen))) as cluster:
        ttl_s = max(chosen.ttl_s, 3 * timeout_s)
        owner = RunOwner(cluster, run_id, ttl_s=ttl_s, image=image, queue=chosen.queue)
        try:
            times = measure_snapshot(
                cluster, plan, owner.references, timeout_s=timeout_s, keep=keep, say=console.say
            )
        finally:
            if not keep:
                owner.end(objects_stay=False)
    if json:
        console.show_json(times.model_dump())
        return
    for line in _snapshot_lines(times):
        console.out.print(line, markup=False)


def _snapshot_lines(times: SnapshotTimes) -> Iterator[str]:
    moment = "" if times.cut_s is None else f"; its data is of {times.cut_s:.0f} s after the request"
    yield f"snapshot of claim {times.claim}: ready to be restored after {times.ready_s:.0f} s{moment}"
    restored = times.restored
    if restored is None:
        return
    yield f"restored: a pod with the new volume runs after {restored.restore_s:.0f} s"
    for noun, seconds in (("first", restored.first_read_s), ("second", restored.second_read_s)):
        rate = restored.bytes / MIB / max(seconds, 1e-9)
        files = f"{restored.files} files ({size(restored.bytes)})"
        yield f"{noun} read of its {files}: {seconds:.1f} s, {rate:.0f} MiB/s"
    if restored.unreadable:
        yield f"{restored.unreadable} files could not be read: --user names a user that may"


def _row(run: RunObjects) -> tuple[str, ...]:
    claims = ", ".join(f"{name} ({size})" for name, size in run.claims)
    counts = (f"{len(run.jobs)}", f"{len(run.active_pods)}")
    return run.run_id, run.created_at, run.started_by, *counts, claims, run.expires_at or ""


def _described(run: RunObjects) -> str:
    claims = ", ".join(f"{name} ({size})" for name, size in run.claims) or "no claims"
    active = f", {counted(len(run.active_pods), 'active pod')}" if run.active_pods else ""
    expires = f", deleted by the cluster at {run.expires_at}" if run.expires_at else ""
    whose = f", started by {run.started_by}" if run.started_by else ""
    return (
        f"{run.run_id}: since {run.created_at}{whose}, {counted(len(run.jobs), 'job')}{active}, {claims}{expires}"
    )


def manifests_of(run: RunRecord, *, everything: bool) -> Iterator[dict[str, Any]]:
    """Yield the run's objects in the order of their creation; without `everything` one cell of each volume."""
    from volbench.machine.volume.kinds.claim import claim_manifest
    from volbench.machine.volume.kinds.run_owner import owner_manifest

    tools = str(run.target_options.get("tools", "")) or tools_image()
    yield owner_manifest(run.run_id, ttl_s=read_options(run.target_options).ttl_s, image=tools)
    own = own_data_of(run)
    if own.files:
        yield own.config_map()
    specs = {spec.name: spec for spec in run.volumes}
    keys = {cell.cell_id: _volume_key(run, cell, specs[cell.volume]) for cell in run.cells}
    for name, _, lane in (key.partition("@") for key in dict.fromkeys(keys.values())):
        if specs[name].kind == "storage-class":
            yield claim_manifest(specs[name], run.run_id, lane=lane)
    for template in template_cells(run, scope="volume", key_of=lambda cell: keys[cell.cell_id]):
        yield from _cell_manifests(run, template.planned, specs, template.volume, "prepare", own)
    rendered_volumes: set[str] = set()
    for cell in run.cells:
        if everything or keys[cell.cell_id] not in rendered_volumes:
            yield from _cell_manifests(run, cell, specs, keys[cell.cell_id], "run", own)
        rendered_volumes.add(keys[cell.cell_id])


def _volume_key(run: RunRecord, cell: PlannedCell, spec: VolumeSpec) -> str:
    """Return the key of the cell's volume: its name, and its node's lane if the run makes one for each node."""
    nodes = read_options(run.target_options).nodes if spec.kind == "storage-class" else 1
    blocks = len({planned.block for planned in run.cells})
    return volume_key(cell.volume, lane_of_block(cell.block, blocks=blocks, nodes=nodes))


def _cell_manifests(
    run: RunRecord,
    planned: PlannedCell,
    specs: Mapping[str, VolumeSpec],
    key: str,
    kind: JobKind,
    own: OwnData,
) -> Iterator[dict[str, Any]]:
    from volbench.machine.placement.kubernetes import manifests as kubernetes_manifests
    from volbench.machine.placement.kubernetes import target as kubernetes
    from volbench.machine.volume.kinds.claim import claim_name

    name, _, lane = key.partition("@")
    spec = specs[name]
    workspace = Workspace(run_id=run.run_id, cache=default_cache())
    directories = kubernetes.pod_paths(workspace.volume_folder)
    template_key = "" if kind == "prepare" else TEMPLATE_KEY
    cell = own.in_pod(cell_spec(run, planned, template_key=template_key).model_copy(update={"places": directories}))
    volume = OpenVolume(name=spec.name, spec=spec, claim=claim_name(spec, run.run_id, lane))
    job = Job(kind=kind, cell=cell, out=Path(), supervisor_script=supervisor_script(), volume=volume)
    choices = read_options(run.target_options, spec.variant_of or spec.name)
    tools = str(run.target_options.get("tools", "")) or tools_image()
    exclusive_nodes = choices.parallel > 1 and not choices.share_nodes
    objects = kubernetes.objects_of(job, options=choices, tools=tools, own=own, apart=exclusive_nodes)
    yield kubernetes_manifests.config_map(objects)
    yield kubernetes_manifests.job(objects)
