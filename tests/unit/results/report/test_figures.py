"""One metric of one volume is one number, wherever it stands; and a gate decides by the report's comparison."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from synthetic_run import build_run, two_volumes

from volbench.api import Run
from volbench.core.records.goals.policy import PolicyFile
from volbench.core.records.metrics import MetricValue
from volbench.core.records.report import CellRow, Report
from volbench.results.compare.figures import figure_rows
from volbench.results.gate.gate import gate_report
from volbench.results.report.build import build_report
from volbench.results.report.render import write_reports
from volbench.results.report.wording import figure_text
from volbench.results.store.query import query
from volbench.results.store.run_directory import RunDirectory

METRICS = ("tps", "latency_ms_p95", "latency_ms_mean")


@pytest.fixture(scope="module", params=["valid", "some", "all"])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Volume a has no, two or only invalid cells of five."""
    repeats = {"valid": (), "some": (1, 3), "all": range(1, 6)}[request.param]
    invalid = {("a", repeat): "the client was CPU-bound" for repeat in repeats}
    run = build_run(tmp_path_factory.mktemp("figures") / "results", two_volumes(repeats=5, invalid=invalid))
    write_reports(run)
    return run


@pytest.fixture(scope="module")
def report(directory: RunDirectory) -> Report:
    return build_report(directory)


def recomputed(report: Report, volume: str, step: str, metric: str) -> float:
    """The rule in its own words: valid cells, else the invalid ones."""
    cells = [cell for cell in report.cells if (cell.volume, cell.step) == (volume, step) and metric in cell.metrics]
    return median(cell.metrics[metric].value for cell in ([c for c in cells if c.valid] or cells))


def test_a_metric_of_a_volume_is_the_same_number_everywhere(directory: RunDirectory, report: Report) -> None:
    rows = query(directory.path.parent, "SELECT volume, step, metric, value FROM figures").rows
    compared = [
        (volume, row.step, row.metric, value)
        for row in report.comparisons
        for volume, value in ((row.baseline, row.baseline_value), (row.candidate, row.candidate_value))
    ]
    figures = [(row.volume, row.step, row.metric, row.value) for row in Run(directory).figures]
    assert compared
    for volume, step, metric, value in (*rows, *compared, *figures):
        assert value == pytest.approx(recomputed(report, volume, step, metric)), (volume, step, metric)
    steps = {cell.step for cell in report.cells if "tps" in cell.metrics}
    assert {(row[0], row[1]) for row in figures if row[2] == "tps"} == {(v, s) for v in "ab" for s in steps}


def test_what_a_figure_is_not_of_is_counted_beside_it(report: Report) -> None:
    for row in report.figures:
        cells = [
            c for c in report.cells if (c.volume, c.step) == (row.volume, row.step) and row.metric in c.metrics
        ]
        assert row.cells + sum(alternative.cells for alternative in row.excluded) == len(cells)
        assert row.cells == sum(cell.valid for cell in cells) or row.standing != "valid"
    partial = [row for row in report.figures if row.excluded or row.standing != "valid"]
    message = any("Figures, and what the other cells measured" in caveat for caveat in report.summary.caveats)
    assert message == bool(partial)


def test_disturbed_cells_stand_for_a_volume_that_has_no_valid_one() -> None:
    def cell(number: int, value: float, *, bounded: bool) -> CellRow:
        return CellRow(
            cell_id=f"{number}-a",
            volume="a",
            step="s",
            kind="oltp",
            parameters={},
            block=number,
            repeat=number,
            valid=False,
            metrics={"tps": MetricValue(value=value, unit="1/s", better="higher")},
            bounds={"tps": (value, 2 * value)} if bounded else {},
        )

    (row,) = figure_rows(
        [cell(1, 100.0, bounded=True), cell(2, 900.0, bounded=False), cell(3, 120.0, bounded=True)]
    )
    assert (row.value, row.standing, row.cells) == (110.0, "disturbed", 2)
    assert [(alternative.standing, alternative.cells, alternative.low) for alternative in row.excluded] == [
        ("invalid", 1, 900.0)
    ]


def test_a_gate_has_the_ratio_and_the_interval_of_the_report(report: Report) -> None:
    policy = PolicyFile.model_validate({"conditions": [{"check": "b not worse than a by > 10 %"}]})
    gate = gate_report(report, policy, policy_text="", origins=["p:1"], where="p")
    texts = [group.text for row in gate.conditions for group in row.groups]
    for metric in METRICS[:2]:
        (row,) = [row for row in report.comparisons if row.metric == metric and row.step == report.cells[0].step]
        (text,) = [text for text in texts if text.startswith(f"{metric}:")][:1]
        if row.ratio is None:
            assert "no valid value of a" in text or "0 and" in text
            continue
        assert f"{row.runs[0]} and {row.runs[1]} cells" in text
        worse = row.ratio < 1 if metric == "tps" else row.ratio > 1
        decided = next(group for r in gate.conditions for group in r.groups if group.text == text).decision
        assert decided == ("no-go" if worse and row.verdict == "worse" else decided)


def test_a_gate_on_a_run_until_decided_has_the_level_of_its_look(report: Report) -> None:
    """The interval is wider than that of a run with a fixed number of cells."""
    policy = PolicyFile.model_validate({"conditions": ["b not worse than a by > 10 % in tps"]})
    texts = [
        gate_report(run, policy, policy_text="", origins=["p:1"], where="p").conditions[0].groups[0].text
        for run in (report, report.model_copy(update={"until_decided": True}))
    ]
    assert (texts[0] != texts[1]) == any(row.ratio for row in report.comparisons)


def test_figures_of_one_volume_are_told_apart_by_what_varies(tmp_path: Path) -> None:
    """Seven cells of one volume, each with other settings, read alike: "gp3 (updates)" seven times."""
    swept = {"test": "oltp_read_write", "engine.config.innodb_io_capacity": 200}
    report = build_report(build_run(tmp_path / "results", two_volumes(repeats=2, invalid={("a", 1): "late"})))
    alike = [cell for cell in report.cells if (cell.volume, cell.kind) == ("a", "oltp")]
    cells = [
        cell.model_copy(update={"parameters": swept | {"engine.config.innodb_io_capacity": level}})
        for cell, level in zip(alike, (200, 3000), strict=True)
    ]
    rows = [row for row in figure_rows(cells) if row.metric == "tps"]
    texts = {figure_text(row, ["engine.config.innodb_io_capacity"]) for row in rows}
    assert any("innodb_io_capacity 200):" in text for text in texts)
    assert any("innodb_io_capacity 3000):" in text for text in texts)
    assert not any("oltp_read_write" in text for text in texts)
