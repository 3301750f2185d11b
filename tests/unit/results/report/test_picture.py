"""The picture in the verdict box: every cell a mark on its volume, by its kind, on one axis with the interval."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from synthetic_run import OLTP, Synthetic, SyntheticVolume, build_run

from volbench.core.records.report import Report
from volbench.results.compare.figures import figure_rows
from volbench.results.report.build import build_report
from volbench.results.report.render import render
from volbench.results.report.views.picture import ROOM, picture
from volbench.results.store.run_directory import RunDirectory


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="b", speed=0.5))
    invalid = {("a", 2): "client CPU-bound"}
    return build_run(tmp_path_factory.mktemp("picture"), Synthetic(volumes=volumes, steps=(OLTP,), invalid=invalid))


@pytest.fixture(scope="module")
def report(directory: RunDirectory) -> Report:
    """One cell of b is disturbed."""
    built = build_report(directory)
    disturbed = next(cell for cell in built.cells if cell.volume == "b")
    changed = disturbed.model_copy(
        update={
            "valid": False,
            "bounds": {"tps": (1.0, 2.0), "latency_ms_p95": (1.0, 2.0)},
            "invalid_reasons": ("CPU use by other work",),
        }
    )
    cells = tuple(changed if cell is disturbed else cell for cell in built.cells)
    return built.model_copy(update={"cells": cells, "figures": figure_rows(cells)})


def test_it_has_throughput_and_p95_of_the_headlines_step(report: Report) -> None:
    assert [panel.metric for panel in picture(report)] == ["tps", "latency_ms_p95"]
    assert {panel.step for panel in picture(report)} == {"read-write"}


def test_every_cell_is_a_mark_of_its_kind_at_its_value(report: Report) -> None:
    for panel in picture(report):
        assert not panel.log
        top = max(cell.metrics[panel.metric].value for cell in report.cells)
        for lane in panel.lanes:
            cells = [cell for cell in report.cells if cell.volume == lane.volume]
            kinds = ["valid" if cell.valid else "disturbed" if cell.bounds else "invalid" for cell in cells]
            assert [mark.kind for mark in lane.marks] == kinds
            for cell, mark in zip(cells, lane.marks, strict=True):
                share = (mark.at - ROOM) / (100 - 2 * ROOM)  # from zero: distances are ratios
                assert share == pytest.approx(cell.metrics[panel.metric].value / top, rel=0.03)
    texts = {lane.volume: lane.text for lane in picture(report)[0].lanes}
    assert " from 4 valid cells; " in texts["a"]
    assert " from 4 valid cells; " in texts["b"]


def test_median_and_interval_are_those_of_the_comparison(report: Report) -> None:
    """The page has one figure for one thing."""
    panel = picture(report)[0]
    row = next(row for row in report.comparisons if row.metric == "tps")
    assert row.ci is not None
    assert row.baseline_value is not None
    assert row.candidate_value is not None
    baseline, candidate = panel.lanes
    assert baseline.median_at is not None
    assert candidate.median_at is not None
    assert baseline.interval is None
    assert candidate.interval is not None
    scale = (baseline.median_at - ROOM) / row.baseline_value
    assert candidate.median_at - ROOM == pytest.approx(scale * row.candidate_value, rel=0.01)
    assert candidate.interval[0] - ROOM == pytest.approx(scale * row.baseline_value * row.ci[0], rel=0.01)
    assert candidate.interval[1] - ROOM == pytest.approx(scale * row.baseline_value * row.ci[1], rel=0.01)


def test_decades_get_a_logarithmic_axis(tmp_path: Path) -> None:
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="b", speed=0.01))
    report = build_report(build_run(tmp_path, Synthetic(volumes=volumes, steps=(OLTP,), repeats=1)))
    tps = picture(report)[0]
    assert tps.log
    assert len(tps.ticks) > 1


def test_the_page_draws_it_without_scripts_in_the_verdict_box(report: Report, directory: RunDirectory) -> None:
    """Shapes tell the kinds apart, not colour alone; the legend names those that are there."""
    page = render(report, directory, "html")
    box = page[page.index('<section id="verdict"') : page.index("</section>")]
    assert box.count("<svg role=") == 2
    for kind, shape in (("valid", "<circle"), ("disturbed", "<path"), ("invalid", "<path")):
        shapes = re.findall(rf'class="cell {kind} [^/]*?</title>(<\w+)', box)
        assert set(shapes) == {shape}
    assert "● valid, ◇ disturbed from outside, ✕ invalid" in box
    assert "<script" not in box


def test_what_no_valid_cell_measured_is_drawn_as_what_it_is(tmp_path: Path) -> None:
    """No verdict, and the figures are no dashes."""
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="b", speed=0.5))
    invalid = {(name, 1): "client CPU-bound" for name in "ab"}
    expected = Synthetic(volumes=volumes, steps=(OLTP,), repeats=1, invalid=invalid)
    report = build_report(build_run(tmp_path, expected))
    assert report.summary.headline.startswith("No verdict on b against a: no valid value of a")
    (tps, _) = picture(report)
    assert [mark.kind for lane in tps.lanes for mark in lane.marks] == ["invalid", "invalid"]
    assert all(lane.text.endswith(" from 1 invalid cell") for lane in tps.lanes)


def test_a_report_of_an_older_version_has_no_picture(report: Report) -> None:
    assert picture(report.model_copy(update={"summary": report.summary.model_copy(update={"figure": None})})) == ()
