"""`volbench plan`: the cells of a run in order, with the time and space that they need; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from volbench.cli import console, options
from volbench.core.base.text import counted, duration, size
from volbench.core.plan.cost import replacements_max
from volbench.core.plan.describe import sweep_lines
from volbench.core.plan.ladder import ladder_lines
from volbench.core.records.run import CELLS_UNTIL_DECIDED, ResolvedSuite, RunRecord
from volbench.core.suite.model import FULL_SCALE
from volbench.measure.session.caveats import caveats_of, node_lines, too_few_repeats
from volbench.measure.session.modulated import modulate_settings
from volbench.measure.session.planner import Planned, make_plan, until_settings
from volbench.measure.session.price import cells_at_once, price_line, price_run
from volbench.measure.session.servers import TargetRequest
from volbench.measure.session.space import free_space_text
from volbench.results.credits.prices import load_prices


def plan(
    suite: options.SuitePath,
    volume: options.Volumes = [],
    target: options.TargetOption = "auto",
    settings: options.Settings = [],
    modulate: options.Modulate = None,
    until: options.Until = None,
    server: options.Servers = [],
    target_option: options.TargetOptions = [],
    json: options.Json = False,
) -> None:
    """Show the cells of a run in order, with the time and space they need; changes nothing."""
    request = TargetRequest(target=target, servers=server, options=target_option)
    settings = until_settings(until, modulate_settings(suite, modulate, settings, say=console.say))
    planned = make_plan(suite, volume, request, settings=settings, command=console.typed_command(), say=console.say)
    if json:
        caveats = caveats_of(planned.run, planned.cost.volume_bytes)
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


def _work(suite: ResolvedSuite) -> Iterator[str]:
    """Yield a line for a download, and one for each step."""
    if suite.dataset.url:
        yield f"  dataset {suite.dataset.url}, downloaded {_to(suite.dataset.path)}"
    for step in suite.steps:
        parameters = ", ".join(f"{name}={value}" for name, value in step.parameters().items())
        yield f"  step {step.name}: {step.kind} {parameters}"
    yield from (f"  {line}" for line in ladder_lines(suite))


def _to(path: str) -> str:
    return f"to {path}" if path else "by the pod that loads it"


def _end_until_decided(planned: Planned) -> str:
    """Return when a run until decided ends, and after how many cells at the earliest."""
    run, cost = planned.run, planned.cost
    fewest = CELLS_UNTIL_DECIDED[0] * len(run.volumes)
    shortest = duration(round(_wall_s(planned) * fewest / cost.cells))
    text = f"the run stops when all pairs have a verdict: after {fewest} cells ({shortest}) or later"
    if len(run.volumes) > 2 and run.suite.sweep is None:
        text += f"; each volume when its pair with {run.volumes[0].name} has one"
    return text


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
    for line in caveats_of(planned.run, planned.cost.volume_bytes):
        out.print(f"  caveat: {line}", markup=False)
    for line in _work(suite):
        out.print(line, markup=False)
    if suite.sweep is not None:
        for line in (*sweep_lines(suite.sweep), *too_few_repeats(suite, suite.sweep)):
            out.print(f"  {line}", markup=False)
    for line in (*node_lines(run), *(f"  forecast: {text}" for text in _forecasts(run))):
        out.print(line, markup=False)
    per = "volume" if suite.sweep is None else "combination"
    at_most = "at most " if suite.comparison.until == "decided" else ""
    wall_s = _wall_s(planned)
    out.print(
        f"{at_most}{counted(cost.cells, 'cell')} ({suite.repeats} per {per}), about {duration(round(wall_s))}, "
        f"{duration(round(cost.measured_s))} of it measured"
    )
    if at_most and len(run.volumes) > 1:
        out.print(_end_until_decided(planned), markup=False)
    spare = replacements_max(run)
    if spare:
        more = duration(round(wall_s * spare / len(run.cells)))
        out.print(
            f"at most {spare} more cells, about {more}, to replace cells that outside disturbances make invalid"
        )
    out.print(
        f"space: about {size(cost.volume_bytes)} on each volume during a cell, "
        f"{size(cost.template_bytes)} in the cache"
    )
    if run.target == "kubernetes":
        out.print(price_line(price_run(run, cost, load_prices())), markup=False)


def _wall_s(planned: Planned) -> float:
    """Return how long the planned cells take, with those that run at once."""
    return planned.cost.wall_s / (cells_at_once(planned.run) if planned.run.target == "kubernetes" else 1)


def _forecasts(run: RunRecord) -> Iterator[str]:
    spec = run.suite.forecast
    if spec is None:
        return
    from volbench.results.credits.expected import expected
    from volbench.results.report.rows.forecast import forecast_lines
    from volbench.results.report.rows.prediction import prediction_lines

    yield from prediction_lines(spec)
    for volume in run.volumes:
        forecast = expected(spec, volume)
        if forecast is not None:
            yield from forecast_lines(spec, forecast)
