"""The step `small_files`: a tree of small files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import override

from volbench.core.records.base import Bytes, Seconds
from volbench.core.records.metric import CPU_SYSTEM, CPU_USER, LATENCIES, WARM_READ, Metric
from volbench.core.records.steps.base import ASSUMED_WRITE_MIB_PER_S, StepBase, StepCost
from volbench.core.records.steps.kind import WRITES_FILES, StepKind, WarmReads

ASSUMED_FILE_S = 0.003
"""One small file made, read or removed: a few trips to a network file system, next to nothing on a local disk."""
FilePhase = Literal["clone", "create", "read_cold", "read_warm", "stat", "copy", "objects", "delete"]
FILE_PHASES: tuple[FilePhase, ...] = (
    "clone",
    "create",
    "read_cold",
    "read_warm",
    "stat",
    "copy",
    "objects",
    "delete",
)
_DEFAULT_PHASES = FILE_PHASES[1:]


class SmallFilesStep(StepBase):
    """A tree of small files on the data's volume: created, read, listed, copied, removed; and git-like objects.

    Each phase is a row of its own, `NAME/PHASE`; the row `NAME` has the time of all of them.
    """

    kind: Literal["small_files"] = "small_files"
    files: int = Field(default=2000, ge=1, le=1_000_000, description="Files in the tree.")
    total_size_bytes: Bytes = Field(
        default=40 << 20, alias="total_size", ge=0, description="Of all files; their sizes are log-normal."
    )
    sizes_bytes: tuple[Bytes, ...] = Field(
        default=(), alias="sizes", description="Sizes used in turn, instead of `total_size`."
    )
    sigma: float = Field(default=1.5, ge=0, le=4, description="Spread of log(size); 0: all of one size.")
    files_per_directory: int = Field(default=100, ge=1, le=100_000, description="Directories hold this many.")
    jobs: int = Field(default=1, ge=1, le=256, description="Files handled at the same time; cp and git have one.")
    phases: tuple[FilePhase, ...] = Field(
        default=_DEFAULT_PHASES,
        min_length=1,
        description="What is done, always in this order; all but `clone` (git clone of a local repository that "
        "holds the tree) need `create`.",
    )
    sync: Literal["none", "end", "each"] = Field(
        default="end",
        description="none: as cp and git; end: a phase that writes ends when all is on the volume; "
        "each: fsync of every file.",
    )
    objects_publish: Literal["link", "rename"] = Field(
        default="link", description="How an object gets its name: a hard link and unlink, or a rename."
    )
    timeout_s: Seconds = Field(default=4 * 3600.0, alias="timeout", gt=0)

    @model_validator(mode="after")
    def _phases_can_run(self) -> SmallFilesStep:
        if "create" not in self.phases and set(self.phases) != {"clone"}:
            raise ValueError("the phase 'create' is needed: the others work on what it makes")
        return self

    def cost(self, data_bytes: int) -> StepCost:
        """Return the estimate."""
        return self.cost_at(data_bytes, {})

    @override
    def cost_at(self, data_bytes: int, speeds: Mapping[str, float]) -> StepCost:
        """Return the estimate, with `speeds` in files/s of a phase."""
        assumed_s = self.files * ASSUMED_FILE_S / self.jobs + self.tree_bytes() / 2**20 / ASSUMED_WRITE_MIB_PER_S
        return StepCost(
            measured_s=sum(self.files / speeds[phase] if phase in speeds else assumed_s for phase in self.phases)
        )

    def temporary_bytes(self) -> int:
        """Return the bytes of the tree and its copies."""
        trees = 1 + sum(phase in ("clone", "copy", "objects") for phase in self.phases)
        return trees * self.tree_bytes()

    def tree_bytes(self) -> int:
        """Return the bytes of the tree: each file at least a block of 4 KiB, and its name."""
        if self.sizes_bytes:
            rounds, remainder = divmod(self.files, len(self.sizes_bytes))
            content = rounds * sum(self.sizes_bytes) + sum(self.sizes_bytes[:remainder])
        else:
            content = self.total_size_bytes
        return content + self.files * 4608


KIND = StepKind(
    model=SmallFilesStep,
    own_server=WRITES_FILES,
    metrics=(
        Metric("files_per_s", "1/s", "higher", "files/s", "small files handled per second in a phase", "window"),
        Metric(
            "files_mib_per_s",
            "MiB/s",
            "higher",
            "content of files",
            "MiB of small files' content moved per second; absent where none is moved (stat, delete)",
            "window",
        ),
        Metric(
            "warm_files_per_s",
            "1/s",
            "higher",
            "warm files/s",
            "small files read again at once: their content comes from memory",
        ),
        WARM_READ,
        Metric(
            "files_s",
            "s",
            "lower",
            "time for files",
            "one phase over all small files, to the end of its last sync if `sync` requires it",
            "window",
        ),
        Metric(
            "files_total_s",
            "s",
            "lower",
            "time for all phases",
            "all phases over small files but the warm read, without the eviction that makes files cold",
            "window",
        ),
        CPU_USER,
        CPU_SYSTEM,
        *LATENCIES,
    ),
    primary=("files_per_s", "files_total_s"),
    explained="phases",
    file_io="step",
    stream_parameters=("jobs",),
    file_group="small files",
    speed="files_per_s",
    warm_reads=WarmReads(suffix="/read", cold="files_mib_per_s", warm="warm_read_mib_per_s"),
)
