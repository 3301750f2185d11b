"""What the rest of volbench has to know of a kind of step, apart from how it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from volbench.core.records.base import Scalar
from volbench.core.records.metric import Metric
from volbench.core.records.steps.base import StepBase
from volbench.errors import MissingPrerequisite

Explained = Literal["whole", "phases", "points", "no"]
FileGroup = Literal["one large file", "small files", "MySQL's tables"]
STREAM_PARAMETERS = ("threads", "jobs", "readers", "iodepth", "numjobs")
WRITES_FILES = "this step writes to the server's volume"
"""Why several kinds need a server of their own."""
STREAMS_MAX = 1_000_000
"""No step has more operations under way; a larger number is damage."""


@dataclass(frozen=True, kw_only=True)
class WarmReads:
    """A cold and a warm read of the same files, in two rows or in one.

    Args:
        suffix: of both rows' names, before `_cold` and `_warm`; empty: one row has both metrics.
        cold, warm: the metrics.
    """

    suffix: str
    cold: str
    warm: str


@dataclass(frozen=True, kw_only=True)
class StepKind:
    """One kind of step.

    Args:
        model: the step's parameters and cost. The first paragraph of its docstring is its summary, the others say
            which rows of the results belong to it.
        metrics: what steps of this kind report, apart from the storage's metrics, which every step has.
        primary: metrics whose comparison makes the verdict, in the order of their tests; few, since each has only a
            part of the error that a verdict may make.
        explained: what causes are named for: the whole step; its phases together, without the time between them;
            its points, those of one name together, since a limit shows as the queue grows; or nothing.
        file_io: who reads and writes: the server for statements, the step itself, or both in turn.
        transactions: clients send transactions during the whole window.
        queue_swept: its points have queues of several depths, so waiting times rise by design.
        stream_parameters: parameters whose product is the number of operations under way at a time; none: always 1.
        file_group, speed: which files the step is about and its metric of their speed, for a table that contrasts
            large with small files.
        warm_reads: how it reports the cold and the warm read of the same files.
        expanded: a parameter with a list of values, each of which becomes a step of its own.
        after: a kind of step that must come before it.
        is_remote: others do its work, whose CPU time is not a disturbance.
        own_server: why it takes no server that somebody else runs, as the begin of a sentence; empty: it does.
        choices: explanations of a parameter's values, by parameter.
        required: values for the parameters that have no default, as in an example.
    """

    model: type[StepBase]
    metrics: tuple[Metric, ...]
    primary: tuple[str, ...] = ()
    explained: Explained = "no"
    file_io: Literal["server", "step", "both"] = "server"
    transactions: bool = False
    queue_swept: bool = False
    stream_parameters: tuple[str, ...] = STREAM_PARAMETERS
    file_group: FileGroup | None = None
    speed: str = ""
    warm_reads: WarmReads | None = None
    expanded: str = ""
    after: str = ""
    is_remote: bool = False
    own_server: str = ""
    choices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    required: Mapping[str, Scalar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for a metric that the kind refers to and does not have."""
        references = {*self.primary, self.speed}
        if self.warm_reads is not None:
            references |= {self.warm_reads.cold, self.warm_reads.warm}
        if unknown := references - {"", *(metric.name for metric in self.metrics)}:
            raise ValueError(f"step kind {self.name}: {', '.join(sorted(unknown))} is not among its metrics")

    @property
    def name(self) -> str:
        """The value of `kind` in a suite."""
        return str(self.model.model_fields["kind"].default)

    def example(self) -> StepBase:
        """Return a step with defaults wherever there are any."""
        return self.model.model_validate(self.required)

    @property
    def has_statements(self) -> bool:
        """Whether the server runs statements for the step."""
        return self.file_io != "step"

    def streams(self, parameters: Mapping[str, Scalar]) -> int | None:
        """Return how many operations are under way at a time; None if the parameters do not say."""
        if not self.stream_parameters:
            return 1
        values = [parameters[name] for name in self.stream_parameters if name in parameters]
        counts = [int(value) for value in values if isinstance(value, int | float) and 0 <= value <= STREAMS_MAX]
        return math.prod(counts) if counts else None


def not_own_server(purpose: str, *, where: str, evidence: str) -> MissingPrerequisite:
    """Return the refusal of a step, for `StepKind.own_server`, on a server that somebody else runs."""
    return MissingPrerequisite(
        f"{purpose}, and volbench did not start this server",
        where=where,
        evidence=evidence,
        next_step="remove the step, or run the suite with --target local, docker or kubernetes",
    )


def no_further_server(purpose: str, *, where: str, evidence: str) -> MissingPrerequisite:
    """Return the refusal of a step that starts servers, where a container of somebody else's has the only one."""
    return MissingPrerequisite(
        f"{purpose}, and the place of this server allows none",
        where=where,
        evidence=evidence,
        next_step="run the suite with --target local, docker or kubernetes, without compose",
    )
