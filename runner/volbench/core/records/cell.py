"""cell.json and result.json: the agent's instructions and results."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Literal

from pydantic import Field

from volbench.core.records.base import FileName, Fraction, Moment, Plain, Record, Scalar, Seconds, VersionText
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.facts import HostFacts, ServerFacts, VolumeFacts
from volbench.core.records.layout import ComponentFacts, ComponentPlaces, EmulatedSpec
from volbench.core.records.metrics import MetricValue
from volbench.core.records.size_contrast import SizeContrast
from volbench.core.records.steps import Step
from volbench.core.records.tls import ServerAccess
from volbench.errors import MissingPrerequisite

CELL_SCHEMA = 2
RESULT_SCHEMA = 2


Encryption = Literal["none", "tables", "all"]


class ServerSpec(Record):
    """The engine of a cell."""

    flavor: Literal["any", "mysql", "mariadb"] = Field(
        default="any", description="any: mysql in containers, on the local target the server that is installed."
    )
    version: VersionText = Field(default="", description="Required version prefix such as 8.4; empty: any.")
    image: str = Field(
        default="", description="Container image of the server; empty: chosen by flavor and version."
    )
    config: dict[str, Scalar] = Field(default_factory=dict, description="[mysqld] options of my.cnf.")
    encryption: Encryption = Field(
        default="none",
        description="Encryption at rest by the server (TDE), with a key that is made for the dataset. tables: of"
        " all tables; all: of redo log, undo log and binary log, too.",
    )
    start_timeout_s: Seconds = Field(default=120.0, alias="start_timeout", gt=0)
    stop_timeout_s: Seconds = Field(default=300.0, alias="stop_timeout", gt=0)

    def option(self, name: str) -> Scalar | None:
        """Return the value of a server option, however the suite spells it; None where it does not set it."""
        spellings = {key.strip().lower().replace("-", "_").removeprefix("loose_"): key for key in self.config}
        return self.config[spellings[name]] if name in spellings else None


class SamplingSpec(Record):
    """The grid on which every source is read."""

    interval_s: Seconds = Field(default=1.0, alias="interval", ge=0.1, le=60)
    sources: tuple[str, ...] | None = Field(default=None, description="Sources wanted; absent: all there are.")
    summaries: bool = Field(
        default=True, description="The pages of pt-summary and pt-mysql-summary, after the first block's last step."
    )
    size_contrast_s: Seconds | None = Field(
        default=None,
        alias="size_contrast",
        ge=0,
        le=60,
        description="After the first block's last step: reads of 4 KiB, then of 64 KiB, from the largest data file,"
        " each for so long, which tell a limit of IOPS from one of bytes. Absent: 5 s where the steps took at least"
        " 10 times as long as both (13 s in all); `0s`: none.",
    )


class ValidityLimits(Record):
    """Beyond these a step's numbers are kept, shown as invalid, and never averaged in."""

    client_cpu: Fraction = Field(default=0.9, description="Share of the client's cores used by sysbench.")
    missed_samples: Fraction = Field(default=0.01)
    cpu_steal: Fraction = Field(default=0.05, description="Share of CPU time taken by the hypervisor.")
    foreign_cpu: Fraction = Field(
        default=0.1,
        description="Share of all CPUs' time used by work that is not the cell's: not server, client, "
        "sampler or emulator.",
    )
    swap_pages: int = Field(default=0, ge=0, description="Pages swapped in and out during a step.")
    foreign_iops: float = Field(
        default=50.0, ge=0, description="Other I/O per second on the device before the start."
    )
    foreign_share: Fraction = Field(
        default=0.1, description="Other I/O up to this share of the step's own on the device does not matter."
    )
    device_against_client: Fraction = Field(
        default=0.5, description="Bytes the server read that no device delivered."
    )
    rate_shortfall: Fraction = Field(
        default=0.05, description="Events behind the offered rate, load generator's fault."
    )
    clock_step_s: Seconds = Field(default=0.5)
    emulator_late: Fraction = Field(
        default=0.02,
        description="Change of throughput, p50 or p95 that late operations of an emulated volume can have made.",
    )


class CellPlaces(Record):
    """Where things are for the agent; a target fills this in."""

    data_dir: str = Field(description="The server's data directory on the volume, with volbench's marker.")
    volume_dir: str = Field(description="Our marked directory on the volume; data_dir is below it.")
    control_dir: str = Field(
        description="Supervisor's control directory; my.cnf and the server's socket are in it."
    )
    template_dir: str = Field(description="The dataset's template, read-only.")
    scratch_dir: str = Field(description="The agent's own disk.")
    supervisor: Literal["launch", "waiting", "shared"] = Field(
        default="launch",
        description="Launched by the agent; waiting in the cell's own container; or shared by several cells.",
    )
    emulator_socket: str = Field(default="", description="Control socket of an emulated volume, for its counters.")
    server_data_dir: str = Field(default="", description="data_dir as the server sees it, when it differs.")
    server_control_dir: str = Field(default="", description="control_dir as the server sees it, when it differs.")
    snapshots: bool = Field(default=False, description="The orchestrator takes snapshots of the volume on request.")
    layout: tuple[ComponentPlaces, ...] = Field(default=(), description="Of a layout: logs and others elsewhere.")


class AttachSpec(ServerAccess):
    """A server that already runs; the password comes from the option file or VOLBENCH_MYSQL_PASSWORD."""

    host: str = ""
    port: int = Field(default=3306, ge=1, le=65535)
    socket: str = ""
    user: str = "root"
    option_file: str = ""
    schema_name: str = Field(default="volbench", pattern=r"^[A-Za-z0-9_]{1,48}$")


class CellSpec(Record):
    """cell.json: one cell, complete; the agent needs nothing else."""

    schema_: int = Field(default=CELL_SCHEMA, alias="schema")
    volbench_version: str = Field(default="", description="The orchestrator's; an agent of another one refuses.")
    run_id: FileName
    cell_id: FileName
    attempt: int = Field(default=1, ge=1)
    suite: str
    volume: str
    block: int = Field(ge=0, description="Randomised block; the repeat number over volumes.")
    repeat: int = Field(ge=1)
    parameters: dict[str, Scalar] = Field(default_factory=dict, description="Swept parameters of the cell.")
    seed: int
    server: ServerSpec
    dataset: DatasetSpec
    steps: tuple[Step, ...]
    sampling: SamplingSpec = SamplingSpec()
    limits: ValidityLimits = ValidityLimits()
    template_key: FileName | Literal[""] = Field(
        default="", description="Name of the dataset's template below paths.template_dir."
    )
    places: CellPlaces | None = Field(default=None, alias="paths")
    attach: AttachSpec | None = None
    emulated: EmulatedSpec | None = None
    host_volume: VolumeFacts | None = Field(
        default=None, description="What the orchestrator found behind the volume, where it is on its machine."
    )
    deadline_s: float = Field(default=24 * 3600.0, gt=0, description="The agent gives up after this long.")

    @property
    def own_places(self) -> CellPlaces:
        """Where things are of a server that volbench starts. Raises MissingPrerequisite for any other."""
        if self.places is None:
            raise MissingPrerequisite(
                "the cell has no places for a server of its own",
                where=f"cell {self.cell_id}",
                evidence="its `paths` are empty",
            )
        return self.places


class PreparedTemplate(Record):
    """template.json: what `volbench cell prepare` made or found in the template cache."""

    key: str = Field(description="Directory of the template in the cache: a hash of what decides its bytes.")
    bytes: int
    reused: bool = Field(description="Found complete in the cache; nothing was prepared.")
    tables: int | None = Field(default=None, description="Tables of the dataset.")
    rows: int | None = Field(default=None, description="Rows of all its tables.")
    sha256: str = Field(
        default="", description="Over names, rows and checksums of its tables; the server's CHECKSUM."
    )


AT_REST_SHARE = 0.8
"""Of a sampling interval: so much of it lies in the phase `quiet` of a reading that counts as at rest."""


class Phase(Record):
    """A stretch of the cell's time, seconds since its zero: seed, start, warmup:NAME, measure:NAME, stop, ..."""

    name: str
    t0_s: float
    t1_s: float


class Disturbance(Record):
    """Something outside the cell that delayed it during a step, and at most how much that can have been."""

    kind: Literal["foreign_cpu", "cpu_steal", "emulator_late", "foreign_io", "swapping"]
    size: float = Field(description="Compared with the limit: share of CPU time or of a figure, I/O per s, pages.")
    limit: float
    delayed_share_max: float = Field(
        ge=0,
        le=1,
        description="For at most this share of the step's time it delayed the step's own work.",
    )
    text: str = Field(description="What was seen, with the limit.")

    @property
    def beyond(self) -> bool:
        """Whether the limit is exceeded."""
        return self.size > self.limit


ENDED_BY_QUEUE = "ended early because sysbench's queue was full"
"""In the note of a load at a fixed rate that had more transactions waiting than sysbench allows."""
UNANSWERED = "were waiting for an answer at the end"
"""In the note of a load at a fixed rate that the server did not keep up with."""
COUNTED_AS_SLOWEST = "percentiles take them as slower than all others"
"""In the note of a step that ended before all was answered or shown: a percentile among those is missing."""
NO_CATCH_UP = "no pause and no catch-up"
"""In the note of a replica's catch-up that did not take place: it did not keep up without a pause."""


def is_beyond(name: str, metrics: Container[str], notes: Iterable[str]) -> bool:
    """Return whether a row lacks a metric because it is worse than the step could measure."""
    if name in metrics:
        return False
    marker = COUNTED_AS_SLOWEST if name.startswith(("latency_ms_", "lag_ms_")) else NO_CATCH_UP
    return any(marker in note for note in notes)


FILES_COPIED = "files_copied_concurrently"
"""In a load's details: files were copied concurrently, so that not only the server reads from the device."""


class StepResult(Record):
    """One step as it went. `window_s` is the measured time, without the warm-up."""

    step: str
    kind: str
    parameters: dict[str, Scalar]
    window_s: tuple[float, float]
    metrics: dict[str, MetricValue]
    spans_s: tuple[tuple[float, float], ...] = Field(
        default=(), description="Stretches of the window that the step is about; none: all of it."
    )
    valid: bool = True
    invalid_reasons: tuple[str, ...] = ()
    outside_reasons: tuple[str, ...] = Field(
        default=(),
        description="Those of invalid_reasons that came from outside the cell: a new one may fare better.",
    )
    notes: tuple[str, ...] = Field(default=(), description="What a reader must know: labels such as true-cold.")
    disturbances: tuple[Disturbance, ...] = Field(
        default=(),
        description="What delayed the step from outside; those beyond their limit are invalid_reasons too.",
    )
    delayable_share: float = Field(
        default=1.0,
        description="Of the clients' time, what was not spent on reads of the volume: at most this was held back.",
    )
    covariates: dict[str, float] = Field(
        default_factory=dict, description="Shares that other work took: of the CPUs, of the device's operations."
    )
    details: dict[str, Plain] = Field(
        default_factory=dict, description="Evidence: coldness by file, checksums, ..."
    )


class SourceQuality(Record):
    """How well a source was sampled; one that is not available has the reason."""

    source: str
    available: bool
    reason: str = ""
    ticks_due: int = 0
    ticks_missed: int = 0


class Failure(Record):
    """Why a cell or step failed; `cause` is a short stable word such as server_killed, volume_full, oom."""

    cause: str
    message: str
    where: str = ""
    evidence: str = ""
    next_step: str = ""
    exit_code: int = 5


class CellResult(Record):
    """result.json. Times are seconds since `zero_monotonic_ns`, at `zero_utc` on the wall clock."""

    schema_: int = Field(default=RESULT_SCHEMA, alias="schema")
    cell_id: FileName
    attempt: int
    status: Literal["done", "failed", "interrupted"]
    failure: Failure | None = None
    zero_utc: Moment
    zero_monotonic_ns: int
    wall_s: float
    clock_step_s: float = Field(default=0.0, description="Wall clock against monotonic clock, end minus start.")
    volume_facts: VolumeFacts
    layout: tuple[ComponentFacts, ...] = Field(
        default=(), description="Of a layout: what is behind its other volumes."
    )
    host: HostFacts
    server: ServerFacts | None
    phases: tuple[Phase, ...]
    steps: tuple[StepResult, ...]
    sources: tuple[SourceQuality, ...]
    notes: tuple[str, ...] = ()
    size_contrasts: tuple[SizeContrast, ...] = Field(
        default=(), description="Short loads with operations of other sizes, outside of the steps' windows."
    )
