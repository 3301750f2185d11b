"""Statement time over time: polygons that stand on each other, marks of moments, a chart for each volume."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_throttle import RUNS

from volbench.core.records.report import MomentRow
from volbench.results.explain.accounts.time_budget import PIECES
from volbench.results.report.build import build_report
from volbench.results.report.render import render
from volbench.results.report.views.sessions import INTERVALS_MAX, highest, session_charts, stacked
from volbench.results.store.loaded_run import LoadedRun, load_run
from volbench.results.store.run_directory import RunDirectory

PIECES_OF_STATEMENTS = tuple(PIECES)[:-3]


def points_of(text: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, _, y in (point.partition(",") for point in text.split())]


def area_of(text: str) -> float:
    """By the shoelace formula."""
    points = points_of(text)
    pairs = zip(points, [*points[1:], points[0]], strict=True)
    return abs(sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairs)) / 2


def test_each_pieces_area_is_its_share_of_the_box() -> None:
    pieces = {"data_reads": np.array([1.0, 3.0]), "cpu": np.array([1.0, 1.0])}
    assert highest(pieces) == 4.0
    reads, cpu = stacked(pieces, 4.0)
    assert area_of(reads.points) == pytest.approx(100 * 100 * 2 / 4)
    assert area_of(cpu.points) == pytest.approx(100 * 100 * 1 / 4)
    assert (reads.mean, cpu.title) == (2.0, "CPU")


def test_the_second_piece_stands_on_the_first() -> None:
    reads, cpu = stacked({"data_reads": np.array([1.0, 3.0]), "cpu": np.array([1.0, 1.0])}, 4.0)
    assert points_of(reads.points)[:4] == [(0.0, 75.0), (50.0, 75.0), (50.0, 25.0), (100.0, 25.0)]
    assert points_of(cpu.points)[-4:] == points_of(reads.points)[:4][::-1]


def test_an_interval_without_a_reading_has_no_height() -> None:
    (layer,) = stacked({"cpu": np.array([1.0, np.nan])}, 1.0)
    assert area_of(layer.points) == pytest.approx(100 * 100 / 2)
    assert layer.mean == 1.0


def test_a_long_time_is_drawn_by_means_and_keeps_its_area() -> None:
    columns = {"cpu": np.random.default_rng(1).uniform(0, 8, 3000)}
    (layer,) = stacked(columns, 8.0)
    assert len(points_of(layer.points)) <= 4 * INTERVALS_MAX
    assert area_of(layer.points) == pytest.approx(100 * 100 * columns["cpu"].mean() / 8, rel=0.01)


def test_nothing_is_drawn_of_nothing() -> None:
    assert stacked({}, 1.0) == ()
    assert highest({}) == 0.0


@pytest.fixture(scope="module")
def recorded() -> LoadedRun:
    """A real run beside the kernel's throttle."""
    return load_run(RunDirectory(RUNS / "device-read-800"))


def test_a_recorded_run_has_a_chart_of_its_valid_cell(recorded: LoadedRun) -> None:
    report = build_report(RunDirectory(RUNS / "device-read-800"))
    (cell,) = report.cells
    moment = MomentRow(cell_id=cell.cell_id, volume=cell.volume, step=cell.step, t_s=0.0, end_s=0.0, text="limit")
    (chart,) = session_charts(recorded, report)
    inside = moment.model_copy(update={"t_s": (chart.begin_s + chart.end_s) / 2})
    (chart,) = session_charts(recorded, report.model_copy(update={"moments": (moment, inside)}))
    assert (chart.volume, chart.step, chart.cell_id) == (cell.volume, cell.step, cell.cell_id)
    assert [mark.left for mark in chart.marks] == [pytest.approx(50.0)]
    largest = max(report.time_budgets, key=lambda row: row.ms if row.piece in PIECES_OF_STATEMENTS else 0.0)
    assert max(chart.layers, key=lambda layer: layer.mean).piece == largest.piece
    page = render(report, RunDirectory(RUNS / "device-read-800"), "html")
    assert page.count('<figure class="sessions">') == 1
    assert f'points="{chart.layers[0].points}"' in page


def test_a_report_without_budgets_has_no_chart(recorded: LoadedRun) -> None:
    report = build_report(RunDirectory(RUNS / "device-read-800")).model_copy(update={"time_budgets": ()})
    assert session_charts(recorded, report) == ()
