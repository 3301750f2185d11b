"""The interactive timelines: Bokeh figures that share one time axis and one cursor.

Figures have no data: the page's script fills them from the timelines of the chosen step and repeat, and colours
them by the page's style, so that dark mode and print follow the reader's choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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

from volbench.report.views.panels import PANELS, Panel

_MARK_BELOW_TOP_PX = 26
"""From a chart's top to the foot of a mark's number: the borders and the number's height."""


@dataclass(frozen=True, kw_only=True)
class Charts:
    """The parts of the page: Bokeh's JavaScript, the script that makes the figures, one div a panel."""

    library: str
    script: str
    panels: tuple[tuple[Panel, str], ...]


def panels_with_data(lines: Iterable[str]) -> list[Panel]:
    """Return the panels for which a cell has a line (`panel.line`)."""
    present = {line.split(".", 1)[0] for line in lines}
    return [panel for panel in PANELS if panel.key in present]


def charts(panels: list[Panel], volumes: int) -> Charts:
    """Return figures of the panels for a number of volumes."""
    x_range = Range1d(start=0, end=1, name="time")
    cursor = Span(dimension="height", line_width=1, line_color="gray", name="cursor")
    figures: dict[str, Model] = {panel.key: _figure(panel, volumes, x_range, cursor) for panel in panels}
    script, divs = components(figures, wrap_script=False) if figures else ("", {})
    library = "\n".join(Resources(mode="inline", components=["bokeh"]).js_raw) if figures else ""
    div_by_key: Mapping[str, str] = divs
    return Charts(library=library, script=script, panels=tuple((panel, div_by_key[panel.key]) for panel in panels))


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
    for volume in range(volumes):
        _lines(plot, panel, volume)
    _marks(plot, panel)
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
        x="x", y=panel.height_px - _MARK_BELOW_TOP_PX, y_units="screen", x_offset=3, y_offset="dy",
        text="text", source=source,
        text_font_size="10px", text_font_style="bold", text_color="color",
    )  # fmt: skip
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
