"""`volbench plan`: the cells of a run in order, with the time and space that they need; changes nothing."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from volbench.analysis.credits.prices import load_prices
from volbench.analysis.sequential import FIRST_WEIGHT, NODES_LOOK_LEVEL
from volbench.base.text import duration, size
from volbench.cli import console, options
from volbench.cli.runs import own_data
from volbench.cli.runs.price import nodes_at_once, price_line, price_run
from volbench.cli.runs.space import free_space_text, space_caveats
from volbench.cli.targets import choose_target, with_flavor
from volbench.errors import UsageError
from volbench.placement.attach import parse_servers, server_volumes, without_password
from volbench.placement.attach import target_options as options_of_server
from volbench.placement.kubernetes.node_blocks import blocks_by_node, check_blocks, smallest_p
from volbench.placement.kubernetes.options import (
    KubernetesOptions,
    check_volume_names,
    parse_options,
    read_options,
)
from volbench.plan.cost import Cost, buffer_pool_bytes, dataset_bytes, estimate, replacements_max
from volbench.plan.describe import sweep_lines
from volbench.plan.new_run import plan_run
from volbench.plan.order import Treatment
from volbench.plan.variants import expand_variants
from volbench.plan.volume_check import check_volumes, forecast_faults, suite_volume_faults
from volbench.profile.shared_storage import not_mounted_text, shared_storage
from volbench.records.base import Scalar
from volbench.records.cell import AttachSpec
from volbench.records.facts import VolumeFacts
from volbench.records.run import CELLS_UNTIL_DECIDED, ResolvedSuite, RunRecord, TargetName, VolumeSpec
from volbench.records.sweep import SweepSpec
from volbench.store.journal import utc_now
from volbench.store.run_directory import new_run_id
from volbench.suite.load import load_suite
from volbench.suite.model import FULL_SCALE
from volbench.suite.sweep import with_parameters
from volbench.volume.emulated.status import emulated_behind
from volbench.volume.facts.discovery import discover
from volbench.volume.facts.host import host_facts


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A planned run that is not yet on disk."""

    run: RunRecord
    cost: Cost
    attached: Mapping[str, AttachSpec]


def plan(
    suite: options.SuitePath,
    volume: options.Volumes = [],  # noqa: B006 - typer copies it
    target: options.TargetOption = "auto",
    settings: options.Settings = [],  # noqa: B006
    until: options.Until = None,
    server: options.Servers = [],  # noqa: B006
    target_option: options.TargetOptions = [],  # noqa: B006
    json: options.Json = False,
) -> None:
    """Show the cells of a run in order, with the time and space they need; changes nothing."""
    planned = make_plan(
        suite, volume, target=target, settings=until_settings(until, settings), servers=server,
        target_options=target_option,
    )  # fmt: skip
    if json:
        caveats = caveats_of(planned)
        console.show_json(
            {"run": planned.run.model_dump(mode="json"), "cost": planned.cost.__dict__, "caveats": caveats}
        )
        return
    show_plan(planned)
    factors = list(planned.run.suite.sweep.factors) if planned.run.suite.sweep else []
    factor_names = [factor.rpartition(".")[2] for factor in factors]
    table = Table("no.", "cell", "volume", *factor_names, "block", "seed", box=None)
    for number, cell in enumerate(planned.run.cells, start=1):
        values = [str(cell.parameters[factor]) for factor in factors]
        table.add_row(str(number), cell.cell_id, cell.volume, *values, str(cell.block + 1), str(cell.seed))
    console.out.print(table)


def make_plan(
    suite_path: Path,
    volumes: Sequence[str],
    *,
    target: str,
    settings: Sequence[str],
    servers: Sequence[str] = (),
    option_files: Sequence[str] = (),
    tools: str = "",
    target_options: Sequence[str] = (),
) -> Planned:
    """Return the planned run of a suite on volumes. Raises UsageError, EnvironmentLacks."""
    more_faults = forecast_faults if volumes else suite_volume_faults
    suite_file, source = load_suite(suite_path, settings=settings, more_faults=more_faults)
    target_name = choose_target("attach" if servers and target == "auto" else target, say=console.say, tools=tools)
    suite_file = own_data.with_download(suite_file)
    own_data.check(suite_file, suite_path, target_name)
    attached = _attached(target_name, servers, option_files)
    specs = server_volumes(attached) if attached else _volumes(volumes, suite_file.volumes, target_name)
    if attached and volumes:
        raise UsageError(
            "an attached server keeps its own volume", where="--volume", next_step="leave --volume out"
        )
    suite = suite_file.resolved()
    suite = suite.model_copy(update={"server": with_flavor(suite.server, target_name)})
    spreads, treatments = expand_variants(specs, suite.sweep)
    chosen_options = _target_options(target_name, attached, tools, target_options)
    if target_name == "kubernetes":
        check_volume_names(chosen_options, [spec.name for spec in specs])
        _check_nodes(suite, specs, read_options(chosen_options))
    _refuse_attached_sweep(attached, suite)
    run = plan_run(
        run_id=new_run_id(suite.name),
        started_at=utc_now(),
        suite=suite,
        suite_source=source,
        volumes=spreads,
        treatments=treatments,
        target=target_name,
        target_options=chosen_options,
        command=["volbench", *map(without_password, sys.argv[1:])],
        host=host_facts(),
    )
    return Planned(run=run, cost=_cost(suite, treatments), attached=attached)


def _check_nodes(suite: ResolvedSuite, specs: Sequence[VolumeSpec], chosen: KubernetesOptions) -> None:
    """Raise UsageError for several nodes on which the run's cells cannot be spread, or not at once."""
    shared = [spec.name for spec in specs if spec.kind == "pvc"]
    check_blocks(blocks=suite.repeats, nodes=chosen.nodes, parallel=chosen.parallel, shared=shared)
    if chosen.nodes > 1 and chosen.parallel > 1 and suite.comparison.until == "decided":
        raise UsageError(
            "a run until it is decided measures one repeat after the other, so nodes cannot run at once",
            where="--target-option parallel", next_step="leave out `parallel`, or `--until decided`",
        )  # fmt: skip


def until_settings(until: options.UntilMode | None, settings: Sequence[str]) -> list[str]:
    """Return the values of the suite that `--until` stands for; those that `--set` gives come after and win."""
    if until is None:
        return list(settings)
    repeats = [f"repeats={CELLS_UNTIL_DECIDED[1]}"] if until is options.UntilMode.DECIDED else []
    return [f"comparison.until={until.value}", *repeats, *settings]


def _cost(suite: ResolvedSuite, treatments: Sequence[Treatment]) -> Cost:
    """Return the cost of all treatments together; space is that of the largest, since cells run in sequence."""
    costs = [estimate(with_parameters(suite, t.parameters), volumes=1, volume=t.volume) for t in treatments]
    return Cost(
        cells=sum(cost.cells for cost in costs),
        wall_s=sum(cost.wall_s for cost in costs),
        measured_s=sum(cost.measured_s for cost in costs),
        template_bytes=max(cost.template_bytes for cost in costs),
        volume_bytes=max(cost.volume_bytes for cost in costs),
    )


def _refuse_attached_sweep(attached: Mapping[str, AttachSpec], suite: ResolvedSuite) -> None:
    fixed = [key for key in (suite.sweep.factors if suite.sweep else ()) if not key.startswith("steps.")]
    if attached and fixed:
        raise UsageError(
            f"volbench does not configure an attached server: {fixed[0]} cannot be varied",
            where="sweep",
            next_step="vary parameters of steps only, or choose another target",
        )


def _work(suite: ResolvedSuite) -> Iterator[str]:
    """Yield a line for a download, and one for each step."""
    if suite.dataset.url:
        yield f"  dataset {suite.dataset.url}, downloaded to {suite.dataset.path}"
    for step in suite.steps:
        parameters = ", ".join(f"{name}={value}" for name, value in step.parameters().items())
        yield f"  step {step.name}: {step.kind} {parameters}"


def show_plan(planned: Planned) -> None:
    """Print target, volumes, steps and cost of a planned run."""
    run, cost = planned.run, planned.cost
    suite = run.suite
    out = console.out
    scale = "" if suite.scale == FULL_SCALE else f" at scale {suite.scale}"
    out.print(f"suite {suite.name}{scale}: {suite.description}", markup=False)
    out.print(f"target {run.target}, engine {suite.server.flavor} {suite.server.version or '(installed version)'}")
    for volume in run.volumes:
        out.print(f"  volume {volume.name} = {volume.text}{free_space_text(volume)}", markup=False)
    for line in caveats_of(planned):
        out.print(f"  caveat: {line}", markup=False)
    for line in _work(suite):
        out.print(line, markup=False)
    if suite.sweep is not None:
        for line in (*sweep_lines(suite.sweep), *_too_few_repeats(suite, suite.sweep)):
            out.print(f"  {line}", markup=False)
    for line in (*_nodes(run), *(f"  forecast: {text}" for text in _forecasts(run))):
        out.print(line, markup=False)
    per = "volume" if suite.sweep is None else "combination"
    at_most = "at most " if suite.comparison.until == "decided" else ""
    wall_s = cost.wall_s / (nodes_at_once(run) if run.target == "kubernetes" else 1)
    out.print(
        f"{at_most}{cost.cells} cells ({suite.repeats} per {per}), about {duration(round(wall_s))}, "
        f"{duration(round(cost.measured_s))} of it measured"
    )
    if at_most and len(run.volumes) > 1:
        fewest = CELLS_UNTIL_DECIDED[0] * len(run.volumes)
        shortest = duration(round(cost.wall_s * fewest / cost.cells))
        out.print(f"the run stops when all pairs have a verdict: after {fewest} cells ({shortest}) or later")
    spare = replacements_max(run)
    if spare:
        more = duration(round(cost.wall_s * spare / len(run.cells)))
        out.print(
            f"at most {spare} more cells, about {more}, to replace cells that outside disturbances make invalid"
        )
    out.print(
        f"space: about {size(cost.volume_bytes)} on each volume during a cell, "
        f"{size(cost.template_bytes)} in the cache"
    )
    if run.target == "kubernetes":
        out.print(price_line(price_run(run, cost, load_prices())), markup=False)


def volumes_share_storage(run: RunRecord) -> bool:
    """Return whether two volumes with different directories share their storage.

    A directory that is named twice is a deliberate comparison of a volume with itself.
    """
    directories = {volume.name: volume.location for volume in run.volumes}
    return any(
        directories[shared.volumes[0]] != directories[shared.volumes[1]]
        for shared in shared_storage(_visible_facts(run))
    )


def caveats_of(planned: Planned) -> list[str]:
    """Return caveats on the plan's directories, and on their free space."""
    return [
        *storage_caveats(planned.run),
        *space_caveats(planned.run, planned.cost.volume_bytes),
        *_memory_caveats(planned.run),
    ]


def _memory_caveats(run: RunRecord) -> Iterator[str]:
    """Yield a line where the load's data fit in the server's memory: its reads then say nothing about a volume."""
    loads = any(step.kind == "oltp" for step in run.suite.steps)
    if not loads or run.target == "attach" or run.suite.dataset.is_own:
        return
    data, pool = dataset_bytes(run.suite.dataset), buffer_pool_bytes(run.suite.server)
    if data <= pool:
        yield (
            f"The data ({size(data)}) fit in the buffer pool ({size(pool)}): once read, they come from memory, and"
            " only writes show the volume. Use more rows, or a smaller innodb_buffer_pool_size."
        )


def storage_caveats(run: RunRecord) -> list[str]:
    """Return caveats on the directories of a plan: missing, not a mount point, on the same storage."""
    facts = _visible_facts(run)
    directories = {volume.name: volume.location for volume in run.volumes}
    not_mounted = (not_mounted_text(name, directories[name], volume_facts) for name, volume_facts in facts.items())
    shared = (pair.text for pair in shared_storage(facts))
    return [*_missing_directories(run), *shared, *filter(None, not_mounted)]


def _missing_directories(run: RunRecord) -> Iterator[str]:
    for volume in run.volumes if run.target in ("local", "docker") else ():
        if volume.kind != "path" or volume.variant_of or Path(volume.location).is_dir():
            continue
        if os.path.lexists(volume.location):
            yield f"Volume {volume.name}: {volume.location} is not a directory. Name the directory of the volume."
        else:
            yield f"Volume {volume.name}: {volume.location} does not exist on this machine. Mount the volume there."


def _visible_facts(run: RunRecord) -> dict[str, VolumeFacts]:
    """Return the facts of the plan's `path:` volumes whose directories this machine has."""
    if run.target not in ("local", "docker"):
        return {}
    return {
        volume.name: facts
        for volume in run.volumes
        if volume.kind == "path" and not volume.variant_of and Path(volume.location).is_dir()
        if emulated_behind((facts := discover(Path(volume.location))).mount_point) is None
    }


def _forecasts(run: RunRecord) -> Iterator[str]:
    spec = run.suite.forecast
    if spec is None:
        return
    from volbench.analysis.credits.expected import expected  # noqa: PLC0415 - most suites forecast nothing: numpy
    from volbench.report.rows.forecast import forecast_lines  # noqa: PLC0415
    from volbench.report.rows.prediction import prediction_lines  # noqa: PLC0415

    yield from prediction_lines(spec)
    for volume in run.volumes:
        forecast = expected(spec, volume)
        if forecast is not None:
            yield from forecast_lines(spec, forecast)


def _nodes(run: RunRecord) -> Iterator[str]:
    """Yield how a run's repeats are spread over several nodes, and whether that many can give a verdict."""
    nodes, repeats = int(run.target_options.get("nodes", 1)), run.suite.repeats
    if nodes < 2:
        return
    counts = ", ".join(map(str, blocks_by_node(repeats, nodes)))
    parallel = int(run.target_options.get("parallel", 1))
    order = f"{parallel} at once" if parallel > 1 else "one after the other"
    yield f"{nodes} nodes, {order}, with {counts} repeats of each volume; compared within nodes"
    level = NODES_LOOK_LEVEL if run.suite.comparison.until == "decided" else 1 - run.suite.comparison.confidence
    if (smallest := smallest_p(repeats, nodes)) >= level * FIRST_WEIGHT:
        yield f"  caveat: no p can be below {smallest:.2g}, too much for a verdict: more repeats, or fewer nodes"


def _too_few_repeats(suite: ResolvedSuite, sweep: SweepSpec) -> Iterator[str]:
    """Yield a warning when the exact test cannot decide anything with these repeats and levels."""
    from volbench.analysis.ranks.sample_size import runs_for_level  # noqa: PLC0415 - numpy

    levels = sum(len(factor.levels) for factor in sweep.factors.values())
    needed = runs_for_level(level=(1 - suite.comparison.confidence) / levels)
    if sweep.design == "one_factor" and suite.repeats < needed:
        yield f"{suite.repeats} repeats cannot decide between {levels} levels and the base: {needed} repeats can"


def command_line(argv: Sequence[str]) -> str:
    """Return the command as typed in a shell."""
    return shlex.join(argv)


def _attached(target: str, servers: Sequence[str], option_files: Sequence[str]) -> dict[str, AttachSpec]:
    """Return the servers to attach to. A DSN is checked, and a password in it refused, whatever the target is."""
    attached = parse_servers(servers, option_files) if servers or target == "attach" else {}
    if attached and target != "attach":
        raise UsageError(
            f"the {target} target starts its own server",
            where="--server",
            next_step="add --target attach, or leave --server out",
        )
    return attached


def _target_options(
    target: str, attached: Mapping[str, AttachSpec], tools: str, texts: Sequence[str]
) -> dict[str, Scalar]:
    """Return the options of the target for run.json."""
    if texts and target != "kubernetes":
        raise UsageError(
            f"the {target} target has no such options", where="--target-option", next_step="leave it out"
        )
    if attached:
        return options_of_server(attached)
    return {**parse_options(texts), **({"tools": tools} if tools else {})}


def _volumes(arguments: Sequence[str], suite_volumes: dict[str, str], target: TargetName) -> list[VolumeSpec]:
    pairs = list(arguments) or [f"{name}={spec}" for name, spec in suite_volumes.items()]
    return check_volumes(pairs, target=target)
