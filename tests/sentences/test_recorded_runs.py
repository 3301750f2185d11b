"""Figures of causes on real runs beside the kernel's own limits, computed anew from their recorded series.

The limits were set with cgroups' io.max, and are in the names of the recordings: neither side computed them.
"""

from __future__ import annotations

import re
from statistics import median

import pytest
from kernel_throttle import RUNS
from raw_run import raw_steps, series

from sentences import value_of
from volbench.results.report.build import build_report
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.store.run_directory import RunDirectory

LIMITED = re.compile(r"(?:limited to|gives) (?P<iops>[\d,]+) IOPS \((?P<mib>[\d,.]+) MiB/s\)")
SET = {"above-read-800": 800, "device-read-800": 800, "device-read-1003": 1003}


@pytest.mark.parametrize("name", SET)
def test_a_named_limit_is_what_the_device_served_and_what_was_set(name: str) -> None:
    step = next(row for row in raw_steps(RUNS / name) if "tps" in row.metrics)
    operations = series(step, "diskstats", "reads_per_s")
    moved = series(step, "diskstats", "read_mib_per_s")
    matches = [
        match
        for finding in build_report(RunDirectory(RUNS / name)).findings
        for row in finding.evidence
        for match in LIMITED.finditer(row.text)
    ]
    assert matches
    for match in matches:
        stated = value_of(match["iops"])
        assert stated == pytest.approx(SET[name], rel=0.06)
        assert stated == pytest.approx(median(operations), rel=0.06)
        assert value_of(match["mib"]) == pytest.approx(median(moved), rel=0.06)


@pytest.mark.parametrize("name", SET)
def test_one_limit_has_one_figure_wherever_it_stands(name: str) -> None:
    """Headline, sentence and the lines of causes: the same operations and bytes a second."""
    text = "\n".join(summary_lines(build_report(RunDirectory(RUNS / name))))
    stated = {(match["iops"], match["mib"]) for match in LIMITED.finditer(text)}
    assert len(stated) == 1, stated


@pytest.mark.parametrize("name", sorted(path.name for path in RUNS.iterdir() if (path / "run.json").is_file()))
def test_the_headline_of_a_recorded_run_has_the_clients_figure(name: str) -> None:
    """One volume, one cell: the figure is that of result.json; a cause has its sureness."""
    report = build_report(RunDirectory(RUNS / name))
    headline = report.summary.headline
    match = re.search(r"transactions/s ([\d,.]+) in step ([\w-]+)", headline)
    if match:
        (step,) = (row for row in raw_steps(RUNS / name) if row.step == match[2])
        assert value_of(match[1]) == pytest.approx(step.metrics["tps"], rel=0.006)
    named = next((finding for finding in report.findings if finding.cause != "none"), None)
    if named is not None and len(report.volumes) == 1 and any(cell.valid for cell in report.cells):
        assert re.search("very likely|likely|possible|a hint only|not known", headline), headline
