"""The report as CSV, long format: one line for each metric of each step of each cell."""

from __future__ import annotations

import csv as standard_csv
import io
import json

from volbench.core.base.text import escape_controls
from volbench.core.records.report import Report

COLUMNS = (
    "run_id",
    "suite",
    "volume",
    "cell_id",
    "block",
    "repeat",
    "step",
    "kind",
    "parameters",
    "valid",
    "invalid_reasons",
    "metric",
    "value",
    "unit",
    "better",
)
_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Source: OWASP, "CSV Injection"."""


def csv(report: Report) -> str:
    """Return all values unrounded, RFC 4180 with a header; `parameters` is JSON, `valid` is true or false.

    Text that a spreadsheet would take for a formula gets an apostrophe in front; numbers never do.
    """
    text = io.StringIO()
    writer = standard_csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    for cell in report.cells:
        about = {
            **cell.model_dump(include=set(COLUMNS)),
            "run_id": report.run_id,
            "suite": report.suite,
            "parameters": json.dumps(cell.parameters),
            "valid": str(cell.valid).lower(),
            "invalid_reasons": "; ".join(cell.invalid_reasons),
        }
        for name, metric in cell.metrics.items():
            row = {**about, "metric": name, **metric.model_dump()}
            writer.writerow({column: without_formula(value) for column, value in row.items()})
    return text.getvalue()


def without_formula(value: object) -> object:
    """Return the value; of text control characters as escapes, and an apostrophe before what begins a formula."""
    if not isinstance(value, str):
        return value
    prefix = "'" if value.startswith(_BEGINS_A_FORMULA) else ""
    return prefix + "\r".join(map(escape_controls, value.split("\r")))  # line ends are quoted
