"""The rows of comparisons in the report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from volbench.core.records.report import ComparisonRow
from volbench.results.compare.comparison import Comparison


def comparison_rows(comparisons: Iterable[Comparison]) -> tuple[ComparisonRow, ...]:
    """Return the comparisons as rows of report.json."""
    names = {field.name for field in fields(Comparison)} & set(ComparisonRow.model_fields)
    return tuple(ComparisonRow.model_validate({name: getattr(c, name) for name in names}) for c in comparisons)
