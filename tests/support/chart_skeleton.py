"""The figures of the report's timelines, made with Bokeh: what `page/charts.json` holds of them.

Bokeh is no dependency of volbench. A report is made of the stored figures, see
volbench.results.report.views.charts.
"""

from __future__ import annotations

import json
import re
from typing import Any

import bokeh
from bokeh.embed import components
from bokeh.model import Model
from bokeh.models import (
    BasicTicker,
    BoxZoomTool,
    ColumnDataSource,
    CrosshairTool,
    DataRange1d,
    FixedTicker,
    NumeralTickFormatter,
    Range1d,
    ResetTool,
    VSpan,
    VStrip,
    WheelZoomTool,
)
from bokeh.models.annotations import LabelSet, Span
from bokeh.plotting import figure
from bokeh.resources import Resources

from volbench.results.report.views.charts import CHARTS_FILE, LIBRARY_FILE, SHARED, VOLUME
from volbench.results.report.views.panels import PANELS, Panel

_MARK_BELOW_TOP_PX = 26
"""From a chart's top to the foot of a mark's number: the borders and the number's height."""


def chart_files() -> dict[str, str]:
    """The texts of charts.json and of Bokeh's JavaScript, by their names."""
    stored = {"bokeh": bokeh.__version__, "panels": {panel.key: _stored(panel) for panel in PANELS}}
    library = "\n".join(Resources(mode="inline", components=["bokeh"]).js_raw)
    return {CHARTS_FILE.name: json.dumps(stored, indent=1) + "\n", LIBRARY_FILE.name: library}


def _stored(panel: Panel) -> dict[str, Any]:
    """One figure, and apart from it what each volume adds; ids count from 1 in each panel."""
    root = documents_of([panel], 1)[0]
    numbered = _Ids(panel.key).renamed(root)
    renderers = numbered["attributes"]["renderers"]
    lines = [renderer for renderer in renderers if renderer["attributes"].get("name")]
    numbered["attributes"]["renderers"] = [renderer for renderer in renderers if renderer not in lines]
    return {"figure": numbered, "lines": [_of_any_volume(line, panel.key) for line in lines]}


def documents_of(panels: list[Panel], volumes: int) -> list[dict[str, Any]]:
    """The roots of Bokeh's document for figures of the panels."""
    x_range = Range1d(start=0, end=1, name="time")
    cursor = Span(dimension="height", line_width=1, line_color="gray", name="cursor")
    figures: dict[str, Model] = {panel.key: _figure(panel, volumes, x_range, cursor) for panel in panels}
    script, _ = components(figures, wrap_script=False)
    text = re.search(r"const docs_json = '(.*)';\n", script)
    assert text is not None
    (document,) = json.loads(text[1].replace("\\'", "'")).values()
    roots: list[dict[str, Any]] = document["roots"]
    return roots


def renamed(roots: Any) -> Any:
    """Roots with ids in the order of their appearance, so that two documents can be compared."""
    return _Ids("root").renamed(roots)


class _Ids:
    """Ids that do not depend on what else was made: `panel.1`, and the names of what all figures share."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._ids: dict[str, str] = {}

    def renamed(self, value: Any) -> Any:
        """The value with other ids, the same in definitions and references."""
        if isinstance(value, list):
            return [self.renamed(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        if "id" in value:
            name = value.get("attributes", {}).get("name")
            new = name if name in SHARED else f"{self._prefix}.{len(self._ids) + 1}"
            value = {**value, "id": self._ids.setdefault(value["id"], new)}
        return {key: entry if key == "id" else self.renamed(entry) for key, entry in value.items()}


def _of_any_volume(line: Any, key: str) -> Any:
    """A line of volume 0 with a place for the volume's number in its names and ids."""
    text = re.sub(rf'("name": "\w+:{key}\.\w+)\.0"', rf'\1.{VOLUME}"', json.dumps(line))
    return json.loads(re.sub(rf'("id": "{key})\.(\d+)"', rf'\1.{VOLUME}.\2"', text))


def _figure(panel: Panel, volumes: int, x_range: Range1d, cursor: Span) -> figure:
    zoom = BoxZoomTool(dimensions="width")
    # A log axis without data warns; the page's script sets the range of the data.
    y_range = Range1d(start=1, end=10) if panel.log else DataRange1d(range_padding=0.08, only_visible=True, start=0)
    plot = figure(
        name=panel.key,
        height=panel.height_px,
        sizing_mode="stretch_width",
        x_range=x_range,
        y_range=y_range,
        y_axis_type="log" if panel.log else "linear",
        tools=[
            zoom,
            WheelZoomTool(dimensions="width"),
            ResetTool(),
            CrosshairTool(overlay=cursor, dimensions="height"),
        ],
        active_drag=zoom,
        active_scroll=None,
        toolbar_location=None,
        min_border_left=66,
        min_border_right=12,
        min_border_top=4,
        min_border_bottom=8,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        output_backend="canvas",
    )
    plot.yaxis.axis_label = panel.unit
    plot.yaxis.ticker = FixedTicker(ticks=[]) if panel.log else BasicTicker(desired_num_ticks=4)
    if panel.log:  # the page's script sets the ticks where the data are; 100, not 10 to the power of 2
        plot.yaxis.formatter = NumeralTickFormatter(format="0.[0000]")
    plot.xaxis.axis_label = "seconds"
    plot.xaxis.visible = False  # the page's script shows it in the lowest chart
    _strips(plot, panel)
    _marks(plot, panel)
    for volume in range(volumes):
        _lines(plot, panel, volume)
    return plot


def _strips(plot: figure, panel: Panel) -> None:
    """Add the intervals behind the lines: not measured, and stalled."""
    for name, alpha in (("unmeasured", 0.13), ("stall", 0.3)):
        source = ColumnDataSource(data={"x0": [], "x1": [], "color": []}, name=f"{name}:{panel.key}")
        strip = VStrip(x0="x0", x1="x1", fill_alpha=alpha, line_alpha=0, fill_color="color")
        plot.add_glyph(source, strip, level="underlay")


def _marks(plot: figure, panel: Panel) -> None:
    """Add the moments that findings speak of: a line with a number, which the page's list explains."""
    source = ColumnDataSource(data={"x": [], "text": [], "color": [], "dy": []}, name=f"mark:{panel.key}")
    plot.add_glyph(source, VSpan(x="x", line_width=1.2, line_dash="4 3", line_color="color"), level="overlay")
    labels = LabelSet(
        x="x",
        y=panel.height_px - _MARK_BELOW_TOP_PX,
        y_units="screen",
        x_offset=3,
        y_offset="dy",
        text="text",
        source=source,
        text_font_size="10px",
        text_font_style="bold",
        text_color="color",
    )
    plot.add_layout(labels)


def _lines(plot: figure, panel: Panel, volume: int) -> None:
    for line in panel.lines:
        name = f"{panel.key}.{line.key}.{volume}"
        bars = ColumnDataSource(data={"x": [], "low": [], "high": []}, name=f"range:{name}")
        plot.segment(
            x0="x", x1="x", y0="low", y1="high", source=bars, line_alpha=0.25, line_width=2, name=f"bars:{name}"
        )
        # No value until the page's script sets the measured ones: the chart never shows what was not measured.
        nothing = [float("nan")] * 2
        source = ColumnDataSource(data={"x": [0, 1], "y": nothing}, name=f"line:{name}")
        plot.line("x", "y", source=source, line_dash=line.dash, line_width=1.6, name=f"glyph:{name}")
