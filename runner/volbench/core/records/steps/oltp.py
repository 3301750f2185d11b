"""The step `oltp`: sysbench's transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, StringConstraints, Tag, field_validator, model_validator

from volbench.core.records.base import Scalar, Seconds
from volbench.core.records.metric import ERRORS, LATENCIES, QUERIES, Metric
from volbench.core.records.own_places import outside
from volbench.core.records.steps.alter import AlterStep
from volbench.core.records.steps.base import StepBase, StepCost, Threads
from volbench.core.records.steps.dump import DumpStep
from volbench.core.records.steps.kind import StepKind
from volbench.core.records.steps.modify import ModifyStep
from volbench.core.records.steps.purge import PurgeStep
from volbench.core.records.steps.snapshot import SnapshotStep

SysbenchTest = Literal[
    "oltp_read_write",
    "oltp_read_only",
    "oltp_write_only",
    "oltp_point_select",
    "oltp_insert",
    "oltp_delete",
    "oltp_update_index",
    "oltp_update_non_index",
    "select_random_points",
    "select_random_ranges",
]
OwnTest = Annotated[
    str, StringConstraints(pattern=r"^[^\x00\n]+\.lua$", max_length=4000), Field(examples=["path/to/own.lua"])
]


def _concurrent_kind(value: Any) -> str:
    """Return the kind of a step in `concurrent`, which is a dump if it does not say."""
    return str(value.get("kind", "dump") if isinstance(value, dict) else getattr(value, "kind", "dump"))


ConcurrentStep = Annotated[
    Annotated[DumpStep, Tag("dump")]
    | Annotated[AlterStep, Tag("alter")]
    | Annotated[PurgeStep, Tag("purge")]
    | Annotated[SnapshotStep, Tag("snapshot")]
    | Annotated[ModifyStep, Tag("modify")],
    Discriminator(_concurrent_kind),
]
READ_ONLY_TESTS = frozenset(
    {
        "oltp_read_only",
        "oltp_point_select",
        "select_random_points",
        "select_random_ranges",
    }
)
ASSUMED_BINLOG_BYTES = 2 * 2**10
"""Binary log of one transaction: oltp_read_write logs 6 images of a row of about 190 bytes, and headers."""
MODULATION_SLOT_S = 4.0
"""How long a modulated volume stays as it is: two seconds of it lie a whole second off both its changes."""
MODULATION_SLOTS_MIN = 12
"""Slots of a step: three of each state, so that one that something else disturbs does not decide."""
MODULATION_S_MIN = MODULATION_SLOTS_MIN * MODULATION_SLOT_S
RandType = Literal["uniform", "gaussian", "special", "pareto", "zipfian"]


class OltpStep(StepBase):
    """sysbench OLTP, closed loop, or open loop when `rate` is given."""

    kind: Literal["oltp"] = "oltp"
    test: SysbenchTest | OwnTest = Field(
        default="oltp_read_write",
        description="A Lua test that sysbench brings, or the path of your own `.lua` script.",
    )
    threads: Threads = Field(
        default=(8,), description="Client threads; a list runs the step once for each, in this order."
    )
    threads_max: int | None = Field(
        default=None,
        ge=2,
        le=4096,
        description="Before the first cell, a short ladder on each volume doubles `threads` up to this many; every"
        " cell has the fewest with which each volume does nearly its most. Absent: `threads` as given.",
    )
    rate: float | None = Field(
        default=None,
        gt=0,
        description="Transactions per second offered (open loop, Poisson); absent: closed loop.",
    )
    rand_type: RandType = Field(default="uniform", description="sysbench --rand-type, always passed.")
    warmup_s: Seconds = Field(default=10.0, alias="warmup", ge=0, description="Run before measuring, discarded.")
    duration_s: Seconds = Field(default=60.0, alias="duration", gt=0, description="Measured time.")
    options: dict[str, Scalar] = Field(default_factory=dict, description="More sysbench options, name: value.")
    modulate: float | None = Field(
        default=None,
        ge=1.5,
        le=20,
        description="Multiplies an emulated volume's latencies by this in half of the slots of a known signal, "
        "so that the report can say what a millisecond costs; absent: never.",
    )
    concurrent: tuple[ConcurrentStep, ...] = Field(
        default=(),
        description="Steps that run at the same time: dumps (backup window), changes of a table (`alter`), "
        "deletion of old rows (`purge`), a `snapshot` of the volume, other limits of it (`modify`).",
    )

    @field_validator("concurrent")
    @classmethod
    def _a_snapshot_is_restored_alone(cls, steps: tuple[ConcurrentStep, ...]) -> tuple[ConcurrentStep, ...]:
        if any(isinstance(step, SnapshotStep) and step.restore for step in steps):
            raise ValueError(
                "a concurrent snapshot needs `restore: false`: what a load loses to a backup is not what it loses"
                " to reads of a restored volume; restore in a `snapshot` step of its own"
            )
        return steps

    @model_validator(mode="after")
    def _a_ladder_has_levels(self) -> Self:
        if self.threads_max is None:
            return self
        if self.rate is not None:
            raise ValueError(
                "`threads_max` needs a load without `rate`: at a rate, more threads do no more transactions; leave"
                " one of them out"
            )
        if len(self.threads) > 1:
            raise ValueError(
                "`threads_max` finds one number of threads, and `threads` has several; give the lowest alone"
            )
        if self.threads[0] > self.threads_max:
            raise ValueError(f"`threads_max` is below `threads` ({self.threads[0]})")
        return self

    @model_validator(mode="after")
    def _a_load_outlasts_the_modification_of_its_volume(self) -> Self:
        ends_s = [step.end_s for step in self.concurrent if isinstance(step, ModifyStep)]
        for end_s in ends_s:
            if end_s > self.duration_s:
                raise ValueError(
                    f"`modify` ends {end_s:g} s after the window begins, and the load after {self.duration_s:g} s:"
                    f" operations that nobody asks for would count as a dip; set `duration: {end_s:g}s` or more"
                )
        return self

    @model_validator(mode="after")
    def _a_modulated_load_follows_its_volume(self) -> Self:
        if self.modulate is None:
            return self
        if self.rate is not None:
            raise ValueError(
                "`modulate` needs a load without `rate`: at a rate, transactions also wait for a free client"
                " thread, so their latency does not follow the volume's; leave `rate` out, and give `threads`"
            )
        if self.concurrent:
            raise ValueError(
                "`modulate` needs a load without `concurrent` steps, whose effect it cannot tell apart; modulate a"
                " step of its own"
            )
        if self.duration_s < MODULATION_S_MIN:
            raise ValueError(
                f"`modulate` needs a duration of {MODULATION_S_MIN:g} s or more:"
                f" {MODULATION_SLOTS_MIN} slots of {MODULATION_SLOT_S:g} s; set `duration: {MODULATION_S_MIN:g}s`"
            )
        return self

    @property
    def script(self) -> str:
        """The path of the user's own script; empty for a test that sysbench brings."""
        return self.test if self.test.endswith(".lua") else ""

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate: a concurrent step that outlasts the load is waited for.

        The binary log is that of a load with a rate; how much a closed loop writes depends on the volume.
        """
        costs = [(step.start_after_s, step.cost(data_bytes)) for step in self.concurrent]
        concurrent_s = max((start_s + cost.measured_s + cost.unmeasured_s for start_s, cost in costs), default=0.0)
        writes = self.rate is not None and self.test not in READ_ONLY_TESTS
        transactions = (self.rate or 0.0) * (self.warmup_s + self.duration_s) if writes else 0.0
        return StepCost(
            measured_s=self.duration_s,
            unmeasured_s=self.warmup_s + max(0.0, concurrent_s - self.duration_s),
            kept_bytes=sum(cost.kept_bytes for _, cost in costs),
            binlog_bytes=round(transactions) * ASSUMED_BINLOG_BYTES,
        )

    def temporary_bytes(self) -> int:
        """Return the largest temporary use by concurrent steps, all of them together."""
        return sum(step.temporary_bytes() for step in self.concurrent)

    def parameters(self) -> dict[str, Scalar]:
        """Return the parameters as shown in results, sysbench's other options among them."""
        parameters: dict[str, Scalar] = {
            "test": outside(self.test),
            "threads": self.threads[0],
            "rand_type": self.rand_type,
        }
        if self.rate is not None:
            parameters["rate"] = self.rate
        parameters.update(self.options)
        if self.modulate is not None:
            parameters["modulate"] = self.modulate
        if self.concurrent:
            parameters["concurrent"] = "+".join(step.tool for step in self.concurrent)
        return parameters


_STATEMENT = "of statements, as the server saw them"
KIND = StepKind(
    model=OltpStep,
    metrics=(
        Metric(
            "tps",
            "1/s",
            "higher",
            "transactions/s",
            "sysbench transactions finished per second of the measured window",
            "window",
        ),
        QUERIES,
        ERRORS,
        Metric(
            "stalled_s",
            "s",
            "lower",
            "stalled time",
            "seconds of the window in which no transaction finished; absent where an offered rate is so low that"
            " seconds without one are usual",
        ),
        Metric(
            "stall_s_max",
            "s",
            "lower",
            "longest stall",
            "longest time without a finished transaction, in whole seconds, while a concurrent step ran",
        ),
        Metric(
            "transactions_lost",
            "1",
            "lower",
            "transactions lost",
            "transactions that the load would have finished at the rate it had alone, less those it did finish",
        ),
        *LATENCIES,
        Metric("statement_latency_ms_p50", "ms", "lower", "median statement", f"median {_STATEMENT}"),
        Metric("statement_latency_ms_p95", "ms", "lower", "p95 statement", f"95th percentile {_STATEMENT}"),
        Metric("statement_latency_ms_p99", "ms", "lower", "p99 statement", f"99th percentile {_STATEMENT}"),
        Metric("statement_latency_ms_p999", "ms", "lower", "p99.9 statement", f"99.9th percentile {_STATEMENT}"),
        Metric("statement_latency_ms_max", "ms", "lower", "slowest statement", f"maximum {_STATEMENT}"),
        Metric("statement_latency_ms_mean", "ms", "lower", "mean statement", f"mean {_STATEMENT}"),
        Metric(
            "rate_achieved_ratio",
            "1",
            "higher",
            "rate achieved",
            "finished against offered transactions of an open loop",
        ),
    ),
    primary=("tps", "latency_ms_p95", "latency_ms_p99"),
    explained="whole",
    transactions=True,
    stream_parameters=("threads",),
    expanded="threads",
    choices={
        "test": {
            "oltp_read_write": "point and range reads, updates, a delete and an insert in one transaction",
            "oltp_read_only": "the reads of `oltp_read_write`",
            "oltp_write_only": "the writes of `oltp_read_write`",
            "oltp_point_select": "one row by its key, no transaction",
            "oltp_insert": "one row",
            "oltp_delete": "one row by its key",
            "oltp_update_index": "an indexed column of one row",
            "oltp_update_non_index": "another column of one row",
            "select_random_points": "some rows by keys at random",
            "select_random_ranges": "some ranges of rows at random",
        }
    },
)


def all_steps(steps: Iterable[StepBase]) -> Iterator[StepBase]:
    """Yield steps, and after a load those that run concurrently with it."""
    for step in steps:
        yield step
        if isinstance(step, OltpStep):
            yield from step.concurrent
