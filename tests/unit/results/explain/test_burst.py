from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.evidence.burst import Burst, fit_burst, refill_s
from volbench.results.explain.evidence.device import device_of
from volbench.results.explain.evidence.limits import limits_of, plateaus
from volbench.results.stats.grid import Floats, align

GP2_BUCKET = 5.4e6


def fitted(load: Load, storage: Storage, balance: Floats | None = None) -> Burst | None:
    grid = align(columns(load, storage))
    device = device_of(grid)
    assert device is not None
    result = limits_of(plateaus(grid.t_s, device), device.size_kib)
    return fit_burst(grid.t_s, device, result, balance_percent=balance)


def falling(at: float, high: float, low: float) -> Storage:
    return Storage(iops=lambda t_s: np.where(t_s <= at, high, low))


@pytest.mark.parametrize(("at", "low"), [(40, 150.0), (70, 300.0), (100, 1000.0)])
@pytest.mark.parametrize("seed", [1, 2])
def test_finds_the_knee_the_levels_and_the_bucket(at: int, low: float, seed: int) -> None:
    result = fitted(Load(seconds=120, queue=31, threads=31, seed=seed), falling(at, 3000.0, low))
    assert result is not None
    assert result.exhausted_at_s == pytest.approx(at, abs=2)
    assert result.baseline == pytest.approx(low, rel=0.05)
    assert result.burst == pytest.approx(3000, rel=0.05)
    assert result.spent == pytest.approx(at * (3000 - low), rel=0.05)
    assert result.refill_s == pytest.approx(at * (3000 - low) / low, rel=0.08)


def test_a_load_that_ends_is_no_exhausted_burst() -> None:
    """Its queue goes with it."""
    storage = Storage(latency_ms=0.8)
    load = Load(seconds=120, queue=16)
    busy, quiet = columns(load, storage), columns(Load(seconds=120, queue=0.4), storage)
    series = {
        key: type(item)(t_s=item.t_s, value=np.where(item.t_s <= 60, item.value, quiet[key].value))
        for key, item in busy.items()
    }
    grid = align(series)
    device = device_of(grid)
    assert device is not None
    assert fit_burst(grid.t_s, device, limits_of(plateaus(grid.t_s, device), 16.0)) is None


def test_a_volume_that_got_slower_is_no_exhausted_burst() -> None:
    slower = Storage(latency_ms=lambda t_s: np.where(t_s <= 60, 1.0, 25.0))
    assert fitted(Load(seconds=120), slower) is None


def test_credits_that_are_left_refute_it() -> None:
    storage = falling(60, 3000.0, 150.0)
    load = Load(seconds=120, queue=31, threads=31)
    assert fitted(load, storage, np.full(120, 40.0)) is None
    empty = np.where(np.arange(120) < 60, np.linspace(100, 0, 120), 0.0)
    assert fitted(load, storage, empty) is not None


@pytest.mark.parametrize(
    ("baseline", "refill"), [(100, 54_000), (150, 36_000), (300, 18_000), (1002, 5389), (2250, 2400)]
)
def test_arithmetic_of_gp2(baseline: float, refill: float) -> None:
    """Rows of Amazon's table of burst durations."""
    assert refill_s(GP2_BUCKET, baseline) == pytest.approx(refill, abs=1)


def test_operations_that_come_back_are_no_exhausted_burst() -> None:
    """A bucket that is empty gives no more as long as the load goes on."""
    storage = Storage(iops=lambda t_s: np.where((t_s > 40) & (t_s <= 80), 300.0, 3000.0))
    assert fitted(Load(seconds=120, queue=31, threads=31), storage) is None


def test_a_backup_whose_bytes_rise_is_no_exhausted_burst() -> None:
    """Its large reads take the place of small operations: fewer, and more bytes."""
    grid = align(columns(Load(seconds=120, queue=31, threads=31), falling(60, 3000.0, 300.0)))
    device = device_of(grid)
    assert device is not None
    result = limits_of(plateaus(grid.t_s, device), device.size_kib)
    assert fit_burst(grid.t_s, device, result) is not None
    bytes_ = np.where(grid.t_s <= 60, 45.0, 90.0)
    assert fit_burst(grid.t_s, replace(device, mib_per_s=bytes_), result) is None
