"""The balance of a bucket as text for a terminal, and as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from volbench.core.base.text import duration
from volbench.core.profile.limits import Floats
from volbench.results.credits.answer import Answer
from volbench.results.credits.forecast import Forecast
from volbench.results.report.credits.data import time_text
from volbench.results.store.files import write_atomically

_ROWS = 8
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_MARGIN = 6


def text_plot(answer: Answer, *, width: int) -> str:
    """Return bars of the balance over time, eight lines high; empty without a bucket. `?` marks gaps."""
    forecast, work = answer.forecast, answer.work
    if forecast is None or work is None or forecast.bucket is None or len(forecast.balance) < 2:
        return ""
    columns = max(width - _MARGIN - 2, 20)
    edges = np.linspace(0.0, forecast.balance[-1].t_s, columns + 1)
    shares = _shares(forecast, edges[1:])
    unknown = np.zeros(columns, dtype=bool)
    for begin_s, end_s in work.gaps:
        unknown |= (edges[1:] > begin_s) & (edges[:-1] < end_s) & (edges[1:] - begin_s >= edges[1] / 2)
    heading = "lowest balance" if len(work.interval_s) > len(forecast.balance) else "balance"
    gaps = "; ? marks gaps of the history" if unknown.any() else ""
    lines = [f"{heading} of {forecast.bucket.name}{gaps}"]
    for row in range(_ROWS - 1, -1, -1):
        mark = {_ROWS - 1: "100 %", 0: "0 %"}.get(row, "")
        cells = "".join(
            "?" if missing and row == 0 else _bar(share * _ROWS - row)
            for share, missing in zip(shares, unknown, strict=True)
        )
        lines.append(f"{mark:>{_MARGIN - 1}} |{cells}")
    first = time_text(work, 0.0) or "0"
    last = time_text(work, forecast.balance[-1].t_s) or duration(forecast.balance[-1].t_s)
    lines.append(f"{'':>{_MARGIN}}+{'-' * columns}")
    lines.append(f"{'':>{_MARGIN}} {first}{last:>{max(columns - len(first), 1)}}")
    return "\n".join(lines)


_DARK = """<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>
@media screen and (prefers-color-scheme: dark) {
  html, body { background: #14161a; color: #e6e8ec; }
  .bk-Figure { filter: invert(.92) hue-rotate(180deg); }
}
</style>
"""
"""Bokeh's page is white: in dark mode the background is dark and the chart is inverted, but keeps its hues."""


def write_html(path: Path, answer: Answer, sentences: Sequence[str]) -> None:
    """Write one file that needs no network. Raises OSError when that fails."""
    # Bokeh takes half a second to import; a forecast without a chart does not wait for it.
    from bokeh.embed import file_html  # noqa: PLC0415
    from bokeh.layouts import column  # noqa: PLC0415
    from bokeh.models.widgets import Div  # noqa: PLC0415
    from bokeh.plotting import figure  # noqa: PLC0415
    from bokeh.resources import INLINE  # noqa: PLC0415

    work, title = answer.work, f"Credit balance of {answer.volume.title}"
    dated = work is not None and work.clock != "none"
    chart = figure(
        title=title,
        height=380,
        sizing_mode="stretch_width",
        x_axis_type="datetime" if dated else "linear",
        x_axis_label="time" if dated else "hours",
        y_axis_label="% of the bucket",
        tools="xpan,xwheel_zoom,xbox_zoom,reset,hover",
    )
    for forecast, name, dash in (
        (answer.forecast, "gaps at the baseline" if answer.with_idle_gaps else "balance", "solid"),
        (answer.with_idle_gaps, "gaps idle", "dashed"),
    ):
        if forecast is not None and forecast.bucket is not None and work is not None:
            times = np.array([point.t_s for point in forecast.balance])
            x = (times + work.start_s) * 1000.0 if dated else times / 3600.0
            y = [100.0 * point.balance / (forecast.bucket.capacity or 1.0) for point in forecast.balance]
            chart.line(x, y, legend_label=name, line_dash=dash, line_width=2)
    texts = [Div(text=sentence, disable_math=True, render_as_text=True) for sentence in sentences]
    page = file_html(column(chart, *texts, sizing_mode="stretch_width"), INLINE, title)
    write_atomically(path, page.replace("</head>", f"{_DARK}</head>", 1))


def _shares(forecast: Forecast, at_s: Floats) -> Floats:
    """Return the balance as a share of the bucket at each time."""
    capacity = (forecast.bucket.capacity if forecast.bucket else None) or 1.0
    times = [point.t_s for point in forecast.balance]
    return np.interp(at_s, times, [point.balance / capacity for point in forecast.balance])


def _bar(eighths_high: float) -> str:
    return _EIGHTHS[int(np.clip(round(eighths_high * 8), 0, 8))]
