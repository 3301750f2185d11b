"""The report as one HTML file that needs no network: everything is inlined, everything from outside is escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from volbench.base import text
from volbench.records.report import CellRow, Report
from volbench.report import wording
from volbench.report.rows import prediction
from volbench.report.views.causes import cause_view
from volbench.report.views.contrast import contrast_rows, contrast_sentences, read_pairs, slowdown_text
from volbench.report.views.cost_tables import (
    association_sentences,
    query_tables,
    small_multiples,
    transaction_tables,
)
from volbench.report.views.curves import curve_plots, step_curves
from volbench.report.views.distribution import distributions
from volbench.report.views.effects_tables import effect_tables
from volbench.report.views.geometry import DotChart, dot_chart, quantile_chart, ratio_axis
from volbench.report.views.panels import Panel
from volbench.report.views.ranking import ranking
from volbench.report.views.time_budget import budget_charts
from volbench.report.views.timeline import CELLS_MAX, CellTimeline, as_json, timelines
from volbench.store.run_directory import RunDirectory

VOLUME_COLOURS = 6
_HEADLINES = {
    "equivalent": "Equivalent",
    "mixed": "Mixed",
    "inconclusive": "No verdict yet",
    "single_volume": "One volume",
}


def html(report: Report, directory: RunDirectory) -> str:
    """Return the whole page. It names damaged tables of cells and leaves gaps for them."""
    # Bokeh takes half a second to import; commands that draw nothing do not wait for it.
    from volbench.report.views.charts import charts, panels_with_data  # noqa: PLC0415

    volumes = [volume.name for volume in report.volumes]
    timeline_data = timelines(directory)
    panels = panels_with_data(line for cell in timeline_data.cells for line in cell.lines)
    environment = Environment(
        loader=PackageLoader("volbench.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        function.__name__: function
        for function in (
            *(text.change, text.duration, text.interval, text.number, text.percent, text.quantity, text.times),
            *(wording.data_text, wording.how_text, wording.label, wording.parameter_text),
            *(wording.recovery_text, wording.window_text),
        )
    }
    environment.filters |= {"nowrap": keep_units_together, "fact": fact}
    environment.filters |= {
        "prediction_subject": prediction.subject,
        "prediction_value": prediction.value_text,
        "prediction_mark": prediction.mark_text,
    }
    curves = (quantile_chart(d) for d in distributions(directory, report.cells, volumes))
    return environment.get_template("report.html.j2").render(
        report=report,
        headline=headline(report.summary.verdict, volumes, sweep=report.sweep is not None),
        axis=ratio_axis([row for row in report.comparisons if row.primary] or report.comparisons),
        primary=[row for row in report.comparisons if row.primary],
        secondary=[row for row in report.comparisons if not row.primary],
        effects=effect_tables(report.effects),
        speeds=list(dict.fromkeys((speed.step, speed.metric) for row in report.durability for speed in row.speeds)),
        charts=charts(panels, len(volumes)),
        causes=[cause_view(finding, [panel.key for panel in panels]) for finding in report.findings],
        panel_titles={panel.key: panel.title for panel in panels},
        timeline_json=_script_json(_timeline_data(timeline_data.cells, volumes, panels)),
        cells_not_drawn=max(0, len({cell.cell_id for cell in report.cells}) - CELLS_MAX),
        distributions=[chart for chart in curves if chart is not None],
        contrast=(contrast := contrast_rows(report)),
        contrast_sentences=contrast_sentences(contrast),
        slowdown_text=slowdown_text,
        read_pairs=read_pairs(report),
        curves=[(step, curve_plots(step)) for step in step_curves(report.cells, volumes)],
        ranking=ranking(report),
        budget_charts=budget_charts(report.time_budgets, report.time_differences),
        transaction_tables=transaction_tables(report),
        query_tables=query_tables(report),
        small_multiples=small_multiples(directory, report.associations),
        association_sentences=association_sentences(report.associations),
        dots=_dot_charts(report, volumes),
        metric_table=_metric_table(report.cells, volumes),
        glossary=_glossary(report),
        sources=_source_problems(directory),
        unreadable=timeline_data.unreadable,
        why_invalid=wording.why_invalid,
        invalid=[cell for cell in report.cells if not cell.valid],
        volume_index={name: index % VOLUME_COLOURS for index, name in enumerate(volumes)},
        style=Markup(_asset(environment, "report.css")),  # noqa: S704 - our own file
        script=Markup(_asset(environment, "report.js")),  # noqa: S704 - our own file
    )


def keep_units_together(text: str) -> str:
    """Return the text with no-break spaces, so that numbers stay on one line with their unit and in brackets."""
    return re.sub(r"(?<=\d) (?=%)|(?<=%,) (?=[\d+\N{MINUS SIGN}])", "\N{NO-BREAK SPACE}", text)


def fact(value: Any, name: str) -> str:
    """Return a fact as text: yes and no, GiB, lists with commas."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("_bytes") and value >= 1 << 20:
        return f"{text.number(value / 2**30)} GiB"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return wording.parameter_text(value)
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _source_problems(directory: RunDirectory) -> list[tuple[str, str, list[str]]]:
    """Return (source, what is missing, volumes) of sources that were absent or missed ticks."""
    volume_of = {cell.cell_id: cell.volume for cell in directory.run.cells}
    volumes_by_problem: dict[tuple[str, str], list[str]] = {}
    for result in directory.results():
        for source in result.sources:
            missed_ticks = f"{source.ticks_missed} of {source.ticks_due} ticks missed in a cell"
            problem = (missed_ticks if source.ticks_missed else "") if source.present else source.reason or "absent"
            volumes = volumes_by_problem.setdefault((source.source, problem), []) if problem else []
            if volume_of[result.cell_id] not in volumes:
                volumes.append(volume_of[result.cell_id])
    return [(source, problem, volumes) for (source, problem), volumes in sorted(volumes_by_problem.items())]


def headline(verdict: str, volumes: Sequence[str], *, sweep: bool = False) -> str:
    """Return the verdict in a few words. `volumes` are names, the baseline first."""
    if sweep and verdict == "single_volume":
        return "What each factor does"
    if verdict == "candidate_better":
        return f"{volumes[1]} is better" if len(volumes) == 2 else f"Every other volume is better than {volumes[0]}"
    if verdict == "candidate_worse":
        return f"{volumes[0]} is better" if len(volumes) == 2 else f"{volumes[0]} is better than every other volume"
    return _HEADLINES[verdict]


def _asset(environment: Environment, name: str) -> str:
    if environment.loader is None:
        raise TypeError("the environment has a loader")
    return environment.loader.get_source(environment, name)[0]


def _timeline_data(
    cells: Sequence[CellTimeline], volumes: Sequence[str], panels: Iterable[Panel]
) -> dict[str, Any]:
    panel_data = [
        {
            "key": p.key,
            "height": p.height_px,
            "log": p.log,
            "lines": [[line.key, line.label, line.dash] for line in p.lines],
        }
        for p in panels
    ]
    return {**as_json(cells, volumes), "panels": panel_data}


def _script_json(value: Any) -> Markup:
    """Return JSON for a <script> element, without characters that could end the element or start a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - escaped above


def _dot_charts(report: Report, volumes: Sequence[str]) -> list[DotChart]:
    """Return a chart for each step's primary metrics; without comparisons, for each metric with a direction."""
    primary = dict.fromkeys((row.step, row.metric) for row in report.comparisons if row.primary)
    metrics = primary or dict.fromkeys(
        (cell.step, name)
        for cell in report.cells
        for name, metric_value in cell.metrics.items()
        if metric_value.better != "none"
    )
    drawn = (
        dot_chart([cell for cell in report.cells if cell.step == step], metric, volumes) for step, metric in metrics
    )
    return [chart for chart in drawn if chart is not None]


def _metric_table(cells: Iterable[CellRow], volumes: Sequence[str]) -> list[dict[str, Any]]:
    """Return medians over valid cells, a row for each metric of each step and its parameters."""
    values: dict[tuple[str, str, str, str, str], dict[str, list[float]]] = {}
    for cell in cells:
        for name, metric in cell.metrics.items():
            key = (cell.step, wording.parameter_text(cell.parameters), name, metric.unit, metric.better)
            by_volume = values.setdefault(key, {})
            if cell.valid:
                by_volume.setdefault(cell.volume, []).append(metric.value)
    return [
        {
            "step": step, "parameters": parameters, "metric": name, "unit": unit, "better": better,
            "medians": [median(by_volume[v]) if by_volume.get(v) else None for v in volumes],
        }
        for (step, parameters, name, unit, better), by_volume in values.items()
    ]  # fmt: skip


def _glossary(report: Report) -> list[tuple[str, str, str]]:
    used = dict.fromkeys(name for cell in report.cells for name in cell.metrics)
    return [(wording.label(name), name, wording.GLOSSARY[name][1]) for name in used if name in wording.GLOSSARY]
