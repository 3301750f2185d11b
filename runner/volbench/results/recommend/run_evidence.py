"""Evidence of a run: its closed loops on each volume, and what its server wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from volbench.core.base.nearest import suggestion
from volbench.core.profile.resolve import resolve_volume
from volbench.core.records.named_metrics import Innodb
from volbench.core.records.run import VolumeSpec
from volbench.core.records.steps import step_kind
from volbench.errors import Undecided, UsageError, VolbenchError
from volbench.results.explain.accounts.redo import redo_capacity, redo_option, whole_variable
from volbench.results.explain.case import Case
from volbench.results.explain.run import RunExplanation, explain_run, valid_views
from volbench.results.explain.run_cases import cases_of
from volbench.results.recommend.measured_load import Measured, MeasuredLoad
from volbench.results.recommend.server import ServerFigures
from volbench.results.stats.grid import mean
from volbench.results.store.loaded_run import LoadedRun

RECOVERY = "recovery_s"


def evidence_of_run(loaded: LoadedRun, *, steps: Sequence[str] = (), volume: str = "") -> MeasuredLoad:
    """Return a run's loads as evidence.

    Args:
        loaded: the run.
        steps: names of its steps; empty: every closed loop of transactions.
        volume: the one that loads are predicted from; empty: the first with a load that can be predicted from.

    Raises UsageError for a name that the run does not have, Undecided where no load says anything.
    """
    explained = explain_run(loaded)
    names = [volume_spec.name for volume_spec in loaded.run.volumes]
    if volume and volume not in names:
        raise UsageError(
            f"the run has no volume {volume!r}", where="--from-volume", next_step=suggestion(volume, names)
        )
    every = list(_measured(loaded, explained, steps))
    base = volume or next(
        (name for name in names for load in every if load.volume == name and load.predictable), names[0]
    )
    loads = tuple(load for load in every if load.volume == base)
    if not loads:
        raise Undecided(
            "the run has no load of transactions, so nothing tells what another volume would do",
            where=f"{loaded.path.name}, volume {base}",
            evidence=f"steps with samples: {', '.join(sorted({step for _, step in explained.views})) or 'none'}",
            next_step="run a suite with an oltp step: volbench run suites/oltp.yaml",
        )
    evidence = MeasuredLoad(
        name=loaded.path.name,
        loads=loads,
        elsewhere=tuple(load for load in every if load.volume != base),
        server=_server(loaded, base),
        more_notes=explained.unreadable,
    )
    evidence.require_known()
    return evidence


def _measured(loaded: LoadedRun, explained: RunExplanation, steps: Sequence[str]) -> Iterator[Measured]:
    """Yield each load of transactions on each volume, of valid cells."""
    kinds = {step.step: step for result in loaded.results for step in result.steps}
    for step in steps:
        if step not in kinds:
            raise UsageError(f"the run has no step {step!r}", where="--step", next_step=suggestion(step, kinds))
    specs = {volume_spec.name: volume_spec for volume_spec in loaded.run.volumes}
    for (volume, step), cells in explained.views.items():
        kind = kinds.get(step)
        is_load = kind is not None and step_kind(kind.kind).transactions and "rate" not in kind.parameters
        if not is_load or (steps and step not in steps):
            continue
        views = valid_views(cells)
        yield Measured(
            volume=volume,
            step=step,
            demands=tuple(view.demand for view in views.values()),
            spec=_spec(specs[volume]),
            response=explained.measured.get(step),
        )


def _spec(volume: VolumeSpec) -> str:
    """Return an emulated block volume as a SPEC of its profile; empty for others, whose limits nobody stated."""
    if volume.kind != "emulated":
        return ""
    try:
        resolved = resolve_volume(volume)
    except VolbenchError:
        return ""
    if resolved.mode != "block":
        return ""
    options = "&".join(f"{key}={value}" for key, value in volume.options.items() if key != "dir")
    return f"{volume.location}?{options}" if options else volume.location


def _server(loaded: LoadedRun, base: str) -> ServerFigures:
    """Return what cells on a volume tell of their server."""
    volume_of = {cell.cell_id: cell.volume for cell in loaded.run.cells}
    cells = [result for result in loaded.results if volume_of[result.cell_id] == base]
    cases = [case for result in cells for case in cases_of(loaded, result)]
    if not cases:
        return ServerFigures()
    written = [rate for case in cases if (rate := mean(case.at(Innodb.os_log_written_mib_per_s))) is not None]
    recovered = [
        recovery.value
        for result in cells
        for step in result.steps
        if (recovery := step.metrics.get(RECOVERY)) is not None
    ]
    reads = [read for case in cases if (read := _read_s(case)) is not None]
    return ServerFigures(
        pool_bytes=whole_variable(cases[0], "innodb_buffer_pool_size"),
        redo_bytes=redo_capacity(cases[0]),
        redo_option=redo_option(cases[0]),
        redo_bytes_per_s=max(written) * 2**20 if written else None,
        recovery_s=median(recovered) if recovered else None,
        recovered_read_s=median(reads) if reads else None,
    )


def _read_s(case: Case) -> float | None:
    device = case.device
    if device is None or device.r_await_ms is None:
        return None
    await_ms = mean(device.r_await_ms)
    return await_ms / 1000 if await_ms else None
