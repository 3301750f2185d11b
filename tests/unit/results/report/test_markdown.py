"""What Markdown leaves out is counted, and what a cell is called is the same in each format."""

from __future__ import annotations

import pytest

from volbench.core.records.report import FindingRow, Report, TimeBudgetRow
from volbench.results.explain.causes import CAUSES
from volbench.results.report.formats.markdown import CAVEATS_MAX, markdown
from volbench.results.report.formats.markdown_text import LISTED_MAX, escaped
from volbench.results.report.formats.terminal import summary_lines


@pytest.mark.parametrize("further", [0, 1, 3])
def test_caveats_and_causes_that_are_left_out_are_counted(pair_report: Report, further: int) -> None:
    """The eighth caveat said that a change was adjusted for other work; nobody could know that there was one."""
    names = [name for name in CAUSES if name != "none"][: LISTED_MAX + further]
    findings = tuple(
        FindingRow(cause=name, volume="a", step="load", cell_ids=("1",), confidence=0.95, valid=True)
        for name in names
    )
    caveats = tuple(f"Caveat {number}." for number in range(CAVEATS_MAX + further))
    summary = pair_report.summary.model_copy(update={"caveats": caveats})
    text = markdown(pair_report.model_copy(update={"summary": summary, "findings": findings}))
    assert text.count("> ⚠️ Caveat ") == CAVEATS_MAX
    for noun in ("caveat", "cause"):
        plural = "" if further == 1 else "s"
        assert (f"{further} further {noun}{plural}: see report.json" in text) == bool(further)


def test_sentences_that_are_not_below_the_headline_stand_with_the_times(pair_report: Report) -> None:
    """Times of seven pairs stood above the first caveat."""
    texts = tuple(f"A transaction takes {number} ms." for number in range(7))
    summary = pair_report.summary.model_copy(update={"box": texts, "time_difference": texts, "response": ()})
    text = markdown(pair_report.model_copy(update={"summary": summary}))
    assert [text.count(sentence) for sentence in texts] == [1] * 7
    assert text.index(texts[3]) < text.index("| step | metric |") < text.index(texts[4])


def test_what_would_decide_all_open_rows_stands_once(pair_report: Report) -> None:
    """`At least 4 cells a side are needed` stood in each of 24 rows."""
    open_rows = tuple(
        row.model_copy(update={"verdict": "inconclusive", "ci": None, "runs": (1, 1), "runs_needed": 4})
        for row in pair_report.comparisons
        if row.primary
    )
    assert len(open_rows) > 1
    text = markdown(pair_report.model_copy(update={"comparisons": open_rows}))
    assert text.count("at least 4 cells a side are needed") == 1
    assert "\nTo decide what is open, at least 4 cells a side are needed.\n" in text
    differing = (open_rows[0].model_copy(update={"runs_needed": 5}), *open_rows[1:])
    text = markdown(pair_report.model_copy(update={"comparisons": differing}))
    assert text.count("at least 4 cells a side are needed") == len(open_rows) - 1


@pytest.mark.parametrize(("count", "columns"), [(4, 8), (5, 6)])
def test_times_of_many_volumes_have_no_columns_of_differences(
    pair_report: Report, count: int, columns: int
) -> None:
    rows = tuple(
        TimeBudgetRow(
            volume=f"v{number}", step="load", piece="cpu", title="CPU", ms=1.0, share=1.0, latency_ms=1.0, cells=1
        )
        for number in range(count)
    )
    text = markdown(pair_report.model_copy(update={"time_budgets": rows, "time_differences": ()}))
    (head,) = [line for line in text.splitlines() if line.startswith("| time of a transaction: ")]
    assert head.count("|") == columns + 1


def test_code_of_a_sentence_stays_code_and_nothing_else_is_markup() -> None:
    """Pages on GitHub showed the backticks of `SET GLOBAL ...` in a sentence."""
    assert escaped("Set `innodb_io_capacity` to 2,000 on gp*3") == "Set `innodb_io_capacity` to 2,000 on gp\\*3"
    assert escaped("one ` alone and <b>") == "one \\` alone and \\<b\\>"
    assert escaped("a `x|y` of a table") == "a \\`x\\|y\\` of a table"
    assert escaped("`[a](b)` [a](b)") == "`[a](b)` \\[a\\](b)"


def test_a_disturbed_cell_is_called_so_in_each_format(pair_report: Report) -> None:
    """The terminal had `disturbed`, Markdown `invalid` of cells that both compared within their bounds."""
    of_load = [cell.model_copy(update={"valid": False}) for cell in pair_report.cells if "tps" in cell.metrics][:2]
    bounds = {"used_within_bounds": ("tps",), "bounds": {"tps": (1.0, 2.0)}}
    cells = (of_load[0], of_load[1].model_copy(update=bounds))
    report = pair_report.model_copy(update={"cells": cells, "comparisons": ()})
    for text in (markdown(report), "\n".join(summary_lines(report))):
        assert text.count("disturbed: ") == 1
        assert text.count("invalid: ") == 1
