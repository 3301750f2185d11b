"""The report as one HTML file that needs no network: everything is inlined, everything from outside is escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from volbench.records.report import CellRow, Report
from volbench.report import wording
from volbench.report.beside import beside_rows, beside_sentences, read_pairs, times_text
from volbench.report.causes import shown_cause
from volbench.report.curves import curve_plots, step_curves
from volbench.report.distribution import distributions
from volbench.report.effects_shown import effect_tables
from volbench.report.explained import association_sentences, multiples, query_tables, transaction_tables
from volbench.report.geometry import DotChart, dot_chart, quantile_chart, ratio_axis
from volbench.report.panels import Panel
from volbench.report.ranking import ranking
from volbench.report.time_budget import budget_charts
from volbench.report.timeline import CELLS_MAX, CellTimeline, as_json, timelines
from volbench.store.run_directory import RunDirectory

VOLUME_COLOURS = 6
_HEADLINES = {
    "equivalent": "Equivalent",
    "mixed": "Mixed",
    "inconclusive": "No verdict yet",
    "single_volume": "One volume",
}


def html(report: Report, directory: RunDirectory) -> str:
    """The whole page. Tables of a cell that are damaged are named in it and leave gaps."""
    # Bokeh takes half a second to import, which commands that draw nothing shall not wait for.
    from volbench.report.charts import charts, shown_panels  # noqa: PLC0415

    volumes = [volume.name for volume in report.volumes]
    drawn = timelines(directory)
    panels = shown_panels(line for cell in drawn.cells for line in cell.lines)
    environment = Environment(
        loader=PackageLoader("volbench.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        name: getattr(wording, name)
        for name in (
            "change",
            "data_text",
            "duration",
            "how_text",
            "recovery_text",
            "interval",
            "label",
            "number",
            "parameter_text",
            "quantity",
            "times",
            "window_text",
        )
    }
    environment.filters |= {"tight": tight, "fact": fact}
    curves = (quantile_chart(d) for d in distributions(directory, report.cells, volumes))
    return environment.get_template("report.html.j2").render(
        report=report,
        headline=headline(report.summary.verdict, volumes, sweep=report.sweep is not None),
        axis=ratio_axis([row for row in report.comparisons if row.primary] or report.comparisons),
        primary=[row for row in report.comparisons if row.primary],
        secondary=[row for row in report.comparisons if not row.primary],
        effects=effect_tables(report.effects),
        speeds=list(dict.fromkeys((one.step, one.metric) for row in report.durability for one in row.speeds)),
        charts=charts(panels, len(volumes)),
        causes=[shown_cause(finding, [panel.key for panel in panels]) for finding in report.findings],
        panel_titles={panel.key: panel.title for panel in panels},
        timeline_json=_script_json(_timeline_data(drawn.cells, volumes, panels)),
        cells_not_drawn=max(0, len({cell.cell_id for cell in report.cells}) - CELLS_MAX),
        distributions=[chart for chart in curves if chart is not None],
        beside=(side_by_side := beside_rows(report)),
        beside_said=beside_sentences(side_by_side),
        times_text=times_text,
        read_pairs=read_pairs(report),
        curves=[(step, curve_plots(step)) for step in step_curves(report.cells, volumes)],
        ranking=ranking(report),
        budget_charts=budget_charts(report.time_budgets, report.time_differences),
        transaction_tables=transaction_tables(report),
        query_tables=query_tables(report),
        multiples=multiples(directory, report.associations),
        association_sentences=association_sentences(report.associations),
        dots=_dot_charts(report, volumes),
        metric_table=_metric_table(report.cells, volumes),
        glossary=_glossary(report),
        sources=_source_troubles(directory),
        unreadable=drawn.unreadable,
        why_invalid=wording.why_invalid,
        invalid=[cell for cell in report.cells if not cell.valid],
        volume_index={name: index % VOLUME_COLOURS for index, name in enumerate(volumes)},
        style=Markup(_asset(environment, "report.css")),  # noqa: S704 - our own file
        script=Markup(_asset(environment, "report.js")),  # noqa: S704 - our own file
    )


def tight(text: str) -> str:
    """Numbers stay on one line with their unit and within their brackets."""
    return re.sub(r"(?<=\d) (?=%)|(?<=%,) (?=[\d+\N{MINUS SIGN}])", "\N{NO-BREAK SPACE}", text)


def fact(value: Any, name: str) -> str:
    """A fact as a reader says it: yes and no, GiB, lists with commas."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("_bytes") and value >= 1 << 20:
        return f"{wording.number(value / 2**30)} GiB"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return wording.parameter_text(value)
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _source_troubles(directory: RunDirectory) -> list[tuple[str, str, list[str]]]:
    """(source, what is missing of it, volumes): sources that were absent, and those that missed ticks."""
    volume_of = {cell.cell_id: cell.volume for cell in directory.run.cells}
    found: dict[tuple[str, str], list[str]] = {}
    for result in directory.results():
        for source in result.sources:
            missed = f"{source.ticks_missed} of {source.ticks_due} ticks missed in a cell"
            trouble = (missed if source.ticks_missed else "") if source.present else source.reason or "absent"
            volumes = found.setdefault((source.source, trouble), []) if trouble else []
            if volume_of[result.cell_id] not in volumes:
                volumes.append(volume_of[result.cell_id])
    return [(source, trouble, volumes) for (source, trouble), volumes in sorted(found.items())]


def headline(verdict: str, volumes: Sequence[str], *, sweep: bool = False) -> str:
    """The verdict in a few words. `volumes`: names, the baseline first."""
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
    drawn: Sequence[CellTimeline], volumes: Sequence[str], panels: Iterable[Panel]
) -> dict[str, Any]:
    shown = [
        {
            "key": p.key,
            "height": p.height_px,
            "log": p.log,
            "lines": [[line.key, line.label, line.dash] for line in p.lines],
        }
        for p in panels
    ]
    return {**as_json(drawn, volumes), "panels": shown}


def _script_json(value: Any) -> Markup:
    """JSON inside a <script> element: no character that could end it or start a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - escaped above


def _dot_charts(report: Report, volumes: Sequence[str]) -> list[DotChart]:
    """One for each primary metric of each step; where nothing is compared, for each metric with a direction."""
    primary = dict.fromkeys((row.step, row.metric) for row in report.comparisons if row.primary)
    wanted = primary or dict.fromkeys(
        (cell.step, name) for cell in report.cells for name, m in cell.metrics.items() if m.better != "none"
    )
    found = (
        dot_chart([cell for cell in report.cells if cell.step == step], metric, volumes) for step, metric in wanted
    )
    return [chart for chart in found if chart is not None]


def _metric_table(cells: Iterable[CellRow], volumes: Sequence[str]) -> list[dict[str, Any]]:
    """Medians over valid cells, a row for each metric of each step and parameters."""
    values: dict[tuple[str, str, str, str, str], dict[str, list[float]]] = {}
    for cell in cells:
        for name, metric in cell.metrics.items():
            key = (cell.step, wording.parameter_text(cell.parameters), name, metric.unit, metric.better)
            of = values.setdefault(key, {})
            if cell.valid:
                of.setdefault(cell.volume, []).append(metric.value)
    return [
        {
            "step": step, "parameters": parameters, "metric": name, "unit": unit, "better": better,
            "medians": [median(of[v]) if of.get(v) else None for v in volumes],
        }
        for (step, parameters, name, unit, better), of in values.items()
    ]  # fmt: skip


def _glossary(report: Report) -> list[tuple[str, str, str]]:
    used = dict.fromkeys(name for cell in report.cells for name in cell.metrics)
    return [(wording.label(name), name, wording.GLOSSARY[name][1]) for name in used if name in wording.GLOSSARY]
