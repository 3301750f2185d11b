"""The balance of a bucket as text for a terminal, and as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from volbench.core.base.text import duration
from volbench.core.profile.arrays import Floats
from volbench.results.credits.answer import CreditForecast
from volbench.results.credits.forecast import Forecast
from volbench.results.report.credits.data import time_text
from volbench.results.report.views.charts import ChartGroup, ChartLine, LineChart
from volbench.results.report.views.panels import Dash
from volbench.results.report.views.sections import Charts, Document, Items, Section, Text
from volbench.results.store.files import write_atomically

_ROWS = 8
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_MARGIN = 6
_HOUR_S = 3600.0
_DASHES: tuple[Dash, ...] = ("solid", "dashed")
_WHY_NO_CHART = "There is no balance to draw: the volume has no bucket of credits, or no load spends them."


def text_plot(answer: CreditForecast, *, width: int) -> str:
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


def write_html(path: Path, answer: CreditForecast, sentences: Sequence[str]) -> None:
    """Write one file that needs no network. Raises OSError when that fails."""
    # A page needs the template engine; what needs no page does not wait for it.
    from volbench.results.report.formats.sections import sections_page  # noqa: PLC0415

    group = _group(answer)
    figure = Text(_WHY_NO_CHART, "warning") if group is None else Charts(group)
    document = Document(
        kind="forecast of burst credits",
        title=f"Credit balance of {answer.volume.title}",
        sections=(Section("", (Items(tuple(sentences)), figure)),),
    )
    write_atomically(path, sections_page(document))


def _group(answer: CreditForecast) -> ChartGroup | None:
    """Return the chart of the balance: in percent of the bucket, over a clock's time or hours."""
    work, forecasts = (
        answer.work,
        [("gaps at the baseline" if answer.with_idle_gaps else "balance", answer.forecast)],
    )
    if answer.with_idle_gaps is not None:
        forecasts.append(("gaps idle", answer.with_idle_gaps))
    if work is None:
        return None
    is_clock = work.clock != "none"
    lines = []
    for (name, forecast), dash in zip(forecasts, _DASHES, strict=False):
        if forecast is not None and forecast.bucket is not None and len(forecast.balance) > 1:
            times = np.array([point.t_s for point in forecast.balance])
            balance = np.array([point.balance for point in forecast.balance])
            lines.append(
                ChartLine(
                    label=name,
                    t=times + work.start_s if is_clock else times / _HOUR_S,
                    value=100.0 * balance / (forecast.bucket.capacity or 1.0),
                    dash=dash,
                )
            )
    if not lines:
        return None
    return ChartGroup(
        charts=(LineChart(key="balance", title="Balance", unit="% of the bucket", lines=tuple(lines)),),
        begin=float(min(line.t[0] for line in lines)),
        end=float(max(line.t[-1] for line in lines)),
        is_clock=is_clock,
        unit="h",
    )


def _shares(forecast: Forecast, at_s: Floats) -> Floats:
    """Return the balance as a share of the bucket at each time."""
    capacity = (forecast.bucket.capacity if forecast.bucket else None) or 1.0
    times = [point.t_s for point in forecast.balance]
    return np.interp(at_s, times, [point.balance / capacity for point in forecast.balance])


def _bar(eighths_high: float) -> str:
    return _EIGHTHS[int(np.clip(round(eighths_high * 8), 0, 8))]
