"""Waits for I/O while no disk has any: a lower bound from the kernel's pressure and the disks' busy time."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.results.explain.evidence.held_above import held_above, is_held_above
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey


def grid(columns: dict[tuple[str, str, str], float]) -> Grid:
    """Ten seconds in which each series has one value."""
    return Grid(
        t_s=np.arange(1.0, 11.0),
        width_s=1.0,
        columns={
            SeriesKey(source=source, metric=metric, entity=entity): np.full(10, value)
            for (source, metric, entity), value in columns.items()
        },
    )


def waiting(share: float, **busy: float) -> Grid:
    """Tasks that wait for I/O, and disks by name."""
    disks = {("diskstats", "util_ratio", name): value for name, value in busy.items()}
    return grid({("psi", "io_some_ratio", ""): share, **disks})


def test_all_disks_are_taken_off() -> None:
    assert held_above(waiting(0.7, sda=0.1, sdb=0.25)) == pytest.approx(0.35)
    assert held_above(waiting(0.1, sda=0.6)) == pytest.approx(-0.5)


@pytest.mark.parametrize(("share", "held"), [(0.39, False), (0.41, True)])
def test_three_tenths_of_the_time_are_much(share: float, held: bool) -> None:
    assert is_held_above(waiting(share, sda=0.1)) is held


def test_it_is_asked_of_some_intervals() -> None:
    inside = np.arange(10) < 5
    of_all = waiting(0.0, sda=0.1)
    key = SeriesKey(source="psi", metric="io_some_ratio", entity="")
    half = Grid(t_s=of_all.t_s, width_s=1.0, columns={**of_all.columns, key: np.where(inside, 0.6, 0.1)})
    assert held_above(half, inside) == pytest.approx(0.5)
    assert held_above(half, ~inside) == pytest.approx(0.0)


def test_it_is_not_known_without_pressure_without_disks_and_over_a_network() -> None:
    assert held_above(grid({("diskstats", "util_ratio", "sda"): 0.1})) is None
    assert held_above(waiting(0.7)) is None
    remote = {("psi", "io_some_ratio", ""): 0.7, ("diskstats", "util_ratio", "sda"): 0.1}
    assert held_above(grid({**remote, ("mountstats", "reads_per_s", "/mnt"): 40.0})) is None
    assert not is_held_above(waiting(0.7))
