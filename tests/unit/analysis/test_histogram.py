"""Log-binned histograms: where bins lie, sums, quantiles, means, and what lies outside."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volbench.analysis.histogram import (
    Histograms,
    LogBins,
    concatenated,
    from_dense,
    from_rows,
    mysql_bins,
    split_clamped,
    sysbench_bins,
)
from volbench.errors import MustNotCompare
from volbench.records.series import HistogramRow

DOUBLING = LogBins(mult=1 / math.log(2), deduct=0.0)  # edges 1, 2, 4, 8, ... ms
RANGE_MULT, RANGE_DEDUCT = 1023 / math.log(1e5 / 1e-3), math.log(1e-3)


def doubling(*counts, below=0, above=0):
    return from_dense(DOUBLING, [counts], below=[below], above=[above])


def sysbench_counters(latencies_ms):
    """Counters as sysbench keeps them: the nearest index, clamped at both ends."""
    index = np.floor((np.log(latencies_ms) - RANGE_DEDUCT) * RANGE_MULT + 0.5)
    return np.bincount(np.clip(index, 0, 1023).astype(int), minlength=1024)


def sysbench_histogram(latencies_ms):
    split = split_clamped(sysbench_counters(latencies_ms))
    bins = sysbench_bins(range_mult=RANGE_MULT, range_deduct=RANGE_DEDUCT)
    row = HistogramRow(
        t_s=1.0, interval_s=1.0, step="oltp", source="client", events=len(latencies_ms), errors=0,
        edge_mult=bins.mult, edge_deduct=bins.deduct,
        bin=split.bin, count=split.count, below=split.below, above=split.above,
    )  # fmt: skip
    return from_rows([row])


def test_quantile_is_interpolated_on_the_log_scale():
    """Half of the events of the bin 4..8 ms lie below 4 sqrt 2."""
    assert doubling(0, 0, 10).quantile(0.5).value_ms == pytest.approx(4 * math.sqrt(2))


@pytest.mark.parametrize(
    ("level", "value_ms"), [(0.25, 2.0), (0.5, 4.0), (0.75, 8.0), (1.0, 16.0), (0.625, 4 * math.sqrt(2))]
)
def test_quantiles_of_evenly_filled_bins_lie_on_their_edges(level, value_ms):
    """Four bins of 25 events each: every quarter ends at an edge."""
    assert doubling(25, 25, 25, 25).quantile(level).value_ms == pytest.approx(value_ms)


def test_a_rounding_error_of_the_level_does_not_jump_over_empty_bins():
    """0.07 x 100 is 7.000000000000001 in floating point; the 7th event is still in the first bin."""
    assert doubling(7, 0, 0, 93).quantile(0.07).value_ms == pytest.approx(2.0)


def test_a_quantile_above_the_last_bin_has_no_value_but_a_flag():
    """All that is known is that it is long."""
    found = doubling(90, above=10)
    assert (found.quantile(0.95).value_ms, found.quantile(0.95).beyond_range) == (None, True)
    assert found.quantile(0.9).value_ms == pytest.approx(2.0)


def test_a_quantile_below_the_first_bin_is_placed_linearly_from_zero():
    """There is no log of zero, and the first edge bounds the error."""
    assert doubling(0, 10, below=10).quantile(0.25).value_ms == pytest.approx(0.5)


def test_an_interval_without_events_has_no_quantile_and_no_mean():
    """A stall is missing, never 0 ms."""
    empty = doubling(0, 0)
    assert (empty.quantile(0.95).value_ms, empty.quantile(0.95).beyond_range) == (None, False)
    assert empty.mean_ms() is None


@pytest.mark.parametrize("level", [0.0, -0.1, 1.5, 95.0])
def test_a_level_that_is_no_share_is_refused(level):
    """95 instead of 0.95 is noticed."""
    with pytest.raises(ValueError, match="shares"):
        doubling(1).quantile(level)


def test_quantiles_of_many_intervals_are_those_of_each_one():
    """The vectorised way gives what each histogram gives by itself."""
    table = np.random.default_rng(3).poisson(0.7, (200, 12))
    above = np.random.default_rng(4).poisson(0.5, 200)
    below = np.random.default_rng(5).poisson(0.5, 200)
    levels = [0.01, 0.5, 0.95, 1.0]
    all_at_once = from_dense(DOUBLING, table, below=below, above=above).quantiles(levels)
    for t in range(200):
        for column, level in enumerate(levels):
            single = doubling(*table[t], below=below[t], above=above[t]).quantile(level)
            value = all_at_once.value_ms[t, column]
            assert single.beyond_range == all_at_once.beyond_range[t, column]
            assert (None if math.isnan(value) else value) == (
                None if single.value_ms is None else pytest.approx(single.value_ms)
            )


def test_merging_is_not_averaging_percentiles():
    """99 quick seconds and one slow, busy second: the 95th percentile is that of all events."""
    quick = [[10, 0, 0, 0]] * 99
    slow = [[0, 0, 0, 1000]]
    series = from_dense(DOUBLING, quick + slow, below=[0] * 100, above=[0] * 100)
    averaged = np.mean(series.quantiles([0.95]).value_ms)
    assert series.quantile(0.95).value_ms > 8
    assert averaged < 2.2


COUNTS = st.lists(st.integers(0, 50), min_size=5, max_size=5)


@given(st.lists(COUNTS, min_size=1, max_size=8), st.integers(0, 5), st.integers(0, 5))
@settings(deadline=None)
def test_merged_counts_are_sums(table, below, above):
    """Adding histograms loses and invents nothing."""
    size = len(table)
    merged = from_dense(DOUBLING, table, below=[below] * size, above=[above] * size).merged()
    dense = np.zeros(5, dtype=int)
    dense[merged.bin] = merged.count
    assert dense.tolist() == np.sum(table, axis=0).tolist()
    assert (merged.below.tolist(), merged.above.tolist()) == ([below * size], [above * size])
    assert merged.events.tolist() == [np.sum(table) + (below + above) * size]


@given(COUNTS.filter(any), st.lists(st.floats(0.01, 1.0), min_size=2, max_size=5))
@settings(deadline=None)
def test_quantiles_never_fall_with_the_level_and_stay_in_range(counts, levels):
    """A higher level never gives a shorter latency."""
    values = doubling(*counts).quantiles(sorted(levels)).value_ms[0]
    assert np.all(np.diff(values) >= -1e-9)
    assert np.all((values >= 1 - 1e-9) & (values <= 32 + 1e-9))


def test_groups_of_intervals():
    """Seconds become minutes: neighbouring intervals are summed, uneven and empty groups too."""
    series = from_dense(DOUBLING, [[1, 0], [2, 1], [0, 4]], below=[1, 0, 0], above=[0, 0, 3])
    grouped = series.grouped([0, 2, 2, 3])
    assert grouped.events.tolist() == [5, 0, 7]
    assert (grouped.bin.tolist(), grouped.count.tolist()) == ([0, 1, 1], [3, 1, 4])
    with pytest.raises(ValueError, match="rise"):
        series.grouped([0, 4])


def test_histograms_of_cells_are_joined_only_when_their_bins_agree():
    """Counts of other bins cannot be added."""
    joined = concatenated([doubling(1, 2), doubling(0, 5, above=1)])
    assert joined.merged().events.tolist() == [9]
    with pytest.raises(MustNotCompare, match="different bins"):
        concatenated([doubling(1), from_dense(mysql_bins(), [[1]], below=[0], above=[0])])


def test_mean_of_one_bin_is_the_logarithmic_mean_of_its_edges():
    """(4 - 2) / ln 2 for events spread evenly on the log scale; half the first edge below it."""
    assert doubling(0, 7).mean_ms() == pytest.approx(2 / math.log(2))
    assert doubling(0, 1, below=1).mean_ms() == pytest.approx((2 / math.log(2) + 0.5) / 2)


def test_mean_is_unknown_when_an_event_lies_above_the_last_bin():
    """It might have taken any time."""
    assert doubling(1000, above=1).mean_ms() is None


def test_sysbench_latencies_come_back_within_a_bin_and_without_bias():
    """sysbench rounds to the nearest index: taken as a lower edge that would be 0.9 % too long."""
    latencies = np.random.default_rng(1).lognormal(1.0, 0.7, 200_000)
    found = sysbench_histogram(latencies)
    for level in (0.05, 0.5, 0.95, 0.99):
        assert found.quantile(level).value_ms == pytest.approx(np.quantile(latencies, level), rel=0.004)
    assert found.mean_ms() == pytest.approx(latencies.mean(), rel=0.001)


def test_a_sysbench_counter_covers_exactly_its_bin():
    """Latencies just inside both edges of a bin are counted there, just outside they are not."""
    bins = sysbench_bins(range_mult=RANGE_MULT, range_deduct=RANGE_DEDUCT)
    low, high = bins.edge_ms(400) * (1 + 1e-9), bins.edge_ms(401) * (1 - 1e-9)
    assert split_clamped(sysbench_counters(np.array([low, high]))).bin == (400,)
    assert split_clamped(sysbench_counters(np.array([low * (1 - 2e-9)]))).bin == (399,)


def test_sysbench_latencies_outside_its_range_are_known_only_to_be_outside():
    """101 s lands in the last counter, 0.1 us in the first."""
    found = sysbench_histogram(np.array([1e-4, 5.0, 101_000.0, 1e9]))
    assert (found.below.tolist(), found.above.tolist(), found.events.tolist()) == ([1], [2], [4])
    assert found.quantile(0.99).beyond_range


def test_mysql_buckets_lie_where_the_manual_shows_them():
    """Bucket 42 of the reference manual's example: 66069344 .. 69183097 ps."""
    counters = np.zeros(450, dtype=int)
    counters[42] = 1
    (bin_,) = split_clamped(counters).bin
    assert mysql_bins().edge_ms(bin_) == pytest.approx(66069344e-9, rel=1e-6)
    assert mysql_bins().edge_ms(bin_ + 1) == pytest.approx(69183097e-9, rel=1e-6)


def test_counters_that_went_back_are_refused():
    """A reset between two readings gives negative differences, which are no events."""
    with pytest.raises(ValueError, match="reset"):
        split_clamped([0, 5, -3, 0])


def test_rows_with_different_bins_are_not_merged():
    """Client and server histograms are different things."""
    row = HistogramRow(
        t_s=1.0, interval_s=1.0, step="s", source="client", events=1, errors=0,
        edge_mult=2.0, edge_deduct=0.0, bin=(1,), count=(1,),
    )  # fmt: skip
    other = HistogramRow(
        t_s=1.0, interval_s=1.0, step="s", source="server", events=1, errors=0,
        edge_mult=3.0, edge_deduct=0.0, bin=(1,), count=(1,),
    )  # fmt: skip
    with pytest.raises(MustNotCompare, match="different bins"):
        from_rows([row, other])
    with pytest.raises(ValueError, match="no rows"):
        from_rows([])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bin": np.array([1, 0])}, "ascend"),
        ({"bin": np.array([0])}, "length"),
        ({"offsets": np.array([0, 1])}, "cover"),
        ({"count": np.array([1, -1])}, "negative"),
        ({"below": np.array([0, 0])}, "length"),
    ],
)
def test_malformed_columns_are_refused(change, message):
    """What a damaged file could hold is noticed before it becomes a number."""
    columns = {
        "bin": np.array([0, 1]), "count": np.array([1, 1]), "offsets": np.array([0, 2]),
        "below": np.array([0]), "above": np.array([0]),
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        Histograms(bins=DOUBLING, **(columns | change))


def test_a_day_of_seconds_is_merged_and_read_in_seconds():
    """86,400 intervals over 1,024 bins, 120 of them filled: far below 2 s where nothing else runs."""
    filled, seconds = 120, 86_400
    series = Histograms(
        bins=sysbench_bins(range_mult=RANGE_MULT, range_deduct=RANGE_DEDUCT),
        bin=np.tile(np.arange(300, 300 + filled), seconds),
        count=np.random.default_rng(1).integers(1, 50, filled * seconds),
        offsets=np.arange(seconds + 1) * filled,
        below=np.zeros(seconds, dtype=np.int64),
        above=np.zeros(seconds, dtype=np.int64),
    )
    started = time.process_time()
    merged, quantiles = series.merged(), series.quantiles([0.5, 0.95, 0.99])
    assert time.process_time() - started < 2.0
    assert merged.events[0] == series.count.sum()
    assert not np.isnan(quantiles.value_ms).any()
