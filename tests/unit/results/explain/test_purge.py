"""Purge that is behind is told beside the findings: two volumes compare only where it is in the same state."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.results.explain.accounts.purge import purge_notes, undo_left
from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

SECONDS, TPS = 20, 500.0


def case_of(length: Floats, width_s: float = 1.0) -> Case:
    """A load of 500 transactions a second with this history list in each interval."""
    columns = {
        SeriesKey(source="client", metric="tps", entity=""): np.full(SECONDS, TPS),
        SeriesKey(source="innodb", metric="history_list_length", entity=""): length,
    }
    grid = Grid(t_s=width_s * np.arange(1.0, SECONDS + 1), width_s=width_s, columns=columns)
    return Case(name="load", grid=grid, cell_grid=grid, threads=8)


def growing(piece: float, first: float = 20_000.0) -> Floats:
    """A list that so many of the transactions stay in."""
    return np.asarray([first + piece * TPS * second for second in range(SECONDS)])


@pytest.mark.parametrize(("phrase", "message"), [(0.9, True), (0.3, True), (0.1, False), (0.0, False)])
def test_a_long_list_that_only_grows_is_told(phrase: float, message: bool) -> None:
    case = case_of(growing(phrase))
    assert undo_left(case) == pytest.approx(phrase * (SECONDS - 1) / SECONDS, abs=0.01)
    assert bool([*purge_notes(case)]) is message
    assert any("purge is behind" in note for note in explain_case(case).notes) is message


@pytest.mark.parametrize("width_s", [0.2, 5.0])
def test_the_part_that_is_left_does_not_depend_on_the_interval(width_s: float) -> None:
    """Transactions are a rate times the interval: at 0.2 s a backlog was taken for a fifth of it."""
    length = np.asarray([20_000.0 + 0.9 * TPS * width_s * number for number in range(SECONDS)])
    assert undo_left(case_of(length, width_s)) == pytest.approx(0.9, abs=0.05)


def test_a_short_list_is_no_backlog() -> None:
    """Undo is taken from the list in every 128th round of purge only."""
    assert [*purge_notes(case_of(growing(0.2, first=300.0)))] == []


def test_a_list_that_falls_again_and_again_is_kept_up_with() -> None:
    length = np.asarray([15_000.0 + TPS * (second % 5) for second in range(SECONDS)])
    assert [*purge_notes(case_of(length))] == []


def test_without_the_list_nothing_is_said() -> None:
    case = case_of(np.full(SECONDS, np.nan))
    assert [*purge_notes(case)] == []
