"""A run that goes on until it is decided: it stops after a block, skips the rest, and is then finished."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fake_target import Bench, disturbed, scaled
from synthetic_run import SyntheticVolume

from volbench.core.plan.extension import extended
from volbench.core.records.cell import CellResult
from volbench.core.records.report import ComparisonRow, Report
from volbench.core.records.run import JournalEvent, skipped_cells, stopped_volumes
from volbench.measure.execute.budget import why_over_budget
from volbench.measure.execute.completion import is_finished, pending_cells
from volbench.results.report.build import build_report
from volbench.results.report.render import render
from volbench.results.report.rows.verdict.caveats import OVER_BUDGET
from volbench.results.report.rows.verdict.pairs import Decision, decision_of
from volbench.results.report.rows.verdict.replace import cells_to_replace
from volbench.results.store.run_directory import RunDirectory


def decided_run(path: Path, **changes: object) -> Bench:
    bench = Bench.create(path, until="decided", repeats=8, **changes)
    assert not bench.orchestrator(bench.target(), decided=decision_of).run().failures
    return bench


def test_a_large_difference_stops_the_run_at_three_against_three(tmp_path: Path) -> None:
    bench = decided_run(tmp_path)
    done = [result.cell_id for result in bench.directory.results()]
    assert len(done) == 6
    assert skipped_cells(bench.directory.events()) == set(bench.cell_ids) - set(done)
    assert len(bench.messages) == 1
    assert (
        "decided after 3 cells of each volume: every pair of volumes has a verdict; 10 are skipped"
        in bench.messages[0]
    )
    report = build_report(bench.directory)
    assert report.complete
    assert report.summary.verdict == "candidate_better"
    assert any("stopped when it was decided: 6 of at most 16 cells" in text for text in report.summary.caveats)
    primary = [row for row in report.comparisons if row.metric == "tps"]
    assert {row.confidence for row in primary} == {0.9905}


def test_a_decided_run_is_finished_and_not_resumed(tmp_path: Path) -> None:
    bench = decided_run(tmp_path)
    assert is_finished(bench.directory)
    again = bench.target()
    bench.orchestrator(again, decided=decision_of).run()
    assert again.launched == []


def test_equal_noisy_volumes_run_to_the_last_cell(tmp_path: Path) -> None:
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="b"))
    bench = decided_run(tmp_path, volumes=volumes, noise=0.2)
    report = build_report(bench.directory)
    assert report.summary.verdict == "inconclusive"
    assert len(bench.directory.results()) == 16
    assert bench.messages == []
    assert report.complete


def test_the_template_is_prepared_once(tmp_path: Path) -> None:
    bench = Bench.create(tmp_path, until="decided", repeats=8)
    target = bench.target()
    bench.orchestrator(target, decided=decision_of).run()
    assert target.calls.count("launch template") == 1


def test_an_interrupted_run_goes_on_until_it_is_decided(tmp_path: Path) -> None:
    bench = Bench.create(tmp_path, until="decided", repeats=8)
    stop_at = bench.cell_ids[3]

    def ctrl_c(cell_id: str, _attempt: int, result: object) -> object:
        if cell_id == stop_at:
            raise KeyboardInterrupt
        return result

    with pytest.raises(KeyboardInterrupt):
        bench.orchestrator(bench.target(ctrl_c), decided=decision_of).run()  # type: ignore[arg-type]
    assert not is_finished(bench.directory)
    bench.orchestrator(bench.target(), decided=decision_of).run()
    assert is_finished(bench.directory)
    assert len(bench.directory.results()) == 6


def test_a_decided_run_repeats_no_cell(tmp_path: Path) -> None:
    """Another value in place of one would be another look, and could take the verdict away."""
    bench = Bench.create(tmp_path, until="decided", repeats=8)
    first = bench.cell_ids[0]
    target = bench.target(
        lambda cell_id, _, result: disturbed(result, delayed_share=1.0) if cell_id == first else result
    )
    assert not bench.orchestrator(target, decided=decision_of, invalid_cells=cells_to_replace).run().failures
    assert target.launched.count(first) == 1
    report = build_report(bench.directory)
    assert report.complete
    assert report.summary.verdict == "candidate_better"


def test_volumes_on_different_nodes_are_never_decided(tmp_path: Path) -> None:
    """The report withholds their verdict, so the run does not stop for it."""
    bench = Bench.create(tmp_path, until="decided", repeats=8)
    volume_of = {cell.cell_id: cell.volume for cell in bench.directory.run.cells}

    def on_a_node_of_its_own(cell_id: str, _attempt: int, result: CellResult) -> CellResult:
        host = result.host.model_copy(update={"hostname": f"node-{volume_of.get(cell_id, '')}", "container": False})
        return result.model_copy(update={"host": host})

    assert not bench.orchestrator(bench.target(on_a_node_of_its_own), decided=decision_of).run().failures
    assert len(bench.directory.results()) == 16
    assert build_report(bench.directory).summary.verdict == "inconclusive"


def test_the_report_states_the_confidence_of_all_looks_and_its_notes_that_of_one(tmp_path: Path) -> None:
    bench = decided_run(tmp_path)
    report = build_report(bench.directory)
    text = render(report, bench.directory, "md")
    assert "| 95 % interval |" in text
    assert "An interval is of 99.05 % by itself" in text
    assert "99.05 %" not in report.summary.headline
    assert "the 95 % interval of the change" in " ".join(render(report, bench.directory, "html").split())


def journal(*events: tuple[int, str, str]) -> list[JournalEvent]:
    """Events at seconds after noon; the first has a budget of 100 s."""
    return [
        JournalEvent.model_validate(
            {
                "at": (NOON + timedelta(seconds=second)).isoformat(),
                "event": event,
                "cell_id": cell_id,
                "details": {} if number else {"budget_s": 100.0},
            }
        )
        for number, (second, event, cell_id) in enumerate(events)
    ]


NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
CELL = ((0, "run_started", ""), (10, "cell_started", "01-a"), (40, "cell_finished", "01-a"))


def test_a_block_begins_only_where_it_fits_into_the_budget(tmp_path: Path) -> None:
    block = Bench.create(tmp_path).directory.run.cells[:2]

    def reason(second: int, *more: tuple[int, str, str], parallel: int = 1) -> str:
        now = NOON + timedelta(seconds=second)
        return why_over_budget(journal(*CELL, *more), block, parallel=parallel, now=now)

    assert reason(40) == ""
    assert reason(41) == "the budget of 1 min 40 s has 59 s left, and the next block takes about 60 s"
    assert reason(70, parallel=2) == ""
    assert reason(71, parallel=2) != ""
    assert "has 0 s left" in reason(500)
    resumed = (1000, "run_resumed", "")
    assert reason(1000, resumed) == ""
    assert reason(1001, resumed) != ""


def test_the_first_block_begins_whatever_the_budget(tmp_path: Path) -> None:
    block = Bench.create(tmp_path).directory.run.cells[:2]
    assert why_over_budget(journal(CELL[0]), block, parallel=1, now=NOON + timedelta(hours=1)) == ""
    assert why_over_budget([], block, parallel=1) == ""


def test_a_run_stops_for_its_budget_without_a_verdict_and_is_finished(tmp_path: Path) -> None:
    bench = Bench.create(tmp_path, until="decided", repeats=8)
    assert not bench.orchestrator(bench.target(), decided=decision_of, budget_s=1e-6).run().failures
    assert len(bench.directory.results()) == 2
    assert is_finished(bench.directory)
    [message] = bench.messages
    assert message.startswith("not decided after 1 cell of each volume: the budget of")
    assert message.endswith("; 14 are skipped")
    report = build_report(bench.directory)
    assert report.summary.verdict == "inconclusive"
    assert OVER_BUDGET in report.summary.caveats


def test_a_resumed_run_keeps_the_budget_of_its_start(tmp_path: Path) -> None:
    bench = Bench.create(tmp_path, until="decided", repeats=8)
    stop_at = bench.cell_ids[1]

    def ctrl_c(cell_id: str, _attempt: int, result: CellResult) -> CellResult:
        if cell_id == stop_at:
            raise KeyboardInterrupt
        return result

    with pytest.raises(KeyboardInterrupt):
        bench.orchestrator(bench.target(ctrl_c), decided=decision_of, budget_s=1e-6).run()
    again = bench.target()
    bench.orchestrator(again, decided=decision_of).run()
    assert again.launched == []
    assert is_finished(bench.directory)


def test_a_budget_that_suffices_changes_nothing(tmp_path: Path) -> None:
    bench = Bench.create(tmp_path, until="decided", repeats=8)
    assert not bench.orchestrator(bench.target(), decided=decision_of, budget_s=3600).run().failures
    assert len(bench.directory.results()) == 6
    assert build_report(bench.directory).summary.verdict == "candidate_better"


def test_one_volume_has_nothing_to_decide(tmp_path: Path) -> None:
    bench = decided_run(tmp_path, volumes=(SyntheticVolume(name="a"),))
    assert len(bench.directory.results()) == 3


FAR = SyntheticVolume(name="far", speed=0.2)
OF_THREE = (SyntheticVolume(name="a"), FAR, SyntheticVolume(name="near"))


def of_pair(report: Report, candidate: str) -> ComparisonRow:
    return next(row for row in report.comparisons if row.candidate == candidate and row.metric == "tps")


def test_a_volume_whose_pair_is_decided_gets_no_further_cells(tmp_path: Path) -> None:
    bench = decided_run(tmp_path, volumes=OF_THREE, noise=0.1)
    done = bench.directory.done_of_each_volume()
    assert done == {"a": 8, "far": 3, "near": 8}
    assert bench.messages == ["far against a: decided after 3 cells of each; 5 are skipped"]
    report = build_report(bench.directory)
    assert report.complete
    assert (of_pair(report, "far").verdict, of_pair(report, "far").runs) == ("worse", (3, 3))
    assert of_pair(report, "near").runs == (8, 8)
    assert of_pair(report, "far").baseline_value == of_pair(report, "near").baseline_value
    [stopped] = [text for text in report.summary.caveats if "no further cells" in text]
    assert "once they were decided: far." in stopped
    assert not any("not complete" in text or "when it was decided" in text for text in report.summary.caveats)


def test_what_the_first_volume_measures_later_changes_no_decided_pair(tmp_path: Path) -> None:
    """Else each further block would be another look at that pair."""
    bench = Bench.create(tmp_path, until="decided", repeats=8, volumes=OF_THREE, noise=0.1)
    decisions: list[ComparisonRow] = []
    block_of = {cell.cell_id: cell.block for cell in bench.directory.run.cells}

    def slower_later(cell_id: str, _attempt: int, result: CellResult) -> CellResult:
        return scaled(result, 0.1) if block_of.get(cell_id, 0) >= 3 else result

    def look(directory: RunDirectory) -> Decision:
        decisions.append(of_pair(build_report(directory), "far"))
        return decision_of(directory)

    assert not bench.orchestrator(bench.target(slower_later), decided=look).run().failures
    after = [row for row in decisions if min(row.runs) >= 3]
    assert len(after) == 6
    assert len({(row.ratio, row.p_value, row.verdict) for row in after}) == 1


def test_an_interrupted_run_with_a_decided_volume_goes_on_without_it(tmp_path: Path) -> None:
    bench = Bench.create(tmp_path, until="decided", repeats=8, volumes=OF_THREE, noise=0.1)
    stop_at = next(cell.cell_id for cell in bench.directory.run.cells if cell.block == 4 and cell.volume == "a")

    def ctrl_c(cell_id: str, _attempt: int, result: CellResult) -> CellResult:
        if cell_id == stop_at:
            raise KeyboardInterrupt
        return result

    with pytest.raises(KeyboardInterrupt):
        bench.orchestrator(bench.target(ctrl_c), decided=decision_of).run()
    assert not bench.orchestrator(bench.target(), decided=decision_of).run().failures
    assert bench.directory.done_of_each_volume() == {"a": 8, "far": 3, "near": 8}
    assert is_finished(bench.directory)


def test_no_cell_of_a_decided_pair_is_repeated(tmp_path: Path) -> None:
    bench = Bench.create(tmp_path, until="decided", repeats=8, volumes=OF_THREE, noise=0.1)
    cells = {(cell.volume, cell.block): cell.cell_id for cell in bench.directory.run.cells}
    bad = {cells["a", 1], cells["far", 0], cells["near", 5], cells["a", 6]}
    target = bench.target(
        lambda cell_id, _, result: disturbed(result, delayed_share=1.0) if cell_id in bad else result
    )
    invalid = bench.orchestrator(target, decided=decision_of, invalid_cells=cells_to_replace)
    assert not invalid.run().failures
    last = max(block for (name, block), cell_id in cells.items() if name == "far" and cell_id in target.launched)
    assert last < 5
    of_decided_pair = {cells["far", 0], cells["a", 1]}
    assert [target.launched.count(cell_id) for cell_id in sorted(of_decided_pair)] == [1, 1]
    assert all(target.launched.count(cell_id) > 1 for cell_id in bad - of_decided_pair), bench.messages


def test_more_cells_are_not_for_a_volume_that_is_decided(tmp_path: Path) -> None:
    bench = decided_run(tmp_path, volumes=OF_THREE, noise=0.1)
    events = bench.directory.events()
    longer = extended(bench.directory.run, repeats=10, stopped=stopped_volumes(events))
    added = longer.cells[len(bench.directory.run.cells) :]
    assert sorted(cell.volume for cell in added) == ["a", "a", "near", "near"]
    bench.directory.extend(longer)
    assert {cell.volume for cell in pending_cells(bench.directory)} == {"a", "near"}
