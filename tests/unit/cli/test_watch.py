"""Progress lines of a run: each finished cell with its result, the time since the run began."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_run import build_run, two_volumes

from volbench.cli import console
from volbench.cli.runs.watch import progress_watcher, result_text
from volbench.execute.run import CellState
from volbench.records.cell import CellResult
from volbench.store.run_directory import RunDirectory


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return build_run(tmp_path, two_volumes(repeats=2, invalid={("a", 1): "client CPU-bound"}))


def state(directory: RunDirectory, number: int) -> CellState:
    cells = directory.run.cells
    cell = cells[number - 1]
    return CellState(
        number=number, total=len(cells), cell_id=cell.cell_id, volume=cell.volume, elapsed_s=0.0, progress=None
    )


def test_each_cell_is_reported_once_with_its_result(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(console, "say", lines.append)
    with progress_watcher(directory, json=True) as watch:
        for number in (1, 1, 2, 2, 3, 4):
            watch(state(directory, number))
    begun = [line for line in lines if " on " in line]
    finished = [line for line in lines if "valid" in line]
    assert len(begun) == len(finished) == 4
    assert lines.index(finished[0]) < lines.index(begun[1])
    assert all("elapsed" in line for line in lines)
    assert sum("invalid: client CPU-bound" in line for line in finished) == 1


def test_a_result_names_its_figures_with_units(directory: RunDirectory) -> None:
    text = result_text(next(result for result in directory.results() if not result.steps[0].invalid_reasons))
    assert text.startswith("read-write: transactions/s ")
    assert ", p95 latency " in text
    assert "; dump: dump time " in text
    assert text.endswith("; valid")


def test_a_single_step_needs_no_name(directory: RunDirectory) -> None:
    result = next(result for result in directory.results() if not result.steps[0].invalid_reasons)
    text = result_text(result.model_copy(update={"steps": result.steps[:1]}))
    assert text.startswith("transactions/s ")
    assert text.endswith("; valid")


def test_a_repeat_is_named_and_only_repeats_are_left(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(console, "say", lines.append)
    cells = directory.run.cells
    with progress_watcher(directory, json=True) as watch:
        for number in (1, 2, 3, 4):
            watch(state(directory, number))
        directory.journal.append("cell_replaced", cell_id=cells[1].cell_id)
        watch(state(directory, 2))
    repeats = [line for line in lines if line.startswith("repeat of cell 2/4")]
    assert len(repeats) == 2  # its begin, and its result


def test_a_run_whose_first_cells_are_all_invalid_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(console, "say", lines.append)
    invalid = {(volume, repeat): "other work on the machine" for volume in "ab" for repeat in (1, 2, 3)}
    directory = build_run(tmp_path, two_volumes(repeats=3, invalid=invalid))
    with progress_watcher(directory, json=True) as watch:
        for number in range(1, 7):
            watch(state(directory, number))
    notes = [
        index for index, line in enumerate(lines) if line.startswith("note: the first 4 cells are all invalid")
    ]
    assert len(notes) == 1
    assert lines[notes[0] - 1].startswith("cell 4/6")


def test_lanes_that_prepare_at_once_are_each_announced_once(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(console, "say", lines.append)
    with progress_watcher(directory, json=True) as watch:
        for _ in range(5):
            for lane in ("node1", "node2", "node3"):
                watch(replace(state(directory, 1), number=0, cell_id=f"template.{lane}-a"))
    assert len([line for line in lines if "preparing" in line]) == 3


def test_lanes_that_see_the_same_result_at_once_report_it_once(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would have read the first cell's result before either had reported it."""
    lines: list[str] = []
    monkeypatch.setattr(console, "say", lines.append)
    meet, result_of, faults = threading.Barrier(2), RunDirectory.result, list[KeyError]()

    def result(self: RunDirectory, cell_id: str) -> CellResult | None:
        found = result_of(self, cell_id)
        with suppress(threading.BrokenBarrierError):  # nobody else is let in
            meet.wait(0.5)
        return found

    with progress_watcher(directory, json=True) as watch:
        watch(state(directory, 1))
        monkeypatch.setattr(RunDirectory, "result", result)

        def call(number: int) -> None:
            try:
                watch(state(directory, number))
            except KeyError as fault:
                faults.append(fault)

        lanes = [threading.Thread(target=call, args=(number,)) for number in (2, 3)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
    assert faults == []
    assert len([line for line in lines if line.startswith("cell 1/") and "valid" in line]) == 1
