"""The agent: runs one cell beside the server, from the seeding of its data directory to result.json."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from volbench.analysis.cell_metrics import storage_metrics
from volbench.analysis.validity import (
    Observation,
    delayable_share_of,
    disturbances_of,
    invalid_reasons,
    notes_of,
    observe,
    outside_reasons,
)
from volbench.engine.attached import AttachedServer
from volbench.engine.attached_dataset import MARK_TABLE, attached_dataset
from volbench.engine.template import seed
from volbench.errors import EnvironmentLacks, VolbenchError
from volbench.execute.cell_server import CellServer, server_of
from volbench.execute.diary import Diary
from volbench.execute.progress import ProgressFile
from volbench.execute.recorder import CellRecorder, recording
from volbench.execute.sampling import sampling
from volbench.execute.volume_watch import VolumeWatch, cancelling
from volbench.records.cell import CellPlaces, CellResult, CellSpec, DatasetSpec, StepResult
from volbench.records.facts import VolumeFacts
from volbench.records.steps import Step, parameters_of
from volbench.store.files import write_record
from volbench.store.run_directory import RESULT_FILE, SERIES_FILE
from volbench.volume import ownership
from volbench.volume.blockstats import device_read_bytes
from volbench.volume.emulated_control import ask_socket
from volbench.volume.facts import discover, with_host_facts
from volbench.volume.host import host_facts
from volbench.volume.trouble import CAUSES, trouble_error
from volbench.workload.interface import StepContext, StepOutcome
from volbench.workload.registry import workload_for

_log = logging.getLogger(__name__)
CREDITS = "credits"
"""The parameter of profiles with burst credits, and the daemon's word for setting them."""
QUIET_S = 1.0
"""How long the device is watched before the cell touches it, for I/O that is not ours."""
QUIET_S_MAX = 5.0
"""A grid so coarse that no whole interval lies in this time says nothing of the device at rest."""


def run_cell(cell: CellSpec, out: Path) -> CellResult:
    """Run a cell and write its result; a failure stands in the result, it is not raised.

    Args:
        cell: with `places` (a server of our own) or `attach` (one that runs already).
        out: the cell's directory; gets result.json, series.parquet, histograms.parquet and raw/.
    """
    diary = Diary(cell, volume_facts=_volume_facts(cell), host=host_facts())
    progress = ProgressFile(out)
    with recording(out) as record, diary.keeping_failure():
        _refill(cell)
        _run(cell, out, diary, record, progress)
    progress.report("judging", None)
    _judge(cell, out, diary)
    result = diary.result()
    write_record(out / RESULT_FILE, result)
    return result


def _volume_facts(cell: CellSpec) -> VolumeFacts:
    """What is behind the data directory; that it is emulated cannot be seen from here, so the cell says so."""
    if cell.places is None:
        return VolumeFacts(path="")
    directory = Path(cell.places.volume_dir)
    if not directory.exists():  # on a volume that is mounted for this cell alone, nobody else makes it
        ownership.claim(directory, purpose="cell", run_id=cell.run_id)
    facts = with_host_facts(discover(directory), cell.host_volume)
    if cell.emulated is None:
        return facts
    emulated = {"emulated_profile": cell.emulated.profile, "emulated_parameters": cell.emulated.parameters}
    return facts.model_copy(update=emulated)


def _refill(cell: CellSpec) -> None:
    """Cells start alike: an emulated volume's credits are what its SPEC says, not what the last cell has left."""
    fill = cell.emulated.parameters.get(CREDITS) if cell.emulated else None
    if fill is not None and cell.places is not None and cell.places.emulator_socket:
        request = {"do": "fault", "fault": {"kind": CREDITS, "fill": float(fill)}}
        ask_socket(Path(cell.places.emulator_socket), request)


def _run(cell: CellSpec, out: Path, diary: Diary, record: CellRecorder, progress: ProgressFile) -> None:
    with (
        _on_volume(cell.places) as (cancelled, watch),
        server_of(cell) as server,
        _attached_data(cell, server, diary, progress),
        sampling(cell, out, diary, server, record),
    ):
        if cell.places is not None:
            _start_on_copy(cell, cell.places, diary, server, progress)
        diary.server = server.facts()
        context = _context(cell, out, diary, server, record, progress, cancelled, watch)
        for step in cell.steps:
            workload_for(step).check(step, context)
        for step in cell.steps:
            ended = _run_step(step, context, diary)
            if ended:
                diary.notes.append(f"no step was run after {step.name}: {ended}")
                break
        if cell.places is not None:
            with diary.phase("kill"):
                server.kill()  # its data is thrown away: a clean shutdown would only write it out once more


@contextmanager
def _attached_data(cell: CellSpec, server: CellServer, diary: Diary, progress: ProgressFile) -> Iterator[None]:
    """On a server that runs already: fresh tables in its schema, and what is behind its data where that is here."""
    if cell.attach is None or not isinstance(server, AttachedServer):
        yield
        return
    begun_s = diary.clock.now_s()
    with attached_dataset(
        server,
        _dataset(cell),
        run_id=cell.run_id,
        progress=progress.report,
    ):
        diary.add_phase("seed", begun_s)
        diary.volume_facts = _attached_volume(server, _dataset(cell).schema_name)
        diary.notes.append("the server is not volbench's own: whatever else it does is in the numbers")
        yield


def _attached_volume(server: AttachedServer, schema: str) -> VolumeFacts:
    """What is behind the server's data directory, when the tables just made are seen in it from here."""
    try:
        directory = server.data_dir
    except EnvironmentLacks as error:
        return VolumeFacts(path=error.evidence, notes=("the server's data is not on this machine",))
    if not (directory / schema / f"{MARK_TABLE}.ibd").exists():
        return VolumeFacts(path=str(directory), notes=("the server's data directory cannot be seen from here",))
    return discover(directory)


def _dataset(cell: CellSpec) -> DatasetSpec:
    """The cell's dataset; on an attached server its schema is the one that the DSN names."""
    if cell.attach is None:
        return cell.dataset
    return cell.dataset.model_copy(update={"schema_name": cell.attach.schema_name})


def _start_on_copy(
    cell: CellSpec, places: CellPlaces, diary: Diary, server: CellServer, progress: ProgressFile
) -> None:
    """Watch the quiet device, copy the template onto the volume, start the server."""
    with diary.phase("quiet"):
        progress.report("watching the device at rest")
        time.sleep(_quiet_s(cell.sampling.interval_s))  # this is a measurement: the samplers run
    with diary.phase("seed"):
        progress.report("copying the dataset")
        seed(Path(places.template_dir) / cell.template_key, Path(places.data_dir))
    with diary.phase("start"):
        progress.report("starting the server")
        server.start()


def _quiet_s(interval_s: float) -> float:
    """Long enough that one whole interval of the grid lies in it, wherever it begins."""
    whole_s = 2.1 * interval_s
    return max(QUIET_S, whole_s) if whole_s <= QUIET_S_MAX else QUIET_S


def _context(
    cell: CellSpec,
    out: Path,
    diary: Diary,
    server: CellServer,
    record: CellRecorder,
    progress: ProgressFile,
    cancelled: threading.Event,
    watch: VolumeWatch | None,
) -> StepContext:
    places = cell.places
    return StepContext(
        server=server,
        dataset=_dataset(cell),
        volume_facts=diary.volume_facts,
        volume_dir=Path(places.volume_dir) if places else out,
        scratch_dir=server.scratch_dir if isinstance(server, AttachedServer) else _scratch_dir(places, out),
        seed=cell.seed,
        clock=diary.clock,
        record=record,
        progress=progress.report,
        cancelled=cancelled,
        device_read_bytes=partial(device_read_bytes, diary.volume_facts),
        emulator_socket=Path(places.emulator_socket) if places and places.emulator_socket else None,
        outage=watch.outage if watch else nullcontext,
    )


def _scratch_dir(places: CellPlaces | None, out: Path) -> Path:
    return Path(places.scratch_dir) if places else out


def _run_step(step: Step, context: StepContext, diary: Diary) -> str:
    """Run a step and keep its result; says why no other step can follow, if none can."""
    with diary.phase(f"step:{step.name}"):
        outcome = workload_for(step).run(step, context)
    diary.steps.append(_result(step.name, step.kind, parameters_of(step), outcome))
    for part in outcome.parts:
        diary.steps.append(_result(f"{step.name}/{part.suffix}", part.kind, part.parameters, part.outcome))
    return outcome.ends_cell


def _result(
    name: str, kind: str, parameters: dict[str, bool | int | float | str], outcome: StepOutcome
) -> StepResult:
    return StepResult(
        step=name,
        kind=kind,
        parameters=parameters,
        window_s=outcome.window_s,
        metrics=outcome.metrics,
        spans_s=outcome.spans_s,
        valid=not outcome.invalid_reasons,
        invalid_reasons=outcome.invalid_reasons,
        notes=outcome.notes,
        details=outcome.details,
    )


def _judge(cell: CellSpec, out: Path, diary: Diary) -> None:
    """Add the storage's metrics to each step, and judge whether its numbers may be averaged in."""
    series = out / SERIES_FILE
    quiet_s = diary.window_of("quiet")
    for number, step in enumerate(diary.steps):
        observation: Observation = observe(
            series,
            step,
            quiet_s=quiet_s,
            interval_s=cell.sampling.interval_s,
            clock_step_s=diary.clock_step_s(),
            cpus=os.cpu_count(),
        )
        reasons = (*step.invalid_reasons, *invalid_reasons(observation, cell.limits))
        _log.info("step %s is %s", step.step, f"invalid: {'; '.join(map(str, reasons))}" if reasons else "valid")
        diary.steps[number] = step.model_copy(
            update={
                "metrics": {**storage_metrics(series, step.window_s, step.spans_s), **step.metrics},
                "valid": not reasons,
                "invalid_reasons": reasons,
                "notes": (*step.notes, *notes_of(observation)),
                "outside_reasons": outside_reasons(observation, cell.limits),
                "disturbances": disturbances_of(observation, cell.limits),
                "delayable_share": delayable_share_of(observation),
            }
        )


@contextmanager
def _on_volume(places: CellPlaces | None) -> Iterator[tuple[threading.Event, VolumeWatch | None]]:
    """Leaves nothing on the volume, whatever comes; the directory itself is the orchestrator's.

    Yields the event that cancels a step, set when the volume stays in trouble, and the watch that sets it.
    A failure behind which the volume's own trouble is, is told as that.
    """
    cancelled = threading.Event()
    if places is None:
        yield cancelled, None
        return
    directory = Path(places.volume_dir)
    ownership.claim(directory, purpose="cell")
    ownership.erase_contents(directory)
    watch = VolumeWatch(directory, ours=True)
    try:
        looking = VolumeWatch(directory)
        with cancelling(looking, cancelled):
            yield cancelled, looking
        watch.check(where=f"volume at {directory}")  # a server goes on writing to a volume that was unmounted
    except (VolbenchError, OSError) as error:
        trouble = watch.trouble()
        with suppress(VolbenchError):  # the cell's own failure is worth more than that of cleaning up
            ownership.erase_contents(directory)
        told = getattr(error, "cause", "")
        # A log that only knows an I/O error is not as good a witness as a write that is refused as read-only.
        if trouble is None or (told in CAUSES and trouble.cause != "volume_read_only") or told == trouble.cause:
            raise
        raise trouble_error(trouble, where=getattr(error, "where", ""), also=_seen(error)) from error
    except BaseException:
        ownership.erase_contents(directory)
        raise
    ownership.erase_contents(directory)


def _seen(error: Exception) -> str:
    if isinstance(error, VolbenchError):
        return "; ".join(part for part in (error.what, error.evidence) if part)
    return str(error)
