"""Line charts over time that share one time axis: the data for a page's charts.js, which draws with uPlot.

uPlot is as its authors publish it, in `page/uplot/`, with its licence. Charts have their colours from the page's
style, so that dark mode and print follow the reader's choice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from volbench.results.report.views.panels import PANELS, Dash, Panel
from volbench.results.report.views.timeline import four_digits
from volbench.results.stats.grid import Floats

LIBRARY_DIRECTORY = Path(__file__).parents[1] / "page" / "uplot"
LIBRARY = LIBRARY_DIRECTORY / "uPlot.iife.min.js"
LICENCE = LIBRARY_DIRECTORY / "LICENSE"
LIBRARY_STYLE = LIBRARY_DIRECTORY / "uPlot.min.css"
OWN_SCRIPT = LIBRARY_DIRECTORY.with_name("charts.js")
OWN_STYLE = LIBRARY_DIRECTORY.with_name("charts.css")
HEIGHT_PX = 130
POINTS_MAX = 720
"""Of a line; a longer one has the lowest and the highest value of each stretch, so that no peak is lost."""


@dataclass(frozen=True, kw_only=True)
class ChartAssets:
    """Style and scripts of a page with line charts."""

    style: Markup
    library: Markup
    script: Markup


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """One line: times and values of equal length; NaN is a gap."""

    label: str
    t: Floats
    value: Floats
    dash: Dash = "solid"


@dataclass(frozen=True, kw_only=True)
class LineChart:
    """One chart of a page whose charts show always the same."""

    key: str
    title: str
    unit: str
    lines: tuple[ChartLine, ...]


@dataclass(frozen=True, kw_only=True)
class Band:
    """A stretch of time behind the lines of all charts; `group` is the number of its colour."""

    begin: float
    end: float
    group: int = 1
    alpha: float = 0.2


@dataclass(frozen=True, kw_only=True)
class ChartGroup:
    """Charts that show always the same, with one time axis, one cursor and one zoom.

    Args:
        charts: in their order; those without any value are left out of the page.
        begin, end: of the time axis.
        is_clock: whether times are seconds since 1970 (UTC), or since the midnight of a first day.
        unit: of times that are not a clock's.
        bands: stretches of time behind the lines.
        name: tells groups of one page apart; a letter and digits.
    """

    charts: tuple[LineChart, ...]
    begin: float
    end: float
    is_clock: bool
    unit: str = "s"
    bands: tuple[Band, ...] = ()
    name: str = ""

    @property
    def json(self) -> Markup:
        """The data as charts.js has it."""
        return script_json(
            {
                "name": self.name,
                "panels": [_panel(chart) for chart in self.charts],
                "lines": [
                    {"panel": chart.key, "line": line.label, "group": 0, "x": times, "y": values}
                    for chart in self.charts
                    for line in chart.lines
                    for times, values in [_columns(line)]
                ],
                "bands": [
                    {"from": band.begin, "to": band.end, "group": band.group, "alpha": band.alpha}
                    for band in self.bands
                ],
                "range": [self.begin, self.end],
                "clock": self.is_clock,
                "unit": self.unit,
            }
        )


def panels_with_data(lines: Iterable[str]) -> list[Panel]:
    """Return the panels for which a cell has a line (`panel.line`)."""
    present = {line.split(".", 1)[0] for line in lines}
    return [panel for panel in PANELS if panel.key in present]


@cache
def chart_assets() -> ChartAssets:
    """Return what a page with line charts contains, ready for its <style> and <script> elements."""
    licence = LICENCE.read_text(encoding="utf-8").strip()
    library = f"/*!\nuPlot\n{licence}\n*/\n{LIBRARY.read_text(encoding='utf-8')}"
    style = f"{LIBRARY_STYLE.read_text(encoding='utf-8')}\n{OWN_STYLE.read_text(encoding='utf-8')}"
    return ChartAssets(
        style=_own(style), library=_own(library), script=_own(OWN_SCRIPT.read_text(encoding="utf-8"))
    )


def _own(text: str) -> Markup:
    return Markup(text)  # noqa: S704 - files of the package


def script_json(value: Any) -> Markup:
    """Return JSON for a <script> element, without characters that could end the element or start a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - escaped above


def panel_json(key: str, title: str, unit: str, lines: Sequence[Any], **look: Any) -> dict[str, Any]:
    """Return a panel as charts.js has it; `lines` have a label and a dash."""
    return {"key": key, "title": title, "unit": unit, "height": HEIGHT_PX, "log": False, **look, "lines": lines}


def _panel(chart: LineChart) -> dict[str, Any]:
    return panel_json(
        chart.key, chart.title, chart.unit, [[line.label, line.label, line.dash] for line in chart.lines]
    )


def _columns(line: ChartLine) -> tuple[list[float], list[float | None]]:
    """Return times and values, None in a gap, of at most POINTS_MAX points."""
    chosen = extremes(line.value, POINTS_MAX)
    times = [round(float(t), 3) for t in line.t[chosen]]
    return times, [four_digits(float(value)) for value in line.value[chosen]]


def extremes(values: Floats, points_max: int) -> NDArray[np.intp]:
    """Return the indices of the lowest and the highest value of each stretch, in order; of few values, all.

    A stretch of gaps keeps one of them.
    """
    if len(values) <= points_max:
        return np.arange(len(values))
    stretches = np.array_split(np.arange(len(values)), points_max // 2)
    indices = []
    for stretch in stretches:
        finite = stretch[np.isfinite(values[stretch])]
        if len(finite):
            indices += [finite[np.argmin(values[finite])], finite[np.argmax(values[finite])]]
        else:
            indices.append(stretch[0])
    return np.unique(np.array(indices))
