"""Rows of storage classes as version 1 wrote them: a short real run on MariaDB 10.11, two volumes emulated."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from volbench.core.records.goals.pricing import StorageClassRow
from volbench.core.records.report import Report
from volbench.results.report.formats.markdown import markdown

HERE = Path(__file__).parent
ROWS = TypeAdapter(tuple[StorageClassRow, ...])


def test_markdown_of_storage_classes() -> None:
    rows = ROWS.validate_json((HERE / "storage-classes.json").read_bytes())
    report = Report.model_validate_json((HERE / "report.json").read_bytes())
    text = markdown(report.model_copy(update={"storage_classes": rows}))
    table, notes = text[text.index("| read-write threads=4 | transactions/s |") :].split("\n\n")[:2]
    assert f"{table}\n\n{notes}\n" == (HERE / "storage-classes.md").read_text()
