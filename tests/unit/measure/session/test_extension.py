"""More cells for a finished run without a verdict: what it keeps, and which runs get none."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_target import Bench
from synthetic_run import SyntheticVolume

from volbench import __version__
from volbench.core.base.text import ignore_messages
from volbench.core.plan.order import interleave
from volbench.core.records.cell import CellResult
from volbench.core.records.run import skipped_cells
from volbench.errors import Refused, UsageError
from volbench.measure.execute.completion import is_finished
from volbench.measure.session.extension import extend_run, may_get_cells
from volbench.results.report.build import build_report
from volbench.results.report.rows.verdict.caveats import OVER_BUDGET
from volbench.results.report.rows.verdict.pairs import decision_of
from volbench.results.store import run_directory
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RUN_FILE

EQUAL = (SyntheticVolume(name="a"), SyntheticVolume(name="b"))


def finished(path: Path, *, budget_s: float | None = None, repeats: int = 8, **changes: object) -> Bench:
    """A run until decided that ended; without `budget_s` and with EQUAL volumes after all of its cells."""
    bench = Bench.create(path, until="decided", repeats=repeats, **changes)
    of_this_version = bench.directory.run.model_copy(update={"volbench_version": __version__})
    write_record(bench.directory.path / RUN_FILE, of_this_version)
    assert not bench.orchestrator(bench.target(), decided=decision_of, budget_s=budget_s).run().failures
    assert is_finished(bench.directory)
    return bench


def undecided(path: Path, **changes: object) -> Bench:
    return finished(path, volumes=EQUAL, noise=0.2, **changes)  # type: ignore[arg-type]


def snapshot(bench: Bench) -> dict[str, bytes]:
    """Every file of the run but its lock."""
    root = bench.directory.path
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name != ".lock"}


def test_a_run_without_a_verdict_gets_the_cells_of_a_longer_plan(tmp_path: Path) -> None:
    bench = undecided(tmp_path)
    assert may_get_cells(bench.directory)
    before = bench.directory.run.cells
    output: list[str] = []
    longer = extend_run(bench.directory, output.append).run
    assert longer.cells[:16] == before
    planned = interleave(["a", "b"], repeats=20, seed=longer.suite.seed)
    assert longer.cells[16:] == tuple(planned[16:])
    assert longer.suite.repeats == 20
    assert "24 more cells" in output[0]
    assert not is_finished(bench.directory)
    assert not build_report(bench.directory).complete


def test_a_run_that_its_budget_ended_goes_on_to_a_verdict(tmp_path: Path) -> None:
    bench = finished(tmp_path, budget_s=1e-6)
    extend_run(bench.directory, ignore_messages, budget_s=3600)
    assert not skipped_cells(bench.directory.events())
    again = bench.target()
    assert not bench.orchestrator(again, decided=decision_of).run().failures
    assert len(again.launched) == 4
    report = build_report(bench.directory)
    assert (report.summary.verdict, report.complete) == ("candidate_better", True)
    assert OVER_BUDGET not in report.summary.caveats


def test_an_interruption_among_added_cells_loses_nothing(tmp_path: Path) -> None:
    bench = finished(tmp_path, budget_s=1e-6)
    first = {result.cell_id: result for result in bench.directory.results()}
    extend_run(bench.directory, ignore_messages)
    stop_at = bench.directory.run.cells[len(first) + 1].cell_id

    def ctrl_c(cell_id: str, _attempt: int, result: CellResult) -> CellResult:
        if cell_id == stop_at:
            raise KeyboardInterrupt
        return result

    with pytest.raises(KeyboardInterrupt):
        bench.orchestrator(bench.target(ctrl_c), decided=decision_of).run()
    results = {result.cell_id: result for result in bench.directory.results()}
    assert results.keys() - first.keys() == {bench.directory.run.cells[len(first)].cell_id}
    assert {cell_id: results[cell_id] for cell_id in first} == first
    output: list[str] = []
    extend_run(bench.directory, output.append)
    assert output == ["no cell is added: the run is not finished, so its planned cells come first"]
    again = bench.target()
    bench.orchestrator(again, decided=decision_of).run()
    assert not again.launched.count(next(iter(first)))
    assert build_report(bench.directory).summary.verdict == "candidate_better"


@pytest.mark.parametrize("failing", ["append", "write"])
def test_an_end_while_the_plan_is_replaced_leaves_a_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    bench = finished(tmp_path, budget_s=1e-6)
    before = snapshot(bench)

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if failing == "append":
            patched.setattr(type(bench.directory.journal), "append", fail)
        else:
            patched.setattr(run_directory, "write_record", fail)
        with pytest.raises(KeyboardInterrupt):
            extend_run(bench.directory, ignore_messages)
    if failing == "append":
        assert snapshot(bench) == before
        extend_run(bench.directory, ignore_messages)
    bench.orchestrator(bench.target(), decided=decision_of).run()
    assert build_report(bench.directory).summary.verdict == "candidate_better"
    assert is_finished(bench.directory)


def test_a_decided_run_says_so_and_gets_no_cell(tmp_path: Path) -> None:
    bench = finished(tmp_path)
    before, output = snapshot(bench), list[str]()
    extend_run(bench.directory, output.append)
    assert output == [
        "no cell is added: the run is decided after 3 cells of each volume: every pair of volumes has a verdict"
    ]
    with pytest.raises(UsageError, match="--budget is for cells that are added"):
        extend_run(bench.directory, ignore_messages, budget_s=60)
    assert snapshot(bench) == before


def test_a_run_of_all_cells_is_refused_finished_or_not(tmp_path: Path) -> None:
    fixed = Bench.create(tmp_path, repeats=3)
    with pytest.raises(UsageError, match="a fixed number of cells"):
        extend_run(fixed.directory, ignore_messages)
    fixed.orchestrator(fixed.target()).run()
    assert not may_get_cells(fixed.directory)
    with pytest.raises(UsageError, match="a fixed number of cells"):
        extend_run(fixed.directory, ignore_messages)
    assert is_finished(fixed.directory)


def test_a_run_with_every_look_behind_it_is_refused(tmp_path: Path) -> None:
    bench = undecided(tmp_path, repeats=20)
    assert not may_get_cells(bench.directory)
    with pytest.raises(UsageError, match="20 cells of each volume, and looks have levels for at most 20"):
        extend_run(bench.directory, ignore_messages)


def test_what_would_give_no_common_verdict_or_no_block_is_refused_with_nothing_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = undecided(tmp_path)
    before = snapshot(bench)
    with pytest.raises(UsageError, match="the budget is below one block of cells") as error:
        extend_run(bench.directory, ignore_messages, budget_s=1e-9)
    assert "--budget" in error.value.next_step
    with bench.directory.lock(), pytest.raises(Refused, match="another volbench works on this run"):
        extend_run(bench.directory, ignore_messages)
    monkeypatch.setattr("volbench.measure.session.extension.__version__", "99.0.0")
    with pytest.raises(UsageError, match="two versions of volbench"):
        extend_run(bench.directory, ignore_messages)
    assert snapshot(bench) == before


def test_an_open_pair_beside_a_decided_one_gets_cells_and_they_are_counted(tmp_path: Path) -> None:
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="far", speed=0.2), SyntheticVolume(name="near"))
    bench = finished(tmp_path, volumes=volumes, noise=0.1)
    done = bench.directory.done_of_each_volume()
    assert done["far"] < done["near"] == 8
    assert may_get_cells(bench.directory)
    output: list[str] = []
    extend_run(bench.directory, output.append)
    assert output[0].startswith("at most 24 more cells of ")


def test_a_decided_run_may_get_none(tmp_path: Path) -> None:
    assert not may_get_cells(finished(tmp_path).directory)
