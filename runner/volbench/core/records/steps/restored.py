"""The step `restored`: a load on a volume that was just made from a snapshot, after a warm-up plan."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from volbench.core.records.base import Seconds
from volbench.core.records.metric import LATENCIES, Metric
from volbench.core.records.steps.base import ASSUMED_READ_MIB_PER_S, StepBase, StepCost, Threads
from volbench.core.records.steps.kind import StepKind
from volbench.core.records.steps.oltp import RandType, SysbenchTest

WarmUpPlan = Literal["none", "files", "tables", "pool"]


class RestoredStep(StepBase):
    """Makes an emulated volume as if just restored from a snapshot, warms it by a plan, and waits for a normal p95.

    The server is restarted with an empty buffer pool, its files leave the page cache, and each block of the volume
    is fetched again when it is first touched (profile `snapshot-lazy-load`). The time counts from then on, so that
    the plan's own time is in it. Several such steps with other plans compare plans.
    """

    kind: Literal["restored"] = "restored"
    plan: WarmUpPlan = Field(
        default="none",
        description="What is read before the load begins: nothing, all files of the schema (as fio or dd), all"
        " tables by statements, or the buffer pool's pages by the list of a dump made just before.",
    )
    dump_pct: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="Of the plan `pool`: percent of the buffer pool's pages that the dump lists, the most recently"
        " used ones (innodb_buffer_pool_dump_pct). null: as the server is set, which is 25 unless `engine.config`"
        " says otherwise.",
    )
    readers: int = Field(default=4, ge=1, le=64, description="Files read at the same time by the plan `files`.")
    test: SysbenchTest = Field(default="oltp_read_write", description="sysbench's test; a closed loop.")
    threads: Threads = Field(default=(8,), description="Client threads; a list runs the step once for each.")
    rand_type: RandType = Field(default="uniform", description="sysbench --rand-type, always passed.")
    duration_s: Seconds = Field(
        default=300.0, alias="duration", ge=30, description="Of the load; p95 must become normal within it."
    )
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0, description="Of the plan.")

    @model_validator(mode="after")
    def _is_of_a_dump(self) -> RestoredStep:
        if self.dump_pct is not None and self.plan != "pool":
            raise ValueError(f"`dump_pct` is of the plan `pool`; the plan {self.plan!r} makes no dump")
        return self

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate: the load, and a plan that reads the data once."""
        plan_s = 0.0 if self.plan == "none" else data_bytes / 2**20 / ASSUMED_READ_MIB_PER_S
        return StepCost(measured_s=self.duration_s, unmeasured_s=plan_s)


KIND = StepKind(
    model=RestoredStep,
    own_server="this step restarts the server",
    metrics=(
        Metric(
            "normal_after_s",
            "s",
            "lower",
            "time to normal p95",
            "from the restart on the restored volume until p95 stays within 1.2 times that of the load's end;"
            " absent where the end itself still becomes faster",
        ),
        Metric("plan_s", "s", "lower", "warm-up plan", "time of the plan, before the load began"),
        Metric(
            "pool_pages",
            "1",
            "none",
            "pages in the pool",
            "pages in the buffer pool as the load begins, by the server's own count; what it read at its start"
            " counts, too",
        ),
        Metric("normal_p95_ms", "ms", "lower", "normal p95", "median of the seconds' p95 at the load's end"),
        Metric(
            "first_p95_ms",
            "ms",
            "lower",
            "p95 at first",
            "median of the seconds' p95 in the first ten seconds; absent where most of them ended no transaction",
        ),
        *LATENCIES,
    ),
    primary=("normal_after_s",),
    explained="whole",
    transactions=True,
    stream_parameters=("threads",),
    expanded="threads",
    choices={
        "plan": {
            "none": "the load itself touches what it needs",
            "files": "all blocks that the schema has",
            "tables": "the clustered indexes",
            "pool": "the listed pages of the buffer pool, innodb_buffer_pool_load_at_startup",
        }
    },
)
