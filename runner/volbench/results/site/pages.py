"""The site's pages from their templates; all text from runs is escaped, charts are plain SVG."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment

from volbench import __version__
from volbench.core.base import text
from volbench.core.base.text import counted
from volbench.results.report import wording
from volbench.results.report.formats.engine import page_engine
from volbench.results.report.formats.template import keep_units_together
from volbench.results.report.terms import CELL_TERM, terms_of
from volbench.results.site.board import Board
from volbench.results.site.change_points import ALPHA
from volbench.results.site.history import MARGIN, MetricHistory
from volbench.results.site.index import Index
from volbench.results.site.junit import RUNS_NEEDED, regression_text
from volbench.results.site.pair import RunPair, differing_settings
from volbench.results.site.summary import RunSummary

CHARTS_VERSION = 2
"""Of what this module draws; to be raised with it."""
_WIDTH, _HEIGHT, _EDGE = 1000, 240, 12
_LATEST_METRICS = 3
_ASSETS = ("site.css", "site.js")


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A history as SVG shapes in a box of 1000 x 240, stretched to the page's width.

    Args:
        points: (x, y, y of the lowest cell, y of the highest, title, name of the run).
        levels: (x from, x to, y) of the medians between change points.
        marks: (x, whether the new level is worse) of the change points.
        high, low: texts of the axis's ends.
    """

    points: tuple[tuple[float, float, float, float, str, str], ...]
    levels: tuple[tuple[float, float, float], ...]
    marks: tuple[tuple[float, bool], ...]
    high: str
    low: str


@cache
def version() -> str:
    """Return what pages are made by: another version writes every page again."""
    sources = [_source(name) for name in _environment().list_templates()]
    return hashlib.sha256(repr((__version__, CHARTS_VERSION, sources)).encode()).hexdigest()


def assets() -> Iterator[tuple[str, str]]:
    """Yield the name and content of each file that all pages share."""
    for name in _ASSETS:
        yield name, _source(name)


def run_data(name: str, run: RunSummary) -> str:
    """Return a script with what the browser needs to put a run beside another; pages from files cannot fetch."""
    content = {
        "name": name,
        "suite": run.suite,
        "started_at": run.started_at,
        "sentence": run.sentence,
        "settings": run.settings,
        "groups": [
            {
                "identity": " ".join(filter(None, group.key[:3])),
                "metric": group.metric,
                "title": _title(group.metric),
                "unit": group.unit,
                "better": group.better,
                "primary": group.primary,
                "values": group.values,
            }
            for group in run.groups
        ],
    }
    return f"volbenchRun({json.dumps(content)});\n"


def history_page_name(history: MetricHistory) -> str:
    """Return the file of a suite on a volume; two names that read alike do not share one."""
    names = f"{history.suite} {history.group.volume}"
    readable = re.sub(r"[^A-Za-z0-9]+", "-", names).strip("-")[:60]
    return f"history/{readable}-{hashlib.sha256(names.encode()).hexdigest()[:8]}.html"


def pair_page_name(first: str, second: str) -> str:
    """Return the file of two runs side by side, without its ending."""
    return f"pairs/{first}--{second}"


def index_page(
    index: Index,
    by_page: Mapping[str, Sequence[MetricHistory]],
    *,
    recent: int,
    reports: str | None,
    board: Board | None = None,
) -> str:
    """Return the start page: regressions, histories, and all runs with filters.

    Args:
        reports: path from the site to the directory of runs; None where the reports are copied into the site.
        board: of packs, which the page links to.
    """
    histories = [history for group in by_page.values() for history in group]
    runs = [run for run in reversed(index.runs) if run.summary is not None]
    return _page(
        "index.html.j2",
        root="",
        runs=[
            {
                "name": run.name,
                "summary": run.summary,
                "report": _report_link(run.name, reports) if run.has_page else "",
            }
            for run in runs
        ],
        faults=[run for run in index.runs if run.summary is None],
        regressions=[
            (history_page_name(history), sentence)
            for history in histories
            if (sentence := regression_text(history, recent=recent))
        ],
        pages=[_page_row(page, group) for page, group in sorted(by_page.items())],
        runs_needed=RUNS_NEEDED,
        suites=sorted({run.summary.suite for run in runs if run.summary}),
        volumes=sorted({volume.name for run in runs if run.summary for volume in run.summary.volumes}),
        verdicts=sorted({run.summary.verdict for run in runs if run.summary}),
        recent=recent,
        board=board,
        counted=counted,
    )


def history_page(group: Sequence[MetricHistory], summaries: Mapping[str, RunSummary], *, recent: int) -> str:
    """Return the page of a suite on a volume: a chart, change points and settings for each metric."""
    sections = [
        {
            "history": history,
            "title": _title(history.group.metric),
            "chart": chart(history),
            "regression": regression_text(history, recent=recent),
            "changes": [_change(history, number, summaries) for number in range(len(history.changes))],
            "latest": _titled(history.points[-1].value, history.group.unit),
        }
        for history in group
    ]
    return _page(
        "history.html.j2",
        root="../",
        sections=sections,
        suite=group[0].suite,
        volume=group[0].group.volume,
        alpha=text.percent(ALPHA),
        margin=text.percent(MARGIN),
        runs_needed=RUNS_NEEDED,
    )


def pair_page(pair: RunPair) -> str:
    """Return two runs side by side."""
    return _page("pair.html.j2", root="../", pair=pair)


def board_page(board: Board) -> str:
    """Return the page of packs of several people."""
    return _page(
        "board.html.j2",
        root="",
        board=board,
        label=wording.label,
        number=text.number,
        quantity=text.quantity,
        counted=counted,
    )


def compare_page() -> str:
    """Return the page that puts any two runs side by side, in the browser."""
    return _page("compare.html.j2", root="")


def chart(history: MetricHistory) -> Chart:
    """Return a history's shapes; the axis begins at zero unless that would flatten everything."""
    unit, points = history.group.unit, history.points
    low, high = min(point.low for point in points), max(point.high for point in points)
    if low > 0 and low < high / 2:
        low = 0.0
    span = high - low
    step = (_WIDTH - 2 * _EDGE) / max(1, len(points) - 1)

    def x(index: float) -> float:
        return round(_WIDTH / 2 if len(points) == 1 else _EDGE + index * step, 1)

    def y(value: float) -> float:
        share = (value - low) / span if high > low else 0.5
        return round(_HEIGHT - _EDGE - share * (_HEIGHT - 2 * _EDGE), 1)

    edges = [0, *(change.index for change in history.changes), len(points)]
    levels = [change.before for change in history.changes] + [change.after for change in history.changes[-1:]]
    return Chart(
        points=tuple(
            (
                x(number),
                y(point.value),
                y(point.low),
                y(point.high),
                f"{point.run}: {text.quantity(point.value, unit)}, {counted(point.cells, 'cell')}",
                point.run,
            )
            for number, point in enumerate(points)
        ),
        levels=tuple((x(edges[number]), x(edges[number + 1] - 1), y(level)) for number, level in enumerate(levels)),
        marks=tuple((x(change.index - 0.5), history.is_worse(change)) for change in history.changes),
        high=text.quantity(high, unit),
        low=text.quantity(low, unit),
    )


def _change(history: MetricHistory, number: int, summaries: Mapping[str, RunSummary]) -> dict[str, Any]:
    change = history.changes[number]
    before, after = history.points[change.index - 1], history.points[change.index]
    direction = "worse" if history.is_worse(change) else "better"
    return {
        "run": after.run,
        "started_at": after.started_at,
        "direction": direction if history.group.better != "none" else "",
        "before": text.quantity(change.before, history.group.unit),
        "after": text.quantity(change.after, history.group.unit),
        "change": text.change(change.ratio),
        "p_value": f"{change.p_value:.2g}",
        "settings": differing_settings(summaries[before.run], summaries[after.run]),
    }


def _page_row(page: str, group: Sequence[MetricHistory]) -> dict[str, Any]:
    latest: dict[str, str] = {}
    has_steps = len({history.group.step for history in group}) > 1
    for history in group:
        title, value = _title(history.group.metric), history.points[-1].value
        of_step = f" ({history.group.step})" if has_steps else ""
        latest.setdefault(title, f"{title} {_titled(value, history.group.unit)}{of_step}")
    return {
        "page": page,
        "suite": group[0].suite,
        "volume": group[0].group.volume,
        "runs": max(len(history.points) for history in group),
        "changes": sum(len(history.changes) for history in group),
        "latest": ", ".join(list(latest.values())[:_LATEST_METRICS]),
    }


def _titled(value: float, unit: str) -> str:
    """Return a value behind its metric's title, which says what happens each second."""
    return text.number(value) if unit == "1/s" else text.quantity(value, unit)


def _report_link(name: str, reports: str | None) -> str:
    return f"reports/{name}.html" if reports is None else f"{reports}/{name}/report.html"


def _title(metric: str) -> str:
    return wording.label(metric)


def _cell_terms(body: str) -> tuple[str, ...]:
    """Return what a cell is where a page's text has the word; the sentences of runs keep their own terms."""
    return (CELL_TERM,) if CELL_TERM in terms_of([re.sub("<[^>]+>", " ", body)]) else ()


def _page(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values) + "\n"


def _source(name: str) -> str:
    loader = _environment().loader
    if loader is None:  # only for the type checker: it is set below
        raise AssertionError
    return loader.get_source(_environment(), name)[0]


@cache
def _environment() -> Environment:
    environment = page_engine("volbench.results.site", lstrip_blocks=True)
    environment.filters |= {"counted": counted, "nowrap": keep_units_together}
    environment.globals["cell_terms"] = _cell_terms
    return environment
