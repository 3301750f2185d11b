"""The input and the outcome of a workload, and the base class of all workloads."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from volbench.core.records.base import Scalar
from volbench.core.records.cell import Failure
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.facts import ServerFacts, VolumeFacts
from volbench.core.records.layout import ComponentPlaces
from volbench.core.records.metrics import MetricValue
from volbench.core.records.series import HistogramRow, SeriesRow
from volbench.core.records.size_contrast import SizeContrast
from volbench.core.records.snapshots import ClaimTimes, SnapshotTimes
from volbench.core.records.steps.base import StepBase
from volbench.core.records.steps.modify import ModifyStep
from volbench.core.records.steps.snapshot import SnapshotStep

if TYPE_CHECKING:
    from volbench.machine.engine.server import Server


class ServerHandle(Protocol):
    """The part of engine.server.Server that workloads use."""

    @property
    def option_file(self) -> Path:
        """A 0600 file with a [client] section that every client tool can read."""

    @property
    def data_dir(self) -> Path:
        """The data directory as this process sees it."""

    def connect(self, database: str | None = None, *, timeout_s: float = ...) -> AbstractContextManager[Any]:
        """Return a DB-API connection, closed at the end of the block; `timeout_s` bounds each statement."""

    def query(self, sql: str) -> Sequence[Sequence[Any]]:
        """Return all rows of one statement; none for a statement without a result."""

    def start(self, config_overrides: Mapping[str, Scalar] | None = None) -> float:
        """Start, wait until the server answers a query, and return the seconds."""

    def stop(self) -> None:
        """Shut down cleanly."""

    def kill(self) -> None:
        """Send SIGKILL, as in a crash, and wait until the process is gone."""

    def alive(self) -> bool:
        """Return whether the server's process runs."""

    def log_since_start(self) -> str:
        """Return the log's text since the last start; empty if the log is not readable."""

    def facts(self) -> ServerFacts:
        """Return flavor, version and settings."""

    def failure(self, where: str = ..., *, error: str = ...) -> Failure | None:
        """Return why the server is down, or what is wrong with its volume while it runs; None if both are well.

        Args:
            error: what a client was told, which may be an error of storage.
        """

    def has_failed(self) -> bool:
        """Return whether server or volume have failed for certain: an answer that is only late is no failure."""

    def own(self, purpose: str, *, where: str) -> Server:
        """Return the server that volbench started: a step may restart it, and write to its volume.

        Args:
            purpose: what the step does with it, such as "a crash test kills the server".

        Raises MissingPrerequisite for a server that ran already.
        """


class Recorder(Protocol):
    """Records what a step measures; called from several threads."""

    def series(self, rows: Iterable[SeriesRow]) -> None:
        """Append rows of series.parquet."""

    def histogram(self, row: HistogramRow) -> None:
        """Append one row of histograms.parquet."""


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Seconds of CLOCK_MONOTONIC since the cell's zero: the only time in a cell."""

    zero_monotonic_ns: int

    def now_s(self) -> float:
        """Now."""
        return self.at_s(time.clock_gettime_ns(time.CLOCK_MONOTONIC))

    def at_s(self, monotonic_ns: int) -> float:
        """Return the time of a CLOCK_MONOTONIC reading, of this or another process of the host."""
        return (monotonic_ns - self.zero_monotonic_ns) / 1e9


def no_progress(text: str, fraction: float | None) -> None:
    """Ignore progress."""


def unknown_device_bytes() -> int | None:
    """Return None for volumes without a visible device (NFS, FUSE, tmpfs): unknown is not zero."""
    return None


@dataclass(frozen=True, kw_only=True)
class TakenSnapshot:
    """A snapshot that somebody else took, with the time of it: `work_s` seconds, which ended `ended_ago_s` ago."""

    times: SnapshotTimes
    work_s: float
    ended_ago_s: float


@dataclass(frozen=True, kw_only=True)
class ChangedClaim:
    """A change of the volume's claim that somebody else asked for, with the time of it as of a `TakenSnapshot`."""

    times: ClaimTimes
    work_s: float
    ended_ago_s: float


@dataclass(frozen=True, kw_only=True)
class StepContext:
    """Everything that a step may use.

    Args:
        server: the cell's server, running when a step starts and when it ends.
        volume_dir, scratch_dir: volbench's marked directory on the volume; the agent's own disk.
        dump_folder: name of the cell's own directory on other volumes that it dumps to.
        seed: of the cell; workloads derive their own from it.
        progress: called with a text and the fraction done, None if unknown.
        device_read_bytes: bytes that the volume's device has delivered so far; None if the device is not visible.
        state: values that later steps need from earlier ones, such as the last dump (`dump.LAST_DUMP`).
        cancelled: set if the step has to end early; its child processes are then ended.
        emulator_socket: control socket of an emulated volume, as this process sees it.
        layout: where the server's other volumes are.
        outage: a block in which the step itself causes trouble of the volume, so that it cancels nothing.
        take_snapshot: takes a snapshot of the server's volume; the event cancels it. None: nobody can here.
        modify_claim: has the claim of the server's volume changed, as `take_snapshot` does.
        is_last: no step follows, and server and data are discarded: a load need not end its transactions.
        before_load: a load follows on the same server of volbench's: this one's transactions may be rolled back.
    """

    server: ServerHandle
    dataset: DatasetSpec
    volume_facts: VolumeFacts
    volume_dir: Path
    scratch_dir: Path
    seed: int
    clock: Clock
    record: Recorder
    progress: Callable[[str, float | None], None] = no_progress
    device_read_bytes: Callable[[], int | None] = unknown_device_bytes
    state: dict[str, Any] = field(default_factory=dict)
    cancelled: threading.Event = field(default_factory=threading.Event)
    emulator_socket: Path | None = None
    layout: tuple[ComponentPlaces, ...] = ()
    outage: Callable[[], AbstractContextManager[None]] = nullcontext
    is_last: bool = False
    before_load: bool = False
    dump_folder: str = ""
    take_snapshot: Callable[[SnapshotStep, threading.Event], TakenSnapshot] | None = None
    modify_claim: Callable[[ModifyStep, threading.Event], ChangedClaim] | None = None


@dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """The outcome of a step.

    Args:
        window_s: start and end of the measured time, seconds since the cell's zero.
        warmup_s: seconds before the window, which were discarded.
        spans_s: measured time spans inside the window; empty: the whole window.
        invalid_reasons: why the workload judges its numbers invalid.
        sub_results: outcomes with result rows of their own: concurrent steps, phases, points.
        ends_cell: why no further step of the cell can run after this one; empty: they can.
        size_contrasts: short loads with operations of other sizes, outside of all windows.
    """

    window_s: tuple[float, float]
    metrics: dict[str, MetricValue]
    warmup_s: float = 0.0
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    invalid_reasons: tuple[str, ...] = ()
    spans_s: tuple[tuple[float, float], ...] = ()
    sub_results: tuple[SubResult, ...] = ()
    ends_cell: str = ""
    size_contrasts: tuple[SizeContrast, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SubResult:
    """A result of one phase, point or concurrent step, with a row of its own: `STEP/suffix`."""

    suffix: str
    kind: str
    parameters: dict[str, Scalar]
    outcome: StepOutcome


StepT = TypeVar("StepT", bound=StepBase)


class Workload(ABC, Generic[StepT]):
    """Runs the steps of one kind, `kind`. A class in any module of this package is found and used."""

    kind: ClassVar[str]

    @abstractmethod
    def check(self, step: StepT, ctx: StepContext) -> None:
        """Check tools, versions, free space before anything runs. Raise MissingPrerequisite, UsageError."""

    @abstractmethod
    def run(self, step: StepT, ctx: StepContext) -> StepOutcome:
        """Run the step to its end. Raises StepFailed."""
