"""What a page with line charts contains: uPlot as it was published, and data that a reader can check."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from volbench.results.report.views.charts import (
    LIBRARY_DIRECTORY,
    POINTS_MAX,
    Band,
    ChartGroup,
    ChartLine,
    LineChart,
    chart_assets,
    extremes,
)

PUBLISHED = {
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""SHA-256 of the files of uplot 1.6.32 as npm serves them: `npm pack uplot@1.6.32`, dist/ and LICENSE."""


def test_the_library_is_as_it_was_published() -> None:
    hexdigests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(LIBRARY_DIRECTORY.iterdir())
    }
    assert hexdigests == PUBLISHED


def test_a_page_has_the_librarys_licence_and_nothing_ends_its_script() -> None:
    assets = chart_assets()
    assert "Permission is hereby granted, free of charge" in assets.library
    assert "Copyright (c) 2022 Leon Sorokin" in assets.library
    for text in (assets.library, assets.script, assets.style):
        assert "</" not in text
        assert "<!--" not in text


def test_a_group_of_charts_is_plain_data() -> None:
    line = ChartLine(label="mean", t=np.array([1.0, 2.0, 3.0]), value=np.array([1.0, np.nan, 3.00004]))
    group = ChartGroup(
        charts=(LineChart(key="await", title="<b>", unit="ms", lines=(line,)),),
        begin=0.0,
        end=3.0,
        is_clock=False,
        bands=(Band(begin=1.0, end=2.0),),
        name="t0",
    )
    assert "<" not in group.json
    data = json.loads(group.json)
    assert data["panels"][0]["title"] == "<b>"
    assert data["panels"][0]["lines"] == [["mean", "mean", "solid"]]
    (drawn,) = data["lines"]
    assert (drawn["x"], drawn["y"]) == ([1.0, 2.0, 3.0], [1.0, None, 3.0])
    assert (data["range"], data["bands"][0]["from"], data["bands"][0]["to"]) == ([0.0, 3.0], 1.0, 2.0)


def test_a_long_line_keeps_its_highest_its_lowest_and_its_gaps() -> None:
    values = np.full(100_000, 5.0)
    values[12_345], values[54_321] = 99.0, -99.0
    values[70_000:80_000] = np.nan
    remaining = extremes(values, POINTS_MAX)
    assert len(remaining) <= POINTS_MAX
    assert list(remaining) == sorted(set(remaining))
    assert {12_345, 54_321} <= set(remaining)
    assert np.isnan(values[remaining]).any()
    assert list(extremes(values[:10], POINTS_MAX)) == list(range(10))


def test_a_long_line_reaches_from_its_begin_to_its_end() -> None:
    values = np.sin(np.linspace(0.0, 400.0, 10_001))
    remaining = extremes(values, POINTS_MAX)
    each = -(-len(values) // (POINTS_MAX // 2))
    assert remaining[0] < each
    assert remaining[-1] >= len(values) - each
