"""Latency bins: sysbench's edges, quantiles, means, merging."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volbench.core.records.latency_bins import LatencyBins, merge, sysbench_latency_bins
from volbench.results.stats.histogram import LogBins, quantiles_ms

MULT, DEDUCT, SIZE = 55.535406873378321, -6.9077552789821368, 1024
COUNTS = st.dictionaries(st.integers(0, SIZE - 1), st.integers(1, 10**6), min_size=1, max_size=40)


def bins(counts: dict[int, int]) -> LatencyBins:
    return sysbench_latency_bins(range_mult=MULT, range_deduct=DEDUCT, size=SIZE, counts=counts)


def sysbench_index(latency_ms: float) -> int:
    """As sb_histogram_update: the nearest index, clamped."""
    return min(SIZE - 1, max(0, math.floor((math.log(latency_ms) - DEDUCT) * MULT + 0.5)))


@given(st.floats(0.002, 90_000))
def test_a_latency_lies_between_its_bins_edges(latency_ms: float) -> None:
    """sysbench rounds to the nearest index, so the edges are half a bin off its printed values."""
    (number,) = bins({sysbench_index(latency_ms): 1}).counts
    item = bins({})
    assert item.edge_ms(number) <= latency_ms * (1 + 1e-9)
    assert latency_ms <= item.edge_ms(number + 1) * (1 + 1e-9)


@given(COUNTS, st.floats(0.001, 1))
def test_quantiles_agree_with_the_analysis(counts: dict[int, int], level: float) -> None:
    """Both halves of volbench give one number for one histogram."""
    own = bins(counts)
    dense = [own.counts.get(number, 0) for number in range(SIZE)]
    (foreign,) = quantiles_ms(
        LogBins(mult=own.edge_mult, deduct=own.edge_deduct),
        [dense],
        below=[own.below],
        above=[own.above],
        levels=[level],
    )[0]
    mine = own.quantile_ms(level)
    assert (math.nan if mine is None else mine) == pytest.approx(foreign, rel=1e-6, nan_ok=True)


def test_quantiles_of_known_latencies_are_within_a_bin() -> None:
    """1.8 % at most."""
    latencies = np.random.default_rng(3).lognormal(1.0, 1.0, 20_000)
    counts: dict[int, int] = {}
    for latency in latencies:
        index = sysbench_index(float(latency))
        counts[index] = counts.get(index, 0) + 1
    result = bins(counts)
    for level in (0.5, 0.95, 0.99, 0.999):
        assert result.quantile_ms(level) == pytest.approx(float(np.quantile(latencies, level)), rel=0.019)
    assert result.mean_ms() == pytest.approx(float(latencies.mean()), rel=0.005)
    assert result.max_ms() == pytest.approx(float(latencies.max()), rel=0.019)


def test_beyond_the_range_is_not_known() -> None:
    """A latency above 100 s makes the maximum and the mean unknown, and the quantiles that fall on it."""
    result = bins({500: 90, SIZE - 1: 10})
    assert result.above == 10
    assert result.quantile_ms(0.5) is not None
    assert result.quantile_ms(0.95) is None
    assert result.max_ms() is None
    assert result.mean_ms() is None


def test_nothing_has_no_latency() -> None:
    """A stall is not 0 ms."""
    result = bins({})
    assert result.events == 0
    assert (result.quantile_ms(0.5), result.mean_ms(), result.max_ms()) == (None, None, None)


@given(st.lists(COUNTS, min_size=1, max_size=4))
def test_merging_adds_events(parts: list[dict[int, int]]) -> None:
    """Bin by bin, nothing lost."""
    merged = merge(bins(piece) for piece in parts)
    assert merged is not None
    assert merged.events == sum(sum(piece.values()) for piece in parts)


def test_what_cannot_be_merged_is_refused() -> None:
    """Other bins; and nothing merges to nothing."""
    second = LatencyBins(edge_mult=1.0, edge_deduct=0.0, counts={1: 1})
    with pytest.raises(ValueError, match="different bins"):
        merge([bins({5: 1}), second])
    assert merge([]) is None
