"""The rows of comparisons in the report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from volbench.core.records.report import AdjustmentRow, ComparisonRow
from volbench.results.compare.comparison import Comparison


def comparison_rows(comparisons: Iterable[Comparison]) -> tuple[ComparisonRow, ...]:
    """Return the comparisons as rows of report.json."""
    return tuple(ComparisonRow.model_validate(_known_fields(comparison)) for comparison in comparisons)


def _known_fields(comparison: Comparison) -> dict[str, Any]:
    names = {field.name for field in fields(Comparison)} & set(ComparisonRow.model_fields)
    adjustments = [
        AdjustmentRow.model_validate(adjustment, from_attributes=True) for adjustment in comparison.adjustments
    ]
    return {**{name: getattr(comparison, name) for name in names}, "adjustments": adjustments}
