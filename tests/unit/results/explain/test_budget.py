from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from volbench.results.explain.accounts.per_transaction import per_transaction
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.budget import budget_of
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey


def grid(seconds: int = 10, **values: float) -> Grid:
    """Keys are source__metric__entity."""
    columns = {}
    for name, value in values.items():
        source, metric, *entity = name.split("__")
        key = SeriesKey(source=source, metric=metric, entity=entity[0] if entity else "")
        columns[key] = np.full(seconds, value)
    return Grid(t_s=np.arange(1.0, seconds + 1), width_s=1.0, columns=columns)


WAITS: dict[str, Any] = {
    "performance_schema__statement_s_per_s": 8.0,
    "performance_schema__wait_s_per_s__file_data": 4.0,
    "performance_schema__file_read_s_per_s__data": 3.0,
    "performance_schema__wait_s_per_s__file_redo": 0.8,
    "performance_schema__wait_s_per_s__file_binlog": 0.4,
    "performance_schema__wait_s_per_s__lock_table": 0.2,
    "innodb__row_lock_wait_s_per_s": 0.6,
}


def test_shares_add_up_to_one() -> None:
    budget = budget_of(grid(**WAITS))
    assert budget is not None
    assert sum(budget.shares.values()) == pytest.approx(1.0)
    assert budget.share("data_reads") == pytest.approx(3 / 8)
    assert budget.share("other_files") == pytest.approx(1 / 8)
    assert budget.share("redo_sync") == pytest.approx(0.1)
    assert budget.share("row_locks") == pytest.approx(0.075)
    assert budget.storage_share == pytest.approx(5.2 / 8)
    assert budget.largest == "data_reads"


@pytest.mark.parametrize(("last", "cpu_share"), [(8, 0.225), (6, 0.0)])
def test_cpu_times_that_end_within_the_window_are_in_the_rest(last: int, cpu_share: float) -> None:
    """2 of 8 s a second, in nine of ten seconds; in seven of ten they would pass for less CPU than there was."""
    columns = grid(**WAITS, performance_schema__query_cpu_s_per_s__q=2.0)
    columns.columns[SeriesKey(source="performance_schema", metric="query_cpu_s_per_s", entity="q")][last + 1 :] = (
        np.nan
    )
    budget = budget_of(columns)
    assert budget is not None
    assert budget.share("cpu") == pytest.approx(cpu_share)
    assert any("end within the window" in note for note in budget.notes) is (cpu_share == 0)


def test_a_wait_that_ends_in_a_later_second_is_counted_once() -> None:
    """Waits of 5 s show in the second in which they end: by second they exceed its statements."""
    result = grid(**WAITS)
    reads = np.zeros(10)
    reads[9] = 30.0
    result.columns[SeriesKey(source="performance_schema", metric="wait_s_per_s", entity="file_data")][:] = reads
    result.columns[SeriesKey(source="performance_schema", metric="file_read_s_per_s", entity="data")][:] = reads
    budget = budget_of(result)
    assert budget is not None
    assert budget.share("data_reads") == pytest.approx(30 / 80)
    assert max(budget.seconds["rest"]) <= 8.0


def test_waits_that_began_before_the_window_do_not_make_more_than_all() -> None:
    budget = budget_of(grid(**{**WAITS, "performance_schema__statement_s_per_s": 4.0}))
    assert budget is not None
    assert sum(budget.shares.values()) == pytest.approx(1.0)
    assert budget.shares["rest"] == pytest.approx(0.0)


def test_without_statement_times_there_is_no_budget() -> None:
    assert budget_of(grid(innodb__row_lock_wait_s_per_s=0.1)) is None
    assert budget_of(grid(**{**WAITS, "performance_schema__statement_s_per_s": 0.0})) is None


def test_what_is_missing_is_said() -> None:
    waits = {name: value for name, value in WAITS.items() if not name.endswith("file_redo")}
    budget = budget_of(grid(**waits), variables={"innodb_log_writer_threads": "ON"})
    assert budget is not None
    assert "redo_sync" not in budget.seconds
    assert any("no instrument for redo" in note for note in budget.notes)
    assert any("background threads" in note for note in budget.notes)


def test_cost_of_a_transaction() -> None:
    result = grid(
        client__tps=100.0,
        innodb__data_reads_per_s=600.0,
        innodb__data_read_mib_per_s=9.375,
        innodb__data_fsyncs_per_s=200.0,
        cpu__user_ratio=0.2,
        cpu__system_ratio=0.1,
        performance_schema__query_cpu_s_per_s__a=0.3,
        performance_schema__query_cpu_s_per_s__b=0.1,
    )
    cost = per_transaction(Case(name="x", grid=result, cell_grid=result, cpus=4)).values
    assert cost["statement_cpu_ms"] == (pytest.approx(4.0), "ms")
    assert cost["reads"] == (pytest.approx(6.0), "1")
    assert cost["read_kib"] == (pytest.approx(96.0), "KiB")
    assert cost["fsyncs"] == (pytest.approx(2.0), "1")
    assert cost["cpu_ms"] == (pytest.approx(12.0), "ms")
    assert "writes" not in cost
    idle = grid(client__tps=0.0)
    assert per_transaction(Case(name="x", grid=idle, cell_grid=idle)).values == {}


def test_cpu_time_of_statements_is_a_part_of_its_own() -> None:
    result = budget_of(grid(**WAITS, performance_schema__query_cpu_s_per_s__q=1.0))
    plain = budget_of(grid(**WAITS))
    assert result is not None
    assert plain is not None
    assert result.share("cpu") == pytest.approx(1.0 / 8)
    assert plain.share("rest") == pytest.approx(result.share("cpu", "rest")) == pytest.approx(result.no_wait)
    assert sum(result.shares.values()) == pytest.approx(1.0)


def test_more_cpu_time_than_is_left_is_not_believed() -> None:
    """Both are read a moment apart."""
    result = budget_of(grid(**WAITS, performance_schema__query_cpu_s_per_s__q=100.0))
    assert result is not None
    assert sum(result.shares.values()) == pytest.approx(1.0)
