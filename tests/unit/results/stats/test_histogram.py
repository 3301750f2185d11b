"""Quantiles of log-binned histograms: where bins lie, what lies outside, many intervals at once."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volbench.measure.sample.rows import SERVER_EDGE_DEDUCT, SERVER_EDGE_MULT
from volbench.results.stats.histogram import LogBins, quantiles_ms

DOUBLING = LogBins(mult=1 / math.log(2), deduct=0.0)  # edges 1, 2, 4, 8, ... ms


def quantile(level, *counts, below=0, above=0):
    (value,) = quantiles_ms(DOUBLING, [counts], below=[below], above=[above], levels=[level])[0]
    return None if math.isnan(value) else value


def test_quantile_is_interpolated_on_the_log_scale():
    """Half of the events of the bin 4..8 ms lie below 4 sqrt 2."""
    assert quantile(0.5, 0, 0, 10) == pytest.approx(4 * math.sqrt(2))


@pytest.mark.parametrize(
    ("level", "value_ms"), [(0.25, 2.0), (0.5, 4.0), (0.75, 8.0), (1.0, 16.0), (0.625, 4 * math.sqrt(2))]
)
def test_quantiles_of_evenly_filled_bins_lie_on_their_edges(level, value_ms):
    """Four bins of 25 events each: every quarter ends at an edge."""
    assert quantile(level, 25, 25, 25, 25) == pytest.approx(value_ms)


def test_a_rounding_error_of_the_level_does_not_jump_over_empty_bins():
    """0.07 x 100 is 7.000000000000001 in floating point; the 7th event is still in the first bin."""
    assert quantile(0.07, 7, 0, 0, 93) == pytest.approx(2.0)


def test_a_quantile_above_the_last_bin_has_no_value():
    """All that is known is that it is long."""
    assert quantile(0.95, 90, above=10) is None
    assert quantile(0.9, 90, above=10) == pytest.approx(2.0)


def test_a_quantile_below_the_first_bin_is_placed_linearly_from_zero():
    """There is no log of zero, and the first edge bounds the error."""
    assert quantile(0.25, 0, 10, below=10) == pytest.approx(0.5)


def test_an_interval_without_events_has_no_quantile():
    """A stall is missing, never 0 ms."""
    assert quantile(0.95, 0, 0) is None


@pytest.mark.parametrize("level", [0.0, -0.1, 1.5, 95.0])
def test_a_level_that_is_no_share_is_refused(level):
    """95 instead of 0.95 is noticed."""
    with pytest.raises(ValueError, match="shares"):
        quantile(level, 1)


def test_quantiles_of_many_intervals_are_those_of_each_one():
    """The vectorised way gives what each histogram gives by itself."""
    table = np.random.default_rng(3).poisson(0.7, (200, 12))
    above = np.random.default_rng(4).poisson(0.5, 200)
    below = np.random.default_rng(5).poisson(0.5, 200)
    levels = [0.01, 0.5, 0.95, 1.0]
    values = quantiles_ms(DOUBLING, table, below=below, above=above, levels=levels)
    for t in range(200):
        for column, level in enumerate(levels):
            single = quantile(level, *table[t], below=below[t], above=above[t])
            assert values[t, column] == (pytest.approx(math.nan, nan_ok=True) if single is None else single)


def test_quantiles_are_within_a_bin_of_those_of_the_latencies():
    """Against numpy's quantiles of the latencies themselves."""
    latencies = np.random.default_rng(1).lognormal(1.0, 0.7, 200_000)
    bins = LogBins(mult=1023 / math.log(1e8), deduct=math.log(1e-3))
    counts = np.bincount(np.floor((np.log(latencies) - bins.deduct) * bins.mult).astype(int), minlength=1024)
    levels = [0.05, 0.5, 0.95, 0.99]
    (values,) = quantiles_ms(bins, [counts], below=[0], above=[0], levels=levels)
    assert values == pytest.approx(np.quantile(latencies, levels), rel=0.004)


@given(
    st.lists(st.integers(0, 50), min_size=5, max_size=5).filter(any),
    st.lists(st.floats(0.01, 1.0), min_size=2, max_size=5),
)
@settings(deadline=None)
def test_quantiles_never_fall_with_the_level_and_stay_in_range(counts, levels):
    """A higher level never gives a shorter latency."""
    (values,) = quantiles_ms(DOUBLING, [counts], below=[0], above=[0], levels=sorted(levels))
    assert np.all(np.diff(values) >= -1e-9)
    assert np.all((values >= 1 - 1e-9) & (values <= 32 + 1e-9))


def test_mysql_buckets_lie_where_the_manual_shows_them():
    """Bucket 42 of the reference manual's example: 66069344 .. 69183097 ps. Bucket i + 1 is bin i."""
    bins = LogBins(mult=SERVER_EDGE_MULT, deduct=SERVER_EDGE_DEDUCT)
    assert bins.edge_ms(41) == pytest.approx(66069344e-9, rel=1e-6)
    assert bins.edge_ms(42) == pytest.approx(69183097e-9, rel=1e-6)


@pytest.mark.parametrize(
    ("counts", "below", "message"),
    [
        ([1, 2], [0], "table"),
        ([[1, 2]], [0, 0], "table"),
        ([[1, -1]], [0], "negative"),
        ([[1, 1]], [-1], "negative"),
    ],
)
def test_malformed_counts_are_refused(counts, below, message):
    """What a damaged file could hold is noticed before it becomes a number."""
    with pytest.raises(ValueError, match=message):
        quantiles_ms(DOUBLING, counts, below=below, above=[0], levels=[0.5])


def test_an_hour_of_seconds_is_read_in_seconds():
    """3,600 intervals of 1,024 bins: far below 2 s where nothing else runs."""
    counts = np.random.default_rng(1).integers(0, 50, (3600, 1024))
    none = np.zeros(3600, dtype=np.int64)
    started = time.process_time()
    quantiles_ms(DOUBLING, counts, below=none, above=none, levels=[0.5, 0.95, 0.99])
    assert time.process_time() - started < 2.0
