"""Invalid cells are repeated: within the run's budget, and never for what a new cell would repeat."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_target import BUSY, Bench, FakeTarget, Script, disturbed, scaled
from synthetic_run import SyntheticVolume

from volbench.core.records.cell import CellResult
from volbench.errors import StepFailed
from volbench.results.report.build import build_report
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.report.rows.verdict.replace import cells_to_replace
from volbench.results.store.run_directory import RESULT_FILE

EQUAL = (SyntheticVolume(name="a"), SyntheticVolume(name="b"))


@dataclass
class Replacing(Bench):
    """A bench whose orchestrator repeats invalid cells."""

    def run(self, script: Script) -> FakeTarget:
        target = self.target(script)
        assert not self.orchestrator(target, invalid_cells=cells_to_replace).run().failures
        return target


@pytest.fixture
def bench(tmp_path: Path) -> Replacing:
    created = Bench.create(tmp_path)
    return Replacing(directory=created.directory, results=created.results)


def test_valid_cells_are_run_once(bench: Replacing) -> None:
    target = bench.run(lambda _cell, _attempt, result: result)
    assert target.launched == [cell.cell_id for cell in bench.directory.run.cells]
    assert bench.messages == []


def test_a_cell_that_was_disturbed_is_run_anew_and_its_files_are_kept(bench: Replacing) -> None:
    """The report says that it was; a second run has nothing to do."""
    first = bench.directory.run.cells[0].cell_id

    def change(cell_id: str, attempt: int, result: CellResult) -> CellResult:
        return disturbed(result, delayed_share=1.0) if (cell_id, attempt) == (first, 1) else result

    assert bench.run(change).launched.count(first) == 2
    report = build_report(bench.directory)
    assert all(cell.valid for cell in report.cells)
    assert any("2 cells were repeated" in line for line in summary_lines(report))
    assert (bench.directory.cell_dir(first).with_name(f"{first}.attempt-1") / RESULT_FILE).exists()
    assert bench.run(lambda _cell, _attempt, result: result).launched == []


def test_no_more_cells_are_run_anew_than_the_plan_allows(bench: Replacing) -> None:
    """Every cell of every attempt is disturbed; up to half as many again are run, and the journal counts them."""
    planned = len(bench.directory.run.cells)
    assert planned // 2 == 5
    target = bench.run(lambda _cell, _attempt, result: disturbed(result, delayed_share=1.0))
    assert len(target.launched) == planned + 4  # two blocks of two cells; the fifth repeat has no neighbour left
    assert sum(event.event == "cell_replaced" for event in bench.directory.events()) == 4
    assert BUSY in bench.messages[0]
    assert bench.messages[-1].endswith(f"are not repeated: the plan allows {planned // 2} repeats")


def test_of_two_disturbed_attempts_the_one_that_was_held_back_less_counts(bench: Replacing) -> None:
    bench.run(lambda _cell, attempt, result: disturbed(result, delayed_share=0.5 if attempt == 1 else 1.0))
    delayed_share_maxes = {
        result.steps[0].disturbances[0].delayed_share_max for result in bench.directory.results()
    }
    assert delayed_share_maxes == {0.5}


def test_what_a_cell_s_own_set_up_makes_invalid_is_not_run_anew(bench: Replacing) -> None:
    def change(_cell: str, _attempt: int, result: CellResult) -> CellResult:
        own = {"valid": False, "invalid_reasons": ("the client was CPU-bound",)}
        return result.model_copy(update={"steps": tuple(step.model_copy(update=own) for step in result.steps)})

    assert len(bench.run(change).launched) == len(bench.directory.run.cells)


def blocks_of(bench: Replacing, cell_ids: list[str]) -> list[int]:
    block_of = {cell.cell_id: cell.block for cell in bench.directory.run.cells}
    return [block_of[cell_id] for cell_id in cell_ids]


def test_a_cell_is_run_anew_with_its_neighbours_in_time(bench: Replacing) -> None:
    """Its own new value and a neighbour's old one would be of two times."""
    first = bench.directory.run.cells[0]
    together = [cell.cell_id for cell in bench.directory.run.cells if cell.block == first.block]
    target = bench.run(
        lambda cell_id, attempt, result: (
            disturbed(result, delayed_share=1.0) if (cell_id, attempt) == (first.cell_id, 1) else result
        )
    )
    assert target.launched[len(bench.directory.run.cells) :] == together
    assert len(together) == 2


def test_equal_volumes_of_which_one_is_disturbed_stay_equal_on_a_machine_that_slows_down(tmp_path: Path) -> None:
    """Late operations of an emulated volume make its cells invalid alone; all of them were run anew at the end."""
    created = Bench.create(tmp_path, repeats=8, noise=0.02, volumes=EQUAL)
    bench = Replacing(directory=created.directory, results=created.results)
    volume_of = {cell.cell_id: cell.volume for cell in bench.directory.run.cells}
    launches: list[str] = []

    def slower_and_slower(cell_id: str, attempt: int, result: CellResult) -> CellResult:
        launches.append(cell_id)
        slower = scaled(result, 0.98 ** len(launches))
        return disturbed(slower, delayed_share=0.02) if (volume_of[cell_id], attempt) == ("b", 1) else slower

    bench.run(slower_and_slower)
    assert len(launches) == 16 + 8
    [row] = [row for row in build_report(bench.directory).comparisons if row.metric == "tps"]
    assert row.verdict not in ("better", "worse"), (row.ratio, row.ci, row.reason)


def interrupt_the_repeat_of(bench: Replacing, cell_id: str) -> None:
    """Run to the first repeat of a cell, and press Ctrl-C there."""
    first = bench.directory.run.cells[0].cell_id

    def ctrl_c(running: str, attempt: int, result: CellResult) -> CellResult:
        if (running, attempt) == (cell_id, 2):
            raise KeyboardInterrupt
        return disturbed(result, delayed_share=1.0) if (running, attempt) == (first, 1) else result

    with pytest.raises(KeyboardInterrupt):
        bench.run(ctrl_c)


@pytest.mark.parametrize("number", [0, 1])
def test_what_was_done_counts_until_a_block_is_repeated(bench: Replacing, number: int) -> None:
    """An interrupted repeat leaves the first attempts of the whole block, and the report says what was planned."""
    interrupt_the_repeat_of(bench, bench.directory.run.cells[number].cell_id)
    results = bench.directory.results()
    assert {(result.attempt, result.status) for result in results} == {(1, "done")}
    assert len(results) == len(bench.directory.run.cells)
    caveats = " ".join(build_report(bench.directory).summary.caveats)
    resume = rf"planned and not made: `volbench resume \S+/{bench.directory.run.run_id}` makes them"
    assert re.search(f"2 repeats of disturbed cells and their neighbours were {resume}", caveats)
    assert "because an outside disturbance" not in caveats


def test_a_resume_repeats_the_whole_block_anew(bench: Replacing) -> None:
    """Half of it before the interrupt and half of it today would be of two times."""
    first, second = (cell.cell_id for cell in bench.directory.run.cells[:2])
    interrupt_the_repeat_of(bench, second)
    target = bench.run(lambda _cell, _attempt, result: result)
    assert target.launched == [first, second]
    caveats = " ".join(build_report(bench.directory).summary.caveats)
    assert "2 cells were repeated, neighbours in time together" in caveats
    assert "not made" not in caveats


def test_a_killed_run_repeats_the_whole_block_anew(bench: Replacing) -> None:
    """Nobody put the first attempts back before the kill: the first cell is repeated, the second one begun."""
    first, second = (cell.cell_id for cell in bench.directory.run.cells[:2])
    interrupt_the_repeat_of(bench, second)
    for cell_id in (first, second):
        bench.directory.journal.append("cell_started", cell_id=cell_id, attempt=2)
        bench.directory.put_back(cell_id)
    assert [bench.directory.result(cell_id) is None for cell_id in (first, second)] == [False, True]
    bench.run(lambda _cell, _attempt, result: result)
    attempts = {result.cell_id: result.attempt for result in bench.directory.results()}
    assert min(attempts[first], attempts[second]) > 2
    assert len(attempts) == len(bench.directory.run.cells)


def test_a_repeat_that_fails_leaves_the_first_attempt(bench: Replacing) -> None:
    first = bench.directory.run.cells[0].cell_id

    def change(cell_id: str, attempt: int, result: CellResult) -> CellResult:
        if attempt > 1:
            return result.model_copy(update={"status": "failed"})
        return disturbed(result, delayed_share=1.0) if cell_id == first else result

    with pytest.raises(StepFailed):
        bench.orchestrator(bench.target(change), invalid_cells=cells_to_replace).run()
    assert {(result.attempt, result.status) for result in bench.directory.results()} == {(1, "done")}
