"""The forecast of burst credits beside what came; and where fio's curves bend, in words."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from synthetic_run import Synthetic, SyntheticVolume, build_run

from volbench.core.records.forecast import ForecastSpec
from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow, FindingRow, ForecastRow, Report
from volbench.results.explain.case import Case
from volbench.results.report.build import build_report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.render import render
from volbench.results.report.rows.forecast import forecast_rows, forecast_text, is_emptied, judged
from volbench.results.report.rows.prediction import missed_sentences
from volbench.results.report.rows.saturation import curve_lines, curve_rows
from volbench.results.report.views.curves import step_curves
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.files import write_record
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RUN_FILE, RunDirectory
from volbench.results.store.series import SeriesKey


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
    assert len(fall.endured_s) == fall.cells
    assert f"did not happen within the step in any of {fall.cells} valid cells, whose load " in forecast_text(fall)
    assert "not measured in a valid cell" in forecast_text(fall.model_copy(update={"cells": 0}))


def test_credits_that_were_to_run_out_and_did_not_are_a_miss(foretold: RunDirectory) -> None:
    """It was no miss and no hit, so that the score of the forecasts was of those that came."""
    run = foretold.run
    assert run.suite.forecast is not None
    small = run.suite.forecast.model_copy(update={"volume": "ebs-gp2?size=50GiB&time_scale=1000"})
    changed = run.model_copy(update={"suite": run.suite.model_copy(update={"forecast": small})})
    loaded = dataclasses.replace(load_run(foretold), run=changed)
    report = build_report(foretold)
    fall = forecast_rows(loaded, report.cells)[0]
    assert fall.predicted_s is not None
    assert fall.predicted_s * 1.05 < min(fall.endured_s)
    assert (fall.measured_s, fall.difference, fall.within_tolerance) == ((), None, False)
    assert re.search(
        r"did not happen within the step in any of \d+ valid cells, whose load lasted .*, missed",
        forecast_text(fall),
    )
    dump = report.forecasts[1]
    (text,) = missed_sentences((), (fall, dump))
    assert text.startswith("2 of 2 predictions were missed; the farthest: a: credits run out: forecast ")
    assert text.endswith(" IOPS).")
    page = render(report.model_copy(update={"forecasts": (fall,)}), foretold, "html")
    assert '<b class="verdict worse">missed</b>' in page


@pytest.mark.parametrize(
    ("predicted_s", "measured_s", "endured_s", "difference", "within"),
    [
        (20.0, (20.5, 20.5, 21.5), (), 0.025, True),
        (20.0, (20.5, 20.5), (60.0,), 0.025, True),
        (20.0, (20.5,), (60.0, 60.0), None, False),
        (20.0, (), (60.0,), None, False),
        (20.0, (), (20.9,), None, None),
        (20.0, (), (10.0,), None, None),
        (20.0, (), (), None, None),
        (None, (), (60.0,), None, None),
        (None, (30.0,), (60.0,), None, False),
        (0.0, (30.0,), (), None, None),
    ],
)
def test_a_forecast_is_judged_by_all_cells_that_outlasted_its_time(
    predicted_s: float | None,
    measured_s: tuple[float, ...],
    endured_s: tuple[float, ...],
    difference: float | None,
    *,
    within: bool | None,
) -> None:
    """Of cells in which it happened alone, the late ones were left out; `never` was never wrong."""
    result = judged(predicted_s, measured_s, endured_s)
    assert result == (difference if difference is None else pytest.approx(difference), within)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"measured_s": (20.5, 20.5), "endured_s": (60.0,), "difference": 0.025, "within_tolerance": True},
            "measured 20.5 s, in 2 of 3 cells (+2.5 %, met); under load",
        ),
        (
            {"measured_s": (20.5,), "endured_s": (60.0, 60.0), "within_tolerance": False},
            "measured in 1 of 3 cells only (missed); under load",
        ),
        (
            {"predicted_s": None, "measured_s": (20.5,), "within_tolerance": False},
            "forecast never, measured 20.5 s (missed); under load",
        ),
        (
            {"endured_s": (60.0,), "within_tolerance": False},
            "did not happen within the step in the valid cell, whose load lasted 60 s, missed (under load)",
        ),
    ],
)
def test_a_forecast_says_in_how_many_cells_it_came(changes: dict[str, object], text: str) -> None:
    row = {
        "volume": "a",
        "event": "credits run out",
        "predicted_s": 20.0,
        "measured_s": (),
        "cells": 1,
        "text": "under load",
    }
    assert forecast_text(ForecastRow.model_validate({**row, **changes})).endswith(text)


def test_a_cell_whose_volume_says_that_its_credits_are_spent_did_not_endure() -> None:
    """No queue showed the end of the burst, and the volume's own counter did."""
    spent, full = (
        Case(name="load", grid=grid_of(balance), cell_grid=grid_of(balance), kind="oltp")
        for balance in (np.concatenate([np.linspace(100, 0, 20), np.zeros(20)]), np.linspace(100, 60, 40))
    )
    assert (is_emptied(spent), is_emptied(full)) == (True, False)


def grid_of(balance: Floats) -> Grid:
    key = SeriesKey(source="emulator", metric="balance_percent", entity="volume.credits")
    return Grid(t_s=np.arange(1.0, len(balance) + 1), width_s=1.0, columns={key: balance})


def test_a_dump_whose_size_is_not_said_has_no_forecast(foretold: RunDirectory) -> None:
    """It was forecast never to end."""
    run = foretold.run
    assert run.suite.forecast is not None
    unsized = run.suite.forecast.model_copy(update={"dump_size_bytes": None})
    changed = run.model_copy(update={"suite": run.suite.model_copy(update={"forecast": unsized})})
    rows = forecast_rows(dataclasses.replace(load_run(foretold), run=changed), build_report(foretold).cells)
    assert [row.event for row in rows] == ["credits run out"]


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


@pytest.mark.parametrize(
    ("causes", "whose"),
    [
        ({}, "whether that limit is the volume's or this machine's was not found"),
        ({"storage.iops_limit": 0.3}, "whether that limit is the volume's or this machine's was not found"),
        ({"storage.iops_limit": 0.85}, "the limit is the volume's (storage.iops_limit)"),
        ({"cpu.server_saturated": 0.9}, "the limit is not the volume's: the server has no CPU left"),
        (
            {"storage.iops_limit": 0.5, "cpu.server_saturated": 0.9},
            "the limit may be the volume's (storage.iops_limit), and the server has no CPU left",
        ),
    ],
)
def test_a_curve_says_whose_limit_it_meets(causes: dict[str, float], whose: str) -> None:
    """19,000 IOPS of 12 disks that may do 36,000 were printed as where the volume is saturated."""
    cells = [fio_cell("rbd", depth, min(4000.0, 1000.0 * depth), 1) for depth in (1, 2, 4, 8, 16)]
    findings = [
        FindingRow(cause=cause, volume="rbd", step="fio/randread-4KiB", cell_ids=("1",), confidence=confidence)
        for cause, confidence in causes.items()
    ]
    (row,) = curve_rows(cells, ["rbd"], findings, confidence=0.95)
    assert row.text.endswith(f"; {whose}")
