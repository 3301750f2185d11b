"""The end of a run in the terminal: verdict first, each comparison in a line, all that went wrong."""

from __future__ import annotations

import re

import pytest

from volbench.core.records.report import ComparisonRow, Report
from volbench.results.report.formats.terminal import (
    LINES_MAX,
    comparison_line,
    comparison_lines,
    summary_lines,
    terminal_summary,
)
from volbench.results.report.terms import verdict_notes


def row_of(report: Report, metric: str) -> ComparisonRow:
    return next(row for row in report.comparisons if row.metric == metric and row.step == "read-write")


def test_the_verdict_comes_first(pair_report: Report) -> None:
    lines = [line for line in summary_lines(pair_report) if line]
    assert lines[:2] == [f"{pair_report.summary.headline}.", pair_report.summary.sentence]
    assert "b" in lines[0]


def test_a_line_for_each_primary_comparison_and_for_no_other(pair_report: Report) -> None:
    text = "\n".join(summary_lines(pair_report))
    for row in pair_report.comparisons:
        assert (comparison_line(row) in text) == row.primary


def test_a_line_has_values_unit_change_interval_p_and_verdict(pair_report: Report) -> None:
    line = comparison_line(row_of(pair_report, "tps"))
    assert re.fullmatch(
        r"  read-write tps: b against a: medians [\d.]+ -> [\d.]+/s,"
        r" change \+\d+ % \[\+\d+ %, \+\d+ %\], p [\d.e-]+: better",
        line,
    )


def test_what_is_open_says_how_many_cells_would_decide(pair_report: Report) -> None:
    row = row_of(pair_report, "tps").model_copy(update={"verdict": "inconclusive", "runs_needed": 12})
    assert comparison_line(row).endswith(": inconclusive, about 12 cells a side would decide")


def test_without_a_ratio_the_reason_is_said(pair_report: Report) -> None:
    row = row_of(pair_report, "tps").model_copy(
        update={"ratio": None, "ci": None, "verdict": "inconclusive", "reason": "no cell of b is valid"}
    )
    assert comparison_line(row) == "  read-write tps: b against a: inconclusive (no cell of b is valid)"


def test_comparisons_that_lack_a_test_for_the_same_reason_share_a_line(pair_report: Report) -> None:
    tested = row_of(pair_report, "tps")
    few, none = (
        tested.model_copy(update={"ratio": None, "ci": None, "verdict": "inconclusive", "reason": reason})
        for reason in ("1 against 1 valid cells", "no cell of b is valid")
    )
    assert list(comparison_lines([few, tested, few, none])) == [
        comparison_line(tested),
        comparison_line(none),
        "  2 comparisons without a test: 1 against 1 valid cells",
    ]


@pytest.mark.parametrize("missing", ["baseline_value", "p_value"])
def test_what_is_not_known_is_never_shown_as_a_number(pair_report: Report, missing: str) -> None:
    row = row_of(pair_report, "tps").model_copy(update={missing: None, "p_adjusted": None})
    line = comparison_line(row)
    assert "None" not in line
    assert "nan" not in line
    assert ("– ->" in line) == (missing == "baseline_value")


def test_invalid_and_failed_cells_are_named_with_their_reason(troubled_report: Report) -> None:
    text = "\n".join(summary_lines(troubled_report))
    assert re.search(r"invalid: \S+-a-r1 read-write: client CPU-bound \(0\.97 of its cores\)", text)
    assert re.search(r"failed: \S+-b-r2: mysqld was killed", text)


def test_caveats_and_measured_share_are_said(troubled_report: Report) -> None:
    text = "\n".join(summary_lines(troubled_report))
    assert troubled_report.summary.caveats
    assert all(f"note: {caveat}" in text for caveat in troubled_report.summary.caveats)
    assert re.search(r"\d+ min \d\d s measured of \d+ min \d\d s \(\d+ %\)", text)


def test_one_volume_alone_has_no_comparison_and_no_error(single_report: Report) -> None:
    lines = summary_lines(single_report)
    assert any(lines)
    assert not any("against" in line for line in lines)


def test_a_terminal_gets_the_verdict_the_cause_and_a_dozen_lines(pair_report: Report) -> None:
    caveats = tuple(f"caveat {number}" for number in range(30))
    failures = ({"cell_id": "01-a", "message": "the disk is gone", "cause": "volume_gone"},)
    summary = pair_report.summary.model_copy(update={"caveats": caveats})
    displayed = terminal_summary(pair_report.model_copy(update={"summary": summary, "failures": failures}))
    first = (f"{pair_report.summary.headline}.", pair_report.summary.sentence)
    assert displayed.verdict == (*first, " ".join(verdict_notes(summary)))
    assert len(displayed.lines) == LINES_MAX
    assert "the disk is gone" in displayed.lines[0], "what went wrong comes before what was measured"
    assert "measured of" in displayed.lines[-1]
    assert displayed.left_out > 15
    assert terminal_summary(pair_report).left_out < displayed.left_out


@pytest.mark.parametrize("field", ["box", "response"])
def test_no_note_and_no_comparison_pushes_what_a_millisecond_costs_off_the_screen(
    pair_report: Report, field: str
) -> None:
    """A run has as many comparisons as steps and metrics, and notes on volumes and cells: each alone fills it."""
    sentence = "Each millisecond of a read of data files costs a transaction of read-write 14.9 [14.2, 16.3] ms."
    accounts = {"box": (), "response": (sentence,), field: (sentence,)}
    notes = {"caveats": tuple(f"caveat {number}" for number in range(30))}
    summary = pair_report.summary.model_copy(update={**accounts, **notes})
    comparisons = tuple(
        row_of(pair_report, "tps").model_copy(update={"step": f"step-{number}"}) for number in range(30)
    )
    displayed = terminal_summary(pair_report.model_copy(update={"summary": summary, "comparisons": comparisons}))
    assert displayed.lines[0] == f"  {sentence}"
    assert len(displayed.lines) == LINES_MAX
    assert [line for line in displayed.lines if sentence in line] == [f"  {sentence}"]


def test_a_sentence_of_the_headline_s_step_is_not_printed_again(pair_report: Report) -> None:
    summary = pair_report.summary.model_copy(
        update={"box": ("One.", "Two."), "response": ("One.",), "time_difference": ("Two.", "Three.")}
    )
    lines = terminal_summary(pair_report.model_copy(update={"summary": summary, "comparisons": ()})).lines
    assert [line.strip() for line in lines if line.strip() in {"One.", "Two.", "Three."}] == [
        "One.",
        "Two.",
        "Three.",
    ]
