"""The agent: runs one cell, from the seeding of the data directory to result.json."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from subprocess import Popen

from volbench.core.base import ownership
from volbench.core.base.text import counted, size
from volbench.core.records.cell import AT_REST_SHARE, CellPlaces, CellResult, CellSpec, DatasetSpec, StepResult
from volbench.core.records.facts import VolumeFacts
from volbench.core.records.own_files import dump_folder
from volbench.core.records.steps import Step
from volbench.errors import EnvironmentLacks
from volbench.machine.engine.attached import AttachedServer
from volbench.machine.engine.attached_dataset import MARK_TABLE, attached_dataset
from volbench.machine.engine.template import TemplateRecord, seed, verify_template
from volbench.machine.host.blockstats import device_read_bytes
from volbench.machine.host.host import host_facts
from volbench.machine.volume.emulated.control import reset
from volbench.machine.volume.facts.discovery import discover, with_host_facts
from volbench.measure.execute.cell.cell_server import CellServer, server_of
from volbench.measure.execute.cell.components import CREDITS, check_components, component_facts, reset_components
from volbench.measure.execute.cell.progress import ProgressFile
from volbench.measure.execute.cell.recorder import CellRecorder, recording
from volbench.measure.execute.cell.result_builder import CellResultBuilder
from volbench.measure.execute.cell.sampling import sampling
from volbench.measure.execute.cell.snapshots import SnapshotRequests
from volbench.measure.execute.cell.summaries import write_summaries
from volbench.measure.execute.cell.volume_access import Outage, on_volumes
from volbench.measure.workload.interface import StepContext, StepOutcome
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RESULT_FILE

_log = logging.getLogger(__name__)
LATER_MODULES = (
    "volbench.measure.workload.registry",
    "volbench.results.store.series",
    "volbench.results.store.histograms",
    "volbench.measure.sample.rows",
    "volbench.measure.execute.cell.judging",
)
"""What no work before the first step needs: half of the agent's imports. They pass while the server starts, which
nothing measures, and not while the device is watched at rest, since they read files."""
QUIET_S = 1.0
"""How long the device is watched before the cell touches it, for I/O of other processes."""
QUIET_S_MAX = 5.0
"""A grid so coarse that no whole interval fits into this time cannot show the device at rest."""


def run_cell(cell: CellSpec, out: Path, *, sampling_process: Popen[bytes] | None = None) -> CellResult:
    """Run a cell and write its result. A failure is part of the result; it is not raised.

    Args:
        cell: with `places` (volbench starts the server) or `attach` (the server runs already).
        out: the cell's directory; receives result.json, series.parquet, histograms.parquet and raw/.
        sampling_process: started by `sample.controller.launch`; None: it is started when it is needed.
    """
    builder = CellResultBuilder(
        cell, volume_facts=_volume_facts(cell), components=component_facts(cell), host=host_facts()
    )
    progress = ProgressFile(out)
    with recording(out) as record, builder.capturing_failure():
        _reset_emulated_volume(cell)
        _run(cell, out, builder, record, progress, sampling_process)
    from volbench.measure.execute.cell.judging import judge  # noqa: PLC0415 - see LATER_MODULES

    progress.report("judging", None)
    judge(cell, out, builder)
    result = builder.result()
    write_record(out / RESULT_FILE, result)
    return result


def _volume_facts(cell: CellSpec) -> VolumeFacts:
    """Return what backs the data directory. The agent cannot see that a volume is emulated: cell.json names it."""
    if cell.places is None:
        return VolumeFacts(path="")
    directory = Path(cell.places.volume_dir)
    if not directory.exists():  # on a volume that is mounted for this cell alone, nobody else creates it
        ownership.claim(directory, purpose="cell", run_id=cell.run_id)
    facts = with_host_facts(discover(directory), cell.host_volume)
    if cell.emulated is None:
        return facts
    emulated = {"emulated_profile": cell.emulated.profile, "emulated_parameters": cell.emulated.parameters}
    return facts.model_copy(update=emulated)


def _reset_emulated_volume(cell: CellSpec) -> None:
    if cell.emulated is not None and cell.places is not None and cell.places.emulator_socket:
        fill = cell.emulated.parameters.get(CREDITS)
        reset(Path(cell.places.emulator_socket), credits_share=None if fill is None else float(fill))
    reset_components(cell.places)


def _run(
    cell: CellSpec,
    out: Path,
    builder: CellResultBuilder,
    record: CellRecorder,
    progress: ProgressFile,
    sampling_process: Popen[bytes] | None,
) -> None:
    with (
        on_volumes(cell.places) as (cancelled, outage),
        server_of(cell) as server,
        _attached_data(cell, server, builder, progress),
        sampling(cell, out, builder, server, record, sampling_process),
    ):
        if cell.places is not None:
            _start_on_copy(cell, cell.places, builder, server, progress)
        builder.server = server.facts()
        record.open()  # not while a load runs
        context = _context(cell, out, builder, server, record, progress, cancelled, outage)
        from volbench.measure.workload.registry import workload_for  # noqa: PLC0415 - see LATER_MODULES

        for step in cell.steps:
            workload_for(step).check(step, context)
        for step in cell.steps:
            is_last = step is cell.steps[-1] and cell.places is not None
            ended = run_step(step, replace(context, is_last=is_last), builder)
            if ended:
                builder.notes.append(f"no step was run after {step.name}: {ended}")
                break
        if cell.sampling.summaries and cell.block == 0 and cell.places is not None and server.alive():
            with builder.phase("summaries"):
                progress.report("describing host and server")
                write_summaries(
                    out / "raw", option_file=server.option_file, scratch_dir=Path(cell.places.scratch_dir)
                )
        if cell.places is not None:
            with builder.phase("kill"):
                server.kill()  # the data is discarded: a clean shutdown would only write the data out once more


@contextmanager
def _attached_data(
    cell: CellSpec, server: CellServer, builder: CellResultBuilder, progress: ProgressFile
) -> Iterator[None]:
    """Make fresh tables on a server that runs already, and find what backs its data if that is on this machine."""
    if cell.attach is None or not isinstance(server, AttachedServer):
        yield
        return
    begun_s = builder.clock.now_s()
    with attached_dataset(
        server,
        _dataset(cell),
        run_id=cell.run_id,
        progress=progress.report,
    ):
        builder.add_phase("seed", begun_s)
        builder.volume_facts = _attached_volume(server, _dataset(cell).schema_name)
        builder.notes.append("volbench did not start this server: its other load is in the numbers")
        yield


def _attached_volume(server: AttachedServer, schema: str) -> VolumeFacts:
    """Return what backs the server's data directory, if the tables just made are visible in it from here."""
    try:
        directory = server.data_dir
    except EnvironmentLacks as error:
        return VolumeFacts(path=error.evidence, notes=("the server's data is not on this machine",))
    if not (directory / schema / f"{MARK_TABLE}.ibd").exists():
        return VolumeFacts(path=str(directory), notes=("the server's data directory cannot be seen from here",))
    return discover(directory)


def _dataset(cell: CellSpec) -> DatasetSpec:
    """Return the cell's dataset; on an attached server, in the schema that the DSN names."""
    if cell.attach is None:
        return cell.dataset
    return cell.dataset.model_copy(update={"schema_name": cell.attach.schema_name})


def _start_on_copy(
    cell: CellSpec, paths: CellPlaces, builder: CellResultBuilder, server: CellServer, progress: ProgressFile
) -> None:
    """Watch the quiet device, copy the template onto the volume, start the server."""
    with builder.phase("quiet"):
        progress.report("watching the device at rest")
        # This is a measurement: the samplers run.
        time.sleep(quiet_duration_s(cell.sampling.interval_s, now_s=builder.clock.now_s()))
    with builder.phase("seed"):
        progress.report("copying the dataset")
        template_dir = Path(paths.template_dir) / cell.template_key
        seed(template_dir, Path(paths.data_dir), components=paths.layout)
    if cell.dataset.is_own:
        template = verify_template(template_dir).record
        builder.notes += [_dataset_note(cell.dataset, template), *template.notes]
    with builder.phase("start"), importing(LATER_MODULES):
        progress.report("starting the server")
        server.start()
    builder.notes += check_components(paths)


def _dataset_note(dataset: DatasetSpec, record: TemplateRecord) -> str:
    tables = f"{counted(len(record.tables), 'table')}, {counted(record.rows, 'row')}, {size(record.data_bytes)}"
    return f"own data ({dataset.kind}): {tables} with the server's files; hash {record.sha256[:16]}"


def quiet_duration_s(interval_s: float, *, now_s: float) -> float:
    """Return how long the watch takes from now on, right after the samplers' first reading.

    It ends with the first reading that closes (nearly) a whole interval. The limit is in I/Os per second of such an
    interval: over less, a burst that stays within the limit of a second, such as a commit of the file system's
    journal, would exceed it. The grid has a reading at each multiple of the interval, in the cell's time.
    """
    if (1.1 + AT_REST_SHARE) * interval_s > QUIET_S_MAX:
        return QUIET_S
    end_s = (math.ceil(now_s / interval_s + AT_REST_SHARE) + 0.1) * interval_s
    return max(QUIET_S, end_s - now_s)


def _context(
    cell: CellSpec,
    out: Path,
    builder: CellResultBuilder,
    server: CellServer,
    record: CellRecorder,
    progress: ProgressFile,
    cancelled: threading.Event,
    outage: Outage,
) -> StepContext:
    paths = cell.places
    snapshots = SnapshotRequests(progress, Path(paths.control_dir)) if paths and paths.snapshots else None
    return StepContext(
        server=server,
        dataset=_dataset(cell),
        volume_facts=builder.volume_facts,
        volume_dir=Path(paths.volume_dir) if paths else out,
        scratch_dir=server.scratch_dir if isinstance(server, AttachedServer) else _scratch_dir(paths, out),
        seed=cell.seed,
        clock=builder.clock,
        record=record,
        progress=progress.report,
        cancelled=cancelled,
        device_read_bytes=partial(device_read_bytes, builder.volume_facts),
        emulator_socket=Path(paths.emulator_socket) if paths and paths.emulator_socket else None,
        layout=paths.layout if paths else (),
        outage=outage,
        dump_folder=dump_folder(cell),
        take_snapshot=snapshots.take if snapshots else None,
    )


def _scratch_dir(paths: CellPlaces | None, out: Path) -> Path:
    return Path(paths.scratch_dir) if paths else out


def run_step(step: Step, context: StepContext, builder: CellResultBuilder) -> str:
    """Run a step and record its result. Return why no other step can follow, or an empty text."""
    from volbench.measure.workload.registry import workload_for  # noqa: PLC0415 - see LATER_MODULES

    with builder.phase(f"step:{step.name}"):
        outcome = workload_for(step).run(step, context)
    builder.steps.append(_result(step.name, step.kind, step.parameters(), outcome))
    for sub_result in outcome.sub_results:
        builder.steps.append(
            _result(f"{step.name}/{sub_result.suffix}", sub_result.kind, sub_result.parameters, sub_result.outcome)
        )
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


@contextmanager
def importing(modules: Sequence[str]) -> Iterator[None]:
    """Import modules in a thread during the block. What cannot be imported fails where it is needed."""

    def import_all() -> None:
        with suppress(ImportError):
            for name in modules:
                import_module(name)

    thread = threading.Thread(target=import_all, name="imports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
