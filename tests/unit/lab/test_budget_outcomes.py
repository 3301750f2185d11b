"""How a lab run's time budget is scored: by the pieces of its cause, against its twin, without the queue."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from causes.budget_outcomes import TWINS_LAB, LabRun, outcomes
from volbench.results.explain.accounts.time_budget import TimeBudget


def run(truth: str, pieces: dict[str, float], *, lab: str = TWINS_LAB, queue_ms: float = 0.0) -> LabRun:
    """A run of one condition at a fixed rate, with these milliseconds by piece."""
    statement_ms = sum(pieces.values())
    return LabRun(
        lab=lab,
        truth={"condition": "made", "seed": 1, "number": 1, "truth": [truth], "test": "oltp_read_only"},
        case=SimpleNamespace(rate=10.0, threads=4, tps=10.0, length_s=20.0),
        budget=TimeBudget(statement_ms=statement_ms, pieces=pieces, client_queue_ms=queue_ms),
        latency_ms=statement_ms + queue_ms,
        phases=(),
    )


TWIN = run("none", {"data_reads": 2.0, "row_locks": 1.0})


@pytest.mark.parametrize(
    ("truth", "largest", "right"),
    [("interference.io", "data_reads", True), ("lock.row_contention", "data_reads", False)],
)
def test_the_largest_piece_is_one_of_the_cause_or_it_is_not(truth: str, largest: str, right: bool) -> None:
    made = run(truth, {"data_reads": 500.0, "row_locks": 3.0})
    (outcome,) = outcomes([made], {made.key: TWIN})
    assert (outcome.compared, outcome.largest, outcome.is_right) == ("against its twin", largest, right)


def test_a_queue_is_not_what_made_transactions_long() -> None:
    made = run("interference.io", {"data_reads": 500.0, "row_locks": 1.0}, queue_ms=1500.0)
    (outcome,) = outcomes([made], {made.key: TWIN})
    assert (outcome.largest, outcome.largest_share) == ("data_reads", pytest.approx(1.0))


def test_where_no_cause_is_right_as_well_there_is_no_piece() -> None:
    made = run("none|cpu.server_saturated", {"data_reads": 500.0})
    (outcome,) = outcomes([made], {made.key: TWIN})
    assert outcome.expected == frozenset()


def test_a_run_that_is_hardly_slower_has_no_difference() -> None:
    made = run("interference.io", {"data_reads": 2.2, "row_locks": 1.0})
    (outcome,) = outcomes([made], {made.key: TWIN})
    assert outcome.largest == ""


def test_the_other_lab_has_no_twins() -> None:
    made = run("interference.io", {"data_reads": 500.0}, lab="volbench-injectors")
    (outcome,) = outcomes([made], {made.key: TWIN})
    assert outcome.compared == "against clean runs"
