"""The headline has size, cause and decision in one clause, for one, two and many volumes and for sweeps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from synthetic_run import OLTP, Synthetic, SyntheticVolume, build_run
from synthetic_sweep import sweep_of

from volbench.core.base.text import change_words
from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow, ComparisonRow, EvidenceRow, FindingRow, Report
from volbench.core.records.steps.dump import DumpStep
from volbench.core.suite.load import load_suite
from volbench.errors import UsageError
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.comparison_summary import summarise
from volbench.results.report.build import build_report
from volbench.results.report.rows.verdict.headline import headline_of
from volbench.results.report.rows.verdict.order import leading_first
from volbench.results.report.rows.verdict.reason import invalid_text
from volbench.results.report.rows.verdict.subject import subject_of
from volbench.results.report.rows.verdict.summary import pair_sentence, ranked_sentence
from volbench.results.stats.covariates import Adjustment
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RUN_FILE, RunDirectory


def report_of(results: Path, *speeds: float, repeats: int = 5, **changes: object) -> Report:
    """Volumes a, b, c... of these speeds."""
    volumes = tuple(SyntheticVolume(name=name, speed=speed) for name, speed in zip("abcdefghijklm", speeds))  # noqa: B905
    changes.setdefault("steps", (OLTP,))
    expected = Synthetic(volumes=volumes, repeats=repeats, **changes)  # type: ignore[arg-type]
    return build_report(build_run(results, expected))


def tps_of(report: Report, candidate: str = "b") -> ComparisonRow:
    return next(row for row in report.comparisons if (row.candidate, row.metric) == (candidate, "tps"))


@pytest.mark.parametrize(("speed", "term"), [(3.0, "better"), (1 / 3, "worse"), (1.4, "better")])
def test_of_two_volumes_it_says_which_and_by_how_much(tmp_path: Path, speed: float, term: str) -> None:
    """The candidate is the subject whichever wins, and the figure is that of the table."""
    report = report_of(tmp_path, 1.0, speed)
    ratio = tps_of(report).ratio
    assert ratio is not None
    assert report.summary.headline == f"b is {term} than a: transactions/s in read-write {change_words(ratio)}"
    assert report.summary.sentence.startswith(f"Volume b is {term} for MySQL than a: transactions/s ")


def test_one_cell_each_has_the_size_and_says_what_it_is_worth(tmp_path: Path) -> None:
    report = report_of(tmp_path, 1.0, 0.2, repeats=1)
    figure = change_words(tps_of(report).ratio or 0)
    assert report.summary.headline == (
        f"One cell each, not decided: b looks worse than a, transactions/s in read-write {figure}; repeat to decide"
    )


def test_what_is_not_told_apart_takes_no_side(tmp_path: Path) -> None:
    report = report_of(tmp_path, 1.0, 1.02, noise=0.08)
    assert report.summary.verdict == "inconclusive"
    assert report.summary.headline.startswith("5 cells each, not decided: b is not told apart from a, ")
    assert not re.search("better|worse", report.summary.headline)


def test_equal_volumes_are_said_to_be_equivalent(tmp_path: Path) -> None:
    report = report_of(tmp_path, 1.0, 1.0, noise=0.002)
    assert report.summary.verdict == "equivalent"
    assert re.fullmatch(r"b is equivalent to a: .*, no metric beyond 5 %", report.summary.headline)


def test_of_three_volumes_it_names_the_best_and_the_figures_of_all(tmp_path: Path) -> None:
    report = report_of(tmp_path, 1.0, 0.4, 0.1, steps=(OLTP,))
    figures = [change_words(tps_of(report, name).ratio or 0) for name in "bc"]
    assert report.summary.headline == (
        "a is best of 3 volumes by transactions/s in read-write, "
        f"b {figures[0]} and c {figures[1]} than a; both worse"
    )


def test_candidates_are_not_compared_with_each_other(tmp_path: Path) -> None:
    """Two that are better than the baseline: which of both is better was not tested."""
    headline = report_of(tmp_path, 1.0, 1.5, 3.0).summary.headline
    assert headline.startswith("c is better than a and looks best of 3 volumes by ")
    assert headline.endswith("; both better")


def test_of_twelve_volumes_it_has_the_best_and_the_worst_only(tmp_path: Path) -> None:
    """Eight volumes, who lacks a figure and whose cause: nobody read on."""
    speeds = (1.0, *(0.5 + 0.25 * number for number in range(11)))
    report = report_of(tmp_path, *speeds, repeats=1)
    figure, worst = (change_words(tps_of(report, name).ratio or 0) for name in "lb")
    assert report.summary.headline.startswith(
        "One cell each, not decided: l looks best of 12 volumes by transactions/s in read-write, "
        f"{figure} than a (worst: b {worst}); repeat to decide; a, d, e, f and 6 more lie on the same "
    )
    assert len(report.summary.headline) < 220


def test_what_is_not_decided_is_said_before_what_looks_best(tmp_path: Path) -> None:
    """`gp3 looks best of 3 volumes` stood above `are not decided yet`, as if both were said of one thing."""
    summary = report_of(tmp_path, 1.0, 3.0, 0.2, repeats=1).summary
    assert summary.headline.startswith("One cell each, not decided: b looks best of 3 volumes by ")
    assert summary.sentence == "No difference from a is decided: one cell each."


def test_one_of_many_is_better_in_a_headline_only_where_that_holds_among_all(tmp_path: Path) -> None:
    """One of eleven has 5 cells that a pair's own test names; the other ten are as good as the first."""
    speeds = (1.0, *([1.0] * 10), 1.15)
    short = OLTP.model_copy(update={"warmup_s": 2.0, "duration_s": 8.0})
    report = report_of(tmp_path, *speeds, noise=0.03, repeats=5, steps=(short,))
    named = [row.candidate for row in report.comparisons if row.primary and row.verdict == "better"]
    assert named, "no pair is named at all: this test would show nothing"
    assert "is better than" not in report.summary.headline
    assert f"; chance alone may have decided {named[0]}" in report.summary.headline
    (numbers,) = re.findall(r"; of 11 candidates ([^;]+);", report.summary.headline)
    assert sum(map(int, re.findall(r"\d+", numbers))) == 11
    assert "better" in numbers


def test_one_volume_has_its_figure(tmp_path: Path) -> None:
    headline = report_of(tmp_path, 1.0, repeats=2).summary.headline
    assert headline.startswith("a")
    assert "transactions/s 4" in headline


def test_a_volume_without_a_valid_cell_has_no_figure(tmp_path: Path) -> None:
    invalid = {("a", repeat): "client CPU-bound" for repeat in (1, 2, 3)}
    report = report_of(tmp_path, 1.0, repeats=3, invalid=invalid)
    assert report.summary.headline == (
        "No valid figure of a, 3 step results and none valid: client CPU-bound;"
        " transactions/s 416 to 423 in step read-write, all invalid"
    )


def test_a_sweep_names_the_factor(tmp_path: Path) -> None:
    assert re.fullmatch(
        r"mode from sync to async matters most: transactions/s [78]\.\d+ times higher, step read-write on fsx, \w+",
        build_report(sweep_of(tmp_path, 5)).summary.headline,
    )


def test_a_sweep_of_one_cell_each_is_not_decided(tmp_path: Path) -> None:
    headline = build_report(sweep_of(tmp_path, 1)).summary.headline
    assert headline.startswith(
        "One cell of each level, not decided: mode from sync to async seems to matter most, "
    )
    assert headline.endswith("; repeat to decide")


def finding(**changes: object) -> FindingRow:
    known_values = {
        "cause": "storage.iops_limit",
        "volume": "b",
        "step": "read-write",
        "cell_ids": ("1",),
        "share": 0.8,
        "confidence": 0.85,
    }
    return FindingRow.model_validate({**known_values, **changes})


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of(tmp_path_factory.mktemp("slower"), 1.0, 0.2)


def headline_with(report: Report, *findings: FindingRow) -> str:
    pairs = summarise(cast("Iterable[Comparison]", report.comparisons))  # rows have what it reads
    return headline_of(pairs, report.cells, ("a", "b"), findings).text


def test_the_cause_is_that_of_the_slower_volume(slower: Report) -> None:
    text = headline_with(slower, finding(volume="a", cause="storage.read_latency"), finding())
    assert text.endswith("; likely cause on b: the volume is at its limit of operations per second")


@pytest.mark.parametrize(
    "changes",
    [
        {"confidence": 0.5},
        {"confidence": None},
        {"evidence": (EvidenceRow(metric="checks", value="one of two", unit="1", text=""),)},
    ],
)
def test_what_is_not_likely_is_no_cause(slower: Report, changes: dict[str, object]) -> None:
    assert headline_with(slower, finding(**changes)).endswith("; no likely cause was found")


def test_a_likely_cause_that_explains_little_was_found(slower: Report) -> None:
    """`No likely cause was found` stood above two likely causes of that volume and step, of 8 and 9 %."""
    text = headline_with(slower, finding(share=0.05), finding(share=0.09, cause="storage.throughput_limit"))
    assert "no likely cause" not in text
    assert text.endswith("; a likely cause on b explains 9 % only: the volume is at its limit of bytes per second")


@pytest.mark.parametrize("changes", [{"step": "dump"}, {"volume": "a"}])
def test_no_cause_is_said_of_a_volume_and_a_step_where_others_have_one(
    slower: Report, changes: dict[str, object]
) -> None:
    """`No likely cause was found` stood above a list of likely causes, of other steps."""
    assert headline_with(slower, finding(**changes)).endswith("; no likely cause was found on b in read-write")


def test_no_cause_is_said_only_where_causes_were_looked_for(slower: Report) -> None:
    assert "cause" not in headline_with(slower)


def test_what_both_volumes_have_does_not_set_them_apart(slower: Report) -> None:
    """Both at their limit: it is the cause all the same, and the headline says of which volumes."""
    assert "likely cause on both a and b: " in headline_with(slower, finding(), finding(volume="a"))


def test_a_cause_is_as_likely_as_it_is_on_each_volume(slower: Report) -> None:
    """`Likely cause on both` stood above `possible, confidence 57 %` of one of them."""
    text = headline_with(slower, finding(), finding(volume="a", confidence=0.57))
    assert text.endswith(
        "; likely cause on b: the volume is at its limit of operations per second; possible on a, too"
    )


def test_what_a_step_says_alone_is_not_left_out(slower: Report) -> None:
    """`b is better` stood above metrics in which it is worse, which do not hold over all steps together."""
    [pair] = summarise(cast("Iterable[Comparison]", slower.comparisons))
    row = cast("ComparisonRow", pair.worse[0]).model_copy(update={"verdict": "better"})
    opposed = replace(pair, alone=(cast("Comparison", row),))
    text = ranked_sentence([opposed, replace(pair, candidate="c")])
    assert text == "Against a, c is worse; b is worse in some metrics, and in others perhaps better."


def test_a_cause_on_top_of_an_invalid_step_says_so(slower: Report) -> None:
    """It was withheld and asserted in two lines."""
    assert headline_with(slower, finding(valid=False)).endswith("; the step is invalid in every cell of b")


def test_a_step_that_is_invalid_on_every_volume_is_not_said_to_be_so_on_one(tmp_path: Path) -> None:
    """`invalid in every cell of gp3` stood above disk's cells, which were all invalid, too."""
    disturbed = {(name, number): 0.02 for name in "ab" for number in (1, 2, 3)}
    report = report_of(tmp_path, 1.0, 0.2, repeats=3, disturbed=disturbed)
    assert headline_with(report, finding(valid=False)).endswith("; the step is invalid in every cell")


def test_of_three_volumes_those_are_named_that_have_no_valid_cell() -> None:
    cells = [
        CellRow(
            cell_id=f"{number}-{name}",
            volume=name,
            block=0,
            repeat=number,
            step=step,
            kind="small_files",
            parameters={},
            metrics={},
            valid=name == "a" or (name == "b" and step == "tree"),
        )
        for name in "abc"
        for number in (1, 2)
        for step in ("tree", "tree/stat")
    ]
    assert invalid_text("tree", "c", cells) == "the step or a part of it is invalid in every cell of b and c"


OTHER_WORK = "other programs use the CPUs that the server needs"
LIMIT = "the volume is at its limit of operations per second"


def test_the_largest_cause_comes_first_and_that_of_the_volume_after_it(slower: Report) -> None:
    """The volume's credits, 46 %, stood before a backup, 54 %; and a cause of 26 % alone where another had 42 %."""
    other_work = finding(cause="interference.cpu", share=0.42)
    text = headline_with(slower, finding(share=0.26), other_work)
    assert text.endswith(f"; likely cause on b: {OTHER_WORK}; it explains 42 % of the latency; next, 26 %: {LIMIT}")
    unlikely = other_work.model_copy(update={"confidence": 0.5})
    assert headline_with(slower, finding(share=0.26), unlikely).endswith(f"; likely cause on b: {LIMIT}")


def test_causes_in_no_order_are_said_to_be_so(slower: Report) -> None:
    for first, second in ((0.26, 0.264), (None, 0.42)):
        text = headline_with(slower, finding(share=first), finding(cause="interference.cpu", share=second))
        size = "an unknown part" if first is None else "26 %"
        share = "42 %" if first is None else "26 %"
        assert text.endswith(
            f"; likely cause on b: {LIMIT}; it explains {size} of the latency; another likely cause, {share}:"
            f" {OTHER_WORK}; which of them explains more of the difference is not decided"
        )


def test_a_cause_that_is_larger_in_one_cell_and_smaller_in_another_is_not_the_largest(slower: Report) -> None:
    cells = {"cell_ids": ("1", "2")}
    limit = finding(share=0.3, share_by_cell=(0.25, 0.35), **cells)
    steady = finding(cause="interference.cpu", share=0.5, share_by_cell=(0.5, 0.5), **cells)
    varying = steady.model_copy(update={"share_by_cell": (0.7, 0.3)})
    assert f"on b: {OTHER_WORK}; it explains 50 % of the latency; next, 30 %: " in headline_with(
        slower, limit, steady
    )
    assert headline_with(slower, limit, varying).endswith(
        "which of them explains more of the difference is not decided"
    )


def test_what_the_faster_volume_waits_for_too_counts_less(slower: Report) -> None:
    """Other work that takes 42 % of a latency, and all of one that is a fifth of it, adds 22 % of it."""
    means = {"a": metric("latency_ms_mean", 2.0), "b": metric("latency_ms_mean", 10.0)}
    cells = [
        cell.model_copy(update={"metrics": {**cell.metrics, "latency_ms_mean": means[cell.volume]}})
        for cell in slower.cells
    ]
    slower = slower.model_copy(update={"cells": tuple(cells)})
    other_work = finding(cause="interference.cpu", share=0.42)
    of_both = other_work.model_copy(update={"volume": "a", "share": 1.0})
    text = headline_with(slower, finding(share=0.35), other_work, of_both)
    assert text.endswith(
        f"; likely cause on b: {LIMIT}; it explains 35 % of the latency; what a waits for, too, explains 42 %"
        f" of the latency: {OTHER_WORK}"
    )
    less = of_both.model_copy(update={"share": 0.1})
    text = headline_with(slower, finding(share=0.35), other_work, less)
    assert f"; likely cause on both a and b: {OTHER_WORK}; it explains 42 % of the latency; next, 35 %: " in text


@pytest.mark.parametrize(("slopes", "is_said"), [((0.4, 0.7), True), ((None, 0.7), True), ((None, None), False)])
def test_an_adjusted_figure_is_said_to_be_one(
    slower: Report, slopes: tuple[float | None, float | None], *, is_said: bool
) -> None:
    """`10 % higher` stood above medians that were 9 % lower, and nothing said that they were not of one kind."""
    adjustment = Adjustment(covariate="cpu_wanted", low=0.7, high=0.9, slopes=slopes, differ=False)
    rows = tuple(row.model_copy(update={"adjustments": (adjustment,)}) for row in slower.comparisons)
    adjusted = slower.model_copy(update={"comparisons": rows})
    assert (" times lower, adjusted for other work;" in headline_with(adjusted, finding())) == is_said
    pair = summarise(cast("Iterable[Comparison]", rows))[0]
    assert pair_sentence(pair).endswith("valid cells, adjusted for other work.") == is_said


def test_of_several_figures_the_adjusted_ones_are_named(tmp_path: Path) -> None:
    """`Adjusted for other work` stood behind a figure that the page below lists as not adjusted."""
    report = report_of(tmp_path, 1.0, 0.4, 0.1)
    adjustment = Adjustment(covariate="cpu_wanted", low=0.7, high=0.9, slopes=(0.4, 0.7), differ=False)
    of_c = {"adjustments": (adjustment,)}
    rows = [row.model_copy(update=of_c if row.candidate == "c" else {}) for row in report.comparisons]
    pairs = summarise(cast("Iterable[Comparison]", rows))
    text = headline_of(pairs, report.cells, ("a", "b", "c"), ()).text
    assert " than a, that of c adjusted for other work;" in f"{text};"


def test_of_one_volume_the_largest_cause_comes_first_in_headline_and_sentence(tmp_path: Path) -> None:
    report = report_of(tmp_path, 1.0, repeats=1)
    limit = finding(volume="a", share=0.26)
    rows = (limit, finding(volume="a", cause="interference.cpu", share=0.42))
    text = headline_of((), report.cells, ("a",), rows).text
    assert text.startswith(
        f"a, step read-write: {OTHER_WORK}, likely; it explains 42 % of the latency; next, 26 %: "
    )
    assert [row.cause for row in leading_first(rows)] == ["interference.cpu", "storage.iops_limit"]
    alike = (limit, finding(volume="a", cause="interference.cpu", share=0.26))
    text = headline_of((), report.cells, ("a",), alike).text
    assert f"26 %: {OTHER_WORK}; which of them explains more is not decided; " in text
    assert leading_first(alike) == alike


def test_a_run_without_a_result_does_not_count_its_results() -> None:
    """`0 step results and none valid` is no sentence."""
    assert headline_of((), (), ("a",), ()).text == "No figure of a: no step has a result"


def test_of_one_volume_cause_and_figure_are_of_one_step(tmp_path: Path) -> None:
    """The cause of a step that was invalid stood beside the figure of a valid one."""
    report = report_of(tmp_path, 1.0, steps=(OLTP, DumpStep(name="dump")), repeats=1)
    rows = (finding(volume="a", step="dump", valid=False), finding(volume="a", cause="server.buffer_pool"))
    text = headline_of((), report.cells, ("a",), rows).text
    assert re.fullmatch(r"a, step read-write: .*, likely; transactions/s [\d,.]+ in step read-write", text)


def test_a_suite_says_what_it_is_about(tmp_path: Path) -> None:
    """The large difference of another step does not take the headline."""
    path = tmp_path / "suite.yaml"
    text = Path("suites/efs-small-files.yaml").read_text()
    path.write_text(text.replace("about: [git, tree]", "about: [gut]"))
    with pytest.raises(UsageError, match=r"comparison.about: no step is called 'gut'"):
        load_suite(path)
    path.write_text(text)
    assert load_suite(path)[0].comparison.about == ("git", "tree")


def test_the_headline_is_of_the_first_row_of_the_suite_with_a_figure(tmp_path: Path) -> None:
    report = report_of(tmp_path, 1.0, 0.2, steps=(OLTP, DumpStep(name="dump")))
    rows = report.comparisons
    assert subject_of(rows) == ("read-write", "8 threads", "tps")
    assert subject_of(rows, ("nothing", "dump", "read-write")) == ("dump", "4 threads", "dump_s")


def test_a_step_comes_before_its_phases(tmp_path: Path) -> None:
    """Of all phases of all steps, deleting files differed most, and a suite of cold reads began with it."""
    (row,) = [row for row in report_of(tmp_path, 1.0, 0.5).comparisons if row.metric == "tps"]
    tree = row.model_copy(update={"step": "tree"})
    phase = row.model_copy(update={"step": "tree/delete", "ratio": 0.01})
    assert subject_of([tree, phase]) == ("tree", "8 threads", "tps")
    assert subject_of([phase, row]) == ("tree/delete", "8 threads", "tps")
    undecided = tree.model_copy(update={"verdict": "inconclusive"})
    assert subject_of([undecided, phase]) == ("tree/delete", "8 threads", "tps")


def test_of_fio_and_the_server_the_headline_is_of_the_server(tmp_path: Path) -> None:
    """A headline stood on fio's IOPS although MySQL was measured on the same volumes."""
    report = report_of(tmp_path, 1.0, 0.2)
    tps = tps_of(report)
    fio = tps.model_copy(update={"step": "fio/randread", "metric": "fio_iops", "ratio": 0.001, "parameters": {}})
    assert subject_of((fio, *report.comparisons)) == ("read-write", "8 threads", "tps")
    assert subject_of((fio,)) == ("fio/randread", "", "fio_iops")
    assert subject_of((fio, tps), ("fio/randread",)) == ("fio/randread", "", "fio_iops")


def test_a_step_with_the_figures_of_few_volumes_is_not_what_a_run_of_many_is_about(tmp_path: Path) -> None:
    """Of four volumes two had valid cells of MySQL, and the slower of both was the `best of 4 volumes`."""
    report = report_of(tmp_path, 1.0, 3.0, 2.0, 1.5, 0.3, steps=(OLTP, DumpStep(name="dump")))
    few = [row for row in report.comparisons if row.step != "dump" or row.candidate == "b"]
    assert subject_of(few, ("dump", "read-write")) == ("read-write", "8 threads", "tps")
    assert subject_of(few, ("dump",)) == ("dump", "4 threads", "dump_s")
    pairs = summarise(cast("Iterable[Comparison]", few))
    text = headline_of(pairs, report.cells, tuple("abcde"), (), about=("dump",)).text
    assert re.search("of the 2 of 5 volumes that can be compared by dump time", text)


def test_a_headline_of_many_is_of_decided_rows_where_its_own_step_is_open(tmp_path: Path) -> None:
    """A run on EFS called one volume best by an open reading speed, and ended `both worse` by small files."""
    report = report_of(tmp_path, 1.0, 0.4, 0.1, steps=(OLTP, DumpStep(name="dump")))
    open_dumps = [
        row.model_copy(update={"verdict": "inconclusive", "ratio": 1.5}) if row.step == "dump" else row
        for row in report.comparisons
    ]
    pairs = summarise(cast("Iterable[Comparison]", open_dumps))
    text = headline_of(pairs, report.cells, tuple("abc"), (), about=("dump",)).text
    assert text.startswith("a is best of 3 volumes by transactions/s in read-write, ")
    assert text.endswith("; both worse")


def test_of_many_volumes_the_worst_is_named_where_it_is_worse_than_the_baseline(tmp_path: Path) -> None:
    """The best of eight was so in its burst: without credits the same volume was the last."""
    headline = report_of(tmp_path, 1.0, 3.0, 2.0, 1.5, 0.3).summary.headline
    assert re.search(
        r"^b is better than a and looks best of 5 .*, [\d.]+ times higher than a \(worst: e [\d.]+ times lower\); ",
        headline,
    )
    assert "worst" not in report_of(tmp_path / "all", 1.0, 3.0, 2.0, 1.5, 1.3).summary.headline


def test_what_takes_the_conclusion_away_is_in_the_headline(tmp_path: Path) -> None:
    """Two directories of one disk: the difference is none of the storage."""
    volumes = (SyntheticVolume(name="a"), SyntheticVolume(name="d", speed=0.2))
    report = build_report(build_run(tmp_path, Synthetic(volumes=volumes, steps=(OLTP,))))
    assert re.search("; a and d lie on the same (disk|device|filesystem) ", report.summary.headline)


def test_raised_limits_are_a_caveat_of_the_verdict(tmp_path: Path) -> None:
    """What they would have left out counts."""
    directory = build_run(tmp_path, Synthetic(volumes=(SyntheticVolume(name="a"),), steps=(OLTP,), repeats=2))
    assert "limits" not in build_report(directory).summary.headline
    suite = directory.run.suite
    raised = suite.model_copy(update={"limits": suite.limits.model_copy(update={"foreign_cpu": 0.9})})
    write_record(directory.path / RUN_FILE, directory.run.model_copy(update={"suite": raised}))
    summary = build_report(RunDirectory.open(directory.path)).summary
    assert summary.headline.endswith("; validity limits were raised")
    assert any("foreign_cpu 0.9 instead of 0.1" in caveat for caveat in summary.caveats)


def test_the_only_volume_that_can_be_compared_is_named(tmp_path: Path) -> None:
    """`best of the 2 of 3 volumes that can be compared, 18.6 times higher than ebs` did not say which is higher."""
    report = report_of(tmp_path, 1.0, 0.2, 0.5, repeats=3)
    rows = [row.model_copy(update={"ratio": None} if row.candidate == "c" else {}) for row in report.comparisons]
    pairs = summarise(cast("Iterable[Comparison]", rows))
    text = headline_of(pairs, report.cells, ("a", "b", "c"), ()).text
    assert re.search(r"the 2 of 3 volumes that can be compared by transactions/s in read-write, b .* than a", text)
