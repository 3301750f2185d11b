"""Latencies of intervals from histograms: those of their bins, however long the grid is, in bounded memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from volbench.core.records.series import HistogramRow
from volbench.results.explain.accounts.interval_latencies import interval_latencies
from volbench.results.store import histograms
from volbench.results.store.histograms import HistogramWriter, load_histograms

EDGE_MULT = 55.56
MIB = 1 << 20


def written(path: Path, seconds: int, *, empty: frozenset[int] = frozenset()) -> Path:
    """A histogram a second: 600 transactions in bin 100, then 400 in a bin of its own."""

    def row(second: int) -> HistogramRow:
        counts = () if second in empty else (600, 400)
        return HistogramRow(
            t_s=float(second + 1),
            interval_s=1.0,
            step="load",
            source="client",
            events=sum(counts),
            errors=0,
            edge_mult=EDGE_MULT,
            edge_deduct=0.0,
            bin=(100, 200 + second % 700)[: len(counts)],
            count=counts,
            below=0,
            above=0,
            measured=True,
        )

    with HistogramWriter(path) as writer:
        writer.append(map(row, range(seconds)))
    return path


def middle_ms(bin_number: float) -> float:
    return float(np.exp((bin_number + 0.5) / EDGE_MULT))


@pytest.mark.parametrize("block", [1, 2, 3, 1_024])
def test_mean_and_quantiles_are_those_of_the_bins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """Wherever a block of intervals ends; an interval without transactions, or without a row, has none."""
    monkeypatch.setattr(histograms, "BLOCK_BUCKETS", block)
    loaded = load_histograms(written(tmp_path / "h.parquet", 5, empty=frozenset([2])))
    key = loaded.key_of("load", "client")
    assert key is not None
    assert loaded.key_of("load", "server") is None
    result = interval_latencies(loaded, key, np.arange(8.0))
    means = [0.6 * middle_ms(100) + 0.4 * middle_ms(200 + second) for second in range(5)]
    means[2] = np.nan
    assert result.mean_ms == pytest.approx([*means, np.nan, np.nan], nan_ok=True)
    assert set(result.quantiles_ms) == {0.5, 0.95, 0.99}
    tails = [middle_ms(200), middle_ms(201), np.nan, middle_ms(203), middle_ms(204), np.nan, np.nan]
    assert result.quantiles_ms[0.95] == pytest.approx(tails, nan_ok=True)
    assert result.quantiles_ms[0.5][0] == pytest.approx(middle_ms(100))


def test_memory_is_that_of_a_block(tmp_path: Path) -> None:
    """All bins of 20,000 intervals at once took 140 MiB, three times."""
    seconds = 20_000
    loaded = load_histograms(written(tmp_path / "h.parquet", seconds))
    key = loaded.key_of("load", "client")
    assert key is not None
    tracemalloc.start()
    try:
        result = interval_latencies(loaded, key, np.arange(seconds + 1.0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.isfinite(result.mean_ms).all()
    assert peak < 60 * MIB
