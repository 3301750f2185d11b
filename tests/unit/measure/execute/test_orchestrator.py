"""The orchestrator's order of work, retries, resume and interruption, without servers."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from fake_target import Bench, failed

from volbench.core.records.cell import CellResult
from volbench.errors import StepFailed
from volbench.measure.execute import attempts
from volbench.results.store.run_directory import RESULT_FILE


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench.create(tmp_path)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "POLL_S", 0.0)


def test_the_template_comes_first_and_every_cell_is_removed_before_the_next(bench: Bench) -> None:
    target = bench.target()
    outcome = bench.orchestrator(target).run()
    assert outcome.done == tuple(bench.cell_ids)
    assert outcome.exit_code == 0
    cells = ["template", *bench.cell_ids]
    steps = list(itertools.chain.from_iterable((f"launch {cell}", f"remove {cell}") for cell in cells))
    closed = [f"close {spec.name}" for spec in reversed(bench.directory.run.volumes)]
    assert target.calls == ["check", *steps, *closed, "clean up"]
    events = bench.directory.events()
    assert (events[0].event, events[-1].event) == ("run_started", "run_finished")


def test_a_finished_run_is_not_touched_again(bench: Bench) -> None:
    bench.orchestrator(bench.target()).run()
    again = bench.target()
    assert bench.orchestrator(again).run().done == tuple(bench.cell_ids)
    assert again.calls == []


def test_a_failed_cell_gets_a_second_attempt_and_the_first_one_stays(bench: Bench) -> None:
    first = bench.cell_ids[0]

    def script(cell_id: str, attempt: int, result: CellResult) -> CellResult:
        return failed(result) if (cell_id, attempt) == (first, 1) else result

    outcome = bench.orchestrator(bench.target(script)).run()
    assert outcome.done == tuple(bench.cell_ids)
    assert bench.events("cell_started", "cell_failed", "cell_finished")[:4] == [
        ("cell_started", first, 1),
        ("cell_failed", first, 1),
        ("cell_started", first, 2),
        ("cell_finished", first, 2),
    ]
    assert (bench.directory.cell_dir(first).with_name(f"{first}.attempt-1") / RESULT_FILE).exists()


def test_one_cell_that_fails_twice_does_not_stop_the_others(bench: Bench) -> None:
    first, *remaining = bench.cell_ids

    def script(cell_id: str, _attempt: int, result: CellResult) -> CellResult:
        return failed(result) if cell_id == first else result

    outcome = bench.orchestrator(bench.target(script)).run()
    assert outcome.done == tuple(remaining)
    assert outcome.exit_code == 5
    assert outcome.failures[0].where == f"cell {first}: step rw"
    assert bench.directory.events()[-1].details == {"failed": [first]}


def test_two_failed_cells_stop_the_run_and_everything_is_cleaned_up(bench: Bench) -> None:
    target = bench.target(lambda _cell, _attempt, result: failed(result))
    with pytest.raises(StepFailed, match="sysbench failed"):
        bench.orchestrator(target).run()
    assert target.launched == [cell for cell in bench.cell_ids[:2] for _ in range(2)]
    assert target.calls[-1] == "clean up"


def test_two_failures_among_many_cells_are_chance(tmp_path: Path) -> None:
    """The second one of 42 is less than a twentieth; of fewer cells it ends the run."""
    bench = Bench.create(tmp_path, repeats=21)
    broken = {bench.cell_ids[0], bench.cell_ids[-1]}
    outcome = bench.orchestrator(
        bench.target(lambda cell, _attempt, result: failed(result) if cell in broken else result)
    ).run()
    assert len(outcome.done) == 40
    assert [failure.where for failure in outcome.failures] == [
        f"cell {cell}: step rw" for cell in (bench.cell_ids[0], bench.cell_ids[-1])
    ]
    assert outcome.exit_code == 5


def test_two_failures_among_few_cells_end_the_run_whenever_they_come(tmp_path: Path) -> None:
    bench = Bench.create(tmp_path, repeats=5)
    broken = {bench.cell_ids[0], bench.cell_ids[-2]}
    target = bench.target(lambda cell, _attempt, result: failed(result) if cell in broken else result)
    with pytest.raises(StepFailed, match="sysbench failed"):
        bench.orchestrator(target).run()
    assert bench.cell_ids[-1] not in target.launched


def test_a_cause_that_another_attempt_cannot_change_is_not_retried(bench: Bench) -> None:
    """Wrong options end the run at once, with the exit code for them."""
    target = bench.target(lambda _cell, _attempt, result: failed(result, cause="bad_config", exit_code=2))
    with pytest.raises(StepFailed) as caught:
        bench.orchestrator(target).run()
    assert caught.value.exit_code == 2
    assert target.launched == bench.cell_ids[:1]


def test_an_agent_that_ends_without_a_result_is_abandoned_and_tried_again(bench: Bench) -> None:
    first = bench.cell_ids[0]

    def script(cell_id: str, attempt: int, result: CellResult) -> CellResult | None:
        return None if (cell_id, attempt) == (first, 1) else result

    bench.orchestrator(bench.target(script)).run()
    abandoned = next(event for event in bench.directory.events() if event.event == "cell_abandoned")
    assert (abandoned.cell_id, abandoned.attempt) == (first, 1)
    assert abandoned.details["cause"] == "agent_gone"
    assert abandoned.details["evidence"] == "last line of the agent's log"
    assert ("cell_finished", first, 2) in bench.events("cell_finished")


def test_the_target_s_cause_wins_over_a_missing_result(bench: Bench) -> None:
    target = bench.target(lambda _cell, _attempt, _result: None)
    target.termination_cause = StepFailed("the node was lost", where="pod p", cause="node_lost")
    with pytest.raises(StepFailed, match="the node was lost"):
        bench.orchestrator(target).run()
    causes = {event.details["cause"] for event in bench.directory.events() if event.event == "cell_abandoned"}
    assert causes == {"node_lost"}


def test_a_cell_that_exceeds_its_deadline_is_killed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bench.cell_ids[0]
    target = bench.target()
    target.polls = {first: 1000}
    clock = itertools.count(0.0, 3600.0)
    monkeypatch.setattr("volbench.measure.execute.attempts.time.monotonic", lambda: next(clock))
    bench.orchestrator(target).run()
    assert target.calls.count(f"kill {first}") == 1
    abandoned = next(event for event in bench.directory.events() if event.event == "cell_abandoned")
    assert abandoned.details["cause"] == "deadline"


def interrupted(bench: Bench, cell_id: str) -> list[str]:
    """Run until Ctrl-C comes while that cell's agent runs; returns the target's calls."""
    target = bench.target(lambda cell, _attempt, result: None if cell == cell_id else result)
    target.polls = {cell_id: 5}

    def ctrl_c() -> None:
        target.on_poll = lambda: None
        raise KeyboardInterrupt

    target.on_poll = ctrl_c
    with pytest.raises(KeyboardInterrupt):
        bench.orchestrator(target).run()
    return target.calls


def test_an_interruption_stops_the_agent_cleans_up_and_keeps_finished_cells(bench: Bench) -> None:
    first, second, *_ = bench.cell_ids
    calls = interrupted(bench, second)
    assert calls[-5:-3] == [f"interrupt {second}", f"remove {second}"]
    assert calls[-1] == "clean up"
    assert bench.directory.events()[-1].event == "run_interrupted"
    assert bench.events("cell_finished") == [("cell_finished", first, 1)]


def test_a_resumed_run_records_the_interrupted_attempt_and_runs_only_what_is_left(bench: Bench) -> None:
    first, second, *_ = bench.cell_ids
    interrupted(bench, second)
    target = bench.target()
    assert bench.orchestrator(target).run().done == tuple(bench.cell_ids)
    assert first not in target.launched
    assert target.launched[0] == second
    assert bench.events("cell_abandoned", "run_resumed") == [("run_resumed", "", 0), ("cell_abandoned", second, 1)]


def test_a_resumed_run_waits_for_an_agent_that_still_runs(bench: Bench) -> None:
    """Its result counts; the cell is not launched a second time."""
    first, second, *_ = bench.cell_ids
    interrupted(bench, second)
    target = bench.target()
    target.polls = {second: 3}
    written = bench.results[second].model_copy(update={"attempt": 1})

    def agent_ends() -> None:
        (bench.directory.cell_dir(second) / RESULT_FILE).write_text(
            written.model_dump_json(by_alias=True), encoding="utf-8"
        )

    target.on_poll = agent_ends
    assert bench.orchestrator(target).run().done == tuple(bench.cell_ids)
    assert second not in target.launched
    assert ("cell_finished", second, 1) in bench.events("cell_finished")
    assert first not in target.launched
