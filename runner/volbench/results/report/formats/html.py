"""The report as one HTML file that needs no network: everything is inlined, everything from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from volbench.core.records.metrics import CATALOGUE
from volbench.core.records.report import ComparisonRow, FigureRow, Report
from volbench.results.compare.figures import figure_rows
from volbench.results.report import terms, wording
from volbench.results.report.formats.packed import packed_json
from volbench.results.report.formats.template import template_environment
from volbench.results.report.page_data import PageData
from volbench.results.report.rows.verdict.lead import certainty
from volbench.results.report.rows.verdict.settings import variant_names, with_names
from volbench.results.report.views.causes import cause_view, ordered_findings, overlaps, unexplained
from volbench.results.report.views.charts import chart_assets, panel_json, panels_with_data
from volbench.results.report.views.contrast import (
    PAIRS_NOTE,
    contrast_rows,
    contrast_sentences,
    read_pairs,
    slowdown_text,
)
from volbench.results.report.views.cost_tables import (
    association_sentences,
    query_tables,
    transaction_tables,
)
from volbench.results.report.views.curves import curve_plots, step_curves
from volbench.results.report.views.effects_tables import effect_tables
from volbench.results.report.views.frontier import frontiers
from volbench.results.report.views.geometry import DotChart, dot_chart, quantile_chart, ratio_axis
from volbench.results.report.views.panels import Panel
from volbench.results.report.views.picture import picture
from volbench.results.report.views.ranking import RANKING_NOTE, ranking
from volbench.results.report.views.response import response_charts, response_rows
from volbench.results.report.views.sharing import HEADS
from volbench.results.report.views.time_budget import budget_charts, shares_note
from volbench.results.report.views.timeline import CELLS_MAX, CellTimeline, as_json

VOLUME_COLOURS = 6
VOLUME_MARKS = "●■▲◆+×▼"
"""As charts.js has them: with the colours they tell 42 volumes apart, and seven where paper has no colours."""
FINDINGS_OPEN = 5
LANES_OPEN = 24
"""Lanes of dots: charts of two volumes take two each."""
ROWS_OPEN = 24
DISTRIBUTIONS_OPEN = 4
SESSIONS_OPEN = 2
MULTIPLES_OPEN = 1
"""How many of them a reader sees without opening the rest, so that a page has an end, on a phone and elsewhere."""
STYLES = ("colours.css", "report.css", "picture.css", "pieces.css")
SCRIPTS = ("packed.js", "phone.js")
"""Of every page, charts or none."""


def html(report: Report, page: PageData) -> str:
    """Return the whole page. It names damaged tables of cells and leaves gaps for them."""
    volumes = [volume.name for volume in report.volumes]
    labels = variant_names(report.effects, report.cells)
    report = report.model_copy(update={"predictions": tuple(with_names(report.predictions, labels))})
    panels = panels_with_data(line for cell in page.timelines.cells for line in cell.lines)
    environment = template_environment()
    curves = (quantile_chart(distribution) for distribution in page.distributions)
    return environment.get_template("report.html.j2").render(
        report=report,
        box_max=wording.BOX_MAX,
        headline=report.summary.headline or report.summary.sentence,
        picture=(drawn := picture(report)),
        verdict_notes=(notes := terms.verdict_notes(report.summary, explained=(terms.CELL_TERM,) if drawn else ())),
        cause_terms=terms.terms_of(map(certainty, report.findings), (terms.CELL_TERM, *notes)),
        cell=terms.CELL,
        unadjusted=wording.UNADJUSTED,
        picture_kinds={mark.kind for panel in drawn for lane in panel.lanes for mark in lane.marks},
        picture_intervals=any(lane.interval for panel in drawn for lane in panel.lanes),
        open_text=wording.open_text(report.comparisons),
        axis=ratio_axis([row for row in report.comparisons if row.primary] or report.comparisons),
        primary=_leading_rows(report),
        rows_open=ROWS_OPEN,
        secondary=[row for row in report.comparisons if not row.primary],
        effects=effect_tables(report.effects),
        speeds=list(dict.fromkeys((speed.step, speed.metric) for row in report.durability for speed in row.speeds)),
        panels=panels,
        charts=chart_assets(),
        findings_open=FINDINGS_OPEN,
        causes=[cause_view(finding, [panel.key for panel in panels]) for finding in ordered_findings(report)],
        overlaps=(*unexplained(report), *overlaps(report.findings)),
        panel_titles={panel.key: panel.title for panel in panels},
        timeline_data=packed_json(_timeline_data(page.timelines.cells, volumes, panels, report)),
        cells_not_drawn=max(0, len({cell.cell_id for cell in report.cells}) - CELLS_MAX),
        distributions=[chart for chart in curves if chart is not None],
        distributions_open=DISTRIBUTIONS_OPEN,
        sessions_open=SESSIONS_OPEN,
        multiples_open=MULTIPLES_OPEN,
        contrast=(contrast := contrast_rows(report)),
        contrast_sentences=contrast_sentences(contrast),
        slowdown_text=slowdown_text,
        read_pairs=read_pairs(report),
        pairs_note=PAIRS_NOTE,
        response_charts=response_charts(report),
        response_tables=[
            (step, response_rows(report, step)) for step in dict.fromkeys(row.step for row in report.responses)
        ],
        curves=[(step, curve_plots(step)) for step in step_curves(report.cells, volumes)],
        ranking=ranking(report),
        ranking_note=RANKING_NOTE,
        frontiers=frontiers(report.storage_classes),
        sharing_heads=HEADS,
        budget_charts=budget_charts(report.time_budgets, report.time_differences),
        shares_note=shares_note(report),
        transaction_tables=transaction_tables(report),
        query_tables=query_tables(report),
        small_multiples=page.small_multiples,
        session_charts=page.session_charts,
        association_sentences=association_sentences(report.associations, report.findings),
        dots=(dots := _dot_charts(report, volumes))[: (dots_open := max(2, LANES_OPEN // len(volumes)))],
        further_dots=dots[dots_open:],
        metric_table=_metric_table(report, volumes),
        glossary=_glossary(report),
        sources=page.source_problems,
        unreadable=page.timelines.unreadable,
        why_invalid=wording.why_invalid,
        invalid=[cell for cell in report.cells if not cell.valid],
        volume_index={name: index % VOLUME_COLOURS for index, name in enumerate(volumes)},
        volume_mark={name: index % len(VOLUME_MARKS) for index, name in enumerate(volumes)},
        volume_marks=VOLUME_MARKS,
        volume_label=labels,
        style=Markup("".join(_asset(environment, name) for name in STYLES)),  # noqa: S704 - our own files
        script=Markup(_asset(environment, "report.js")),  # noqa: S704 - our own file
        page_script=Markup("\n".join(_asset(environment, name) for name in SCRIPTS)),  # noqa: S704 - our own files
    )


def _asset(environment: Environment, name: str) -> str:
    if environment.loader is None:
        raise TypeError("the environment has a loader")
    return environment.loader.get_source(environment, name)[0]


def _timeline_data(
    cells: Sequence[CellTimeline], volumes: Sequence[str], panels: Iterable[Panel], report: Report
) -> dict[str, Any]:
    panel_data = [
        panel_json(
            panel.key,
            panel.title,
            panel.unit,
            [[line.key, line.label, line.dash] for line in panel.lines],
            height=panel.height_px,
            log=panel.log,
        )
        for panel in panels
    ]
    step = report.summary.figure.step if report.summary.figure else ""
    data = as_json(cells, volumes, report.moments, ordered_findings(report), step=step)
    labels = variant_names(report.effects, report.cells)
    named = {"volumes": [labels.get(name, name) for name in volumes], "names": list(volumes)} if labels else {}
    return {**data, **named, "panels": panel_data}


def _leading_rows(report: Report) -> list[ComparisonRow]:
    """Return the comparisons that verdicts rest on; first those of the headline's figure."""
    figure = report.summary.figure
    rows = [row for row in report.comparisons if row.primary]
    return sorted(rows, key=lambda row: figure is None or (row.step, row.metric) != (figure.step, figure.metric))


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


def _metric_table(report: Report, volumes: Sequence[str]) -> list[dict[str, Any]]:
    """Return the volumes' figures: a table for each step and its parameters, a row for each metric."""
    by_metric: dict[tuple[str, str, str], dict[str, FigureRow]] = {}
    for figure in report.figures or figure_rows(report.cells):
        key = (figure.step, wording.parameter_text(figure.parameters), figure.metric)
        by_metric.setdefault(key, {})[figure.volume] = figure
    better = {name: metric.better for cell in report.cells for name, metric in cell.metrics.items()}
    tables: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (step, parameters, name), by_volume in by_metric.items():
        unit = next(iter(by_volume.values())).unit
        figures = [by_volume.get(volume) for volume in volumes]
        row = {"metric": name, "unit": unit, "better": better[name], "figures": figures}
        tables.setdefault((step, parameters), []).append(row)
    return [{"step": step, "parameters": parameters, "rows": rows} for (step, parameters), rows in tables.items()]


def _glossary(report: Report) -> list[tuple[str, str, str]]:
    used = dict.fromkeys(name for cell in report.cells for name in cell.metrics)
    return [(CATALOGUE[name].label, name, CATALOGUE[name].text) for name in used if name in CATALOGUE]
