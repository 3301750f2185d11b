"""Validations, plans and policies of schema 1 are read, and have today's names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from json_schemas import validator

from volbench.records.validation.result import VALIDATION_SCHEMA, Validation
from volbench.store.files import read_record
from volbench.suite.policy import load_policy
from volbench.suite.validation import load_validation_plan

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "results/examples/validation"


@pytest.mark.parametrize("name", ["clean", "planted"])
def test_a_validation_of_schema_1_says_what_its_successor_says(name: str) -> None:
    older = HERE / f"validation-schema-1/{name}.json"
    validator(HERE / "schema-1/validation.schema.json").validate(json.loads(older.read_text()))
    latest = EXAMPLES / name / "validation.json"
    assert json.loads(latest.read_text())["schema"] == VALIDATION_SCHEMA
    assert read_record(older, Validation, schema=VALIDATION_SCHEMA) == Validation.model_validate_json(
        latest.read_text()
    )


def test_a_policy_of_schema_1_means_what_the_shipped_one_means() -> None:
    warnings: list[str] = []
    older = load_policy(HERE / "policies/move-to-new-volume-1.yaml", warn=warnings.append).policy
    latest = load_policy(Path("suites/policies/move-to-new-volume.yaml")).policy
    assert older.conditions == latest.conditions
    assert any(condition.rationale for condition in older.conditions)
    assert [warning.partition(";")[0].partition(": ")[2] for warning in warnings] == [
        f"conditions.{number}.why: this key is called 'rationale' now"
        for number, condition in enumerate(older.conditions)
        if condition.rationale
    ]


def test_a_plan_of_schema_1_is_read_with_a_warning_for_each_older_key() -> None:
    warnings: list[str] = []
    plan = load_validation_plan(HERE / "policies/validation-plan-1.yaml", warn=warnings.append).plan
    assert plan.burst is not None
    assert plan.growth is not None
    assert (plan.burst.duration_s, plan.growth.horizon_s) == (12 * 3600, 30 * 86400)
    assert plan.policy[0].rationale == "what the application promises its users"
    assert [warning.split(": ")[1] for warning in warnings] == ["burst.lasts", "growth.lasts", "policy.0.why"]
