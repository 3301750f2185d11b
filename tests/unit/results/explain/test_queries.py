"""Which query pays: sums over a window and over repeats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from volbench.results.explain.accounts.queries import QueryCost, query_costs, together
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey


def grid(**queries: dict[str, float]) -> Grid:
    columns = {
        SeriesKey(source="performance_schema", metric=metric, entity=query): np.array([value, np.nan, value])
        for query, values in queries.items()
        for metric, value in values.items()
    }
    return Grid(t_s=np.array([0.5, 1.0, 1.5]), width_s=0.5, columns=columns)


def test_time_less_cpu_and_locks_is_waiting() -> None:
    (cost,) = query_costs(
        grid(q={"query_per_s": 100, "query_s_per_s": 4, "query_cpu_s_per_s": 1, "query_lock_s_per_s": 0.5})
    )
    assert (cost.statements, cost.time_s, cost.cpu_s, cost.lock_s) == (100, 4, 1, 0.5)
    assert cost.waited_s == pytest.approx(2.5)


def test_without_cpu_times_waiting_is_not_known() -> None:
    (cost,) = query_costs(grid(q={"query_per_s": 1, "query_s_per_s": 4}))
    assert cost.waited_s is None


def test_the_query_with_most_time_is_first_and_idle_ones_are_left_out() -> None:
    result = query_costs(grid(a={"query_s_per_s": 1}, b={"query_s_per_s": 3}, c={"query_s_per_s": 0}))
    assert [item.query for item in result] == ["b", "a"]


@pytest.mark.parametrize(("last", "known_values"), [(8, True), (6, False)])
def test_texts_that_end_within_the_window_have_no_costs(last: int, *, known_values: bool) -> None:
    """More than a tenth of the statements' time came after the server was last asked for its digests."""
    keys = [
        SeriesKey(source="performance_schema", metric=metric, entity=entity)
        for metric, entity in (("query_s_per_s", "q"), ("statement_s_per_s", ""))
    ]
    columns = {keys[0]: np.where(np.arange(10) <= last, 2.0, np.nan), keys[1]: np.full(10, 2.0)}
    assert bool(query_costs(Grid(t_s=np.arange(10.0), width_s=1.0, columns=columns))) is known_values


def test_repeats_add_up_and_a_time_that_one_of_them_lacks_is_not_known() -> None:
    cost = QueryCost(query="q", statements=10, time_s=2, cpu_s=1, lock_s=0)
    second = QueryCost(query="q", statements=30, time_s=4, cpu_s=None, lock_s=1)
    (result,) = together([(cost,), (second,)])
    assert (result.statements, result.time_s, result.cpu_s, result.lock_s) == (40, 6, None, 1)


@pytest.mark.parametrize(("statement_s", "known_values"), [(6.0, True), (100.0, False)])
def test_shares_of_a_few_texts_are_not_shown(statement_s: float, *, known_values: bool) -> None:
    """MariaDB has no text for prepared statements: mysqldump's few queries were 98 % of what had one."""
    columns: dict[str, Any] = {"q": {"query_per_s": 1, "query_s_per_s": 4}, "": {"statement_s_per_s": statement_s}}
    some = grid(**columns)
    assert bool(query_costs(some)) is known_values


@pytest.mark.parametrize(("statements", "known_values"), [(105.0, True), (120.0, False)])
def test_shares_of_a_part_of_the_statements_are_not_shown(statements: float, *, known_values: bool) -> None:
    """Of five statements a transaction one was counted 0.9 times a second, another 64 times."""
    columns: dict[str, Any] = {"q": {"query_per_s": 100, "query_s_per_s": 4}, "": {"statements_per_s": statements}}
    assert bool(query_costs(grid(**columns))) is known_values


def test_an_observed_server_is_asked_for_its_largest_texts() -> None:
    """Its other texts are many and small: what is shown of it is what takes its time."""
    texts = {"q": {"query_per_s": 100, "query_s_per_s": 4, "query_rows_examined_per_s": 1}}
    columns: dict[str, Any] = {**texts, "": {"statements_per_s": 10_000}}
    assert query_costs(grid(**columns))
