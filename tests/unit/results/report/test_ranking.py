"""Three and more volumes as a matrix: the best marked, changes as they are compared."""

from __future__ import annotations

import re

import pytest
from synthetic_run import Synthetic, SyntheticVolume, build_run

from sentences import plain
from volbench.core.base.text import change
from volbench.core.records.report import Report
from volbench.results.report.build import build_report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.render import render
from volbench.results.report.views.ranking import ranking
from volbench.results.store.run_directory import RunDirectory

SPEEDS = (("a", 1.0), ("b", 1.5), ("c", 0.25))


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    volumes = tuple(SyntheticVolume(name=name, speed=speed) for name, speed in SPEEDS)
    return build_run(tmp_path_factory.mktemp("three"), Synthetic(volumes=volumes))


@pytest.fixture(scope="module")
def report(three: RunDirectory) -> Report:
    return build_report(three)


def test_the_best_has_the_factor_one_and_the_others_how_much_worse_they_are(report: Report) -> None:
    rows = {row.metric: row for row in ranking(report) if row.step == "read-write"}
    for metric in ("tps", "latency_ms_p95"):  # one where higher is better, one where lower is
        a, b, c = rows[metric].values
        assert a is not None
        assert b is not None
        assert c is not None
        assert b.best
        assert not a.best
        assert (b.factor, b.shade) == (1.0, 0.0)
        assert 1.3 < a.factor < 1.7
        assert 5.0 < c.factor < 7.0
        assert 0 < a.shade < c.shade < 1


def test_two_volumes_have_no_ranking(pair_report: Report) -> None:
    assert ranking(pair_report) == ()


def test_a_volume_without_a_valid_cell_has_its_figure_marked_and_is_never_the_best(report: Report) -> None:
    cells = tuple(cell.model_copy(update={"valid": False}) if cell.volume == "b" else cell for cell in report.cells)
    spoiled = report.model_copy(update={"cells": cells})
    rows = {row.metric: row for row in ranking(spoiled) if row.step == "read-write"}
    a, b, _ = rows["tps"].values
    assert a is not None
    assert b is not None
    assert (a.best, a.factor, b.best, b.mark) == (True, 1.0, False, "invalid")
    assert b.value > a.value
    assert "invalid)" in markdown(spoiled)


def test_a_disturbed_figure_that_is_better_leaves_the_valid_one_no_best(report: Report) -> None:
    """The slowest of three volumes, the only valid one, was the best, and others `0.169 times` worse."""
    cells = tuple(
        cell.model_copy(update={"valid": False, "bounds": {"tps": (cell.metrics["tps"].value, None)}})
        if cell.volume in "ab" and "tps" in cell.metrics
        else cell
        for cell in report.cells
    )
    spoiled = report.model_copy(update={"cells": cells})
    row = next(row for row in ranking(spoiled) if row.metric == "tps")
    a, b, c = row.values
    assert a is not None
    assert b is not None
    assert c is not None
    assert [value.best for value in (a, b, c)] == [False, False, False]
    assert a.note == "disturbed"
    assert re.fullmatch(r"\+[45]\d %, disturbed", b.note)
    assert re.fullmatch(r"× 1/[34]\.\d+", c.note)


def test_an_invalid_figure_has_no_change(report: Report) -> None:
    cells = tuple(cell.model_copy(update={"valid": False}) if cell.volume == "b" else cell for cell in report.cells)
    values = [value for row in ranking(report.model_copy(update={"cells": cells})) for value in row.values if value]
    assert any(value.factor < 1 for value in values)
    assert {value.note for value in values if value.factor < 1} == {"invalid"}


def test_the_change_of_a_pair_is_that_of_its_comparison(report: Report) -> None:
    """`42.3 times` of medians stood above `43.4 times` of the comparison, and two volumes changed their places."""
    ratios = {(row.step, row.metric, row.candidate): row.ratio for row in report.comparisons}
    names = [volume.name for volume in report.volumes]
    changes = {
        (row.step, row.metric, name): value.change
        for row in ranking(report)
        for name, value in zip(names, row.values, strict=True)
        if value is not None
    }
    assert {name for *_, name in changes} == {"a", "b", "c"}
    for key, text in changes.items():
        assert text == ("" if key[2] == "a" else change(ratios[key]))


def test_a_throughput_at_a_given_rate_ranks_nothing(report: Report) -> None:
    """2 transactions a second were asked for, and 1.89 of them were the best of three volumes."""
    cells = tuple(cell.model_copy(update={"parameters": {**cell.parameters, "rate": 2}}) for cell in report.cells)
    rows = {row.metric: row for row in ranking(report.model_copy(update={"cells": cells}))}
    tps = [value for value in rows["tps"].values if value is not None]
    assert len(tps) == 3
    assert not any(value.best or value.shade for value in tps)
    assert any(value is not None and value.best for value in rows["latency_ms_p95"].values)


def test_pages_show_it(report: Report, three: RunDirectory) -> None:
    assert 'id="ranking"' in render(report, three, "html")
    (line,) = [line for line in markdown(report).splitlines() if line.startswith("| read-write") and "p95" in line][
        :1
    ]
    assert line.count("**") == 2
    ratios = {
        row.candidate: row.ratio
        for row in report.comparisons
        if (row.step, row.metric) == ("read-write", "latency_ms_p95")
    }
    assert re.findall(r"\(([^)]*)\)", plain(line)) == [change(ratios["b"]), change(ratios["c"])]
