"""Invalid cells are repeated: within the run's budget, and never for what a new cell would repeat."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_target import BUSY, Bench, FakeTarget, Script, disturbed

from volbench.core.records.cell import CellResult
from volbench.results.report.build import build_report
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.report.rows.verdict.replace import cells_to_replace
from volbench.results.store.run_directory import RESULT_FILE


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
    assert any("1 cell was repeated" in line for line in summary_lines(report))
    assert (bench.directory.cell_dir(first).with_name(f"{first}.attempt-1") / RESULT_FILE).exists()
    assert bench.run(lambda _cell, _attempt, result: result).launched == []


def test_no_more_cells_are_run_anew_than_the_plan_allows(bench: Replacing) -> None:
    """Every cell of every attempt is disturbed; half as many again are run, and the journal counts them."""
    planned = len(bench.directory.run.cells)
    target = bench.run(lambda _cell, _attempt, result: disturbed(result, delayed_share=1.0))
    assert len(target.launched) == planned + planned // 2
    assert sum(event.event == "cell_replaced" for event in bench.directory.events()) == planned // 2
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
