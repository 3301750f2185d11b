"""The plan of a run: a suite, volumes and a target become a run's record, with its cost; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from volbench.core.base.text import ignore_messages
from volbench.core.plan.cost import CELL_OVERHEAD_S, POD_OVERHEAD_S, PlanCost, estimate
from volbench.core.plan.known_predictions import known_predictions
from volbench.core.plan.new_run import plan_run
from volbench.core.plan.order import Treatment
from volbench.core.plan.step_needs import check_needs
from volbench.core.plan.variants import expand_variants
from volbench.core.plan.volume_check import forecast_faults, suite_volume_faults
from volbench.core.profile.layout import check_roles
from volbench.core.records.base import parse_duration_s
from volbench.core.records.cell import AttachSpec
from volbench.core.records.run import (
    CELLS_UNTIL_DECIDED,
    PLANNED_UNTIL_DECIDED,
    ResolvedSuite,
    RunRecord,
    VolumeSpec,
)
from volbench.core.suite.load import load_suite
from volbench.core.suite.model import SuiteFile
from volbench.core.suite.sweep import with_parameters
from volbench.errors import RunUnreadable, UsageError
from volbench.machine.host.host import host_facts
from volbench.machine.placement.attach import without_password
from volbench.machine.placement.kubernetes.node_blocks import check_blocks
from volbench.machine.placement.kubernetes.options import (
    KubernetesOptions,
    check_volume_names,
    read_options,
)
from volbench.measure.session import own_data
from volbench.measure.session.modulated import check_modulated
from volbench.measure.session.power_cuts import check_power_cuts
from volbench.measure.session.servers import TargetRequest, servers_of
from volbench.measure.session.targets import choose_target, with_flavor
from volbench.results.store.journal import utc_now
from volbench.results.store.references import check_run
from volbench.results.store.run_directory import new_run_id


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A planned run that is not yet on disk."""

    run: RunRecord
    cost: PlanCost
    attached: Mapping[str, AttachSpec]


def make_plan(
    path: Path,
    volumes: Sequence[str],
    request: TargetRequest,
    *,
    settings: Sequence[str] = (),
    command: Sequence[str] = (),
    say: Callable[[str], None] = ignore_messages,
) -> Planned:
    """Return the planned run of a suite's file on volumes. Raise UsageError, MissingPrerequisite.

    Args:
        volumes: `NAME=SPEC` each; none: those of the suite.
        settings: `KEY=VALUE` each, as `--set` takes them.
        command: the command line for the run's record; passwords in it are masked.
        say: is called with what is worth knowing, such as the choice of a target.
    """
    more_faults = forecast_faults if volumes else suite_volume_faults
    suite, source = load_suite(path, settings=settings, more_faults=more_faults)
    return plan_suite(SuiteSource(suite=suite, text=source, path=path), volumes, request, command=command, say=say)


@dataclass(frozen=True, kw_only=True)
class SuiteSource:
    """A checked suite, its text for the run's record, and what messages call it."""

    suite: SuiteFile
    text: str
    path: Path


def plan_suite(
    source: SuiteSource,
    volumes: Sequence[str],
    request: TargetRequest,
    *,
    command: Sequence[str] = (),
    say: Callable[[str], None] = ignore_messages,
) -> Planned:
    """Return the planned run of a suite that is loaded already; arguments and errors are those of `make_plan`."""
    target = choose_target(request.name, say=say, tools=request.tools)
    suite_file = own_data.with_download(source.suite, target)
    own_data.check(suite_file, source.path, target)
    servers = servers_of(target, request)
    specs = servers.volumes(volumes, suite_file.volumes)
    check_modulated(suite_file.steps, specs)
    check_power_cuts(suite_file.steps, specs, target)
    suite = suite_file.resolved()
    suite = servers.with_sampling(suite.model_copy(update={"server": with_flavor(suite.server, target)}))
    check_roles(specs, flavor=suite.server.flavor, option=suite.server.option)
    spreads, treatments = expand_variants(specs, suite.sweep)
    check_needs(suite.steps, spreads, target, cells=suite.repeats * len(treatments))
    suite = _with_known_predictions(suite, [spec.name for spec in spreads], say)
    chosen_options = servers.options()
    if target == "kubernetes":
        check_volume_names(chosen_options, [spec.name for spec in specs])
        _check_nodes(suite, specs, read_options(chosen_options))
    servers.check_suite(suite)
    run = plan_run(
        run_id=new_run_id(suite.name),
        started_at=utc_now(),
        suite=suite,
        suite_source=source.text,
        volumes=spreads,
        treatments=treatments,
        target=target,
        target_options=chosen_options,
        command=tuple(map(without_password, command)),
        host=host_facts(),
    )
    _check_names(run, source.path)
    return Planned(run=run, cost=_cost(suite, treatments, target), attached=servers.attached)


def _with_known_predictions(
    suite: ResolvedSuite, volumes: Collection[str], say: Callable[[str], None]
) -> ResolvedSuite:
    predicted, unknown = known_predictions(suite, volumes)
    if unknown:
        say(
            f"predictions for {', '.join(unknown)} are left out: the run has no such"
            f" {'volume' if len(unknown) == 1 else 'volumes'}"
        )
    return predicted


def _check_names(run: RunRecord, path: Path) -> None:
    """Raise UsageError for a suite that names a step which it does not have: nobody could read the run."""
    try:
        check_run(run, path)
    except RunUnreadable as error:
        raise UsageError(
            "the suite names what the run does not have",
            where=error.where,
            evidence=error.evidence,
            next_step=f"correct {path}",
        ) from error


def until_settings(until: str | None, settings: Sequence[str]) -> list[str]:
    """Return the values of the suite that `--until` stands for; those that `--set` gives come after and win.

    Raises UsageError for a number of cells with which nothing can be looked at until it is decided.
    """
    if until is None:
        return list(settings)
    if until == "decided":
        _check_repeats(settings)
    repeats = [f"repeats={PLANNED_UNTIL_DECIDED}"] if until == "decided" else []
    return [f"comparison.until={until}", *repeats, *settings]


def _check_repeats(settings: Sequence[str]) -> None:
    fewest, most = CELLS_UNTIL_DECIDED
    values = [value for key, _, value in (text.partition("=") for text in settings) if key.strip() == "repeats"]
    if values and values[-1].isdecimal() and not fewest <= int(values[-1]) <= most:
        raise UsageError(
            f"`--until decided` takes {fewest} to {most} cells a volume, not {values[-1]}",
            where="--set repeats",
            next_step="leave out `--until decided` to run every cell, or `--set repeats`",
        )


def budget_seconds(budget: str, until: str | None) -> float | None:
    """Return the seconds of `--budget`, None without it. Raise UsageError.

    Args:
        until: `decided` or `all_cells`; None: as the suite says.
    """
    if not budget:
        return None
    if until == "all_cells":
        raise UsageError(
            "--budget needs --until decided: a run of all cells has one look at its data, at its end",
            where="--budget",
        )
    try:
        budget_s = parse_duration_s(budget)
    except ValueError as error:
        raise UsageError(str(error), where="--budget") from error
    if budget_s <= 0:
        raise UsageError("a budget is more than 0 s", where="--budget", evidence=budget)
    return budget_s


def check_budget(run: RunRecord, budget_s: float | None) -> None:
    """Raise UsageError for a budget of a run whose settings do not go on until it is decided."""
    if budget_s is not None and run.suite.comparison.until != "decided":
        raise UsageError("--budget needs comparison.until=decided", where="--set comparison.until")


def _check_nodes(suite: ResolvedSuite, specs: Sequence[VolumeSpec], chosen: KubernetesOptions) -> None:
    """Raise UsageError for several nodes on which the run's cells cannot be spread, or not at once."""
    shared = [spec.name for spec in specs if spec.kind == "pvc"]
    check_blocks(blocks=suite.repeats, nodes=chosen.nodes, parallel=chosen.parallel, shared=shared)
    if chosen.nodes > 1 and chosen.parallel > 1 and suite.comparison.until == "decided":
        raise UsageError(
            "`--until decided` runs repeats one at a time; it cannot be combined with parallel nodes",
            where="--target-option parallel",
            next_step="leave out `parallel`, or add `--until all_cells`",
        )


def _cost(suite: ResolvedSuite, treatments: Sequence[Treatment], target: str) -> PlanCost:
    """Return the cost of all treatments together; space is that of the largest, since cells run in sequence."""
    overhead_s = POD_OVERHEAD_S if target == "kubernetes" else CELL_OVERHEAD_S
    costs = [
        estimate(with_parameters(suite, t.parameters), volumes=1, volume=t.volume, overhead_s=overhead_s)
        for t in treatments
    ]
    return PlanCost(
        cells=sum(cost.cells for cost in costs),
        wall_s=sum(cost.wall_s for cost in costs),
        measured_s=sum(cost.measured_s for cost in costs),
        template_bytes=max(cost.template_bytes for cost in costs),
        volume_bytes=max(cost.volume_bytes for cost in costs),
    )
