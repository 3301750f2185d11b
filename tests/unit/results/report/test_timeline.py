"""Timelines: one clock, gaps stay gaps, stalls are found, percentiles of buckets come from merged histograms."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from histogram_files import read_histograms, write_histograms
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.records.latency_bins import LatencyBins, merge
from volbench.core.records.series import SeriesRow
from volbench.core.records.steps.oltp import OltpStep
from volbench.results.report.views.charts import panels_with_data
from volbench.results.report.views.panels import PANELS, chosen_series
from volbench.results.report.views.timeline import (
    CELLS_MAX,
    POINTS_MAX,
    POINTS_MIN,
    CellTimeline,
    as_json,
    cell_timeline,
    timelines,
)
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import HISTOGRAMS_FILE, SERIES_FILE, RunDirectory
from volbench.results.store.series import SeriesKey, write_series


def first_cell(directory: RunDirectory, points: int) -> CellTimeline:
    cell = directory.run.cells[0]
    result = directory.result(cell.cell_id)
    assert result is not None
    return cell_timeline(load_run(directory), cell, result, points=points)


@pytest.fixture
def stalling(tmp_path: Path) -> RunDirectory:
    volume = SyntheticVolume(name="a", stall_s=(30.0, 34.0))
    return build_run(
        tmp_path,
        Synthetic(volumes=(volume,), repeats=1, steps=(OltpStep(name="load", warmup_s=5, duration_s=200),)),
    )


def test_full_resolution_where_it_fits(stalling: RunDirectory) -> None:
    """Every sample, at its own time."""
    line = first_cell(stalling, points=1000).lines["queue.aqu"]
    assert len(line.t_s) == 205
    assert line.t_s[:3] == (7.0, 8.0, 9.0)
    assert line.low == ()


def test_buckets_where_it_does_not(stalling: RunDirectory) -> None:
    """Mean with extremes around it; the stall's full queue is still to be seen."""
    line = first_cell(stalling, points=140).lines["queue.aqu"]
    assert len(line.t_s) == 70
    known_values = [
        (low, mean, high) for low, mean, high in zip(line.low, line.value, line.high, strict=True) if mean
    ]
    assert all(low <= mean <= high for low, mean, high in known_values)  # type: ignore[operator]
    assert max(high for _, _, high in known_values if high is not None) == 8.0


@pytest.mark.parametrize("points", [1000, 60])
def test_stalls_are_found_at_any_resolution(stalling: RunDirectory, points: int) -> None:
    """Seconds without a finished transaction, joined."""
    assert first_cell(stalling, points).stalls_s == ((30.0, 34.0),)


def test_a_stall_has_no_latency(stalling: RunDirectory) -> None:
    """It is a gap in the latency and a zero in the throughput."""
    cell = first_cell(stalling, points=1000)
    latency = dict(zip(cell.lines["latency.p95"].t_s, cell.lines["latency.p95"].value, strict=True))
    throughput = dict(zip(cell.lines["throughput.tps"].t_s, cell.lines["throughput.tps"].value, strict=True))
    assert latency[32.0] is None
    assert throughput[32.0] == 0
    assert latency[36.0] is not None


def test_percentiles_of_buckets_are_those_of_merged_histograms(stalling: RunDirectory) -> None:
    """Not means of percentiles: one bucket over everything gives the quantile of everything."""
    cell = stalling.run.cells[0]
    rows = list(read_histograms(stalling.cell_dir(cell.cell_id) / HISTOGRAMS_FILE))
    line = first_cell(stalling, points=1).lines["latency.p99"]
    merged = merge(
        LatencyBins(
            edge_mult=row.edge_mult,
            edge_deduct=row.edge_deduct,
            counts=dict(zip(row.bin, row.count, strict=True)),
            below=row.below,
            above=row.above,
        )
        for row in rows
    )
    assert merged is not None
    expected = merged.quantile_ms(0.99)
    assert line.value == (pytest.approx(expected, rel=1e-3),)


def test_missing_samples_break_the_line(stalling: RunDirectory) -> None:
    """A sampler that was away for five ticks."""
    path = stalling.cell_dir(stalling.run.cells[0].cell_id) / SERIES_FILE
    ticks = [t for t in range(10, 60) if not 20 <= t < 25]
    write_series(
        path, [SeriesRow(t_s=t + 0.001 * (t % 3), source="cpu", metric="user_ratio", value=0.5) for t in ticks]
    )
    line = first_cell(stalling, points=1000).lines["cpu.user"]
    assert [t for t, v in zip(line.t_s, line.value, strict=True) if v is None] == [pytest.approx(22.0, abs=0.01)]
    assert sum(v is not None for v in line.value) == len(ticks)


def test_a_replicas_lag_is_drawn_apart_from_what_clients_of_the_volume_did(stalling: RunDirectory) -> None:
    """Also while it is stopped, when no heartbeat has a median; the source's rate is not the volume's."""
    path = stalling.cell_dir(stalling.run.cells[0].cell_id) / SERIES_FILE
    values = {"lag_ms_p50": (20.0, None, None, 2900.0), "lag_ms_max": (30.0, 950.0, 1950.0, 2950.0)}
    lag = [
        SeriesRow(t_s=10.0 + second, source="replica", metric=metric, value=value)
        for metric, by_second in values.items()
        for second, value in enumerate(by_second)
        if value is not None
    ]
    source = [SeriesRow(t_s=10.5, source="replica", metric="source_tps", value=50.0)]
    write_series(path, [*lag, *source])
    lines = first_cell(stalling, points=1000).lines
    assert lines["lag.max"].value == values["lag_ms_max"]
    assert [lines["lag.p50"].value[at] for at in (0, -1)] == [20.0, 2900.0]
    assert lines["source_tps.tps"].value == (50.0,)
    assert "throughput.tps" not in lines
    assert [panel.key for panel in panels_with_data(lines)][1:3] == ["lag", "source_tps"]


def test_a_gap_between_histograms_is_no_stall(stalling: RunDirectory) -> None:
    """Nothing known is not nothing finished."""
    path = stalling.cell_dir(stalling.run.cells[0].cell_id) / HISTOGRAMS_FILE
    rows = [row for row in read_histograms(path) if not 100 < row.t_s <= 105]
    write_histograms(path, rows)
    assert first_cell(stalling, points=1000).stalls_s == ((30.0, 34.0),)
    stalled = [replace(r, events=0, bin=(), count=()) if 98 < r.t_s <= 107 else r for r in rows]
    write_histograms(path, stalled)
    assert first_cell(stalling, points=1000).stalls_s == ((30.0, 34.0), (98.0, 100.0), (105.0, 107.0))


def test_windows_start_with_their_warm_up(stalling: RunDirectory) -> None:
    """From the phases: warm-up from 6, measured 11 to 211."""
    (window,) = first_cell(stalling, points=10).windows
    assert (window.from_s, window.t0_s, window.t1_s) == (6.0, 11.0, 211.0)


def test_a_cell_without_tables_has_no_lines(stalling: RunDirectory) -> None:
    """Its step failed before the first sample."""
    directory = stalling.cell_dir(stalling.run.cells[0].cell_id)
    (directory / SERIES_FILE).unlink()
    (directory / HISTOGRAMS_FILE).unlink()
    assert first_cell(stalling, points=10).lines == {}


def test_the_whole_is_bounded(pair: RunDirectory) -> None:
    """Fewer points when less may be shown; valid JSON without NaN."""
    for values_max, most in ((110_000, POINTS_MAX), (1, POINTS_MIN)):
        cells = timelines(load_run(pair), values_max=values_max).cells
        assert len(cells) == 10 <= CELLS_MAX
        sums = [sum(v is not None for v in line.value) for cell in cells for line in cell.lines.values()]
        assert max(sums) <= most
        assert json.loads(json.dumps(as_json(cells, ["a", "b"]), allow_nan=False))["volumes"] == ["a", "b"]


def test_lines_prefer_the_volumes_disk_and_the_first_source() -> None:
    """Of several devices the one behind the data; cgroup counts only where the device has none."""
    keys = [
        SeriesKey(source="cgroup_io", metric="reads_per_s", entity="nvme9n1"),
        SeriesKey(source="diskstats", metric="reads_per_s", entity="nvme0n1"),
        SeriesKey(source="diskstats", metric="reads_per_s", entity="nvme1n1"),
    ]
    assert dict(chosen_series(keys, "nvme1n1"))["iops.reads"] == keys[2]
    assert dict(chosen_series(keys, None))["iops.reads"] == keys[1]
    assert dict(chosen_series(keys[:1], "nvme1n1"))["iops.reads"] == keys[0]


def test_panels_are_told_apart() -> None:
    """Keys are unique, every panel has a unit and a line."""
    assert len({panel.key for panel in PANELS}) == len(PANELS)
    for panel in PANELS:
        assert panel.unit
        assert len({line.key for line in panel.lines}) == len(panel.lines) > 0
    assert not np.any(["." in panel.key for panel in PANELS])
