"""Loads the plan of a validation as strictly as a suite."""

from __future__ import annotations

from pathlib import Path

from volbench.records.validation import ValidationPlan
from volbench.suite.document import parse_document
from volbench.suite.load import check_model, read_file


def load_validation_plan(path: Path) -> tuple[ValidationPlan, str]:
    """The plan in a file, and its text. Raises UsageError listing every fault with file and line."""
    text = read_file(path, noun="plan")
    document = parse_document(text, name=str(path))
    plan = check_model(
        document, ValidationPlan, noun="plan", next_step="see suites/validation/README.md for every key"
    )
    return plan, text
