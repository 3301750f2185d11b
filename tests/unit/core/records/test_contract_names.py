"""Property names of the files that others read and write are terms of the field.

Every word of a name counts: `held_share` is a name with `held`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from record_schemas import MODELS
from vocabulary import VAGUE

from volbench.core.profile.schema import Profile
from volbench.core.records.cell import PreparedTemplate
from volbench.core.records.goals.policy import PolicyFile
from volbench.core.records.validation.capture import Capture
from volbench.core.records.validation.plan import ValidationPlan
from volbench.core.records.validation.result import Validation
from volbench.core.suite.model import SuiteFile
from volbench.machine.engine.template import TemplateRecord
from volbench.observe.model import Incident, Observation
from volbench.results.credits.prices import Prices
from volbench.results.explain.calibration import Calibration
from volbench.results.site.index import Index

CONTRACTS: dict[str, type[BaseModel]] = {
    **MODELS,
    "suite": SuiteFile,
    "policy": PolicyFile,
    "plan": ValidationPlan,
    "validation": Validation,
    "capture": Capture,
    "profile": Profile,
    "prices": Prices,
    "observation": Observation,
    "incident": Incident,
    "site": Index,
    "calibration": Calibration,
    "template": TemplateRecord,
    "prepared": PreparedTemplate,
}
DIALECT = VAGUE | {
    *("cannot", "met", "how", "left", "too", "lasts", "took", "walked", "waited", "promises", "dated", "without"),
    *("regime", "present", "low_power", "each"),
}
"""Words that are no names, or say less than the term of the field."""
PHRASES = {"what_if", "at_rest"}
"""Terms of several words: a what-if analysis, encryption at rest."""
REMAINING: dict[str, set[str]] = {
    "profile": {"parts"},
    "prices": {"dated", "without"},
}
"""Names that are still to be changed, by contract; it only shrinks."""


def names(schema: Any) -> Iterator[str]:
    """Yield the names of all properties of a JSON Schema."""
    if isinstance(schema, dict):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, dict) else ()
    for child in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from names(child)


def vague(name: str) -> bool:
    return name not in PHRASES and (name in DIALECT or bool(DIALECT & set(name.split("_"))))


@pytest.mark.parametrize("contract", CONTRACTS)
def test_property_names_are_terms_of_the_field(contract: str) -> None:
    result = {name for name in names(CONTRACTS[contract].model_json_schema()) if vague(name)}
    assert result == REMAINING.get(contract, set())


def test_the_check_looks_at_every_word() -> None:
    assert [name for name in ("held_share", "way_ms_p50", "why", "share", "highest") if vague(name)] == [
        "held_share",
        "way_ms_p50",
        "why",
    ]
