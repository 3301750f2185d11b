"""The headline has size, cause and decision in at most three clauses, for one, two and many volumes and sweeps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest
from headline_runs import report_of, tps_of
from synthetic_run import OLTP, Synthetic, SyntheticVolume, build_run

from volbench.core.base.text import change_words, interval_words
from volbench.core.records.report import ComparisonRow
from volbench.core.records.steps.dump import DumpStep
from volbench.core.suite.load import load_suite
from volbench.errors import UsageError
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.comparison_summary import summarise
from volbench.results.report.build import build_report
from volbench.results.report.rows.verdict.headline import headline_of
from volbench.results.report.rows.verdict.subject import subject_of
from volbench.results.store.files import write_record
from volbench.results.store.run_directory import RUN_FILE, RunDirectory


def size_of(row: ComparisonRow, than: str = "") -> str:
    """The change with its interval."""
    assert row.ratio is not None
    assert row.ci is not None
    return f"{change_words(row.ratio, than)} (95 %: {interval_words(row.ci, row.ratio)})"


@pytest.mark.parametrize(("speed", "term"), [(3.0, "better"), (1 / 3, "worse"), (1.4, "better")])
def test_of_two_volumes_it_says_which_and_by_how_much(tmp_path: Path, speed: float, term: str) -> None:
    """The candidate is the subject whichever wins, and the figure is that of the table."""
    report = report_of(tmp_path, 1.0, speed)
    assert report.summary.headline == (
        f"b is {term} than a: transactions/s in read-write {size_of(tps_of(report))}; measured 5 times each"
    )
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
    assert re.fullmatch(
        r"b is equivalent to a: .*; no metric beyond 5 %; measured 5 times each", report.summary.headline
    )


def test_of_three_volumes_it_names_the_best_and_the_figures_of_all(tmp_path: Path) -> None:
    report = report_of(tmp_path, 1.0, 0.4, 0.1, steps=(OLTP,))
    figures = [size_of(tps_of(report, name)) for name in "bc"]
    assert report.summary.headline == (
        f"a is best of 3 volumes: transactions/s in read-write {figures[0]} on b and {figures[1]} on c;"
        " against a: both candidates worse"
    )


def test_candidates_are_not_compared_with_each_other(tmp_path: Path) -> None:
    """Two that are better than the baseline: which of both is better was not tested."""
    report = report_of(tmp_path, 1.0, 1.5, 3.0)
    figures = [size_of(tps_of(report, name), "on a") for name in "bc"]
    assert report.summary.headline == (
        f"c is better than a and looks best of 3 volumes: transactions/s in read-write {figures[1]};"
        " against a: both candidates better"
    )
    assert report.summary.notes == (f"By the same figure: b {figures[0]}.",)


def test_of_twelve_volumes_it_has_the_best_only_and_its_notes_the_worst(tmp_path: Path) -> None:
    """Eight volumes, who lacks a figure and whose cause: nobody read on."""
    speeds = (1.0, *(0.5 + 0.25 * number for number in range(11)))
    report = report_of(tmp_path, *speeds, repeats=1)
    figure, worst = (change_words(tps_of(report, name).ratio or 0, "on a") for name in "lb")
    assert report.summary.headline.startswith(
        "One cell each, not decided: l looks best of 12 volumes: transactions/s in read-write "
        f"{figure}; a, d, e, f and 6 more lie on the same "
    )
    assert report.summary.notes == (
        f"By the same figure, b is the last: {worst}.",
        "Repeat to decide.",
    )
    assert len(report.summary.headline) < 220


def test_what_is_not_decided_is_said_before_what_looks_best(tmp_path: Path) -> None:
    """`gp3 looks best of 3 volumes` stood above `are not decided yet`, as if both were said of one thing."""
    summary = report_of(tmp_path, 1.0, 3.0, 0.2, repeats=1).summary
    assert summary.headline.startswith("One cell each, not decided: b looks best of 3 volumes: ")
    assert summary.sentence == "No difference from a is decided: one cell each."


def test_one_of_many_is_better_in_a_headline_only_where_that_holds_among_all(tmp_path: Path) -> None:
    """One of eleven has 5 cells that a pair's own test names; the other ten are as good as the first."""
    speeds = (1.0, *([1.0] * 10), 1.15)
    short = OLTP.model_copy(update={"warmup_s": 2.0, "duration_s": 8.0})
    report = report_of(tmp_path, *speeds, noise=0.03, repeats=5, steps=(short,))
    named = [row.candidate for row in report.comparisons if row.primary and row.verdict == "better"]
    assert named, "no pair is named at all: this test would show nothing"
    assert "is better than" not in report.summary.headline
    assert f"{named[0]} looks best of 12 volumes: " in report.summary.headline
    notes = " ".join(report.summary.notes)
    assert (
        f"The interval of {named[0]} is of that pair alone: of 11 such tests one may err, and among all it "
        in notes
    )
    (numbers,) = re.findall(r"By this figure, of 11 candidates ([^.]+)\.", notes)
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


def test_a_run_without_a_result_does_not_count_its_results() -> None:
    """`0 step results and none valid` is no sentence."""
    assert headline_of((), (), ("a",), ()).text == "No figure of a: no step has a result"


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
    assert re.search("of the 2 of 5 volumes that can be compared: dump time", text)


def test_a_headline_of_many_is_of_decided_rows_where_its_own_step_is_open(tmp_path: Path) -> None:
    """A run on EFS called one volume best by an open reading speed, and ended `both worse` by small files."""
    report = report_of(tmp_path, 1.0, 0.4, 0.1, steps=(OLTP, DumpStep(name="dump")))
    open_dumps = [
        row.model_copy(update={"verdict": "inconclusive", "ratio": 1.5}) if row.step == "dump" else row
        for row in report.comparisons
    ]
    pairs = summarise(cast("Iterable[Comparison]", open_dumps))
    text = headline_of(pairs, report.cells, tuple("abc"), (), about=("dump",)).text
    assert text.startswith("a is best of 3 volumes: transactions/s in read-write ")
    assert text.endswith("; against a: both candidates worse")


def test_of_many_volumes_the_worst_is_named_where_it_is_worse_than_the_baseline(tmp_path: Path) -> None:
    """The best of eight was so in its burst: without credits the same volume was the last."""
    summary = report_of(tmp_path, 1.0, 3.0, 2.0, 1.5, 0.3).summary
    assert re.match(
        r"b is better than a and looks best of 5 .*: .* [\d.]+ times as high as on a ", summary.headline
    )
    assert re.match(r"By the same figure, e is the last: 1/[\d.]+ as high as on a ", summary.notes[0])
    assert "last" not in "".join(report_of(tmp_path / "all", 1.0, 3.0, 2.0, 1.5, 1.3).summary.notes)


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
    assert re.search(r"the 2 of 3 volumes that can be compared: transactions/s in read-write .* on b", text)
