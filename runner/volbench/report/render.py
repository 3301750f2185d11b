"""A report in the format that was asked for, and the three files that every run gets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from volbench.analysis.explain.what_if import OtherVolume
from volbench.records.report import Report
from volbench.report.build import build_report
from volbench.report.csv import csv
from volbench.report.html import html
from volbench.report.junit import junit
from volbench.report.markdown import markdown
from volbench.store.files import write_atomically
from volbench.store.run_directory import RunDirectory

Format = Literal["html", "md", "json", "junit", "csv"]
FORMATS: tuple[Format, ...] = get_args(Format)
WRITTEN: tuple[Format, ...] = ("json", "md", "html")
"""The formats that every run's directory holds; json first, since scripts wait for it."""


def render(report: Report, directory: RunDirectory, wanted: Format) -> str:
    """The report as text in the format `wanted`; only HTML reads more than the report, the cells' tables."""
    match wanted:
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
    """Build the report and write report.json, report.md and report.html, each whole or not at all.

    Raises RunUnreadable naming a file of the run that is damaged or foreign.
    """
    report = build_report(directory, what_if=what_if)
    written = []
    for wanted in WRITTEN:
        path = directory.path / f"report.{wanted}"
        write_atomically(path, render(report, directory, wanted))
        written.append(path)
    return report, tuple(written)
