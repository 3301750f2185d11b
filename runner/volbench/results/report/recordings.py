"""Recordings of other tools as they were explained: the table of files as text and JSON, a page with curves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from volbench.results.explain.recordings.directory import RecordedExplanation
from volbench.results.explain.recordings.timeline import TimelineExplanation
from volbench.results.recorded.table import FileRow
from volbench.results.recorded.window import clock_text
from volbench.results.store.files import write_atomically

_HEADINGS = ("file", "what it is", "host", "device", "from", "to", "zone", "points", "used")
_DEVICES_SHOWN = 4
_POINTS_MAX = 20_000


def file_lines(rows: Sequence[FileRow]) -> Iterator[str]:
    """Yield the table of files in aligned columns; the last one says `yes`, or why a file is not used."""
    cells = [_HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(_HEADINGS) - 1)]
    for line in cells:
        yield "  ".join(
            [*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]
        ).rstrip()


def file_data(rows: Sequence[FileRow]) -> list[dict[str, Any]]:
    """Return the table of files for JSON."""
    return [dataclasses.asdict(row) for row in rows]


def span_text(window_s: tuple[float, float] | None, *, clocked: bool) -> str:
    """Return a stretch of time in words, with times of day where they are known."""
    if window_s is None:
        return ""
    if clocked:
        return f"{clock_text(window_s[0])} to {clock_text(window_s[1])}"
    return f"{window_s[0]:g} s to {window_s[1]:g} s"


def write_html(path: Path, explanation: RecordedExplanation, sentences: Sequence[Sequence[str]]) -> None:
    """Write one file that needs no network: the table, and each timeline with its curves and its sentences.

    Args:
        path: of the file.
        explanation: what it shows.
        sentences: lines of each timeline, as the terminal has them.

    Raises OSError when the file cannot be written.
    """
    # Bokeh takes half a second to import; what needs no chart does not wait for it.
    from bokeh.embed import file_html  # noqa: PLC0415
    from bokeh.layouts import column  # noqa: PLC0415
    from bokeh.models import ColumnDataSource  # noqa: PLC0415
    from bokeh.models.widgets import DataTable, Div, PreText, TableColumn  # noqa: PLC0415
    from bokeh.resources import INLINE  # noqa: PLC0415

    cells = [_cells(row) for row in explanation.table]
    source = ColumnDataSource({heading: [row[at] for row in cells] for at, heading in enumerate(_HEADINGS)})
    table = DataTable(
        source=source,
        columns=[TableColumn(field=heading, title=heading) for heading in _HEADINGS],
        height=60 + 26 * min(len(cells), 20),
        sizing_mode="stretch_width",
    )
    notes = [Div(text=note, disable_math=True, render_as_text=True) for note in explanation.sorting]
    blocks: list[Any] = [table, *notes]
    for timeline, lines in zip(explanation.timelines, sentences, strict=True):
        blocks += [*_charts(timeline), PreText(text="\n".join(lines), sizing_mode="stretch_width")]
    write_atomically(path, file_html(column(*blocks, sizing_mode="stretch_width"), INLINE, "Recordings"))


def _charts(timeline: TimelineExplanation) -> Iterator[Any]:
    """Yield a chart of each kind of curve that a timeline has; its episode or window is shaded."""
    from bokeh.models.annotations import BoxAnnotation  # noqa: PLC0415
    from bokeh.plotting import figure  # noqa: PLC0415

    device = timeline.device
    host = f"{timeline.timeline.host}, " if timeline.timeline.host else ""
    curves = {
        "operations/s": None if device is None else device.iops,
        "MiB/s": None if device is None else device.mib_per_s,
        "ms an operation": None if device is None else device.await_ms,
        "operations in flight": None if device is None else device.in_flight,
        "transactions/s": timeline.grid.column("client", "tps"),
    }
    step = max(1, len(timeline.grid) // _POINTS_MAX)
    scale = 1000.0 if timeline.clocked else 1.0
    for name, values in curves.items():
        if values is None:
            continue
        chart = figure(
            title=f"{host}{timeline.title}: {name}",
            height=220,
            sizing_mode="stretch_width",
            x_axis_type="datetime" if timeline.clocked else "linear",
            x_axis_label="" if timeline.clocked else "s",
            tools="xpan,xwheel_zoom,xbox_zoom,reset,hover",
        )
        chart.line(timeline.grid.t_s[::step] * scale, values[::step], line_width=1.5)
        if timeline.window_s is not None:
            begin_s, end_s = timeline.window_s
            chart.add_layout(
                BoxAnnotation(left=begin_s * scale, right=end_s * scale, fill_alpha=0.12, fill_color="red")
            )
        yield chart


def _cells(row: FileRow) -> tuple[str, ...]:
    devices = ", ".join(row.devices[:_DEVICES_SHOWN])
    if len(row.devices) > _DEVICES_SHOWN:
        devices += f" and {len(row.devices) - _DEVICES_SHOWN} more"
    points = str(row.points) if row.points else ""
    return (
        row.file,
        row.kind or "?",
        row.host,
        devices,
        row.begin,
        row.end,
        row.zone,
        points,
        "yes" if row.used else f"no: {row.why_not}",
    )
