"""A report in one of the formats, and the three files that every run gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from volbench.analysis.explain.accounts.what_if import OtherVolume
from volbench.records.report import Report
from volbench.report.build import build_report
from volbench.report.formats.csv import csv
from volbench.report.formats.html import html
from volbench.report.formats.junit import junit
from volbench.report.formats.markdown import markdown
from volbench.store.files import write_atomically
from volbench.store.run_directory import RunDirectory

Format = Literal["html", "md", "json", "junit", "csv"]
FORMATS: tuple[Format, ...] = get_args(Format)
DEFAULT_FORMATS: tuple[Format, ...] = ("json", "md", "html")
"""The formats in every run's directory; json first, since scripts wait for it."""


def render(report: Report, directory: RunDirectory, format_name: Format) -> str:
    """Return the report as text in a format. Only HTML reads more than the report: the cells' tables."""
    match format_name:
        case "json":
            return report.model_dump_json(indent=1, by_alias=True) + "\n"
        case "md":
            return markdown(report)
        case "html":
            return html(report, directory)
        case "junit":
            return junit(report)
        case "csv":
            return csv(report)


def write_reports(
    directory: RunDirectory, *, what_if: Sequence[OtherVolume] = ()
) -> tuple[Report, tuple[Path, ...]]:
    """Build the report and write report.json, report.md and report.html, each atomically.

    Raises RunUnreadable naming a file of the run that is damaged or was not written by volbench.
    """
    report = build_report(directory, what_if=what_if)
    written = []
    for format_name in DEFAULT_FORMATS:
        path = directory.path / f"report.{format_name}"
        write_atomically(path, render(report, directory, format_name))
        written.append(path)
    return report, tuple(written)
