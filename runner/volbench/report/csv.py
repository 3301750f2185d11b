"""The report as CSV, long format: one line for each metric of each step of each cell."""

from __future__ import annotations

import csv as standard_csv
import io
import json

from volbench.records.report import Report

COLUMNS = (
    "run_id", "suite", "volume", "cell_id", "block", "repeat", "step", "kind", "parameters", "valid",
    "invalid_reasons", "metric", "value", "unit", "better",
)  # fmt: skip


def csv(report: Report) -> str:
    """All values unrounded, RFC 4180 with a header; `parameters` is JSON, `valid` is true or false."""
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
            writer.writerow({**about, "metric": name, **metric.model_dump()})
    return text.getvalue()
