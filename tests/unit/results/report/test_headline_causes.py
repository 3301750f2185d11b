"""The cause in a headline: what adds most to the difference, how sure it is, and what the notes say of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from headline_runs import report_of
from synthetic_run import OLTP

from volbench.core.records.metrics import metric
from volbench.core.records.report import CellRow, ComparisonRow, EvidenceRow, FindingRow, Report
from volbench.core.records.steps.dump import DumpStep
from volbench.results.compare.comparison import Comparison
from volbench.results.compare.comparison_summary import summarise
from volbench.results.report.rows.verdict.headline import headline_of
from volbench.results.report.rows.verdict.order import leading_first
from volbench.results.report.rows.verdict.reason import invalid_text
from volbench.results.report.rows.verdict.summary import pair_sentence, ranked_sentence
from volbench.results.stats.covariates import Adjustment


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
    """The clause on the cause, and the notes."""
    pairs = summarise(cast("Iterable[Comparison]", report.comparisons))  # rows have what it reads
    headline = headline_of(pairs, report.cells, ("a", "b"), findings)
    assert headline.text.startswith("; ".join(filter(None, (headline.size, headline.cause))))
    return "".join(f"; {clause}" for clause in (headline.cause, *headline.notes) if clause)


def test_the_cause_is_that_of_the_slower_volume(slower: Report) -> None:
    text = headline_with(slower, finding(volume="a", cause="storage.read_latency"), finding())
    assert text.endswith(f"; {ON_B}: {LIMIT}")


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
    text = headline_with(slower, finding(), finding(volume="a"))
    assert text.startswith("; likely cause on both a and b, confidence 85 %: ")


def test_a_cause_is_as_likely_as_it_is_on_each_volume(slower: Report) -> None:
    """`Likely cause on both` stood above `possible, confidence 57 %` of one of them."""
    text = headline_with(slower, finding(), finding(volume="a", confidence=0.57))
    assert text.endswith(
        "; likely cause on b, confidence 85 %: the volume is at its limit of operations per second;"
        " that cause is possible on a, too"
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
    text = headline_with(slower, finding(valid=False))
    assert text.startswith("; likely cause on b, confidence 85 %, of invalid cells only: ")
    assert text.endswith("; the step is invalid in every cell of b")


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
ON_B = "likely cause on b, confidence 85 %"
LIMIT = "the volume is at its limit of operations per second"


def test_the_largest_cause_comes_first_and_that_of_the_volume_after_it(slower: Report) -> None:
    """The volume's credits, 46 %, stood before a backup, 54 %; and a cause of 26 % alone where another had 42 %."""
    other_work = finding(cause="interference.cpu", share=0.42)
    text = headline_with(slower, finding(share=0.26), other_work)
    assert text == f"; {ON_B}: {OTHER_WORK}; that cause explains 42 % of the latency; next, 26 %: {LIMIT}"
    unlikely = other_work.model_copy(update={"confidence": 0.5})
    assert headline_with(slower, finding(share=0.26), unlikely) == f"; {ON_B}: {LIMIT}"


BACKUP = "a backup or another concurrent task slows the load down"


@pytest.mark.parametrize(("limit_share", "backup_share"), [(0.26, 0.42), (0.42, 0.26), (0.3, 0.3)])
def test_a_limit_and_what_uses_the_volume_are_one_reason(
    slower: Report, limit_share: float, backup_share: float
) -> None:
    """The headline of an empty gp2 named the dump alone: another volume carries the same dump."""
    backup = finding(cause="interference.backup", share=backup_share, confidence=0.98)
    text = headline_with(slower, finding(share=limit_share, counted=False), backup)
    assert text == (
        f"; likely cause on b: {LIMIT}, and {BACKUP}; that limit explains {limit_share:.0%} of the"
        f" latency, and what uses the volume {backup_share:.0%}"
    ).replace("%", " %")
    third = finding(cause="interference.cpu", share=0.6)
    assert f": {OTHER_WORK}; that cause explains 60 %" in headline_with(slower, finding(share=0.4), backup, third)


def test_causes_in_no_order_are_said_to_be_so(slower: Report) -> None:
    for first, second in ((0.26, 0.264), (None, 0.42)):
        text = headline_with(slower, finding(share=first), finding(cause="interference.cpu", share=second))
        size = "an unknown part" if first is None else "26 %"
        share = "42 %" if first is None else "26 %"
        assert text.endswith(
            f"; {ON_B}, one of 2: {LIMIT}; that cause explains {size} of the latency; another likely cause,"
            f" {share}: {OTHER_WORK}; which of them explains more of the difference is not decided"
        )


def test_a_cause_that_is_larger_in_one_cell_and_smaller_in_another_is_not_the_largest(slower: Report) -> None:
    cells = {"cell_ids": ("1", "2")}
    limit = finding(share=0.3, share_by_cell=(0.25, 0.35), **cells)
    steady = finding(cause="interference.cpu", share=0.5, share_by_cell=(0.5, 0.5), **cells)
    varying = steady.model_copy(update={"share_by_cell": (0.7, 0.3)})
    assert f"{ON_B}: {OTHER_WORK}; that cause explains 50 % of the latency; next, 30 %: " in headline_with(
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
        f"; {ON_B}: {LIMIT}; that cause explains 35 % of the latency; what a waits for, too, explains 42 %"
        f" of the latency: {OTHER_WORK}"
    )
    less = of_both.model_copy(update={"share": 0.1})
    text = headline_with(slower, finding(share=0.35), other_work, less)
    assert text.startswith(f"; likely cause on both a and b, confidence 85 %: {OTHER_WORK}; that cause explains")
    assert " 42 % of the latency; next, 35 %: " in text


@pytest.mark.parametrize(
    ("slopes", "is_turned", "is_said"),
    [
        ((0.4, 0.7), True, True),
        ((None, 0.7), True, True),
        ((None, None), True, False),
        ((0.4, 0.7), False, False),
    ],
)
def test_an_adjusted_figure_is_said_to_be_one(
    slower: Report, slopes: tuple[float | None, float | None], *, is_turned: bool, is_said: bool
) -> None:
    """`10 % higher` stood above medians that were 9 % lower, and nothing said that they were not of one kind."""
    adjustment = Adjustment(covariate="cpu_wanted", low=0.7, high=0.9, slopes=slopes, differ=False)
    ends = {"baseline_value": 1.0, "candidate_value": 2.0} if is_turned else {}
    rows = tuple(row.model_copy(update={"adjustments": (adjustment,), **ends}) for row in slower.comparisons)
    adjusted = slower.model_copy(update={"comparisons": rows})
    pair = summarise(cast("Iterable[Comparison]", rows))[0]
    text = headline_of([pair], adjusted.cells, ("a", "b"), [finding()]).text
    assert (", adjusted for other work); " in text) == is_said
    assert pair_sentence(pair).endswith("valid cells, adjusted for other work.") == is_said


def test_of_several_figures_the_adjusted_ones_are_named(tmp_path: Path) -> None:
    """`Adjusted for other work` stood behind a figure that the page below lists as not adjusted."""
    report = report_of(tmp_path, 1.0, 0.4, 0.1)
    adjustment = Adjustment(covariate="cpu_wanted", low=0.7, high=0.9, slopes=(0.4, 0.7), differ=False)
    of_c = {"adjustments": (adjustment,), "baseline_value": 1.0, "candidate_value": 2.0}
    rows = [row.model_copy(update=of_c if row.candidate == "c" else {}) for row in report.comparisons]
    pairs = summarise(cast("Iterable[Comparison]", rows))
    text = headline_of(pairs, report.cells, ("a", "b", "c"), ()).text
    assert re.search(r"[\d.]\) on b and [^()]+ \([^()]+, adjusted for other work\) on c", text)


def test_of_one_volume_the_largest_cause_comes_first_in_headline_and_sentence(tmp_path: Path) -> None:
    report = report_of(tmp_path, 1.0, repeats=1)
    limit = finding(volume="a", share=0.26)
    rows = (limit, finding(volume="a", cause="interference.cpu", share=0.42))
    headline = headline_of((), report.cells, ("a",), rows)
    assert headline.text.endswith(f" in step read-write; likely cause, confidence 85 %: {OTHER_WORK}")
    assert headline.notes[0] == f"that cause explains 42 % of the latency; next, 26 %: {LIMIT}"
    assert [row.cause for row in leading_first(rows)] == ["interference.cpu", "storage.iops_limit"]
    alike = (limit, finding(volume="a", cause="interference.cpu", share=0.26))
    headline = headline_of((), report.cells, ("a",), alike)
    assert "likely cause, confidence 85 %, one of 2: " in headline.text
    assert headline.notes[0].endswith(f"26 %: {OTHER_WORK}; which of them explains more is not decided")
    assert leading_first(alike) == alike


def test_of_one_volume_cause_and_figure_are_of_one_step(tmp_path: Path) -> None:
    """The cause of a step that was invalid stood beside the figure of a valid one."""
    report = report_of(tmp_path, 1.0, steps=(OLTP, DumpStep(name="dump")), repeats=1)
    rows = (finding(volume="a", step="dump", valid=False), finding(volume="a", cause="server.buffer_pool"))
    text = headline_of((), report.cells, ("a",), rows).text
    assert re.fullmatch(r"a: transactions/s [\d,.]+ in step read-write; likely cause, confidence 85 %: .*", text)
