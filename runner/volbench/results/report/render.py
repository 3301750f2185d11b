"""A report in one of the formats, and the three files that every run gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from volbench.core.records.report import Report
from volbench.results.explain.accounts.what_if import OtherVolume
from volbench.results.report.build import report_of
from volbench.results.report.formats.csv import csv
from volbench.results.report.formats.html import html
from volbench.results.report.formats.junit import junit
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.page_data import page_data
from volbench.results.store.files import write_atomically
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory

TextFormat = Literal["md", "json", "junit", "csv"]
Format = Literal["html", TextFormat]
DEFAULT_FORMATS: tuple[Format, ...] = ("json", "md", "html")
"""The formats in every run's directory; json first, since scripts wait for it."""


def render(report: Report, directory: RunDirectory, format_name: Format) -> str:
    """Return the report of a run's directory as text. Only HTML reads the run, for its charts."""
    if format_name == "html":
        return html(report, page_data(report, load_run(directory)))
    return text_of(report, format_name)


def text_of(report: Report, format_name: TextFormat) -> str:
    """Return the report as text, in a format that is made of the report only."""
    match format_name:
        case "json":
            return report.model_dump_json(indent=1, by_alias=True) + "\n"
        case "md":
            return markdown(report)
        case "junit":
            return junit(report)
        case "csv":
            return csv(report)


def write_reports(
    directory: RunDirectory, *, what_if: Sequence[OtherVolume] = ()
) -> tuple[Report, tuple[Path, ...]]:
    """Build the report and write report.json, report.md and report.html, each atomically. The run is read once.

    Raises RunUnreadable naming a file of the run that is damaged or was not written by volbench.
    """
    loaded = load_run(directory)
    report = report_of(loaded, what_if=what_if)
    written = []
    for format_name in DEFAULT_FORMATS:
        path = directory.path / f"report.{format_name}"
        content = html(report, page_data(report, loaded)) if format_name == "html" else text_of(report, format_name)
        write_atomically(path, content)
        written.append(path)
    return report, tuple(written)
