"""Storage metrics of a step: means over time, waiting times by operations, absent where no device was sampled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from volbench.core.records.series import SeriesRow
from volbench.results.compare.cell_metrics import storage_metrics
from volbench.results.store.series import write_series


def metrics_of(folder: Path, **values: Mapping[float, float]) -> dict[str, float]:
    path = folder / "series.parquet"
    write_series(
        path,
        [
            SeriesRow(t_s=t_s, source="diskstats", metric=metric, value=value, entity="sda")
            for metric, by_tick in values.items()
            for t_s, value in by_tick.items()
        ],
    )
    return {name: metric.value for name, metric in storage_metrics(path, (10.0, 20.0)).items()}


def test_without_a_device_every_metric_is_absent(tmp_path: Path) -> None:
    path = tmp_path / "series.parquet"
    write_series(path, [SeriesRow(t_s=11.0, source="cpu", metric="user_ratio", value=0.5)])
    assert storage_metrics(path, (10.0, 20.0)) == {}


def test_names_and_units_are_the_catalogues(tmp_path: Path) -> None:
    path = tmp_path / "series.parquet"
    names = {
        "reads_per_s": ("iops_read", "1/s"),
        "writes_per_s": ("iops_write", "1/s"),
        "read_mib_per_s": ("read_mib_per_s", "MiB/s"),
        "write_mib_per_s": ("write_mib_per_s", "MiB/s"),
        "aqu_sz": ("queue_depth", "1"),
        "util_ratio": ("device_util_ratio", "1"),
    }
    write_series(path, [SeriesRow(t_s=11.0, source="diskstats", metric=name, value=2.5) for name in names])
    result = storage_metrics(path, (10.0, 20.0))
    assert {name: metric.unit for name, metric in result.items()} == dict(names.values())
    assert {metric.value for metric in result.values()} == {2.5}


def test_only_the_window_counts(tmp_path: Path) -> None:
    assert metrics_of(tmp_path, reads_per_s={10.0: 999, 11.0: 10, 12.0: 20, 21.0: 999}) == {"iops_read": 15}


def test_of_stretches_what_lies_between_them_does_not_count(tmp_path: Path) -> None:
    """A dump that ran in the middle of a load is not in the load's figures without it."""
    path = tmp_path / "series.parquet"
    by_tick = {11.0: 10, 12.0: 10, 13.0: 900, 14.0: 900, 15.0: 40, 16.0: 40, 17.0: 40}
    names = ("reads_per_s", "r_await_ms")
    write_series(
        path,
        [
            SeriesRow(t_s=t_s, source="diskstats", metric=name, value=value, entity="sda")
            for name in names
            for t_s, value in by_tick.items()
        ],
    )
    result = storage_metrics(path, (10.0, 17.0), ((10.1, 12.1), (14.1, 17.0)))
    assert result["iops_read"].value == pytest.approx((2 * 10 + 3 * 40) / 5)
    assert result["read_await_ms"].value == pytest.approx((2 * 10 * 10 + 3 * 40 * 40) / (2 * 10 + 3 * 40))


def test_a_mean_is_over_time(tmp_path: Path) -> None:
    """The sample after two missed ticks is about three seconds."""
    result = metrics_of(tmp_path, reads_per_s={11.0: 10, 12.0: 10, 13.0: 10, 16.0: 40})
    assert result == {"iops_read": pytest.approx((3 * 10 + 3 * 40) / 6)}


def test_waiting_times_are_weighted_by_operations(tmp_path: Path) -> None:
    """One slow read in a quiet second does not outweigh 999 fast ones."""
    result = metrics_of(tmp_path, reads_per_s={11.0: 999, 12.0: 1}, r_await_ms={11.0: 1.0, 12.0: 501.0})
    assert result["read_await_ms"] == pytest.approx(1.5)


def test_a_waiting_time_after_missed_ticks_weighs_all_its_operations(tmp_path: Path) -> None:
    result = metrics_of(
        tmp_path,
        writes_per_s={11.0: 100, 12.0: 100, 13.0: 100, 16.0: 100},
        w_await_ms={11.0: 1.0, 12.0: 1.0, 13.0: 1.0, 16.0: 3.0},
    )
    assert result["write_await_ms"] == pytest.approx(2.0)


def test_without_operations_there_is_no_waiting_time(tmp_path: Path) -> None:
    assert "read_await_ms" not in metrics_of(tmp_path, reads_per_s={11.0: 0.0, 12.0: 0.0})
