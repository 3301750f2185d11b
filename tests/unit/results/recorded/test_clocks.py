"""CloudWatch's UTC and a host's times of day on one axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from volbench.errors import UsageError
from volbench.results.recorded.clocks import fitting_shift, on_one_axis, utc_offset_s
from volbench.results.recorded.parsed import DAY_S, Recorded
from volbench.results.stats.grid import Floats
from volbench.results.store.series import Series, SeriesKey

WRITES = "writes_per_s"
JULY_2026_S = 1_782_864_000.0  # 2026-07-01T00:00Z


def recording(
    source: str, t_s: NDArray[np.floating[Any]], value: Floats, *, zoned: bool = False, metric: str = WRITES
) -> Recorded:
    key = SeriesKey(source=source, metric=metric, entity="x")
    return Recorded(
        series={key: Series(t_s=t_s.astype(np.float64), value=value)},
        clocked=True,
        midnight_epoch_s=JULY_2026_S if zoned else None,
    )


def both(values: Floats, *, shift_s: float, host_interval_s: float = 600.0) -> tuple[Recorded, Recorded]:
    """The same rates as a host writes them and as CloudWatch does, a minute a point, from 05:00 UTC on."""
    ends_s = 5 * 3600.0 + 60.0 * np.arange(1, len(values) + 1)
    step = round(host_interval_s / 60)
    host_ends = ends_s[step - 1 :: step]
    host = values[: len(host_ends) * step].reshape(-1, step).mean(axis=1)
    return recording("diskstats", host_ends + shift_s + 1.0, host), recording(
        "cloudwatch", ends_s, values, zoned=True
    )


@pytest.mark.parametrize("hours", [-8.0, -3.5, 0.0, 1.0, 5.75, 9.0, 13.0])
@pytest.mark.parametrize("host_interval_s", [60.0, 600.0])
def test_the_zone_is_the_one_where_both_count_the_same(hours: float, host_interval_s: float) -> None:
    rng = np.random.default_rng(3)
    values = np.repeat(rng.lognormal(1, 0.5, 24), 10)
    host, volume = both(values, shift_s=hours * 3600, host_interval_s=host_interval_s)
    fit = fitting_shift([host], [volume])
    assert fit is not None
    assert fit.shift_s == hours * 3600
    axis = on_one_axis({"sar.txt": host, "cw.json": volume})
    moved, (note,) = axis.recordings, axis.notes
    (series,) = moved["cw.json"].series.values()
    assert series.t_s[0] == pytest.approx(5 * 3600 + 60 + hours * 3600)
    assert "fit CloudWatch's" in note


def test_a_steady_load_fits_no_zone() -> None:
    host, volume = both(np.full(240, 50.0), shift_s=9 * 3600)
    assert fitting_shift([host], [volume]) is None
    (note,) = on_one_axis({"sar.txt": host, "cw.json": volume}).notes
    assert "--timezone states theirs" in note


def test_other_operations_fit_no_zone() -> None:
    """False fits of a host and another volume: none in 200 pairs that have nothing to do with each other."""
    rng = np.random.default_rng(11)
    false = 0
    for _ in range(200):
        first, second = (np.repeat(rng.lognormal(1, 0.4, 24), 10) for _ in range(2))
        host, _ = both(first, shift_s=0)
        _, volume = both(second, shift_s=0)
        false += fitting_shift([host], [volume]) is not None
    assert false == 0


def test_the_zone_that_is_given_counts_and_summer_time_with_it() -> None:
    host, volume = both(np.full(240, 50.0), shift_s=2 * 3600)
    axis = on_one_axis({"sar.txt": host, "cw.json": volume}, "Europe/Berlin")
    moved, (note,) = axis.recordings, axis.notes
    (series,) = moved["cw.json"].series.values()
    assert series.t_s[0] == 7 * 3600 + 60  # summer time on that day
    assert "Europe/Berlin" in note
    assert utc_offset_s("Europe/Berlin", JULY_2026_S - 180 * DAY_S) == 3600
    assert utc_offset_s("-03:30", 0.0) == -3.5 * 3600
    assert utc_offset_s("+0900", 0.0) == 9 * 3600
    for wrong in ("Mars/Olympus", "+25:00", "../../etc/passwd"):
        with pytest.raises(UsageError, match="not known"):
            utc_offset_s(wrong, 0.0)


def test_days_are_those_that_overlap() -> None:
    """20:00 UTC is 05:00 of the next day in Japan, which is the first day of the host's file."""
    ends_s = 20 * 3600.0 + 60.0 * np.arange(1, 121)
    volume = recording("cloudwatch", ends_s, np.full(120, 5.0), zoned=True)
    host = recording("diskstats", 5 * 3600.0 + 60.0 * np.arange(1, 121), np.full(120, 5.0))
    moved = on_one_axis({"sar.txt": host, "cw.json": volume}, "Asia/Tokyo").recordings
    (series,) = moved["cw.json"].series.values()
    assert series.t_s[0] == 5 * 3600 + 60
    alone = on_one_axis({"cw.json": volume}, "Asia/Tokyo").recordings
    (series,) = alone["cw.json"].series.values()
    assert series.t_s[0] == 5 * 3600 + 60


def test_files_that_begin_on_other_days_share_an_axis() -> None:
    later = Recorded(
        series=recording("cloudwatch", np.array([60.0]), np.array([1.0]), metric="reads_per_s").series,
        clocked=True,
        midnight_epoch_s=JULY_2026_S + DAY_S,
    )
    first = recording("cloudwatch", np.array([DAY_S - 60.0]), np.array([1.0]), zoned=True)
    moved = on_one_axis({"a.json": first, "b.json": later}).recordings
    times = {name: next(iter(value.series.values())).t_s[0] for name, value in moved.items()}
    assert times == {"a.json": DAY_S - 60, "b.json": DAY_S + 60}
