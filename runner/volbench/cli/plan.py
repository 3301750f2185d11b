"""`volbench plan`: what would run, in order, with the time and space it takes; touches nothing."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from volbench.analysis.credits.expected import expected
from volbench.analysis.statistics import runs_for_level
from volbench.cli import console, options
from volbench.cli.targets import choose_target, with_flavor
from volbench.errors import UsageError
from volbench.placement.attach import parse_dsn, without_password
from volbench.placement.attach import target_options as options_of_server
from volbench.placement.kubernetes.options import parse_options
from volbench.plan.cost import Cost, estimate, replacements_max
from volbench.plan.describe import sweep_lines
from volbench.plan.new_run import plan_run
from volbench.plan.order import Treatment
from volbench.plan.variants import spread
from volbench.plan.volume_check import check_volumes, forecast_faults, suite_volume_faults
from volbench.records.base import Scalar
from volbench.records.cell import AttachSpec
from volbench.records.facts import VolumeFacts
from volbench.records.run import ResolvedSuite, RunRecord, TargetName, VolumeSpec
from volbench.records.steps import parameters_of
from volbench.records.sweep import SweepSpec
from volbench.report.forecast import forecast_lines
from volbench.store.journal import utc_now
from volbench.store.run_directory import new_run_id
from volbench.suite.load import load_suite
from volbench.suite.model import FULL_SCALE
from volbench.suite.sweep import with_parameters
from volbench.volume.emulated.status import emulated_behind
from volbench.volume.facts.discovery import discover
from volbench.volume.facts.host import host_facts
from volbench.volume.facts.shared_storage import not_mounted_text, shared_storage


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A run that is planned and not yet on disk."""

    run: RunRecord
    cost: Cost
    attach: AttachSpec | None


def plan(
    suite: options.SuitePath,
    volume: options.Volumes = [],  # noqa: B006 - typer copies it
    target: options.TargetOption = "auto",
    settings: options.Settings = [],  # noqa: B006
    server: options.Server = "",
    target_option: options.TargetOptions = [],  # noqa: B006
    json: options.Json = False,
) -> None:
    """Show what would run, in order, with time and space needed; touches nothing."""
    planned = make_plan(
        suite, volume, target=target, settings=settings, server=server, target_options=target_option
    )
    if json:
        caveats = storage_caveats(planned.run)
        console.show_json(
            {"run": planned.run.model_dump(mode="json"), "cost": planned.cost.__dict__, "caveats": caveats}
        )
        return
    show_plan(planned)
    factors = list(planned.run.suite.sweep.factors) if planned.run.suite.sweep else []
    short = [factor.rpartition(".")[2] for factor in factors]
    table = Table("no.", "cell", "volume", *short, "block", "seed", box=None)
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
    server: str = "",
    option_file: str = "",
    tools: str = "",
    target_options: Sequence[str] = (),
) -> Planned:
    """Read the suite and the volumes and plan the run. Raises UsageError, EnvironmentLacks."""
    more_faults = forecast_faults if volumes else suite_volume_faults
    suite_file, source = load_suite(suite_path, settings=settings, more_faults=more_faults)
    chosen = choose_target("attach" if server and target == "auto" else target, tools=tools)
    attach = _attached(chosen, server, option_file)
    specs = _volumes(volumes, suite_file.volumes, chosen)
    suite = suite_file.resolved()
    suite = suite.model_copy(update={"server": with_flavor(suite.server, chosen)})
    spreads, treatments = spread(specs, suite.sweep)
    _refuse_attached_sweep(attach, suite)
    run = plan_run(
        run_id=new_run_id(suite.name),
        started_at=utc_now(),
        suite=suite,
        suite_source=source,
        volumes=spreads,
        treatments=treatments,
        target=chosen,
        target_options=_target_options(chosen, attach, tools, target_options),
        command=["volbench", *map(without_password, sys.argv[1:])],
        host=host_facts(),
    )
    return Planned(run=run, cost=_cost(suite, treatments), attach=attach)


def _cost(suite: ResolvedSuite, treatments: Sequence[Treatment]) -> Cost:
    """The costs of all treatments together; space is that of the largest, since cells run one after the other."""
    costs = [estimate(with_parameters(suite, t.parameters), volumes=1) for t in treatments]
    return Cost(
        cells=sum(cost.cells for cost in costs),
        wall_s=sum(cost.wall_s for cost in costs),
        measured_s=sum(cost.measured_s for cost in costs),
        template_bytes=max(cost.template_bytes for cost in costs),
        volume_bytes=max(cost.volume_bytes for cost in costs),
    )


def _refuse_attached_sweep(attach: AttachSpec | None, suite: ResolvedSuite) -> None:
    fixed = [key for key in (suite.sweep.factors if suite.sweep else ()) if not key.startswith("steps.")]
    if attach is not None and fixed:
        raise UsageError(
            f"an attached server is taken as it is: {fixed[0]} cannot be varied",
            where="sweep",
            next_step="vary parameters of steps only, or choose another target",
        )


def show_plan(planned: Planned) -> None:
    """What is run where, and what it costs, in a few lines."""
    run, cost = planned.run, planned.cost
    suite = run.suite
    out = console.out
    scale = "" if suite.scale == FULL_SCALE else f" at scale {suite.scale}"
    out.print(f"suite {suite.name}{scale}: {suite.description}", markup=False)
    out.print(f"target {run.target}, engine {suite.server.flavor} {suite.server.version or '(what is there)'}")
    for volume in run.volumes:
        out.print(f"  volume {volume.name} = {volume.text}{_free(volume)}", markup=False)
    for line in storage_caveats(run):
        out.print(f"  caveat: {line}", markup=False)
    for step in suite.steps:
        shown = ", ".join(f"{name}={value}" for name, value in parameters_of(step).items())
        out.print(f"  step {step.name}: {step.kind} {shown}", markup=False)
    if suite.sweep is not None:
        for line in (*sweep_lines(suite.sweep), *_too_few(suite, suite.sweep)):
            out.print(f"  {line}", markup=False)
    for line in _forecasts(planned.run):
        out.print(f"  forecast: {line}", markup=False)
    per = "volume" if suite.sweep is None else "combination"
    out.print(
        f"{cost.cells} cells ({suite.repeats} per {per}), about {duration(cost.wall_s)}, "
        f"{duration(cost.measured_s)} of it measured"
    )
    spare = replacements_max(run)
    if spare:
        more = duration(cost.wall_s * spare / len(run.cells))
        out.print(f"at most {spare} cells more, about {more}, for cells that something outside makes invalid")
    out.print(
        f"space: about {mib(cost.volume_bytes)} on each volume while a cell runs, "
        f"{mib(cost.template_bytes)} once in the cache"
    )


def volumes_share_storage(run: RunRecord) -> bool:
    """Return whether two volumes with different directories lie on one piece of storage.

    A directory that is named twice is a comparison of a volume with itself, which nobody asks for by mistake.
    """
    places = {volume.name: volume.place for volume in run.volumes}
    return any(places[one.volumes[0]] != places[one.volumes[1]] for one in shared_storage(_visible_facts(run)))


def storage_caveats(run: RunRecord) -> list[str]:
    """Return what is odd about the directories of a plan: storage that volumes share, nothing mounted there."""
    facts = _visible_facts(run)
    places = {volume.name: volume.place for volume in run.volumes}
    missing = (not_mounted_text(name, places[name], one) for name, one in facts.items())
    return [*(one.text for one in shared_storage(facts)), *filter(None, missing)]


def _visible_facts(run: RunRecord) -> dict[str, VolumeFacts]:
    """What is behind the directories of the plan's `path:` volumes, where this machine has them."""
    if run.target not in ("local", "docker"):
        return {}
    return {
        volume.name: facts
        for volume in run.volumes
        if volume.kind == "path" and not volume.variant_of and Path(volume.place).is_dir()
        if emulated_behind((facts := discover(Path(volume.place))).mount_point) is None
    }


def _forecasts(run: RunRecord) -> Iterator[str]:
    spec = run.suite.forecast
    if spec is None:
        return
    for volume in run.volumes:
        found = expected(spec, volume)
        if found is not None:
            yield from forecast_lines(spec, found)


def _too_few(suite: ResolvedSuite, sweep: SweepSpec) -> Iterator[str]:
    """That the exact test cannot decide anything with so few repeats, corrected over so many levels."""
    levels = sum(len(factor.levels) for factor in sweep.factors.values())
    needed = runs_for_level(alpha=1 - suite.comparison.confidence, family=levels)
    if sweep.design == "one_factor" and suite.repeats < needed:
        yield f"{suite.repeats} repeats decide nothing between {levels} levels and the base: {needed} can"


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def mib(size_bytes: float) -> str:
    """`340 MiB`, `12.5 GiB`."""
    return f"{size_bytes / 2**20:.0f} MiB" if size_bytes < 2**30 else f"{size_bytes / 2**30:.1f} GiB"


def command_line(argv: Sequence[str]) -> str:
    """The command as one would type it."""
    return shlex.join(argv)


def _attached(target: str, server: str, option_file: str) -> AttachSpec | None:
    """The server that runs already; a DSN is read, and a password in it refused, whatever the target is."""
    attach = parse_dsn(server, option_file=option_file) if server or target == "attach" else None
    if attach is not None and target != "attach":
        raise UsageError(
            f"the {target} target starts a server of its own",
            where="--server",
            next_step="add --target attach, or leave --server out",
        )
    return attach


def _target_options(target: str, attach: AttachSpec | None, tools: str, given: Sequence[str]) -> dict[str, Scalar]:
    """What run.json keeps of how cells are placed."""
    if given and target != "kubernetes":
        raise UsageError(
            f"the {target} target has no such options", where="--target-option", next_step="leave it out"
        )
    if attach is not None:
        return options_of_server(attach)
    return {**parse_options(given), **({"tools": tools} if tools else {})}


def _volumes(given: Sequence[str], of_suite: dict[str, str], target: TargetName) -> list[VolumeSpec]:
    if target == "attach":
        if given:
            raise UsageError(
                "an attached server keeps its own volume", where="--volume", next_step="leave --volume out"
            )
        return [VolumeSpec(name="server", kind="path", place="", text="attached server")]
    texts = list(given) or [f"{name}={spec}" for name, spec in of_suite.items()]
    return check_volumes(texts, target=target)


def _free(volume: VolumeSpec) -> str:
    if volume.kind != "path" or not volume.place or not Path(volume.place).is_dir():
        return ""
    status = os.statvfs(volume.place)
    return f" ({mib(status.f_bavail * status.f_frsize)} free)"
