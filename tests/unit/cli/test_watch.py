"""Progress lines of a run: each finished cell with its result, the time since the run began."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_run import build_run, two_volumes

from volbench.cli import console
from volbench.cli.runs.watch import progress_watcher
from volbench.core.plan.cost import estimate
from volbench.core.records.cell import CellResult
from volbench.measure.execute.cell.progress import AgentProgress
from volbench.measure.execute.run import CellState
from volbench.measure.session.progress import TimeLeft, result_text
from volbench.results.store.run_directory import RunDirectory


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
        result = result_of(self, cell_id)
        with suppress(threading.BrokenBarrierError):  # nobody else is let in
            meet.wait(0.5)
        return result

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


@pytest.fixture
def unmeasured(directory: RunDirectory) -> RunDirectory:
    """A planned run of four cells, none of which has a result."""
    for path in directory.path.glob("cells/*/result.json"):
        path.unlink()
    return directory


@pytest.fixture
def done(directory: RunDirectory) -> CellResult:
    return next(iter(directory.results()))


def only_the_fourth_is_left(time_left: TimeLeft, run: RunDirectory, done: CellResult) -> None:
    for number in (1, 2, 3):
        time_left.begin(running(run, number, 0.0, None))
        time_left.finish(number, done.model_copy(update={"wall_s": 0.0}))
    time_left.begin(running(run, 4, 0.0, 0.0))


def running(directory: RunDirectory, number: int, elapsed_s: float, fraction: float | None) -> CellState:
    progress = None if fraction is None else AgentProgress(text="create", fraction=fraction)
    return replace(state(directory, number), elapsed_s=elapsed_s, progress=progress)


def test_before_any_progress_the_time_left_is_the_plan_s(unmeasured: RunDirectory) -> None:
    """The suite has two repeats of two volumes: four cells."""
    time_left = TimeLeft(unmeasured)
    first = running(unmeasured, 1, 0.0, None)
    time_left.begin(first)
    assert time_left.after(first) == pytest.approx(estimate(unmeasured.run.suite, volumes=2).wall_s)


def test_progress_by_whole_points_does_not_slow_down_between_them(
    done: CellResult, unmeasured: RunDirectory
) -> None:
    """Four points of 60 s: 119 s after the begin, the second one ends in a second."""
    time_left = TimeLeft(unmeasured)
    only_the_fourth_is_left(time_left, unmeasured, done)
    for elapsed_s, fraction in ((0.0, 0.0), (60.0, 0.25), (119.0, 0.25)):
        left_s = time_left.after(running(unmeasured, 4, elapsed_s, fraction))
    assert left_s == pytest.approx(121)


def test_a_slow_volume_lengthens_the_time_that_is_left(unmeasured: RunDirectory) -> None:
    """A tenth in 600 s: this cell takes 6,000 s, and so do the three after it, whatever the plan says."""
    time_left = TimeLeft(unmeasured)
    first = running(unmeasured, 1, 0.0, 0.0)
    time_left.begin(first)
    planned_s = time_left.after(first)
    assert time_left.after(running(unmeasured, 1, 600.0, 0.1)) == pytest.approx(5_400 + 3 * 6_000)
    assert planned_s < 5_000


def test_a_new_phase_is_timed_from_its_own_begin(done: CellResult, unmeasured: RunDirectory) -> None:
    time_left = TimeLeft(unmeasured)
    only_the_fourth_is_left(time_left, unmeasured, done)
    for elapsed_s, fraction in ((0.0, 0.0), (1_000.0, 1.0), (1_001.0, 0.0), (1_101.0, 0.5)):
        left_s = time_left.after(running(unmeasured, 4, elapsed_s, fraction))
    assert left_s == pytest.approx(100)


def test_finished_cells_correct_the_estimate_of_the_next_ones(done: CellResult, unmeasured: RunDirectory) -> None:
    time_left = TimeLeft(unmeasured)
    time_left.begin(running(unmeasured, 1, 0.0, None))
    time_left.after(running(unmeasured, 1, 900.0, None))
    time_left.finish(1, done.model_copy(update={"wall_s": 900.0}))
    time_left.begin(running(unmeasured, 2, 0.0, None))
    assert time_left.after(running(unmeasured, 2, 100.0, None)) == pytest.approx(800 + 2 * 900)


@pytest.mark.parametrize("lanes", [(1, 2), (1, 3), (2, 4)])
def test_two_cells_at_once_share_what_is_left(unmeasured: RunDirectory, lanes: tuple[int, int]) -> None:
    """Of four cells two run, each of them half done after 500 s: the other two follow, one on each lane."""
    time_left = TimeLeft(unmeasured)
    for number in lanes:
        time_left.begin(running(unmeasured, number, 0.0, 0.0))
    for elapsed_s, fraction in ((0.0, 0.0), (500.0, 0.5)):
        left_s = [time_left.after(running(unmeasured, number, elapsed_s, fraction)) for number in lanes]
    assert left_s[-1] == pytest.approx(500 + 1_000)


def test_cells_that_a_resumed_run_has_already_are_not_waited_for(directory: RunDirectory) -> None:
    """Two of the four have their results."""
    for number in (3, 4):
        (directory.path / "cells" / directory.run.cells[number - 1].cell_id / "result.json").unlink()
    time_left = TimeLeft(directory)
    time_left.begin(running(directory, 3, 0.0, 0.0))
    for elapsed_s, fraction in ((0.0, 0.0), (5_000.0, 0.5)):
        left_s = time_left.after(running(directory, 3, elapsed_s, fraction))
    assert left_s == pytest.approx(5_000 + 10_000)


def test_a_failed_cell_says_nothing_of_the_time_of_the_next_ones(
    done: CellResult, unmeasured: RunDirectory
) -> None:
    time_left = TimeLeft(unmeasured)
    time_left.begin(running(unmeasured, 1, 0.0, None))
    time_left.finish(1, done.model_copy(update={"wall_s": 1.0, "status": "failed"}))
    time_left.begin(running(unmeasured, 2, 0.0, None))
    planned_s = estimate(unmeasured.run.suite, volumes=2).wall_s / 4
    assert time_left.after(running(unmeasured, 2, 0.0, None)) == pytest.approx(3 * planned_s)


def test_cells_that_an_earlier_session_repeated_are_not_waited_for(directory: RunDirectory) -> None:
    """A cell that is replaced now is."""
    cells = directory.run.cells
    directory.journal.append("cell_replaced", cell_id=cells[0].cell_id)
    (directory.path / "cells" / cells[3].cell_id / "result.json").unlink()
    time_left = TimeLeft(directory)
    time_left.begin(running(directory, 4, 0.0, 0.0))
    states = [running(directory, 4, elapsed_s, fraction) for elapsed_s, fraction in ((0.0, 0.0), (5_000.0, 0.5))]
    assert [time_left.after(state) for state in states][-1] == pytest.approx(5_000)
    directory.journal.append("cell_replaced", cell_id=cells[1].cell_id)
    time_left.begin(running(directory, 4, 0.0, 0.0))
    assert [time_left.after(state) for state in states][-1] == pytest.approx(5_000 + 10_000)
