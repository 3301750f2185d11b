"""Loads the plan of a validation as strictly as a suite."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volbench.core.records.validation.plan import ValidationPlan
from volbench.core.suite.document import parse_document
from volbench.core.suite.load import check_model, read_file


@dataclass(frozen=True, kw_only=True)
class LoadedPlan:
    """A plan, its text, and the file and line of each condition of its policy."""

    plan: ValidationPlan
    text: str
    origins: tuple[str, ...]


def load_validation_plan(path: Path) -> LoadedPlan:
    """Return the plan in a file. Raises UsageError listing every fault with file and line."""
    return check_validation_plan(read_file(path, noun="plan"), name=str(path))


def check_validation_plan(text: str, *, name: str) -> LoadedPlan:
    """Return the plan in a text. Raises UsageError as `load_validation_plan` does."""
    document = parse_document(text, name=name)
    plan = check_model(
        document, ValidationPlan, noun="plan", next_step="see suites/validation/README.md for every key"
    )
    origins = tuple(document.origin(("policy", number)) for number in range(len(plan.policy)))
    return LoadedPlan(plan=plan, text=text, origins=origins)
