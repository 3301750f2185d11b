"""Static charts: marks lie where the numbers say, and nothing leaves its chart."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from volbench.core.records.report import CellRow, ComparisonRow, Report
from volbench.results.report.views.distribution import LEVELS, Curve, Distribution, distributions
from volbench.results.report.views.geometry import dot_chart, linear_ticks, quantile_chart, ratio_axis
from volbench.results.store.loaded_run import load_run
from volbench.results.store.run_directory import RunDirectory


def row(ratio: float | None, ci: tuple[float, float] | None, margin: float = 0.05) -> ComparisonRow:
    return ComparisonRow(
        step="s",
        parameters={},
        metric="tps",
        unit="1/s",
        better="higher",
        baseline="a",
        candidate="b",
        ratio=ratio,
        ci=ci,
        p_value=0.01,
        verdict="better",
        runs=(5, 5),
        margin=margin,
        confidence=0.95,
    )


def test_the_axis_holds_every_interval() -> None:
    """1 in the middle, a log scale: half is as far left as double is right."""
    rows = [row(1.4, (1.2, 2.0)), row(0.7, (0.5, 0.8))]
    axis = ratio_axis(rows)
    assert axis.position(1.0) == 50
    assert axis.position(2.0) - 50 == pytest.approx(50 - axis.position(0.5))
    for item in rows:
        mark = axis.mark(item)
        assert mark is not None
        assert mark.at is not None
        assert 0 < mark.low < mark.at < mark.high < 100
        assert (mark.open_low, mark.open_high) == (False, False)


def test_the_band_is_the_margin() -> None:
    """From 1/1.05 to 1.05."""
    axis = ratio_axis([row(1.0, (0.99, 1.01))])
    low, width = axis.band
    assert low == pytest.approx(axis.position(1 / 1.05))
    assert low + width == pytest.approx(axis.position(1.05))


def test_what_has_no_bound_reaches_the_edge() -> None:
    """No interval: the bar goes over the whole chart, and says that it goes on."""
    mark = ratio_axis([row(1.4, None)]).mark(row(1.4, None))
    assert mark is not None
    assert (mark.low, mark.high, mark.open_low, mark.open_high) == (0, 100, True, True)


def test_without_a_ratio_there_is_no_mark() -> None:
    """Zero has no place on a log axis."""
    assert ratio_axis([row(None, None)]).mark(row(None, None)) is None


@pytest.mark.parametrize("ratio", [1.001, 1.04, 1.3, 2.0, 9.0, 80.0, 5000.0])
def test_ticks_are_few_apart_and_inside(ratio: float) -> None:
    """For tiny and for huge differences."""
    ticks = ratio_axis([row(ratio, (1 / ratio, ratio))]).ticks
    assert len(ticks) in (3, 5)
    assert all(0 <= tick.at <= 100 for tick in ticks)
    assert min(b.at - a.at for a, b in pairwise(ticks)) >= 19, "labels of 35 px on 190 px"
    texts = [tick.text for tick in ticks]
    assert texts[len(texts) // 2] == "same"
    assert max(map(len, texts)) <= 6, "of 35 px"


def test_ticks_of_factors_have_no_digits_that_say_nothing() -> None:
    """`× 1/10.0` and `× 1/3.00` stood one over the other."""
    ticks = ratio_axis([row(9.0, (1 / 11.8, 11.8))]).ticks
    assert [tick.text for tick in ticks] == ["1/10", "1/3", "same", "× 3", "× 10"]


def cell(volume: str, repeat: int, value: float, *, valid: bool = True) -> CellRow:
    return CellRow.model_validate(
        {
            "cell_id": f"{volume}{repeat}",
            "volume": volume,
            "step": "s",
            "kind": "oltp",
            "parameters": {},
            "block": 0,
            "repeat": repeat,
            "valid": valid,
            "invalid_reasons": () if valid else ("client CPU-bound",),
            "metrics": {"tps": {"value": value, "unit": "1/s", "better": "higher"}},
        }
    )


def test_every_replicate_is_a_dot() -> None:
    """Invalid ones too, marked and with their reason, but outside of the median."""
    cells = [cell("a", 1, 10), cell("a", 2, 20), cell("a", 3, 500, valid=False), cell("b", 1, 30)]
    chart = dot_chart(cells, "tps", ["a", "b"])
    assert chart is not None
    a, b = chart.rows
    assert [dot.kind for dot in a.dots] == ["valid", "valid", "invalid"]
    assert "client CPU-bound" in a.dots[2].title
    assert a.median_at == pytest.approx((a.dots[0].at + a.dots[1].at) / 2, abs=0.02)
    assert b.median_at == b.dots[0].at
    assert all(0 < dot.at < 100 for lane in chart.rows for dot in lane.dots)


def test_no_dots_without_values() -> None:
    """No chart without data; equal values have one all the same."""
    assert dot_chart([cell("a", 1, 1)], "dump_s", ["a"]) is None
    assert dot_chart([cell("a", 1, 5), cell("a", 2, 5)], "tps", ["a"]) is not None
    assert dot_chart([cell("a", 1, 0)], "tps", ["a"]) is not None


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.9, 1.1), (17_000, 17_010), (-3, 12), (1e-6, 2e-6)])
def test_linear_ticks(low: float, high: float) -> None:
    """A few round values inside."""
    ticks = linear_ticks(low, high)
    assert 2 <= len(ticks) <= 6
    assert all(low <= tick <= high for tick in ticks)


def test_distributions_merge_the_cells(pair: RunDirectory, pair_report: Report) -> None:
    """One step has client latencies; the volume's curve lies among its cells' and rises."""
    (result,) = distributions(load_run(pair), pair_report.cells, ["a", "b"])
    assert result.step == "read-write"
    total = {c.volume: c for c in result.curves if c.cell_id is None}
    cells = [c for c in result.curves if c.cell_id is not None]
    assert len(cells) == 10
    for volume, curve in total.items():
        of = [c for c in cells if c.volume == volume]
        assert curve.events == sum(c.events for c in of)
        middle = LEVELS.index(0.5)
        values = [c.value_ms[middle] for c in of]
        assert min(values) <= curve.value_ms[middle] <= max(values)  # type: ignore[operator, type-var]
        known_values = [v for v in curve.value_ms if v is not None]
        assert known_values == sorted(known_values)
    # Measured: b is 1.4 times as fast, at every level.
    ratios = [b / a for a, b in zip(total["a"].value_ms, total["b"].value_ms, strict=True) if a and b]
    assert ratios == pytest.approx([1 / 1.4] * len(ratios), rel=0.08)


def test_levels_that_rest_on_single_events_are_not_known() -> None:
    """The chart ends where the last curve does."""
    curve = Curve(volume="a", cell_id=None, events=100, value_ms=(1.0, 2.0, *[None] * (len(LEVELS) - 2)))
    chart = quantile_chart(Distribution(step="s", curves=(curve,)))
    assert chart is not None
    assert len(chart.curves[0].points.split()) == 2
    assert all(0 <= tick.at <= 100.1 for tick in chart.x_ticks)
    empty = Curve(volume="a", cell_id=None, events=0, value_ms=(None,) * len(LEVELS))
    assert quantile_chart(Distribution(step="s", curves=(empty,))) is None


@pytest.mark.parametrize("known", range(len(LEVELS) + 1))
def test_a_volume_of_few_events_has_as_many_marks_as_points(known: int) -> None:
    """At most four, on points of its own, the last one among them; none without a point, and none of a cell."""
    full = Curve(volume="a", cell_id=None, events=100_000, value_ms=(2.0,) * len(LEVELS))
    few = Curve(volume="b", cell_id=None, events=9, value_ms=(1.0,) * known + (None,) * (len(LEVELS) - known))
    of_cell = Curve(volume="b", cell_id="01-b", events=9, value_ms=few.value_ms)
    chart = quantile_chart(Distribution(step="s", curves=(full, few, of_cell)))
    assert chart is not None
    cell_curve, few_curve, _ = chart.curves
    assert cell_curve.knots == ()
    assert len(few_curve.knots) == min(known, 4)
    points = few_curve.points.split()
    assert [",".join(knot) for knot in few_curve.knots][-1:] == points[-1:]
    assert set(map(",".join, few_curve.knots)) <= set(points)


def test_quantile_points_are_inside(pair: RunDirectory, pair_report: Report) -> None:
    """All of a real distribution, and its log ticks."""
    (result,) = distributions(load_run(pair), pair_report.cells, ["a", "b"])
    chart = quantile_chart(result)
    assert chart is not None
    points = [float(v) for curve in chart.curves for point in curve.points.split() for v in point.split(",")]
    assert all(-0.01 <= value <= 100.01 and math.isfinite(value) for value in points)
    assert len(chart.y_ticks) >= 2
