"""A run's directory explained: each step of each cell by itself, then the repeats of a volume together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from volbench.analysis.explain.align import Grid, align
from volbench.analysis.explain.association import Association, associations
from volbench.analysis.explain.case import Beside, Case
from volbench.analysis.explain.findings import Explanation, common_notes, explain_case, finding_rows
from volbench.errors import RunUnreadable
from volbench.records.cell import CellResult, StepResult
from volbench.records.report import FindingRow
from volbench.store.run_directory import SERIES_FILE, RunDirectory
from volbench.store.series import SeriesKey, read_series

KINDS = ("oltp", "dump", "restore", "cold_read")
"""Steps that are explained; an idle one has nothing to explain."""
LATENCY = SeriesKey(source="client", metric="latency_ms_p95")


@dataclass(frozen=True, kw_only=True)
class RunExplanation:
    """Findings of a run; `notes` says by volume and step what is missing."""

    findings: tuple[FindingRow, ...]
    notes: dict[tuple[str, str], tuple[str, ...]]
    unreadable: tuple[str, ...] = ()


def explain_run(directory: RunDirectory) -> RunExplanation:
    """All findings of a run so far. Cells without samples are passed over, damaged ones are named."""
    volume_of = {cell.cell_id: cell.volume for cell in directory.run.cells}
    found: dict[tuple[str, str], dict[str, Explanation]] = {}
    unreadable = []
    for result in directory.results():
        try:
            for case in cases_of(directory, result):
                key = (volume_of[result.cell_id], case.name)
                found.setdefault(key, {})[result.cell_id] = explain_case(case)
        except RunUnreadable as error:
            unreadable.append(f"{error.where}: {error.what}")
    return RunExplanation(
        findings=tuple(row for (volume, step), cells in found.items() for row in finding_rows(volume, step, cells)),
        notes={key: common_notes(list(cells.values())) for key, cells in found.items()},
        unreadable=tuple(unreadable),
    )


def findings_of(directory: RunDirectory) -> tuple[FindingRow, ...]:
    """The findings alone, as report.json has them."""
    return explain_run(directory).findings


def ranked_associations(directory: RunDirectory, *, most: int) -> dict[tuple[str, str], tuple[Association, ...]]:
    """Per volume and step, the metrics that move most with p95 in its first cell, of those that hold."""
    volume_of = {cell.cell_id: cell.volume for cell in directory.run.cells}
    ranked: dict[tuple[str, str], tuple[Association, ...]] = {}
    for result in directory.results():
        if all((volume_of[result.cell_id], step.step) in ranked for step in result.steps):
            continue
        try:
            for case in cases_of(directory, result):
                held = [one for one in associations(case.grid, LATENCY) if one.holds]
                ranked.setdefault((volume_of[result.cell_id], case.name), tuple(held[:most]))
        except RunUnreadable:
            continue  # named by explain_run
    return ranked


def cases_of(directory: RunDirectory, result: CellResult) -> Iterator[Case]:
    """Each step of a cell that can be explained; what ran beside a load (`load/...`) is told with it.

    Raises RunUnreadable for a damaged table.
    """
    path = directory.cell_dir(result.cell_id) / SERIES_FILE
    if not path.exists():
        return
    whole: Grid | None = None
    for step in result.steps:
        if step.kind not in KINDS or "/" in step.step:
            continue
        if whole is None:
            whole = align(read_series(path))
        yield _case(result, step, whole)


def _case(result: CellResult, step: StepResult, whole: Grid) -> Case:
    threads, rate = step.parameters.get("threads"), step.parameters.get("rate")
    ratio = step.details.get("client_cpu_ratio")
    return Case(
        name=step.step,
        grid=whole.within(*step.window_s),
        whole=whole,
        kind=step.kind,
        disk=result.volume_facts.disk,
        threads=int(threads) if isinstance(threads, int | float) else None,
        rate=float(rate) if isinstance(rate, int | float) else None,
        cpus=result.host.cpus,
        variables=result.server.variables if result.server is not None else {},
        client_cpu_ratio=float(ratio) if isinstance(ratio, int | float) else None,
        beside=tuple(
            Beside(
                name=str(other.parameters.get("tool", other.kind)), t0_s=other.window_s[0], t1_s=other.window_s[1]
            )
            for other in result.steps
            if other.step.startswith(f"{step.step}/")
        ),
    )
