"""The forecast of burst credits beside what came; and where fio's curves bend, in words."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.records.forecast import ForecastSpec
from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow, Report
from volbench.results.report.build import build_report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.render import render
from volbench.results.report.rows.forecast import forecast_text
from volbench.results.report.rows.saturation import curve_lines, curve_rows
from volbench.results.report.views.curves import step_curves
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RUN_FILE, RunDirectory


@pytest.fixture(scope="module")
def foretold(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A real volume that the suite says is a gp2 of 50 GiB; it never fell, and its dump took what it took."""
    directory = build_run(tmp_path_factory.mktemp("foretold"), Synthetic(volumes=(SyntheticVolume(name="a"),)))
    forecast = ForecastSpec.model_validate(
        {
            "step": "read-write",
            "iops": 3000,
            "dump": "dump",
            "dump_size": "3.6GB",
            "window": "1s",
            "volume": "ebs-gp2?size=50GiB",
        }
    )
    run = directory.run
    suite = run.suite.model_copy(update={"forecast": forecast})
    write_record(directory.path / RUN_FILE, run.model_copy(update={"suite": suite}))
    return RunDirectory.open(directory.path)


@pytest.fixture(scope="module")
def report(foretold: RunDirectory) -> Report:
    return build_report(foretold)


def test_what_did_not_happen_has_no_measurement_and_is_said(report: Report) -> None:
    fall = report.forecasts[0]
    assert fall.predicted_s == pytest.approx(5_400_000 / 2850)
    assert (fall.measured_s, fall.within_tolerance) == ((), None)
    assert f"did not happen within the step in any of {fall.cells} valid cells" in forecast_text(fall)
    assert "not measured in a valid cell" in forecast_text(fall.model_copy(update={"cells": 0}))


def test_a_dump_is_compared_with_its_forecast_and_its_window(report: Report) -> None:
    dump = report.forecasts[1]
    took = [c.metrics["dump_s"].value for c in report.cells if c.step == "dump" and c.valid]
    assert dump.measured_s == tuple(took)
    assert dump.predicted_s is not None
    assert dump.difference == pytest.approx(median(took) / dump.predicted_s - 1)
    assert dump.within_tolerance is False
    assert "does not fit its window" in dump.text


def test_reports_show_the_forecast(foretold: RunDirectory, report: Report) -> None:
    assert 'id="forecast"' in render(report, foretold, "html")
    assert "missed" in markdown(report)


def test_a_suite_without_a_forecast_has_none(pair_report: Report) -> None:
    assert pair_report.forecasts == ()


def fio_cell(volume: str, depth: int, iops: float, repeat: int, *, valid: bool = True) -> CellRow:
    return CellRow(
        cell_id=f"{repeat}-{volume}",
        volume=volume,
        step="fio/randread-4KiB",
        kind="fio",
        parameters={"rw": "randread", "block_size_bytes": 4096, "iodepth": depth, "numjobs": 1},
        block=repeat,
        repeat=repeat,
        valid=valid,
        metrics={
            "fio_iops": metric("fio_iops", iops),
            "latency_ms_mean": metric("latency_ms_mean", 1000 * depth / iops),
        },
    )


def test_a_step_with_lists_of_depths_is_no_point_of_a_curve() -> None:
    points = [fio_cell("gp2", depth, 1000.0 * depth, 1) for depth in (1, 2)]
    total = points[0].model_copy(update={"step": "fio", "parameters": {"iodepth": "1,2", "rw": "randread"}})
    assert [curves.step for curves in step_curves([total, *points], ["gp2"])] == ["fio/randread-4KiB"]
    assert len(curve_rows([total, *points], ["gp2"], confidence=0.95)) == 1


def test_a_curve_names_the_depth_from_which_requests_only_wait(tmp_path: Path) -> None:
    """1 ms alone and 4,000 IOPS: 4 under way; invalid cells do not count."""
    cells = [
        fio_cell("gp2", depth, min(4000.0, 1000.0 * depth), repeat)
        for depth in (1, 2, 4, 8, 16)
        for repeat in (1, 2)
    ]
    cells += [fio_cell("gp2", 1, 10.0, 3, valid=False)]
    cells += [fio_cell("rbd", depth, 1000.0 * depth, 1) for depth in (1, 2, 4)]
    gp2, rbd = curve_rows(cells, ["gp2", "rbd"], confidence=0.95)
    assert gp2.knee_depth == pytest.approx(4)
    assert [point.cells for point in gp2.points] == [2] * 5
    assert rbd.knee_depth is None
    output = list(curve_lines([gp2, rbd]))
    assert "saturated from about 4.00 requests in flight on" in output[0]
    assert "not saturated up to 4 requests" in output[1]
