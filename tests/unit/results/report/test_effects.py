"""A sweep in report.json, Markdown and HTML: what each factor does, and why the others do not."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from packed_rows import unpacked
from synthetic_sweep import sweep_of

from sentences import plain
from volbench.core.records.report import EvidenceRow, FindingRow, Report
from volbench.results.report.build import build_report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.report.render import render
from volbench.results.report.rows.effects import sweep_row
from volbench.results.report.wording import level_cells, open_reason
from volbench.results.store.run_directory import RunDirectory


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Six cells of each."""
    return sweep_of(tmp_path_factory.mktemp("swept"), 6)


@pytest.fixture(scope="module")
def report(swept: RunDirectory) -> Report:
    return build_report(swept)


def test_each_level_is_compared_with_the_base_of_the_declared_volume(report: Report) -> None:
    results = {e.factors[0]: e for e in report.effects if e.metric == "tps"}
    assert {e.volume for e in report.effects} == {"fsx"}
    assert results["volume.mode"].ratio == pytest.approx(8, rel=0.05)
    assert (results["volume.mode"].verdict, results["volume.mode"].runs) == ("better", (6, 6))
    assert results["volume.iops"].verdict == "equivalent"
    assert results["volume.iops"].base_value == results["volume.mode"].base_value


def test_variants_of_a_volume_are_not_compared_as_volumes(report: Report) -> None:
    assert report.comparisons == ()
    assert report.summary.verdict == "single_volume"
    assert report.summary.sentence.startswith(
        "read-write on fsx: volume.mode from sync to async changes transactions/s most: × "
    )


def test_a_factor_that_does_nothing_is_explained_by_what_bounds_the_base(
    swept: RunDirectory, report: Report
) -> None:
    base_cell = next(cell.cell_id for cell in swept.run.cells if cell.volume == "fsx")
    cause = FindingRow(
        cause="storage.sync_latency",
        volume="fsx",
        step="read-write",
        cell_ids=(base_cell,),
        evidence=(EvidenceRow(metric="f_await_ms", value=25.0, unit="ms", text="a commit waits 25 ms"),),
    )
    output = sweep_row(swept.run, report.effects, [cause])
    assert output is not None
    text = "\n".join(output.conclusions)
    assert (
        "the bottleneck of the base is that syncs of the volume are slow, and the load waits for them"
        " (storage.sync_latency): a commit waits 25 ms"
    ) in text
    assert "volume.iops from 192 to 960" in text
    assert "this factor raises the limit of operations per second, which is not the bottleneck of the base" in text
    assert "decides whether a commit waits" not in text


def test_the_cells_of_a_change_are_those_that_were_used(tmp_path: Path) -> None:
    """Not the planned ones: an invalid cell of the base decides nothing."""
    report = build_report(sweep_of(tmp_path, 2))
    effect = next(row for row in report.effects if row.ci is None and row.factors == ("volume.mode",))
    texts = {
        runs: level_cells(effect.model_copy(update={"runs": runs})) for runs in ((1, 1), (2, 2), (1, 4), (2, 4))
    }
    assert list(texts.values()) == [
        "one cell of each setting",
        "2 cells of each setting",
        "1 cell with mode=sync and 4 with mode=async",
        "2 cells with mode=sync and 4 with mode=async",
    ]


def test_two_cells_of_each_level_do_not_show_that_no_factor_matters(tmp_path: Path) -> None:
    """They cannot show anything: the largest change is named with what it lacks, and no reason is given for it."""
    swept = sweep_of(tmp_path, 2)
    report = build_report(swept)
    sentence = report.summary.sentence
    assert sentence.startswith("read-write on fsx: 2 cells of each setting are too few to tell what changes ")
    assert "the largest measured change is volume.mode from sync to async: × " in sentence
    base_cells = tuple(cell.cell_id for cell in swept.run.cells if cell.volume == "fsx")
    cause = FindingRow(cause="storage.read_latency", volume="fsx", step="read-write", cell_ids=base_cells)
    row = sweep_row(swept.run, report.effects, [cause])
    assert row is not None
    (of_mode,) = [line for line in row.conclusions if "volume.mode" in line]
    assert "not the bottleneck" not in of_mode


def test_a_sweep_without_valid_cells_acquits_no_factor(swept: RunDirectory, report: Report) -> None:
    """`no factor is shown to change ...` stood above 5.7 times as many transactions, all in disturbed cells."""
    unknown = {"ratio": None, "ci": None, "verdict": "inconclusive"}
    row = sweep_row(swept.run, [effect.model_copy(update=unknown) for effect in report.effects], [])
    assert row is not None
    first, *rest = row.conclusions
    assert first.startswith("read-write on fsx: no effect could be estimated from valid cells, so what changes ")
    assert not any("no factor is shown" in sentence for sentence in row.conclusions)
    assert rest == [] or all("fsx" not in sentence for sentence in rest)


def test_a_page_says_what_a_change_is_of_and_why_a_row_is_open(swept: RunDirectory, report: Report) -> None:
    """`0 %` stood beside 2.89 and 2.84 s, `open` beside [+13 %, +85 %], and the page named another estimator."""
    first = next(effect for effect in report.effects if effect.primary and effect.verdict == "better")
    open_row = first.model_copy(update={"verdict": "inconclusive", "reason": "p 0.015 alone", "runs_needed": 5})
    changed = report.model_copy(update={"effects": (open_row,)})
    for text in (plain(markdown(changed)), html.unescape(unpacked(render(changed, swept, "html")))):
        assert "p 0.015 alone" in re.sub("<[^>]*>", "", text)
        assert "about 5 cells a side would decide" in text
        assert "a change is that of the geometric means, and not the ratio of the medians" in text
        assert "Hodges" not in text
        assert "permutation" not in text
    within = open_row.model_copy(update={"ci": (0.9, 1.2)})
    assert (open_reason(open_row), open_reason(within), open_reason(first)) == ("p 0.015 alone", "", "")


def test_sentences_that_are_left_out_are_counted(report: Report) -> None:
    assert report.sweep is not None
    many = report.sweep.model_copy(update={"conclusions": tuple(f"sentence {number}" for number in range(14))})
    assert "2 further sentences: see report.json" in markdown(report.model_copy(update={"sweep": many}))


def test_every_report_shows_the_effects(swept: RunDirectory, report: Report) -> None:
    page, text, lines = render(report, swept, "html"), markdown(report), "\n".join(summary_lines(report))
    for displayed in (page, text):
        assert "volume.iops" in displayed
        assert "sync →" in displayed
    assert 'id="effects"' in page
    assert "mode=async is better than mode=sync and looks best of 3 settings on fsx: " in lines
