"""series.parquet: written whole or not at all, read back exactly, gaps stay gaps."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

from volbench.core.records.series import SeriesRow
from volbench.errors import RunUnreadable
from volbench.results.store import scratch_columns
from volbench.results.store import series as series_module
from volbench.results.store.series import (
    SeriesKey,
    SeriesWriter,
    bucketed,
    read_series,
    write_series,
)

IOPS = SeriesKey(source="diskstats", metric="reads_per_s", entity="vda")
TPS = SeriesKey(source="client", metric="tps")


def rows_of(key: SeriesKey, values: dict[float, float]) -> list[SeriesRow]:
    return [
        SeriesRow(t_s=t, source=key.source, metric=key.metric, entity=key.entity, value=value)
        for t, value in values.items()
    ]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "series.parquet"
    rows = rows_of(IOPS, {1.0: 10.0, 2.0: 30.0, 3.0: 20.0, 7.0: 5.0}) + rows_of(TPS, {1.0: 1.5, 2.0: 0.0})
    write_series(path, rows)
    return path


def test_what_is_written_is_read(file: Path) -> None:
    """Full resolution, each series by itself; a zero is a value."""
    series = read_series(file)
    assert set(series) == {IOPS, TPS}
    assert series[IOPS].t_s.tolist() == [1, 2, 3, 7]
    assert series[TPS].value.tolist() == [1.5, 0.0]


def test_only_what_is_asked_for_is_read(file: Path) -> None:
    """By source, by metric, and by window, whose start is outside and whose end is inside."""
    assert set(read_series(file, sources=["client"])) == {TPS}
    assert set(read_series(file, metrics=["reads_per_s"])) == {IOPS}
    assert read_series(file, metrics=["reads_per_s"], window_s=(1.0, 3.0))[IOPS].t_s.tolist() == [2, 3]
    assert read_series(file, sources=[]) == {}


def test_keys_are_sorted(file: Path) -> None:
    """One key for each series, in an order that does not depend on the rows'."""
    assert list(read_series(file)) == [TPS, IOPS]


def test_buckets_keep_extremes_and_gaps(file: Path) -> None:
    """Mean, lowest and highest of each bucket; a bucket without samples is a gap, not zero."""
    result = bucketed(read_series(file)[IOPS], window_s=(0.0, 8.0), width_s=2.0)
    np.testing.assert_allclose(result.mean, [20, 20, np.nan, 5])
    np.testing.assert_allclose(result.low, [10, 20, np.nan, 5])
    np.testing.assert_allclose(result.high, [30, 20, np.nan, 5])


@pytest.mark.parametrize("width_s", [1.0, 0.1, 0.3, 7.7])
def test_buckets_agree_with_the_samples(tmp_path: Path, width_s: float) -> None:
    """Bucket means weighted by their samples give the mean of all, whatever the width."""
    path = tmp_path / "series.parquet"
    ticks = {round(i * 0.1, 6): float(i % 17) for i in range(1, 1001)}
    write_series(path, rows_of(TPS, ticks))
    result = bucketed(read_series(path)[TPS], window_s=(0.0, 100.0), width_s=width_s)
    edges = result.t0_s + width_s * np.arange(len(result.mean) + 1)
    samples = np.histogram(np.array(list(ticks)) - 1e-5, edges)[0]
    assert samples.sum() == 1000
    assert np.nansum(result.mean * samples) / 1000 == pytest.approx(np.mean(list(ticks.values())))
    assert np.nanmax(result.high) == 16


def test_too_many_buckets_are_refused(file: Path) -> None:
    """A limit on everything."""
    with pytest.raises(ValueError, match="buckets"):
        bucketed(read_series(file)[IOPS], window_s=(0.0, 86_400.0), width_s=0.001)


def test_row_groups_go_to_disk_as_they_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long cell is not kept in memory; the file has its name only at the end."""
    monkeypatch.setattr(SeriesWriter, "rows_in_group", 1_000)
    path = tmp_path / "series.parquet"
    with SeriesWriter(path) as writer:
        rows = rows_of(TPS, {float(i): 1.0 for i in range(SeriesWriter.rows_in_group + 1)})
        writer.append(rows)
        assert writer.rows_written == SeriesWriter.rows_in_group
        assert not path.exists()
    assert writer.rows_written == len(rows)
    assert len(read_series(path)[TPS].t_s) == len(rows)


def test_a_failure_while_writing_leaves_the_old_file(file: Path) -> None:
    """Neither a half file nor a leftover."""
    before = file.read_bytes()

    def rows_until_failure() -> Iterator[SeriesRow]:
        yield from rows_of(TPS, {1.0: 1.0})
        raise KeyError

    with pytest.raises(KeyError):
        write_series(file, rows_until_failure())
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["series.parquet"]


def test_an_empty_table_is_readable(tmp_path: Path) -> None:
    """A cell that was over before the first tick."""
    path = tmp_path / "series.parquet"
    assert write_series(path, []) == 0
    assert read_series(path) == {}


@pytest.mark.parametrize("keep", [0, 10, 300])
def test_a_truncated_file_is_named(file: Path, keep: int) -> None:
    """Expected failure with the file's name, not a stack trace of a library."""
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(RunUnreadable, match=r"series\.parquet"):
        read_series(file)


def test_damage_in_the_middle_is_named(file: Path) -> None:
    """The footer is whole and the pages are not."""
    data = bytearray(file.read_bytes())
    data[4:200] = bytes(196)
    file.write_bytes(bytes(data))
    with pytest.raises(RunUnreadable, match=r"series\.parquet"):
        read_series(file)


def test_a_foreign_file_and_no_file_are_named(tmp_path: Path) -> None:
    """A Parquet file of somebody else; none at all."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"t_s": [1.0]}), tmp_path / "foreign.parquet")
    with pytest.raises(RunUnreadable, match="columns missing"):
        read_series(tmp_path / "foreign.parquet")
    with pytest.raises(RunUnreadable, match="no such file"):
        read_series(tmp_path / "absent.parquet")


def test_series_that_were_sampled_together_have_their_times_once(tmp_path: Path) -> None:
    """Half of a long cell's memory was times; a source of its own clock keeps its own."""
    path = tmp_path / "series.parquet"
    ticks = {float(tick): float(tick) for tick in range(1_000)}
    names = [f"counter_{number}_per_s" for number in range(20)]
    keys = [SeriesKey(source="performance_schema", metric=metric) for metric in names]
    late = {tick + 0.5: value for tick, value in ticks.items()}
    write_series(path, [row for key in keys for row in rows_of(key, ticks)] + rows_of(TPS, late))
    result = read_series(path)
    for key in keys:
        assert result[key].t_s is result[keys[0]].t_s
        assert result[key].t_s.tolist() == result[key].value.tolist() == list(ticks)
    assert result[TPS].t_s.tolist() == list(late)
    assert result[keys[0]].t_s.base is None, "the file's column is not kept for it"


@pytest.mark.parametrize("on_disk_from", [1, 1 << 30])
@pytest.mark.parametrize("by_tick", [True, False])
def test_samples_of_a_long_file_are_those_that_were_written(
    tmp_path: Path, by_tick: bool, on_disk_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the ends of the pieces in which a file is read, and in whichever order its rows are."""
    monkeypatch.setattr(scratch_columns, "ON_DISK_FROM", on_disk_from)
    path, generator = tmp_path / "series.parquet", np.random.default_rng(12)
    series = {
        SeriesKey(source=source, metric=f"m{number}"): np.cumsum(generator.uniform(0.5, 1.5, 20_000 - number))
        for source in ("client", "diskstats")
        for number in range(3)
    }
    rows = [row for key, t_s in series.items() for row in rows_of(key, {float(t): float(t) / 3 for t in t_s})]
    write_series(path, sorted(rows, key=attrgetter("t_s")) if by_tick else rows)
    result = read_series(path)
    for key, t_s in series.items():
        assert np.array_equal(result[key].t_s, t_s)
        assert np.array_equal(result[key].value, t_s / 3)
    window = read_series(path, metrics=["m1"], window_s=(100.0, 15_000.0))
    for key, samples in window.items():
        inside = (series[key] > 100) & (series[key] <= 15_000)
        assert np.array_equal(samples.t_s, series[key][inside])
    assert len(window) == 2


def test_samples_of_a_long_file_come_in_order_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another program has written them in none."""
    monkeypatch.setattr(scratch_columns, "ON_DISK_FROM", 1)
    path = tmp_path / "series.parquet"
    write_series(path, rows_of(TPS, {3.0: 30.0, 1.0: 10.0, 2.0: 20.0}))
    (samples,) = read_series(path).values()
    assert samples.t_s.tolist() == [1.0, 2.0, 3.0]
    assert samples.value.tolist() == [10.0, 20.0, 30.0]
    assert (
        samples.shifted(1.0).value.tolist() == samples.where(samples.t_s > 0).value.tolist() == [10.0, 20.0, 30.0]
    )


@pytest.mark.parametrize("counted_max", [0, 1 << 17])
def test_each_row_has_its_series_whether_codes_are_sorted_or_counted(
    file: Path, counted_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorting the names of all rows was a tenth of what a report of a long run takes."""
    monkeypatch.setattr(series_module, "_CODES_COUNTED", counted_max)
    codes = np.random.default_rng(4).integers(0, 40, 500) * 7
    distinct, positions = series_module._distinct(codes, 280)
    assert distinct == sorted(set(codes.tolist()))
    assert np.array(distinct)[positions].tolist() == codes.tolist()
    assert read_series(file)[IOPS].value.tolist() == [10.0, 30.0, 20.0, 5.0]


def test_few_codes_are_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "unique", lambda *_, **__: pytest.fail("sorted"))
    assert series_module._distinct(np.array([3, 1, 3]), 4)[1].tolist() == [1, 0, 1]
