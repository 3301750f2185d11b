"""run.json and journal.jsonl: a run's request, plan and events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from volbench.core.records.base import FileName, Fraction, Moment, Plain, Record, Scalar
from volbench.core.records.cell import SamplingSpec, ServerSpec, ValidityLimits
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.facts import HostFacts
from volbench.core.records.forecast import ForecastSpec
from volbench.core.records.goals.pricing import PricingSpec
from volbench.core.records.ladder import ThreadLadder
from volbench.core.records.layout import Role
from volbench.core.records.steps import Step
from volbench.core.records.sweep import SweepSpec

RUN_SCHEMA = 2


TargetName = Literal["local", "docker", "kubernetes", "attach"]


class VolumeSpec(Record):
    """A volume as the user named it: `NAME=KIND:LOCATION?OPTION=VALUE&...`."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,40}$")
    kind: Literal["path", "docker-volume", "nfs", "emulated", "pvc", "storage-class"]
    location: str
    options: dict[str, str] = Field(default_factory=dict)
    text: str = Field(description="The SPEC as given.")
    variant_of: str = Field(
        default="", description="In a sweep of volume options: the volume that this one is, but for those options."
    )
    roles: tuple[Role, ...] = Field(
        default=(), description="Of a component of a layout: what of a server it holds."
    )
    layout: tuple[VolumeSpec, ...] = Field(
        default=(), description="Of a layout: the volumes of logs and others; the volume itself holds the data."
    )


CELLS_UNTIL_DECIDED = (3, 20)
"""Fewest and most cells of each volume of a run that goes on until it is decided."""
PLANNED_UNTIL_DECIDED = 11
"""Cells of each volume that `--until decided` plans, unless the suite or `--set repeats=` says otherwise."""


class ComparisonSpec(Record):
    """How volumes are compared."""

    margin: Fraction = Field(default=0.05, gt=0, lt=1, description="Smaller differences do not matter in practice.")
    confidence: Fraction = Field(default=0.95, gt=0.5, lt=1)
    metrics: tuple[str, ...] | None = Field(default=None, description="Primary metrics; absent: the step's own.")
    about: tuple[str, ...] = Field(
        default=(),
        description="Rows of the report that the headline's figure is of, such as `small-files` or `tree/stat`; the"
        " first with a figure counts. Absent: the row with the largest difference, fio's last.",
    )
    until: Literal["all_cells", "decided"] = Field(
        default="all_cells",
        description="`decided`: look at the cells after each block from 3 against 3 on, and stop when every pair of"
        " volumes has a verdict; at most `repeats` cells of each volume. `confidence` is not used. With"
        " fewer than 3 or more than 20 `repeats` every planned cell is run.",
    )


class ResolvedSuite(Record):
    """A suite with every default filled in and every --set applied: what the run did."""

    name: str
    description: str = ""
    underpowered: bool = Field(
        default=False,
        description="Too few or too short cells for a firm verdict, on purpose.",
    )
    server: ServerSpec
    dataset: DatasetSpec
    steps: tuple[Step, ...]
    repeats: int = Field(ge=1, le=1000)
    replacements: Fraction = Field(default=0.5, description="Maximum share of planned cells that may be repeated.")
    seed: int
    sampling: SamplingSpec
    limits: ValidityLimits
    comparison: ComparisonSpec
    scale: str = Field(default="full", description="Size of the suite that was run; `full`: unscaled.")
    sweep: SweepSpec | None = None
    forecast: ForecastSpec | None = None
    pricing: PricingSpec | None = None


class PlannedCell(Record):
    """One cell in its place in the order."""

    cell_id: FileName
    volume: str
    block: int
    repeat: int
    parameters: dict[str, Scalar] = Field(default_factory=dict, description="Its combination of a sweep's factors.")
    seed: int


class RunRecord(Record):
    """run.json, written before the first cell."""

    schema_: int = Field(default=RUN_SCHEMA, alias="schema")
    run_id: FileName
    started_at: Moment
    volbench_version: str
    command: tuple[str, ...] = Field(description="The command line; passwords of DSNs in it are masked.")
    target: TargetName
    target_options: dict[str, Scalar] = Field(default_factory=dict)
    suite: ResolvedSuite
    suite_source: str = Field(description="The suite file as it was read.")
    volumes: tuple[VolumeSpec, ...]
    cells: tuple[PlannedCell, ...]
    host: HostFacts
    ladders: tuple[ThreadLadder, ...] = Field(
        default=(), description="Of each step with `threads_max`: the ladder that its threads come from."
    )


class JournalEvent(Record):
    """One line of journal.jsonl: appended and fsynced before the next thing is done."""

    at: Moment
    event: Literal[
        "run_started",
        "template_ready",
        "cell_started",
        "cell_finished",
        "cell_failed",
        "cell_abandoned",
        "run_interrupted",
        "run_resumed",
        "run_decided",
        "volume_decided",
        "run_extended",
        "run_finished",
        "cell_replaced",
        "volume_unavailable",
    ]
    cell_id: FileName | Literal[""] = ""
    attempt: int = 0
    details: dict[str, Plain] = Field(default_factory=dict)


def is_over_budget(events: Iterable[JournalEvent]) -> bool:
    """Return whether a run was stopped by its time budget, and not by a decision."""
    return any(
        event.event == "run_decided" and event.details.get("over_budget") is True
        for event in since_extended(events)
    )


def since_extended(events: Iterable[JournalEvent]) -> tuple[JournalEvent, ...]:
    """Return the events from the last one on that gave a run more cells; all of a run that got none."""
    every = tuple(events)
    last = max((position for position, event in enumerate(every) if event.event == "run_extended"), default=0)
    return every[last:]


def stopped_volumes(events: Iterable[JournalEvent]) -> dict[str, str]:
    """Return volumes that got no further cells once their pair had a verdict -> the volume that it was with."""
    return {
        str(event.details.get("volume")): str(event.details.get("against"))
        for event in events
        if event.event == "volume_decided"
    }


def skipped_cells(events: Iterable[JournalEvent]) -> frozenset[str]:
    """Return the ids of planned cells that a run, or their volume, was decided without."""
    every = tuple(events)
    decided = [event for event in every if event.event == "volume_decided"]
    decided += [event for event in since_extended(every) if event.event == "run_decided"]
    return frozenset(str(cell_id) for event in decided for cell_id in event.details.get("skipped", ()))


def not_begun(events: Iterable[JournalEvent]) -> frozenset[str]:
    """Return the ids of the cells that are to be repeated and were not started since."""
    waiting: set[str] = set()
    for event in events:
        if event.event == "cell_replaced" and event.cell_id:
            waiting.add(event.cell_id)
        elif event.event == "cell_started" and event.cell_id:
            waiting.discard(event.cell_id)
    return frozenset(waiting)


def repeated_cells(events: Iterable[JournalEvent]) -> frozenset[str]:
    """Return the ids of the cells whose repeat ended.

    One that is to be repeated anew, since it was cut short, is none.
    """
    chosen: set[str] = set()
    ended: set[str] = set()
    for event in events:
        if event.event == "cell_replaced" and event.cell_id:
            chosen.add(event.cell_id)
            ended.discard(event.cell_id)
        elif event.event == "cell_finished" and event.cell_id in chosen:
            ended.add(event.cell_id)
    return frozenset(ended)
