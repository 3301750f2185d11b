"""The commands of a report that make its run again: a shell reads them, whatever the run's own command was."""

from __future__ import annotations

import shlex

import pytest

from volbench.core.records.report import ComparisonRow
from volbench.results.report.rows.reproduce import IncompleteRun, decided_names, reproduce_lines


def open_row(cells_needed: int) -> ComparisonRow:
    """Return a primary comparison that decided nothing and needs the cells."""
    return ComparisonRow(
        step="read-write",
        parameters={},
        metric="tps",
        unit="1/s",
        better="higher",
        baseline="disk",
        candidate="gp3",
        ratio=0.9,
        ci=(0.5, 1.6),
        p_value=0.4,
        verdict="inconclusive",
        runs=(4, 4),
        runs_needed=cells_needed,
        margin=0.05,
        confidence=0.95,
    )


@pytest.mark.parametrize(
    ("command", "again"),
    [
        ("volbench run", "volbench run --set repeats=9"),
        ("volbench run quick.yaml", "volbench run quick.yaml --set repeats=9"),
        ("volbench run --yes quick.yaml", "volbench run --yes quick.yaml --set repeats=9"),
        ("volbench run quick.yaml --set repeats=4 --yes", "volbench run quick.yaml --yes --set repeats=9"),
        ("volbench run --set=repeats=4 quick.yaml", "volbench run quick.yaml --set repeats=9"),
        ("volbench run quick.yaml --set seed=4", "volbench run quick.yaml --set seed=4 --set repeats=9"),
    ],
)
def test_the_command_of_an_open_run_asks_for_the_cells_that_decide(command: str, again: str) -> None:
    lines = reproduce_lines(shlex.split(command), "seed 1", [open_row(9)])
    assert lines[0] == command
    assert lines[-1] == again


@pytest.mark.parametrize("command", ["volbench compare a b", "volbench attach", ""])
def test_other_commands_are_printed_as_they_ran(command: str) -> None:
    assert reproduce_lines(shlex.split(command), "seed 1", [open_row(9)]) == (command, "# seed 1")


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("volbench run quick.yaml", "results/r-1"),
        ("volbench run quick.yaml --out /data/runs --yes --set repeats=5", "/data/runs/r-1"),
        ("volbench run quick.yaml --out=/data/my\\ runs/", "'/data/my runs/r-1'"),
        ("", "results/r-1"),
    ],
)
def test_a_run_that_is_not_complete_is_resumed(command: str, run: str) -> None:
    """An interrupted run of 5 cells each was said to have decided nothing, and to be made again with 3."""
    progress = IncompleteRun(run_id="r-1", done=4, planned=15)
    lines = reproduce_lines(shlex.split(command), "seed 1", [open_row(3)], progress)
    assert lines[2:] == ("# 4 of 15 cells are done; this measures the rest:", f"volbench resume {run}")


def test_the_metrics_are_named_that_more_cells_decide() -> None:
    """`69 cells of each volume can` was so of p95 only: of the throughput no number was known."""
    rows = [open_row(69).model_copy(update={"metric": "latency_ms_p95"}), open_row(69)]
    assert decided_names(rows) == ""
    rows[1] = rows[1].model_copy(update={"runs_needed": None})
    assert decided_names(rows) == " decide p95 latency"
    (*_, remark, _) = reproduce_lines(["volbench", "run"], "seed 1", rows)
    assert remark == "# these cells decided nothing; 69 cells of each volume can decide p95 latency:"
