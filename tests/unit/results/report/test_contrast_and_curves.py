"""Tables that put large files beside small ones and cold reads beside warm ones; curves of fio's points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from volbench.core.records.base import Scalar
from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow, Report, Summary, Timing, VolumeRow
from volbench.core.records.run import ComparisonSpec
from volbench.results.compare.compared_cells import compared_cells
from volbench.results.report.rows.verdict.comparisons import comparison_rows
from volbench.results.report.views.contrast import (
    LARGE,
    SMALL,
    TABLES,
    contrast_rows,
    contrast_sentences,
    markdown_lines,
    read_pairs,
)
from volbench.results.report.views.curves import curve_plots, step_curves

VOLUMES = ("ebs", "efs")


def cells_of(
    step: str,
    kind: str,
    values: Mapping[str, Mapping[str, float]],
    *,
    parameters: Mapping[str, Scalar] | None = None,
) -> Iterator[CellRow]:
    """Five cells on each volume around the stated values: metric -> volume -> value."""
    for repeat in range(1, 6):
        for volume in VOLUMES:
            yield CellRow(
                cell_id=f"{repeat:02d}-{volume}",
                volume=volume,
                step=step,
                kind=kind,
                parameters=dict(parameters or {}),
                block=repeat - 1,
                repeat=repeat,
                valid=True,
                metrics={
                    name: metric(name, of[volume] * (1 + (repeat - 3) / 100))
                    for name, of in values.items()
                    if volume in of
                },
            )


def report_of(*cells: Iterator[CellRow]) -> Report:
    rows = tuple(cell for of in cells for cell in of)
    return Report(
        run_id="r",
        suite="s",
        started_at="2026-03-02T09:30:00Z",
        finished_at=None,
        complete=True,
        volbench_version="0",
        summary=Summary(verdict="mixed", sentence=""),
        server=None,
        host={},
        timing=Timing(wall_s=1, measured_s=1),
        volumes=tuple(VolumeRow(name=name, kind="path", spec=f"path:/{name}") for name in VOLUMES),
        cells=rows,
        comparisons=comparison_rows(compared_cells(rows, VOLUMES, ComparisonSpec())),
    )


DD = ("dd/read_cold", "sequential", {"sequential_mib_per_s": {"ebs": 58.0, "efs": 55.0}})
WARM = ("dd/read_warm", "sequential", {"warm_read_mib_per_s": {"ebs": 8000.0, "efs": 4000.0}})
FILES = ("clone/create", "small_files", {"files_per_s": {"ebs": 170.0, "efs": 26.0}})
DROP = ("ddl/drop", "ddl", {"ddl_per_s": {"ebs": 8.0, "efs": 4.0}})
TABLE = ("ddl/create", "ddl", {"ddl_per_s": {"ebs": 20.0, "efs": 4.0}})


def test_large_and_small_files_stand_in_one_table_as_times_as_long() -> None:
    rows = contrast_rows(report_of(cells_of(*TABLE), cells_of(*FILES), cells_of(*DD), cells_of(*WARM)))
    assert [row.group for row in rows] == [LARGE, SMALL, TABLES]
    assert [row.slowdown["efs"] for row in rows] == pytest.approx([58 / 55, 170 / 26, 5.0], rel=0.01)
    for row in rows:
        low, high = row.slowdown_ci["efs"]
        assert low < row.slowdown["efs"] < high
    (sentence,) = contrast_sentences(rows)
    assert "for one large file 1.05 times as long, for small files 6.54 times as long" in sentence


def test_what_takes_less_time_is_shorter_and_a_part_of_the_steps_says_which() -> None:
    """`for MySQL's tables 0.458 times as long` came from the one phase of eight that both volumes had valid."""
    temporary = ("ddl/temporary", "ddl", {"ddl_per_s": {"ebs": 458.0, "efs": 1000.0}})
    lacking = ("ddl/drop", "ddl", {"ddl_per_s": {"ebs": 4.0}})
    slower = ("ddl/alter", "ddl", {"ddl_per_s": {"ebs": 4.0, "efs": 1.0}})
    steps = [DD, FILES, temporary, lacking]
    (sentence,) = contrast_sentences(contrast_rows(report_of(*(cells_of(*step) for step in steps))))
    assert "for MySQL's tables 1/2.18 as long (ddl/temporary alone: no more can be compared)" in sentence
    (sentence,) = contrast_sentences(contrast_rows(report_of(*(cells_of(*step) for step in (*steps, slower)))))
    assert "tables from 1/2.18 as long to 4.00 times as long (2 of 3 steps: no more can be" in sentence


def test_a_figure_without_a_verdict_says_so() -> None:
    """`1.89 times as long` was of a comparison that is open, and stood as a fact."""
    rows = contrast_rows(report_of(*(cells_of(*step) for step in (DD, FILES, TABLE, DROP))))
    (large, small, *tables) = (replace(row, undecided=()) for row in rows)
    is_open = frozenset(["efs"])
    (sentence,) = contrast_sentences([replace(large, undecided=is_open), small, *tables])
    assert "one large file 1.05 times as long (not decided), for small files 6.54 times as long, for" in sentence
    (sentence,) = contrast_sentences([large, small, tables[0], replace(tables[1], undecided=is_open)])
    assert "(1 of 2 not decided)" in sentence


def test_without_small_files_there_is_nothing_to_put_beside() -> None:
    assert contrast_rows(report_of(cells_of(*DD))) == ()
    assert contrast_rows(report_of(cells_of(*FILES), cells_of(*TABLE))) == ()


def test_the_unfair_pair_is_shown_as_one() -> None:
    cold = {
        "cold_read_mib_per_s": {"ebs": 120.0, "efs": 67.0},
        "warm_read_mib_per_s": {"ebs": 1800.0, "efs": 1700.0},
    }
    (pairs,) = read_pairs(report_of(cells_of("large", "cold_read", cold)))
    displayed = dict(pairs.pairs)
    assert displayed["cold against cold"] == pytest.approx(120 / 67)
    assert displayed["warm against warm"] == pytest.approx(18 / 17)
    assert displayed["unfair: ebs warm against efs cold"] == pytest.approx(1800 / 67)


def test_how_fast_a_volume_looks_is_said_as_any_change() -> None:
    """`unfair: a cold against b warm: 0.0732` stood in a list of times as fast."""
    cold = {"cold_read_mib_per_s": {"ebs": 20.0, "efs": 60.0}, "warm_read_mib_per_s": {"ebs": 900.0, "efs": 900.0}}
    text = "\n".join(markdown_lines(report_of(cells_of("large", "cold_read", cold)), str))
    assert "**Cold and warm reads: large, efs against ebs** (MiB/s)\n" in text
    assert "- cold against cold: ebs looks 1/3.00 as fast\n" in text
    assert "\nCold against cold is the change that the comparison states; " in text
    assert "- warm against warm: ebs looks as fast\n" in text
    assert "- unfair: ebs cold against efs warm: ebs looks 1/45.0 as fast\n" in text


def test_reads_of_phases_are_paired_too_and_a_missing_one_gives_no_pair() -> None:
    (pairs,) = read_pairs(report_of(cells_of("dd", "sequential", {}), cells_of(*DD), cells_of(*WARM)))
    assert (pairs.step, pairs.cold, pairs.warm) == ("dd", (58.0, 55.0), (8000.0, 4000.0))
    assert read_pairs(report_of(cells_of("dd", "sequential", {}), cells_of(*DD))) == ()


def test_markdown_has_both_tables_with_names_made_harmless() -> None:
    report = report_of(cells_of("dd", "sequential", {}), cells_of(*DD), cells_of(*WARM), cells_of(*FILES))
    text = "\n".join(markdown_lines(report, lambda name: name.replace("_", r"\_")))
    assert r"| small files | clone/create | files/s | 170/s | 26.0/s | × 6.54 [" in text
    assert "- unfair: ebs warm against efs cold: ebs looks 145 times as fast" in text
    assert "dd/read_cold" not in text
    assert "dd/read\\_cold" in text


def sweep(depths: tuple[int, ...]) -> Iterator[CellRow]:
    for depth in depths:
        values = {
            "fio_iops": {"ebs": min(3000.0, 1000.0 * depth), "efs": 500.0 * depth},
            "latency_ms_p50": {"ebs": depth / min(3.0, depth), "efs": 2.0},
            "latency_ms_p99": {"ebs": 3.0 * depth, "efs": 6.0},
        }
        yield from cells_of(
            "fio/randread-4KiB",
            "fio",
            values,
            parameters={"rw": "randread", "block_size_bytes": 4096, "iodepth": depth, "numjobs": 2},
        )


def test_points_of_a_sweep_become_curves_with_intervals_over_cells() -> None:
    (curves,) = step_curves(sweep((1, 4, 16)), VOLUMES)
    assert curves.depths == (2, 8, 32)
    point = curves.at("ebs", 32)
    assert point is not None
    assert point.middle["fio_iops"] == pytest.approx(3000)
    assert (point.low["fio_iops"], point.high["fio_iops"]) == pytest.approx((2940, 3060))
    rates, latencies = curve_plots(curves)
    assert [line.metric for line in latencies.lines] == ["latency_ms_p50", "latency_ms_p99"] * 2
    for line in rates.lines:
        assert [bar.at for bar in line.bars] == [0, 50, 100]
        for bar in line.bars:
            assert 0 <= bar.top < bar.middle < bar.bottom <= 100


def test_one_point_is_no_curve() -> None:
    assert step_curves(sweep((1,)), VOLUMES) == ()


def test_swept_parameters_of_cells_make_curves_of_their_own() -> None:
    cells = [
        cell.model_copy(update={"parameters": {**cell.parameters, "volume.replicas": replicas}})
        for replicas in (2, 3)
        for cell in sweep((1, 4))
    ]
    assert [curves.parameters for curves in step_curves(cells, VOLUMES)] == [
        "volume.replicas=2",
        "volume.replicas=3",
    ]
