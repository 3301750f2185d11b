"""The headline of a sweep: which setting is best, by how much, against which, and whether that is decided."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import OLTP
from synthetic_sweep import SWEEP, one_factor, sweep_of

from volbench.core.base.text import change_words, interval_words
from volbench.core.records.report import DurabilityRow, EffectRow, EvidenceRow, FindingRow, Report
from volbench.core.records.sweep import SweepSpec
from volbench.results.report.build import build_report
from volbench.results.report.formats.html import html
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.page_data import PageData
from volbench.results.report.rows.verdict.headline import headline_of
from volbench.results.report.rows.verdict.settings import leading_effects, variant_names
from volbench.results.report.rows.verdict.sweep import headline_of_sweep
from volbench.results.report.views.timeline import Timelines
from volbench.results.report.wording import setting_text

MODE = one_factor("volume.mode", "sync", "async")
CAPACITY = one_factor("engine.config.innodb_io_capacity", 10000, 200, 1500)
FULL = SweepSpec.model_validate(
    {"design": "full", "factors": {n: f.model_dump() for n, f in SWEEP.factors.items()}}
)
CPU = "client CPU-bound"


def report_of(results: Path, repeats: int = 5, **changes: Any) -> Report:
    return build_report(sweep_of(results, repeats, **changes))


def effect(report: Report, level: object, metric: str = "tps", volume: str = "fsx") -> EffectRow:
    (row,) = [
        row
        for row in report.effects
        if (row.volume, row.levels, row.metric) == (volume, (level,), metric) and len(row.factors) == 1
    ]
    return row


def setting_of(row: EffectRow) -> str:
    return setting_text(row.factors[0], row.levels[0])


def size_of(row: EffectRow) -> str:
    assert row.ratio is not None
    assert row.ci is not None
    return f"{change_words(row.ratio)} (95 %: {interval_words(row.ci, row.ratio)})"


def test_of_two_values_it_says_which_to_choose(tmp_path: Path) -> None:
    """`mode from async to sync matters most, 5.69 times higher, worse` did not say which of both to choose."""
    report = report_of(tmp_path, sweep=MODE)
    assert report.summary.headline == (
        "mode=async is better than mode=sync on fsx: transactions/s in read-write"
        f" {size_of(effect(report, 'async'))}; measured 5 times with each setting"
    )


def test_of_two_values_of_which_the_base_is_better_it_names_the_base(tmp_path: Path) -> None:
    report = report_of(tmp_path, sweep=one_factor("volume.mode", "async", "sync"), speeds={"mode-sync": 0.2})
    assert report.summary.headline == (
        "mode=async is better than mode=sync on fsx: transactions/s in read-write"
        f" {size_of(effect(report, 'sync'))} with mode=sync; measured 5 times with each setting"
    )


def test_of_several_factors_it_names_the_best_setting_of_all(tmp_path: Path) -> None:
    """Each is compared with the base, none with another one: so the best of them looks so."""
    report = report_of(tmp_path)
    assert report.summary.headline == (
        "mode=async is better than mode=sync and looks best of 3 settings on fsx: transactions/s in read-write"
        f" {size_of(effect(report, 'async'))}; measured 5 times with each setting"
    )
    assert "The base is volume fsx: iops=192 and mode=sync." in report.summary.notes


def test_it_names_the_best_and_the_worst_setting(tmp_path: Path) -> None:
    """The largest effect of FSx was one for the worse, so its headline named no setting to choose."""
    report = report_of(tmp_path, speeds={"mode-async": 0.2, "iops-960": 1.4})
    worst = change_words(effect(report, "async").ratio or 0)
    assert report.summary.headline == (
        "iops=960 is better than iops=192 and looks best of 3 settings on fsx: transactions/s in read-write"
        f" {size_of(effect(report, 960))}; mode=async is worse: {worst} as with mode=sync;"
        " measured 5 times with each setting"
    )


def test_the_base_is_best_only_where_all_others_are_worse(tmp_path: Path) -> None:
    report = report_of(tmp_path, speeds={"mode-async": 0.2, "iops-960": 0.5})
    figure = f"transactions/s in read-write {size_of(effect(report, 'async'))} with mode=async"
    assert report.summary.headline == (
        f"The base is best of 3 settings on fsx: {figure}; measured 5 times with each setting"
    )
    report = report_of(tmp_path / "equal", speeds={"mode-async": 0.2}, noise=0.002)
    assert report.summary.headline.startswith(
        "No setting on fsx is shown to be better than the base, mode=async is worse: transactions/s in read-write "
    )


def test_of_several_values_of_one_factor_the_base_has_its_value(tmp_path: Path) -> None:
    report = report_of(
        tmp_path, sweep=CAPACITY, speeds={"innodb_io_capacity-200": 0.2, "innodb_io_capacity-1500": 0.5}
    )
    assert report.summary.headline.startswith(
        "innodb_io_capacity=10000 is best of 3 settings on fsx: transactions/s in read-write "
    )
    assert " with innodb_io_capacity=200; " in report.summary.headline


def test_further_settings_that_are_better_are_in_the_notes(tmp_path: Path) -> None:
    report = report_of(tmp_path, sweep=CAPACITY, speeds={"innodb_io_capacity-200": 2, "innodb_io_capacity-1500": 3})
    assert report.summary.headline.startswith(
        "innodb_io_capacity=1500 is better than innodb_io_capacity=10000 and "
    )
    figure = size_of(effect(report, 200))
    settings = "with innodb_io_capacity=200 as with innodb_io_capacity=10000"
    assert f"Better too: {figure} {settings}." in report.summary.notes


@pytest.mark.parametrize("repeats", [1, 2])
def test_few_cells_decide_nothing(tmp_path: Path, repeats: int) -> None:
    headline = report_of(tmp_path, repeats).summary.headline
    cells = "One cell of each setting" if repeats == 1 else "2 cells of each setting"
    assert re.fullmatch(
        rf"{cells}, not decided: mode=async looks best of 3 settings on fsx, transactions/s in read-write"
        r" [78]\.\d+ times as high as with mode=sync; repeat to decide",
        headline,
    )


def test_few_cells_of_which_the_base_is_fastest(tmp_path: Path) -> None:
    speeds = {"mode-async": 0.2, "iops-960": 0.5}
    headline = report_of(tmp_path, 1, speeds=speeds).summary.headline
    assert headline.startswith(
        "One cell of each setting, not decided: the base looks best of 3 settings on fsx, transactions/s in "
    )
    assert headline.endswith(" as high with mode=async; repeat to decide")


def test_values_that_do_not_differ_are_equivalent(tmp_path: Path) -> None:
    report = report_of(tmp_path, speeds={}, noise=0.002)
    assert re.fullmatch(
        r"3 settings on fsx are equivalent: transactions/s in read-write (unchanged|[\d.]+ % (higher|lower)) .*"
        r" with (mode=async|iops=960); no change beyond 5 %; measured 5 times with each setting",
        report.summary.headline,
    )
    report = report_of(tmp_path / "two", sweep=MODE, speeds={}, noise=0.002)
    assert report.summary.headline.startswith("mode=async is equivalent to mode=sync on fsx: ")


def test_values_that_are_not_told_apart_take_no_side(tmp_path: Path) -> None:
    report = report_of(tmp_path, speeds={}, noise=0.08)
    assert report.summary.headline.startswith(
        "5 cells of each setting, not decided: no setting on fsx is told apart from the base, transactions/s in "
    )
    row = effect(report, 960 if report.summary.headline.partition(";")[0].endswith("iops=960") else "async")
    needed = f"; about {row.runs_needed} each would decide" if row.runs_needed else f" with {setting_of(row)}"
    assert report.summary.headline.endswith(needed)
    assert not re.search("better|worse|best", report.summary.headline)


def test_invalid_cells_leave_what_was_measured(tmp_path: Path) -> None:
    """`No factor has an effect that can be stated on transactions/s` had no figure."""
    names = ("fsx", "fsx.innodb_io_capacity-200", "fsx.innodb_io_capacity-1500")
    invalid = {(name, repeat): CPU for name in names for repeat in (1, 2)}
    speeds = {"innodb_io_capacity-200": 2, "innodb_io_capacity-1500": 3}
    report = report_of(tmp_path, 2, sweep=CAPACITY, speeds=speeds, invalid=invalid)
    assert re.fullmatch(
        r"No verdict on the settings on fsx: no valid value on one side; as measured, transactions/s in read-write"
        r" is \d+ with innodb_io_capacity=10000, \d+ with innodb_io_capacity=200"
        r" and [\d,]+ with innodb_io_capacity=1500",
        report.summary.headline,
    )


def test_a_setting_without_a_valid_cell_is_not_among_those_compared(tmp_path: Path) -> None:
    invalid = {("fsx.iops-960", repeat): CPU for repeat in range(1, 6)}
    headline = report_of(tmp_path, invalid=invalid).summary.headline
    assert " looks best of the 2 of 3 settings that can be compared on fsx: " in headline


def test_a_full_design_says_that_it_averages_and_on_what_an_effect_depends(tmp_path: Path) -> None:
    report = report_of(tmp_path, sweep=FULL, speeds={"mode-async": 8.0, "iops-960": 1.4}, noise=0.01)
    assert report.summary.headline.startswith(
        "mode=async is better than mode=sync on fsx, averaged over the other factors: transactions/s in read-write "
    )
    assert not any("the change by" in note for note in report.summary.notes)
    (row,) = [row for row in report.effects if len(row.factors) > 1 and row.metric == "tps"]
    depends = row.model_copy(update={"ratio": 2.0, "ci": (1.8, 2.2), "verdict": "better"})
    notes = headline_of_sweep([*report.effects, depends], (), report.cells, ()).notes
    assert (
        "with mode=async the change by iops=960 is 2.00 times as high (95 %: 1.80 to 2.20) as with mode=sync"
        in notes
    )


def test_the_metric_is_the_first_of_the_step_that_the_suite_is_about(tmp_path: Path) -> None:
    """`files/s of the phase that differed most` had the headline of a suite about the whole tree."""
    rows = list(report_of(tmp_path).effects)
    assert {row.metric for row in leading_effects(rows)} == {"tps"}
    phase = [row.model_copy(update={"step": "tree/read", "ratio": 40.0}) for row in rows if row.metric == "tps"]
    tree = [row.model_copy(update={"step": "tree"}) for row in rows if row.metric == "tps"]
    assert {row.step for row in leading_effects([*phase, *rows, *tree], ("tree",))} == {"tree"}
    assert {row.step for row in leading_effects([*phase, *rows], ("tree",))} == {"tree/read"}
    assert {row.step for row in leading_effects([*phase, *tree])} == {"tree"}


def test_losses_and_causes_name_the_setting_and_not_a_variant(tmp_path: Path) -> None:
    """`fsx` stood for the base, among `fsx.iops-960` and `fsx.mode-async`, and a reader took it for all of them."""
    report = report_of(tmp_path, speeds={"mode-async": 0.2})
    assert variant_names(report.effects, report.cells) == {
        "fsx": "the base",
        "fsx.iops-960": "iops=960",
        "fsx.mode-async": "mode=async",
    }
    finding = FindingRow(
        cause="storage.sync_latency",
        volume="fsx.mode-async",
        step="read-write",
        cell_ids=("001",),
        confidence=0.85,
        share=0.8,
        evidence=(EvidenceRow(metric="f_await_ms", value=25.0, unit="ms", text="a commit waits 25 ms"),),
    )
    rows = [
        DurabilityRow(
            volume=volume,
            step="price",
            fault="power_cut",
            cells=1,
            cuts=1,
            acknowledged_commits=100,
            lost_commits=lost,
            torn_or_damaged=0,
        )
        for volume, lost in (("fsx", 50), ("fsx.iops-960", 40), ("fsx.mode-async", 0))
    ]
    headline = headline_of((), report.cells, ("fsx",), (finding,), effects=report.effects, durability=rows)
    assert "likely cause on mode=async, confidence 85 %: " in headline.text
    assert headline.text.endswith("; not safe: the base and iops=960 lost acknowledged commits")
    assert "in the same crash tests, mode=async lost none of 100" in headline.notes
    named = report.model_copy(update={"findings": (finding,), "durability": tuple(rows)})
    losses = [line for line in markdown(named).splitlines() if line.startswith("|") and " of 100 |" in line]
    assert [line.split(" | ")[0] for line in losses] == ["| the base", "| iops=960", "| mode=async"]
    assert "on mode=async (read-write)" in markdown(named)
    data = PageData(
        timelines=Timelines(cells=(), unreadable=()),
        distributions=(),
        small_multiples=(),
        session_charts=(),
        source_problems=(),
    )
    page = html(named, data)
    assert re.findall(r'<tspan class="name t\d">([^<]+)</tspan>', page)[:3] == [
        "the base",
        "iops=960",
        "mode=async",
    ]
    assert re.findall(r'title="volume fsx.mode-async">([^<]+)<', page)[0] == "mode=async"


def test_volumes_of_a_sweep_are_compared_at_one_setting_that_is_named(tmp_path: Path) -> None:
    """A headline of `5 volumes` counted each candidate once for each setting."""
    report = report_of(tmp_path, sweep=CAPACITY, volumes=("gp3", "io2", "st1"), speeds={"io2": 3.0, "st1": 0.2})
    assert report.summary.headline.startswith("io2 is better than gp3 and looks best of 3 volumes: ")
    assert re.search(
        r"transactions/s in read-write with innodb_io_capacity=(10000|200|1500) [\d.]+ times as high as on gp3 ",
        report.summary.headline,
    )
    notes = [note for note in report.summary.notes if re.match("On (gp3|io2|st1), ", note)]
    assert len(notes) == 3


def test_each_volume_of_a_sweep_has_a_note_on_its_settings(tmp_path: Path) -> None:
    speeds = {"io2": 3.0, "io2.mode-async": 1.0, "gp3.mode-async": 8.0}
    report = report_of(tmp_path, sweep=MODE, volumes=("gp3", "io2"), speeds=speeds, noise=0.002)
    figure = size_of(effect(report, "async", volume="gp3"))
    assert (
        f"On gp3, mode=async is better than mode=sync: transactions/s in read-write {figure}."
        in report.summary.notes
    )
    assert any(note.startswith("On io2, mode=async is equivalent to mode=sync: ") for note in report.summary.notes)


def test_a_setting_has_the_name_that_the_server_has() -> None:
    assert setting_text("engine.config.innodb_doublewrite", value=False) == "innodb_doublewrite=false"
    assert setting_text("steps.tree.jobs", 16) == "tree.jobs=16"


def test_no_headline_of_a_sweep_is_longer_than_three_lines(tmp_path: Path) -> None:
    for number, speeds in enumerate(({"mode-async": 0.2, "iops-960": 1.4}, {}, {"mode-async": 0.2})):
        headline = report_of(tmp_path / str(number), speeds=speeds, steps=(OLTP,)).summary.headline
        assert len(headline) <= 300
