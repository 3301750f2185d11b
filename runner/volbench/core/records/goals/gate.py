"""What a policy says about a run: go, no-go or undecided, and why."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from volbench.core.records.base import Record, Scalar

GATE_SCHEMA = 2
Decision = Literal["go", "no-go", "undecided"]


class GroupRow(Record):
    """A condition on one volume, step and set of parameters."""

    volume: str
    step: str = ""
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    decision: Decision
    text: str = Field(description="What was seen, in a sentence with its numbers.")
    cells: int = Field(description="Valid cells that it rests on.")
    more_cells: int | None = Field(default=None, description="Further cells a volume that would decide, estimated.")


class ConditionRow(Record):
    """One condition: `go` when it holds everywhere, `no-go` when it fails anywhere, else `undecided`."""

    check: str
    where: str = Field(description="File and line of the condition.")
    rationale: str = ""
    decision: Decision
    reason: str = ""
    groups: tuple[GroupRow, ...] = ()


class Gate(Record):
    """The decision on a run by a policy."""

    schema_: int = Field(default=GATE_SCHEMA, alias="schema")
    decision: Decision
    reason: str
    policy: str
    policy_sha256: str
    run_id: str
    report_sha256: str
    suite: str
    current: str
    candidates: tuple[str, ...]
    emulated: tuple[str, ...] = Field(description="Volumes that were emulated: a rehearsal, not the real thing.")
    complete: bool
    confidence: float
    conditions: tuple[ConditionRow, ...]
    volbench_version: str
