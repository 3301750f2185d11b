"""The suite file's model; its JSON Schema is shipped for editors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from volbench.core.records.base import Fraction, Plain, Record, Scalar
from volbench.core.records.cell import SamplingSpec, ServerSpec, ValidityLimits
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.forecast import ForecastSpec
from volbench.core.records.goals.pricing import PricingSpec
from volbench.core.records.metrics import CATALOGUE
from volbench.core.records.run import CELLS_UNTIL_DECIDED, ComparisonSpec, ResolvedSuite
from volbench.core.records.steps import STEP_KINDS, Step
from volbench.core.records.steps.cold_read import ColdReadStep
from volbench.core.records.steps.instances import InstancesStep
from volbench.core.records.steps.oltp import OltpStep
from volbench.core.records.steps.replay import ReplayStep
from volbench.core.records.steps.replica import ReplicaStep
from volbench.core.records.steps.restored import RestoredStep
from volbench.core.records.sweep import SweepSpec

PINNED_DURABILITY: dict[str, Scalar] = {
    "innodb_flush_log_at_trx_commit": 1,
    "sync_binlog": 1,
    "log_bin": "binlog",
    "innodb_doublewrite": 1,
    "innodb_flush_method": "O_DIRECT",
}
"""Default durability settings of every suite: MySQL and MariaDB have different defaults (binary log on and off),
which would make no storage comparison."""


SUITE_SCHEMA: Literal[2] = 2
FULL_SCALE = "full"
ScaleName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")]


class SuiteFile(Record):
    """A suite: engine, dataset, steps, repeats, and how volumes are compared."""

    schema_: Literal[2] = Field(default=SUITE_SCHEMA, alias="schema", description="Version of this format.")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$", description="Becomes part of the run's directory name.")
    description: str = Field(default="", description="What the suite is for, in a sentence.")
    underpowered: bool = Field(
        default=False,
        description="Says in every report that cells are few or short on purpose.",
    )
    engine: ServerSpec = Field(
        default=ServerSpec(), description="The MySQL or MariaDB server and its configuration."
    )
    dataset: DatasetSpec = Field(default=DatasetSpec(), description="The data that every cell starts from.")
    steps: tuple[Step, ...] = Field(
        min_length=1, description="Run in this order in each cell, on one copy of the data."
    )
    repeats: int = Field(default=5, ge=1, le=1000, description="Cells per volume; fewer than 4 decide nothing.")
    replacements: Fraction = Field(
        default=0.5,
        description="At most this share of the planned cells is repeated if other work made them invalid.",
    )
    seed: int = Field(default=1, ge=0, description="Seed of the order of cells and of sysbench.")
    sampling: SamplingSpec = Field(default=SamplingSpec(), description="Grid and sources of the samplers.")
    limits: ValidityLimits = Field(default=ValidityLimits(), description="Beyond these a step is invalid.")
    comparison: ComparisonSpec = Field(default=ComparisonSpec(), description="How volumes are compared.")
    sweep: SweepSpec | None = Field(
        default=None, description="Factors to vary; each volume runs every combination."
    )
    forecast: ForecastSpec | None = Field(
        default=None, description="Expected exhaustion of burst credits, printed before the run."
    )
    pricing: PricingSpec | None = Field(
        default=None, description="Adds speed, durability and price of the volumes to the report, in one table."
    )
    volumes: dict[str, str] = Field(
        default_factory=dict,
        description="Volumes by name, as SPECs; --volume replaces them. The first is the baseline.",
    )
    scale: str = Field(
        default=FULL_SCALE,
        description="`full`: unscaled; else a name in `scales`, such as `--set scale=ci`.",
    )
    scales: dict[ScaleName, dict[str, Plain]] = Field(
        default_factory=dict,
        description="Other sizes of the suite: the keys that each changes, written as for `--set`.",
    )

    @field_validator("comparison")
    @classmethod
    def _metrics_are_known(cls, comparison: ComparisonSpec) -> ComparisonSpec:
        for name in comparison.metrics or ():
            if name not in CATALOGUE:
                raise ValueError(f"no metric is called {name!r} (known: {', '.join(CATALOGUE)})")
        return comparison

    @model_validator(mode="after")
    def _scale_is_there(self) -> SuiteFile:
        if FULL_SCALE in self.scales:
            raise ValueError(f"scales.{FULL_SCALE}: `full` is the unscaled suite and cannot be redefined")
        if self.scale != FULL_SCALE and self.scale not in self.scales:
            raise ValueError(
                f"no scale is called {self.scale!r} (there are: {', '.join((FULL_SCALE, *self.scales))})"
            )
        return self

    @model_validator(mode="after")
    def _steps_of_the_headline_are_there(self) -> SuiteFile:
        names = [step.name or step.kind for step in self.steps]
        for row in self.comparison.about:
            if row.partition("/")[0] not in names:
                raise ValueError(f"comparison.about: no step is called {row!r} (there are: {', '.join(names)})")
        return self

    @model_validator(mode="after")
    def _priced_step_is_there(self) -> SuiteFile:
        names = [step.name or step.kind for step in self.steps]
        if self.pricing is not None and self.pricing.step.partition("/")[0] not in names:
            raise ValueError(
                f"pricing.step: no step is called {self.pricing.step!r} (there are: {', '.join(names)})"
            )
        return self

    @model_validator(mode="after")
    def _can_be_decided(self) -> SuiteFile:
        if self.comparison.until != "decided":
            return self
        fewest, most = CELLS_UNTIL_DECIDED
        if self.sweep is not None:
            raise ValueError("comparison.until: a sweep runs every planned cell; use all_cells")
        if not fewest <= self.repeats <= most:  # such as `--set repeats=1` of a suite that says `decided`
            every = self.comparison.model_copy(update={"until": "all_cells"})
            return self.model_copy(update={"comparison": every})
        return self

    @model_validator(mode="after")
    def _ladders_are_not_swept(self) -> SuiteFile:
        for number, step in enumerate(self.steps):
            if isinstance(step, OltpStep) and step.threads_max is not None and self.sweep is not None:
                raise ValueError(
                    f"steps.{number}: `threads_max` finds one load, and a sweep may need others; set `threads`"
                )
        return self

    @model_validator(mode="after")
    def _steps_follow_those_they_need(self) -> SuiteFile:
        kinds = [step.kind for step in self.steps]
        for number, kind in enumerate(kinds):
            before = STEP_KINDS[kind].after
            if before and before not in kinds[:number]:
                raise ValueError(f"steps.{number}: a {kind} step needs a {before} step before it")
        return self

    @model_validator(mode="after")
    def _tests_have_their_tables(self) -> SuiteFile:
        for number, step in enumerate(self.steps):
            if isinstance(step, OltpStep) and not step.script and self.dataset.is_own:
                raise ValueError(
                    f"steps.{number}: {step.test} needs sysbench's tables, the dataset has its own: "
                    "give `test` the path of a Lua script"
                )
            if isinstance(step, RestoredStep | InstancesStep | ReplicaStep) and self.dataset.is_own:
                raise ValueError(f"steps.{number}: {step.kind} needs sysbench's tables, not own data")
            if isinstance(step, ReplayStep) and not self.dataset.is_own:
                raise ValueError(f"steps.{number}: a replay needs a dataset of your own: dump, schema or script")
            if isinstance(step, ColdReadStep) and step.table_scan and self.dataset.is_own:
                raise ValueError(f"steps.{number}: table_scan needs sysbench's tables: set table_scan: false")
        return self

    def resolved(self) -> ResolvedSuite:
        """Return the suite with every default filled in and each step named."""
        return ResolvedSuite(
            name=self.name,
            description=self.description,
            underpowered=self.underpowered,
            server=self.engine.model_copy(update={"config": {**PINNED_DURABILITY, **self.engine.config}}),
            dataset=self.dataset,
            steps=_expanded(self.steps),
            repeats=self.repeats,
            replacements=self.replacements,
            seed=self.seed,
            sampling=self.sampling,
            limits=self.limits,
            comparison=self.comparison,
            scale=self.scale,
            sweep=self.sweep,
            forecast=self.forecast,
            pricing=self.pricing,
        )


def _expanded(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return one step for each value of an expanded parameter, each with a name; a repeated name gets a number."""
    expanded: list[Step] = []
    counts: dict[str, int] = {}
    for step in steps:
        name = step.name or step.kind
        counts[name] = counts.get(name, 0) + 1
        update: dict[str, Any] = {"name": name if counts[name] == 1 else f"{name}-{counts[name]}"}
        key = STEP_KINDS[step.kind].expanded
        values = [{key: (value,)} for value in getattr(step, key)] if key else [{}]
        expanded.extend(step.model_copy(update=update | value) for value in values)
    return tuple(expanded)
