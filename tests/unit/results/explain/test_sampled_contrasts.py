"""Which contrasts of sizes concern a step: its own, else those after the last step of the volume's first cell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from volbench.core.records.size_contrast import SizeContrast
from volbench.errors import RunUnreadable
from volbench.results.explain.evidence.size_contrasts import SampledContrast, levels_of
from volbench.results.explain.sampled_contrasts import contrasts_of_cell, contrasts_of_step
from volbench.results.stats.grid import align
from volbench.results.store.series import Series, SeriesKey

SECONDS = 20


def contrast(step: str, *, begin_s: float = 10.0) -> SizeContrast:
    return SizeContrast(
        step=step,
        rw="randread",
        block_size_bytes=65536,
        in_flight=16,
        window_s=(begin_s, begin_s + 4.0),
        iops=150,
        mib_per_s=9.4,
    )


def series(iops: float) -> dict[SeriesKey, Series]:
    """A disk that gives so many reads of 64 KiB a second."""
    values = {"reads_per_s": iops, "writes_per_s": 0.0, "read_mib_per_s": iops / 16, "aqu_sz": 16.0}
    times = np.arange(1.0, SECONDS + 1)
    return {
        SeriesKey(source="diskstats", metric=metric, entity="sda"): Series(t_s=times, value=np.full(SECONDS, value))
        for metric, value in values.items()
    }


class Loaded:
    """A run of cells by name: volume, contrasts, and reads a second; 0: its table is damaged."""

    def __init__(self, **cells: tuple[str, list[SizeContrast], float]) -> None:
        self.rates = {name: rate for name, (_, _, rate) in cells.items()}
        planned = [
            SimpleNamespace(cell_id=name, volume=volume, parameters={}) for name, (volume, _, _) in cells.items()
        ]
        self.run = SimpleNamespace(cells=planned)
        self.results = tuple(
            SimpleNamespace(cell_id=name, size_contrasts=tuple(contrasts), volume_facts=SimpleNamespace(disk="sda"))
            for name, (_, contrasts, _) in cells.items()
        )

    def has_series(self, _: str) -> bool:
        return True

    def series(self, cell_id: str) -> dict[SeriesKey, Series]:
        if not self.rates[cell_id]:
            raise RunUnreadable("damaged")
        return series(self.rates[cell_id])


def of_cell(loaded: Any, number: int) -> tuple[SampledContrast, ...]:
    result = loaded.results[number]
    return contrasts_of_cell(loaded, result, align(series(loaded.rates[result.cell_id])))


def rates(contrasts: tuple[SampledContrast, ...]) -> list[float]:
    return [level.iops for level in levels_of(contrasts)]


def test_a_later_cell_has_the_contrast_of_the_volumes_first_one() -> None:
    loaded = Loaded(first=("a", [contrast("")], 150.0), foreign=("b", [contrast("")], 90.0), later=("a", [], 140.0))
    assert rates(of_cell(loaded, 2)) == [pytest.approx(150)]
    assert rates(of_cell(loaded, 0)) == [pytest.approx(150)]
    assert rates(of_cell(loaded, 1)) == [pytest.approx(90)]


def test_a_step_has_its_own_contrasts_first() -> None:
    loaded = Loaded(only=("a", [contrast("fio"), contrast("reads"), contrast("")], 150.0))
    every = of_cell(loaded, 0)
    assert [one.contrast.step for one in contrasts_of_step(every, "fio/randread-16KiB")] == ["fio"]
    assert [one.contrast.step for one in contrasts_of_step(every, "oltp")] == [""]
    assert [one.follows for one in every] == [True, True, False]


def test_a_first_cell_that_cannot_be_read_leaves_the_others_without_a_contrast() -> None:
    loaded = Loaded(first=("a", [contrast("")], 0.0), later=("a", [], 150.0))
    assert of_cell(loaded, 1) == ()


@pytest.mark.parametrize(("begin_s", "intervals"), [(10.0, 4), (10.1, 3), (10.9, 3), (16.5, 3), (18.0, 2)])
def test_only_whole_intervals_count(begin_s: float, intervals: int) -> None:
    (only,) = of_cell(Loaded(only=("a", [contrast("", begin_s=begin_s)], 150.0)), 0)
    assert len(only.grid) == intervals
