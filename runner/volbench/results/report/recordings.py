"""Recordings of other tools as they were explained: the table of files as text and JSON, a page with curves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from volbench.core.base.text import aligned
from volbench.results.explain.recordings.directory import RecordedExplanation
from volbench.results.explain.recordings.timeline import TimelineExplanation
from volbench.results.explain.wording import clock
from volbench.results.recorded.table import FileRow
from volbench.results.recorded.window import clock_text
from volbench.results.report.views.charts import Band, ChartGroup, ChartLine, LineChart
from volbench.results.report.views.sections import Charts, Document, Lines, Section, Table, Text
from volbench.results.store.files import write_atomically

_HEADINGS = ("file", "what it is", "host", "device", "from", "to", "zone", "points", "used")
_DEVICES_SHOWN = 4


def file_lines(rows: Sequence[FileRow]) -> Iterator[str]:
    """Return the table of files in aligned columns; the last one says `yes`, or why a file is not used."""
    return aligned(_HEADINGS, map(_cells, rows))


def file_data(rows: Sequence[FileRow]) -> list[dict[str, Any]]:
    """Return the table of files for JSON."""
    return [dataclasses.asdict(row) for row in rows]


def span_text(window_s: tuple[float, float] | None, *, clocked: bool) -> str:
    """Return a stretch of time in words, with times of day where they are known."""
    if window_s is None:
        return ""
    if clocked:
        return f"{clock_text(window_s[0])} to {clock_text(window_s[1])}"
    return f"{clock(window_s[0])} to {clock(window_s[1])}"


def write_html(
    path: Path,
    explanation: RecordedExplanation,
    sentences: Sequence[Sequence[str]],
    of_sweeps: Sequence[Sequence[str]] = (),
) -> None:
    """Write one file that needs no network: the table, and each timeline with its curves and its sentences.

    Args:
        path: of the file.
        explanation: what it shows.
        sentences: lines of each timeline, as the terminal has them.
        of_sweeps: those of each sweep.

    Raises OSError when the file cannot be written.
    """
    files = Table(heads=_HEADINGS, rows=tuple(map(_cells, explanation.table)), has_figures=False)
    notes = (Text(note, "warning") for note in explanation.sorting)
    sweeps = (
        Section(sweep.title, (Lines("\n".join(lines[1:])),))
        for sweep, lines in zip(explanation.sweeps, of_sweeps, strict=True)
    )
    timelines = (
        _section(timeline, lines, f"t{number}")
        for number, (timeline, lines) in enumerate(zip(explanation.timelines, sentences, strict=True))
    )
    # A page needs the template engine; what needs no page does not wait for it.
    from volbench.results.report.formats.sections import sections_page  # noqa: PLC0415

    document = Document(
        kind="recordings of other tools",
        title="What the recordings tell",
        sections=(Section("Files", (files, *notes)), *sweeps, *timelines),
    )
    write_atomically(path, sections_page(document))


def _section(timeline: TimelineExplanation, lines: Sequence[str], name: str) -> Section:
    host, group = timeline.timeline.host, _group(timeline, name)
    caption = "Shaded: what is explained." if group is not None and group.bands else ""
    return Section(
        f"{host}, {timeline.title}" if host else timeline.title,
        (Lines("\n".join(lines)), *([Charts(group, caption)] if group is not None else [])),
    )


def _group(timeline: TimelineExplanation, name: str) -> ChartGroup | None:
    """Return a chart of each kind of curve that a timeline has; its episode or window is shaded."""
    device, grid = timeline.device, timeline.grid
    curves = {
        ("operations", "Operations", "1/s"): None if device is None else device.iops,
        ("throughput", "Throughput", "MiB/s"): None if device is None else device.mib_per_s,
        ("await", "Time of an operation", "ms"): None if device is None else device.await_ms,
        ("queue", "Operations in flight", "operations"): None if device is None else device.in_flight,
        ("transactions", "Transactions", "1/s"): grid.column("client", "tps"),
    }
    charts = tuple(
        LineChart(
            key=f"{name}-{key}", title=title, unit=unit, lines=(ChartLine(label="", t=grid.t_s, value=values),)
        )
        for (key, title, unit), values in curves.items()
        if values is not None and np.isfinite(values).any()
    )
    if not charts:
        return None
    return ChartGroup(
        name=name,
        charts=charts,
        begin=float(grid.t_s[0] - grid.width_s),
        end=float(grid.t_s[-1]),
        is_clock=timeline.clocked,
        bands=() if timeline.window_s is None else (Band(begin=timeline.window_s[0], end=timeline.window_s[1]),),
    )


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
