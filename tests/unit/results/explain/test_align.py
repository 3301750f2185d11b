from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volbench.errors import UsageError
from volbench.results.stats import grid as grid_module
from volbench.results.stats.grid import BUCKETS_MAX, align
from volbench.results.store.series import Series, SeriesKey

TPS = SeriesKey(source="client", metric="tps")
READS = SeriesKey(source="diskstats", metric="reads_per_s", entity="sda")


def series(t_s: list[float], value: list[float]) -> Series:
    return Series(t_s=np.array(t_s), value=np.array(value))


def test_sources_with_other_phases_share_a_grid_and_nothing_is_smeared() -> None:
    ticks = np.arange(1.0, 21.0)
    value = np.where(ticks <= 10, 3000.0, 150.0)
    grid = align({TPS: series(list(ticks + 0.31), list(value)), READS: series(list(ticks), list(value))})
    for key in (TPS, READS):
        known_values = grid.columns[key][np.isfinite(grid.columns[key])]
        assert set(known_values) == {3000.0, 150.0}


def test_a_missed_tick_stays_a_gap() -> None:
    grid = align({READS: series([1, 2, 3, 7, 8], [1, 2, 3, 7, 8])}, window_s=(0, 8))
    assert np.isnan(grid.columns[READS]).tolist() == [False, False, False, True, True, True, False, False]


def test_a_jittering_clock_makes_no_gap() -> None:
    random = np.random.default_rng(3)
    t_s = np.arange(1.0, 101.0) + 0.5 + random.uniform(-0.04, 0.04, 100)
    grid = align({READS: Series(t_s=t_s, value=np.ones(100))}, window_s=(2.0, 99.0))
    assert not np.isnan(grid.columns[READS]).any()


def test_a_coarse_source_holds_over_its_interval_and_a_fine_one_is_averaged() -> None:
    coarse = series([60.0, 120.0], [10.0, 20.0])
    fine = series([0.25 * n for n in range(1, 481)], [float(n % 4) for n in range(480)])
    grid = align(
        {
            TPS: series(list(np.arange(1.0, 121.0)), [5.0] * 120),
            READS: fine,
            SeriesKey(source="cloudwatch", metric="balance_percent", entity="v"): coarse,
        },
        window_s=(0, 120),
    )
    retained = grid.column("cloudwatch", "balance_percent", "v")
    assert retained is not None
    assert retained[:60].tolist() == [10.0] * 60
    assert retained[60:].tolist() == [20.0] * 60
    assert grid.columns[READS].tolist() == pytest.approx([1.5] * 120)


def test_what_was_not_sampled_is_absent() -> None:
    grid = align({TPS: series([1, 2], [1, 1]), READS: series([], [])})
    assert grid.column("diskstats", "reads_per_s", "sda") is None
    assert grid.entities("diskstats", "reads_per_s") == ()
    assert len(align({})) == 0


def test_a_grid_without_bound_is_refused() -> None:
    with pytest.raises(UsageError, match="at most"):
        align({TPS: series([1, 2], [1, 1])}, window_s=(0, 10.0 * BUCKETS_MAX))


@given(st.floats(0.05, 900), st.floats(0, 1e6))
def test_scale_and_origin_of_time_do_not_matter(width: float, origin: float) -> None:
    ticks = np.arange(1.0, 31.0)
    value = np.arange(30.0)
    grid = align({READS: Series(t_s=origin + width * ticks, value=value)})
    assert grid.columns[READS].tolist() == value.tolist()


@pytest.mark.parametrize(("buckets", "shared"), [((2, 3, 4), True), ((2, 4), False), ((), False)])
def test_chosen_buckets_are_those_of_the_mask_and_take_no_memory_where_they_adjoin(
    buckets: tuple[int, ...], shared: bool
) -> None:
    grid = align({READS: series([1, 2, 3, 4, 5], [10, 20, 30, 40, 50])}, window_s=(0, 5))
    chosen = grid.where(np.isin(np.arange(5), buckets))
    assert chosen.columns[READS].tolist() == [10.0 * (1 + bucket) for bucket in buckets]
    assert np.shares_memory(chosen.columns[READS], grid.columns[READS]) is shared


@pytest.mark.parametrize("kept_bytes", [0, 1 << 20])
def test_columns_on_demand_are_those_that_are_placed_at_once(
    kept_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With gaps, phases and finer sources; however few of them are kept."""
    monkeypatch.setattr(grid_module, "KEPT_BYTES_MAX", kept_bytes)
    ticks = np.arange(1.0, 61.0)
    of_disk = np.delete(ticks + 0.4, [7, 8, 9, 30])
    sampled = {
        TPS: series(list(ticks), list(ticks)),
        READS: Series(t_s=of_disk, value=of_disk**2),
        SeriesKey(source="diskstats", metric="writes_per_s", entity="sda"): Series(t_s=of_disk, value=-of_disk),
        SeriesKey(source="cpu", metric="busy_ratio"): series(
            [0.2 * n for n in range(1, 301)], [n % 7 for n in range(300)]
        ),
    }
    whole, on_demand = align(sampled), align(sampled, on_demand=True)
    assert (list(on_demand.columns), len(on_demand.columns)) == (list(whole.columns), 4)
    for _ in range(2):
        for key, column in whole.columns.items():
            assert np.array_equal(on_demand.columns[key], column, equal_nan=True)
            for part in (on_demand.within(10, 20), on_demand.where(np.arange(len(on_demand)) % 3 == 0)):
                mask = np.isin(on_demand.t_s, part.t_s)
                assert np.array_equal(part.columns[key], column[mask], equal_nan=True)
    assert SeriesKey(source="none", metric="none") not in on_demand.columns
    assert on_demand.column("none", "none") is None


def test_few_columns_on_demand_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A day of a cell has half a gigabyte of them."""
    monkeypatch.setattr(grid_module, "KEPT_BYTES_MAX", 3 * 8 * 100)
    keys = [SeriesKey(source="innodb", metric=f"m{number}") for number in range(10)]
    grid = align({key: series(list(range(100)), list(range(100))) for key in keys}, on_demand=True)
    made = {key: grid.columns[key] for key in keys}
    assert [grid.columns[key] is made[key] for key in reversed(keys)] == [True] * 3 + [False] * 7
