"""Rows of a report that need no statistics: cells, volumes, server, failures, timing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from volbench.core.base.parse import optional_whole, parse_moment
from volbench.core.records.cell import CellResult, Failure, StepResult
from volbench.core.records.metrics import MetricValue
from volbench.core.records.report import CellRow, DataRow, ServerRow, Timing, VolumeRow
from volbench.core.records.run import JournalEvent, PlannedCell, RunRecord, VolumeSpec
from volbench.errors import RunUnreadable
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.disturbance import bounds, held_share
from volbench.results.compare.step_validity import invalid_reasons
from volbench.results.report.rows.few_transactions import few_notes, stated_metrics
from volbench.results.report.rows.nodes import host_name
from volbench.results.report.rows.totals import with_parts
from volbench.results.store.loaded_run import LoadedRun

OPEN_LOOP = "offered_ratio"
"""The detail of a step that only loads at a fixed rate have."""


def cell_rows(run: RunRecord, results: Iterable[CellResult]) -> tuple[CellRow, ...]:
    """Return one row for each step of each cell that has a result; steps of a failed cell are invalid, and so are
    totals over parts of which one is."""
    planned, finished = {cell.cell_id: cell for cell in run.cells}, tuple(results)
    reasons = invalid_reasons(run, finished)
    return with_parts(
        [
            _cell_row(planned[result.cell_id], result, step, step_reasons)
            for result in finished
            for step, step_reasons in zip(result.steps, reasons[result.cell_id], strict=True)
        ]
    )


def _cell_row(planned: PlannedCell, result: CellResult, step: StepResult, reasons: tuple[str, ...]) -> CellRow:
    metrics = {name: value for name, value in stated_metrics(step).items() if math.isfinite(value.value)}
    return CellRow(
        cell_id=result.cell_id,
        volume=planned.volume,
        step=step.step,
        kind=step.kind,
        parameters={**planned.parameters, **step.parameters},
        block=planned.block,
        repeat=planned.repeat,
        valid=not reasons,
        invalid_reasons=reasons,
        notes=(*step.notes, *few_notes(step)),
        window_s=step.window_s,
        started_at=_later(result.zero_utc, step.window_s[0]),
        metrics=metrics,
        disturbances=step.disturbances,
        delayed_share_max=held_share(step.disturbances, ceiling=step.delayable_share)
        if step.disturbances
        else None,
        bounds=_bounds(step, metrics, reasons),
        covariates=step.covariates,
        node=host_name(result.host) or "",
    )


def _bounds(
    step: StepResult, metrics: dict[str, MetricValue], reasons: Iterable[str]
) -> dict[str, tuple[float, float | None]]:
    """Return the bounds of the figures without the disturbances; empty when the step is invalid otherwise too."""
    disturbance_texts = {disturbance.text for disturbance in step.disturbances if disturbance.beyond}
    if not disturbance_texts or not disturbance_texts.issuperset(reasons):
        return {}
    held_back, window_s = (
        held_share(step.disturbances, ceiling=step.delayable_share),
        step.window_s[1] - step.window_s[0],
    )
    ends = {
        name: bounds(metrics, name, delayed=held_back, open_loop=OPEN_LOOP in step.details, window_s=window_s)
        for name, metric in metrics.items()
        if metric.better != "none"
    }
    return {name: (low, high if math.isfinite(high) else None) for name, (low, high) in ends.items()}


def used_within_bounds(cells: Iterable[CellRow], comparisons: Iterable[Comparison]) -> tuple[CellRow, ...]:
    """Return the rows with the metrics whose comparisons use them although they are invalid."""
    metrics: dict[tuple[str, str, str], list[str]] = {}
    for comparison in comparisons:
        parameters = str(sorted(comparison.parameters.items()))
        for volume, used in zip((comparison.baseline, comparison.candidate), comparison.within_bounds, strict=True):
            if used:
                metrics.setdefault((volume, comparison.step, parameters), []).append(comparison.metric)
    rows = []
    for cell in cells:
        names = metrics.get((cell.volume, cell.step, str(sorted(cell.parameters.items()))), [])
        used_for = tuple(dict.fromkeys(name for name in names if name in cell.bounds))
        rows.append(cell.model_copy(update={"used_within_bounds": used_for}) if used_for else cell)
    return tuple(rows)


def volume_rows(run: RunRecord, results: Sequence[CellResult]) -> tuple[VolumeRow, ...]:
    """Return each volume with the facts from its first cell, and the other pods on its claim from all cells."""
    volume_of = {cell.cell_id: cell.volume for cell in run.cells}
    first: dict[str, CellResult] = {}
    pods: dict[str, dict[str, None]] = {}
    for result in results:
        volume = volume_of[result.cell_id]
        first.setdefault(volume, result)
        pods.setdefault(volume, {}).update(dict.fromkeys(result.volume_facts.foreign_pods))
    return tuple(_volume_row(spec, first.get(spec.name), (*pods.get(spec.name, ()),)) for spec in run.volumes)


def _volume_row(spec: VolumeSpec, result: CellResult | None, foreign_pods: tuple[str, ...] = ()) -> VolumeRow:
    if result is None:
        return VolumeRow(name=spec.name, kind=spec.kind, spec=spec.text, emulated=spec.kind == "emulated")
    facts = result.volume_facts.model_copy(update={"foreign_pods": foreign_pods})
    return VolumeRow(
        name=spec.name,
        kind=spec.kind,
        spec=spec.text,
        profile=facts.emulated_profile,
        filesystem=facts.filesystem,
        mount_options=facts.mount_options,
        device=facts.device,
        emulated=spec.kind == "emulated" or facts.emulated_profile is not None,
        facts=facts.model_dump(mode="json", exclude_none=True),
    )


def server_row(results: Iterable[CellResult]) -> ServerRow | None:
    """Return the server of the first cell that has one; `differences` lists where cells differ."""
    for result in results:
        if result.server is not None:
            server = result.server
            return ServerRow(flavor=server.flavor, version=server.version, variables=server.variables)
    return None


def data_row(events: Iterable[JournalEvent], server: ServerRow | None) -> DataRow | None:
    """Return the size of the dataset's template, and its ratio to the buffer pool."""
    size = next((event.details.get("bytes") for event in events if event.event == "template_ready"), None)
    if not isinstance(size, int):
        return None
    setting = server.variables.get("innodb_buffer_pool_size", "") if server else ""
    pool = optional_whole(setting) or None
    return DataRow(bytes=size, buffer_pool_bytes=pool, data_to_pool_ratio=size / pool if pool else None)


def failure_rows(loaded: LoadedRun) -> tuple[dict[str, Any], ...]:
    """Return failed cells and attempts, and cells that were abandoned without a result.

    `done_later` is true where a later attempt at the cell is done, so that the cell has not failed.
    """
    results = loaded.results
    volume_of = {cell.cell_id: cell.volume for cell in loaded.run.cells}
    attempts = [*results, *(result for _, result in loaded.failed_attempts)]
    rows = [
        _failure_row(result.cell_id, volume_of.get(result.cell_id, ""), result.attempt, result.failure)
        for result in attempts
        if result.failure is not None
    ]
    reported = {(row["cell_id"], row["attempt"]) for row in rows}
    rows += [
        _event_row(event, volume_of.get(event.cell_id, ""))
        for event in loaded.events
        if event.event in ("cell_failed", "cell_abandoned") and (event.cell_id, event.attempt) not in reported
    ]
    done = {result.cell_id: result.attempt for result in results if result.failure is None}
    for row in rows:
        row["done_later"] = done.get(row["cell_id"], 0) > row["attempt"]
    return tuple(sorted(rows, key=lambda row: (row["cell_id"], row["attempt"])))


def failure_text(failure: Mapping[str, Any], cell: str) -> str:
    """Return a failed attempt as a line, with whether a later attempt is done; `cell` as the report writes it."""
    if failure.get("done_later"):
        return f"{cell}: attempt {failure.get('attempt')} failed, a later one is done"
    return f"failed: {cell}"


def _failure_row(cell_id: str, volume: str, attempt: int, failure: Failure) -> dict[str, Any]:
    return {"cell_id": cell_id, "volume": volume, "attempt": attempt, **failure.model_dump(mode="json")}


def _event_row(event: JournalEvent, volume: str) -> dict[str, Any]:
    details: Mapping[str, Any] = event.details
    return _failure_row(
        event.cell_id,
        volume,
        event.attempt,
        Failure(
            cause=str(details.get("cause", event.event)),
            message=str(details.get("message", "the cell ended without a result")),
            where=str(details.get("where", "")),
            evidence=str(details.get("evidence", "")),
            next_step=str(details.get("next_step", "volbench resume RUN")),
        ),
    )


def finished_at(events: Sequence[JournalEvent]) -> str | None:
    """Return when the run ended; None while it goes on, or after a resume that has not ended."""
    for event in reversed(events):
        if event.event in ("run_finished", "run_started", "run_resumed", "run_extended"):
            return event.at if event.event == "run_finished" else None
    return None


def timing(run: RunRecord, events: Sequence[JournalEvent], cells: Iterable[CellRow]) -> Timing:
    """Return the measured seconds of all steps and the wall time without interruptions.

    Concurrent steps are counted once.
    """
    measured_s = _covered_s(cells)
    wall_s = 0.0
    previous = _moment(run.started_at)
    for event in events:
        now = _moment(event.at)
        if event.event not in ("run_resumed", "run_extended"):
            wall_s += max(0.0, (now - previous).total_seconds())
        previous = now
    return Timing(wall_s=wall_s, measured_s=measured_s, measured_share=measured_s / wall_s if wall_s > 0 else None)


def _covered_s(cells: Iterable[CellRow]) -> float:
    """Return the seconds within the window of at least one step, over all cells."""
    windows = sorted((cell.cell_id, *cell.window_s) for cell in cells if cell.window_s is not None)
    covered_s, cell_id, until_s = 0.0, "", 0.0
    for name, t0_s, t1_s in windows:
        start_s = max(t0_s, until_s) if name == cell_id else t0_s
        covered_s += max(0.0, t1_s - start_s)
        until_s = max(until_s, t1_s) if name == cell_id else t1_s
        cell_id = name
    return covered_s


def _moment(text: str) -> datetime:
    try:
        return parse_moment(text)
    except ValueError as error:
        raise RunUnreadable(
            "a time of the run cannot be read", where="run.json, journal.jsonl or result.json", evidence=str(error)
        ) from error


def _later(zero_utc: str, seconds: float) -> str | None:
    try:
        moment = parse_moment(zero_utc) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_declared(run: RunRecord, cells: Iterable[CellRow]) -> list[CellRow]:
    """Return the cells under the volume that the user declared; a cell's parameters have its variant."""
    declared = {volume.name: volume.variant_of or volume.name for volume in run.volumes}
    return [cell.model_copy(update={"volume": declared.get(cell.volume, cell.volume)}) for cell in cells]
