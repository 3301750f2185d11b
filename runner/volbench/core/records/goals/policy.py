"""A policy file: the conditions under which a change of storage is a go."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from volbench.core.records.base import Fraction, Record

POLICY_SCHEMA: Literal[2] = 2


class PolicyCondition(Record):
    """One condition, optionally for some volumes or steps only."""

    check: str = Field(min_length=1, max_length=300, description="The condition: `latency_ms_p95 <= 20 ms`.")
    volume: str = Field(default="", description="Only this volume, by name or role; else the candidates.")
    step: str = Field(default="", description="Only this step; else all that have the metric.")
    rationale: str = Field(default="", description="Shown with the condition.")


def _from_text(value: Any) -> Any:
    return {"check": value} if isinstance(value, str) else value


Condition = Annotated[PolicyCondition, BeforeValidator(_from_text)]
"""A condition as policies have it: a sentence, or a mapping with the sentence under `check`."""


class PolicyFile(Record):
    """Conditions that must all hold. `current` and `candidate` are roles that conditions may name."""

    schema_: Literal[2] = Field(default=POLICY_SCHEMA, alias="schema", description="Version of this format.")
    name: str = Field(default="policy", max_length=120, description="Shown in every output.")
    current: str = Field(default="", description="The volume in use now; the run's first one if left out.")
    candidate: str = Field(default="", description="The volume to move to; all the others if left out.")
    confidence: Fraction = Field(
        default=0.95, gt=0.5, lt=1, description="How sure each decision has to be; beyond it nothing is decided."
    )
    findings_from: Fraction = Field(
        default=0.5, ge=0, le=1, description="A finding with less confidence than this decides nothing."
    )
    conditions: tuple[Condition, ...] = Field(min_length=1, max_length=1000, description="All must hold for a go.")
