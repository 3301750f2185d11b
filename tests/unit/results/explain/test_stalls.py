from __future__ import annotations

import numpy as np
import pytest
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.evidence.device import device_of
from volbench.results.explain.evidence.stalls import client_stalls, stalled_together, storage_stalls
from volbench.results.stats.grid import align


def test_finds_a_stall_at_client_and_volume() -> None:
    grid = align(columns(Load(), Storage(stall_s=(20, 25))))
    device, tps = device_of(grid), grid.column("client", "tps")
    assert device is not None
    assert tps is not None
    client = client_stalls(grid.t_s, grid.width_s, tps)
    storage = storage_stalls(grid.t_s, grid.width_s, device)
    assert [(item.t0_s, item.t1_s) for item in client] == [(20.0, 25.0)]
    assert [(item.t0_s, item.length_s) for item in storage] == [(20.0, 5.0)]
    assert stalled_together(client, storage, 1.0) == client


def test_a_stall_of_three_seconds_that_begins_within_one_is_three_seconds() -> None:
    """From 10.4 to 13.4: two intervals without a transaction, and parts of those beside them."""
    tps = np.full(30, 100.0) + np.random.default_rng(2).normal(0, 4, 30)
    tps[10], tps[11], tps[12], tps[13] = 40.0, 0.0, 0.0, 60.0
    (stall,) = client_stalls(np.arange(1.0, 31.0), 1.0, tps)
    assert (stall.t0_s, stall.t1_s) == pytest.approx((10.4, 13.4), abs=0.1)


def test_a_gap_is_no_stall_and_neither_is_a_step_without_transactions() -> None:
    t_s = np.arange(1.0, 11.0)
    tps = np.full(10, 50.0)
    tps[3:6] = np.nan
    assert client_stalls(t_s, 1.0, tps) == ()
    assert client_stalls(t_s, 1.0, np.zeros(10)) == ()


def test_an_idle_volume_does_not_stall() -> None:
    grid = align(columns(Load(), Storage()))
    device = device_of(grid)
    assert device is not None
    assert device.in_flight is not None
    device.iops[10:20], device.in_flight[10:20] = 0.0, 0.0
    assert storage_stalls(grid.t_s, 1.0, device) == ()


def test_a_client_that_waits_for_something_else_is_not_the_volumes_fault() -> None:
    item = client_stalls(np.arange(1.0, 11.0), 1.0, np.array([5, 5, 0, 0, 5, 5, 5, 5, 5, 5.0]))
    assert len(item) == 1
    assert stalled_together(item, (), 1.0) == ()


def test_a_volume_that_goes_on_slowly_does_not_stall() -> None:
    """1 % of the usual, each operation done within 50 ms and as many in flight as that makes: it is limited."""
    grid = align(columns(Load(queue=10), Storage()))
    device = device_of(grid)
    assert device is not None
    assert device.in_flight is not None
    assert device.await_ms is not None
    device.iops[10:20] = 0.015 * np.median(device.iops)
    device.in_flight[10:20] = 10.0
    device.await_ms[10:20] = 1000 * 10.0 / device.iops[10:20]
    assert storage_stalls(grid.t_s, 1.0, device) == ()
    device.iops[10:20], device.await_ms[10:20] = 0.0, np.nan
    assert len(storage_stalls(grid.t_s, 1.0, device)) == 1
