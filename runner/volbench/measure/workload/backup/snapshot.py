"""The snapshot step: a backup by the snapshot API of the cluster that the server's volume belongs to."""

from __future__ import annotations

from volbench.core.base.units import MIB
from volbench.core.records.metrics import MetricValue, metric
from volbench.core.records.snapshots import SnapshotTimes
from volbench.core.records.steps.snapshot import SnapshotStep
from volbench.errors import UsageError
from volbench.measure.workload.interface import StepContext, StepOutcome, Workload


class Snapshot(Workload[SnapshotStep]):
    """Asks the orchestrator for a snapshot of the volume, and waits for its times."""

    kind = "snapshot"

    def check(self, step: SnapshotStep, ctx: StepContext) -> None:
        """Raise UsageError where nobody can take snapshots."""
        if ctx.take_snapshot is None:
            raise UsageError(
                "a snapshot needs a volume of a Kubernetes cluster",
                where=f"step {step.name}",
                next_step="choose --target kubernetes, or leave the step out",
            )

    def run(self, step: SnapshotStep, ctx: StepContext) -> StepOutcome:
        """Take, restore and read a snapshot. Raises MissingPrerequisite, StepFailed.

        The window is the work in the cluster, without the way of request and answer.
        """
        self.check(step, ctx)
        assert ctx.take_snapshot is not None
        ctx.progress("waiting for the snapshot", None)
        snapshot = ctx.take_snapshot(step, ctx.cancelled)
        times, end_s = snapshot.times, ctx.clock.now_s() - snapshot.ended_ago_s
        return StepOutcome(
            window_s=(end_s - snapshot.work_s, end_s),
            metrics=_metrics(times),
            notes=_notes(times),
            details={**times.model_dump(), "window_s": step.window_s},
        )


def _metrics(times: SnapshotTimes) -> dict[str, MetricValue]:
    values: dict[str, float | None] = {"snapshot_ready_s": times.ready_s, "snapshot_cut_s": times.cut_s}
    if (restored := times.restored) is not None:
        values |= {
            "snapshot_restore_s": restored.restore_s,
            "first_touch_mib_per_s": _rate(restored.bytes, restored.first_read_s),
            "second_touch_mib_per_s": _rate(restored.bytes, restored.second_read_s),
        }
    return {name: metric(name, value) for name, value in values.items() if value is not None}


def _rate(size_bytes: int, seconds: float) -> float | None:
    return size_bytes / MIB / seconds if size_bytes and seconds else None


def _notes(times: SnapshotTimes) -> tuple[str, ...]:
    notes = ["the snapshot's data is as after a power cut: a server that starts on it recovers first"]
    if times.restored is not None and times.restored.unreadable:
        notes.append(f"{times.restored.unreadable} files of the restored volume could not be read by this user")
    return tuple(notes)
