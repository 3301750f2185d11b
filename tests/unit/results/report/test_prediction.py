"""Metrics that a suite predicts before the run, beside what the run measured."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from pydantic import ValidationError
from synthetic_run import Synthetic, SyntheticVolume, build_run

from sentences import plain
from volbench.core.records.forecast import ForecastSpec, Prediction
from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow, ForecastRow
from volbench.results.report.build import build_report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.report.render import render
from volbench.results.report.rows.prediction import (
    mark_text,
    missed_sentences,
    prediction_lines,
    prediction_rows,
    prediction_text,
)
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RUN_FILE, RunDirectory

DERIVATION = "one read-ahead of 128 KiB a round trip of 1.9 ms"


def prediction(**keys: object) -> Prediction:
    data = {"volume": "b", "step": "cold", "metric": "cold_read_mib_per_s", "value": 65.0, "derivation": DERIVATION}
    return Prediction.model_validate({**data, **keys})


def cell(volume: str, value: float, *, valid: bool = True, depth: int = 1, step: str = "cold") -> CellRow:
    return CellRow(
        cell_id=f"{volume}-{value}",
        volume=volume,
        step=step,
        kind="cold_read",
        parameters={"iodepth": depth},
        block=0,
        repeat=0,
        valid=valid,
        metrics={"cold_read_mib_per_s": metric("cold_read_mib_per_s", value)},
    )


def row_of(spec: Prediction, *cells: CellRow):
    return prediction_rows(ForecastSpec(predictions=(spec,)), cells)[0]


@pytest.mark.parametrize(("measured", "met"), [(77.9, True), (78.1, False), (52.1, True), (51.9, False)])
def test_a_prediction_is_met_within_twenty_per_cent(measured: float, met: bool) -> None:
    row = row_of(prediction(), cell("b", measured), cell("a", 1000.0))
    assert row.measured == measured
    assert row.within_tolerance is met
    assert ("met" if met else "missed") in prediction_text(row)


@pytest.mark.parametrize(
    ("measured", "mark"),
    [
        (65.0, "met"),
        (84.0, "met"),
        (54.0, "missed"),
        (101.0, "missed"),
    ],
)
def test_a_stated_interval_judges_in_place_of_the_twenty_per_cent(measured: float, mark: str) -> None:
    """Predicted are 65 MiB/s, 60 to 100: 84 is 29 % more, and 54 is 17 % less."""
    assert mark_text(row_of(prediction(interval=(60.0, 100.0)), cell("b", measured))) == mark


def test_the_range_that_decides_stands_on_the_line() -> None:
    """`+29 %, met` stood above `-9.7 %, missed`, and the ranges that were asked were nowhere."""
    wide = row_of(prediction(interval=(60.0, 100.0)), cell("b", 84.0))
    assert "forecast 65.0 MiB/s [60.0 to 100 MiB/s], measured 84.0 MiB/s (+29 %, met)" in prediction_text(wide)
    assert "[52.0 to 78.0 MiB/s]" in prediction_text(row_of(prediction(), cell("b", 84.0)))
    ratio = row_of(prediction(against="a", value=0.25), cell("a", 100.0), cell("b", 40.0))
    assert "forecast × 1/4.00 [× 1/3.33 to × 1/5.00], measured × 1/2.50 (+60 %, missed)" in prediction_text(ratio)


def test_valid_cells_count_and_disturbed_ones_only_where_there_are_no_others() -> None:
    assert row_of(prediction(), cell("b", 60.0), cell("b", 10.0, valid=False)).measured == 60.0
    disturbed = row_of(prediction(), cell("b", 60.0, valid=False))
    assert (disturbed.measured, disturbed.valid) == (60.0, False)
    assert "disturbed" in prediction_text(disturbed)


def test_a_ratio_of_a_compared_pair_is_that_of_its_comparison(tmp_path: Path) -> None:
    """`× 1.03` stood in the table of predictions, `+9.9 %` in that of comparisons: one pair, one metric."""
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="b", speed=0.6))
    report = build_report(build_run(tmp_path, Synthetic(volumes=volumes, noise=0.2)))
    compared = next(row for row in report.comparisons if row.metric == "cold_read_mib_per_s")
    (row,) = prediction_rows(
        ForecastSpec(predictions=(prediction(against="a", value=0.5),)), report.cells, report.comparisons
    )
    assert compared.ratio is not None
    assert row.measured == pytest.approx(compared.ratio)
    assert row.measured != pytest.approx((compared.candidate_value or 0) / (compared.baseline_value or 1), rel=1e-6)
    assert row.difference == pytest.approx(compared.ratio / 0.5 - 1)


def test_a_ratio_without_a_comparison_is_of_medians_and_needs_both_volumes() -> None:
    ratio = prediction(against="a", value=0.5)
    assert row_of(ratio, cell("a", 100.0), cell("b", 40.0), cell("b", 60.0)).measured == pytest.approx(0.5)
    missing = row_of(ratio, cell("b", 40.0))
    assert (missing.measured, missing.within_tolerance) == (None, None)
    assert "not measured" in prediction_text(missing)


def test_parameters_choose_the_row() -> None:
    deep = prediction(parameters={"iodepth": 64})
    assert row_of(deep, cell("b", 5.0), cell("b", 65.0, depth=64)).measured == 65.0


def test_an_input_is_neither_met_nor_missed() -> None:
    row = row_of(prediction(input=True), cell("b", 65.0))
    assert row.within_tolerance is None
    assert "input" in prediction_text(row)


def test_what_is_met_and_far_from_what_was_reported_says_so() -> None:
    """A clone of 94.4 files a second was called met beside a report of 20.5."""
    row = row_of(prediction(reported=20.0), cell("b", 65.0))
    assert mark_text(row) == "met; 3.25 times as high as the reported figure"
    assert mark_text(row_of(prediction(reported=60.0), cell("b", 65.0))) == "met"


def test_what_was_missed_stands_on_top_with_the_farthest_miss() -> None:
    """Two of three predictions were wrong by six times, and only the table said so."""
    predictions = (
        prediction(),
        prediction(value=400.0),
        prediction(value=20.0),
        prediction(value=500.0, input=True),
    )
    rows = prediction_rows(ForecastSpec(predictions=predictions), (cell("b", 65.0),))
    assert list(missed_sentences(rows[:1], ())) == []
    (text,) = missed_sentences(rows[:2], ())
    assert text == (
        "1 of 2 predictions was missed: b, cold, cold read speed was 1/6.15 as high as predicted: 65.0 MiB/s,"
        " asked 320 to 480 MiB/s."
    )
    forecast = ForecastRow(
        volume="a",
        event="the dump takes",
        predicted_s=1.0,
        measured_s=(10.0,),
        difference=9.0,
        within_tolerance=False,
        text="",
    )
    (text,) = missed_sentences(rows, [forecast])
    assert text == (
        "3 of 4 predictions were missed; the farthest: a, the dump takes: the time was 10.0 times as high as"
        " predicted."
    )


def test_a_prediction_has_a_known_metric_a_derivation_and_a_value_in_its_interval() -> None:
    for wrong in ({"metric": "speed"}, {"derivation": ""}, {"interval": [1, 2]}, {"value": 0}):
        with pytest.raises(ValidationError):
            prediction(**wrong)
    with pytest.raises(ValidationError, match="step and iops belong together"):
        ForecastSpec.model_validate({"step": "load"})
    with pytest.raises(ValidationError, match="needs predictions"):
        ForecastSpec()


def test_plan_and_all_reports_show_prediction_and_measurement(tmp_path: Path) -> None:
    directory = build_run(tmp_path, Synthetic(volumes=(SyntheticVolume(name="a"), SyntheticVolume(name="b"))))
    tps = median(
        c.metrics["tps"].value for c in build_report(directory).cells if c.volume == "b" and c.step == "read-write"
    )
    data = {
        "volume": "b",
        "step": "read-write",
        "metric": "tps",
        "value": tps * 1.1,
        "reported": 7.0,
        "derivation": DERIVATION,
    }
    spec = ForecastSpec.model_validate({"predictions": [data]})
    suite = directory.run.suite.model_copy(update={"forecast": spec})
    write_record(directory.path / RUN_FILE, directory.run.model_copy(update={"suite": suite}))
    run = RunDirectory.open(directory.path)
    report = build_report(run)
    assert report.forecasts == ()
    assert report.predictions[0].difference == pytest.approx(1 / 1.1 - 1)
    assert DERIVATION in next(prediction_lines(spec))
    terminal = "\n".join(summary_lines(report))
    for text in (render(report, run, "html"), markdown(report), terminal):
        assert "−9.1 %" in text
        assert "met; " in text
        assert "within the interval that it states; without one, within 20" in plain(text) or text is terminal
        assert "times as high as the reported figure" in plain(text)
    assert DERIVATION in markdown(report)
    assert 'id="predictions"' in render(report, run, "html")
