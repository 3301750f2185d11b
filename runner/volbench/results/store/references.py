"""What the files of a run say of each other: every name that one of them uses, another one has.

A run may come from somebody else, or be put together from two. Whoever reads it looks names up, so a volume that no
cell has, or a step that the suite has not, is told once, by the file that names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from volbench.core.base.nearest import nearest_match
from volbench.core.records.cell import CellResult, StepResult
from volbench.core.records.metrics import PLACEMENT_STEP
from volbench.core.records.run import JournalEvent, RunRecord
from volbench.core.records.steps import STEP_KINDS, Step
from volbench.errors import RunUnreadable

CELLS_MAX = 10**9
"""No plan has as many; tables keep block and repeat with 64 bits."""
_SHOWN_MAX = 60


def check_run(run: RunRecord, where: Path) -> None:
    """Raise RunUnreadable for names in run.json that are there twice or that it does not have."""
    volumes = [volume.name for volume in run.volumes]
    if not volumes:
        raise _fault(where, "volumes", "the run has no volume")
    _check_unique(where, "volumes", volumes)
    _check_unique(where, "cells", [cell.cell_id for cell in run.cells])
    _check_unique(where, "suite.steps", [_row_of(step) for step in run.suite.steps])
    for number, cell in enumerate(run.cells):
        _check_known(where, f"cells.{number}.volume", cell.volume, volumes, "volume")
        if not (0 <= cell.block <= CELLS_MAX and 0 <= cell.repeat <= CELLS_MAX):
            raise _fault(where, f"cells.{number}", f"block {cell.block} and repeat {cell.repeat} are of no plan")
    steps = [step.name for step in run.suite.steps]
    forecast, pricing = run.suite.forecast, run.suite.pricing
    for number, prediction in enumerate(forecast.predictions if forecast else ()):
        key = f"suite.forecast.predictions.{number}"
        _check_known(where, f"{key}.volume", prediction.volume, volumes, "volume")
        if prediction.against:
            _check_known(where, f"{key}.against", prediction.against, volumes, "volume")
        _check_row(where, f"{key}.step", prediction.step, steps)
    if forecast and forecast.step:
        _check_row(where, "suite.forecast.step", forecast.step, steps)
    if pricing:
        _check_row(where, "suite.pricing.step", pricing.step, steps)


def check_result(run: RunRecord, result: CellResult, where: Path) -> None:
    """Raise RunUnreadable for steps of a result that the suite has not, and for ends before their begin."""
    steps = [step.name for step in run.suite.steps]
    for number, step in enumerate(result.steps):
        key = f"steps.{number}"
        if step.step != PLACEMENT_STEP:
            _check_row(where, f"{key}.step", step.step, steps)
        for name, span in _spans(step):
            _check_span(where, f"{key}.{name}", span)
    for number, phase in enumerate(result.phases):
        _check_span(where, f"phases.{number}", (phase.t0_s, phase.t1_s))


def check_events(run: RunRecord, events: Iterable[JournalEvent], where: Path) -> None:
    """Raise RunUnreadable for events of cells that run.json has not."""
    cells = frozenset(cell.cell_id for cell in run.cells)
    for number, event in enumerate(events):
        if event.cell_id:
            _check_known(where, f"event {number}: cell_id", event.cell_id, cells, "cell")


def _row_of(step: Step) -> str:
    """Return a step's name, with its value of a parameter that a suite may list, such as `threads: [1, 8, 32]`."""
    key = STEP_KINDS[step.kind].expanded
    return f"{step.name} ({key} {', '.join(map(str, getattr(step, key)))})" if key else str(step.name)


def _spans(step: StepResult) -> Iterator[tuple[str, tuple[float, float]]]:
    yield "window_s", step.window_s
    for number, span in enumerate(step.spans_s):
        yield f"spans_s.{number}", span


def _check_span(where: Path, key: str, span: tuple[float, float]) -> None:
    if span[0] > span[1]:
        raise _fault(where, key, f"it ends at {span[1]:g} s, before it begins at {span[0]:g} s")


def _check_row(where: Path, key: str, row: str, steps: list[str]) -> None:
    """Raise RunUnreadable for a row of results whose step, the part before a slash, the suite has not."""
    if not any(row == step or row.startswith(f"{step}/") for step in steps):
        _check_known(where, key, row, steps, "step")


def _check_known(where: Path, key: str, name: str, names: Collection[str], noun: str) -> None:
    if name not in names:
        nearest = nearest_match(name[:_SHOWN_MAX], names)
        has = f"the nearest of {len(names)} is {nearest!r}" if nearest else f"the run has {len(names)} of them"
        raise _fault(where, key, f"the run has no {noun} {name[:_SHOWN_MAX]!r}; {has}")


def _check_unique(where: Path, key: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise _fault(where, key, f"{twice[:_SHOWN_MAX]!r} is there twice")


def _fault(where: Path, key: str, evidence: str) -> RunUnreadable:
    return RunUnreadable(
        "the files of the run do not fit together",
        where=f"{where}: {key}",
        evidence=evidence,
        next_step="take the run from a backup, or leave it out",
    )
