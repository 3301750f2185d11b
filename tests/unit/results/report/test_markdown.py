"""What Markdown leaves out is counted, and what a cell is called is the same in each format."""

from __future__ import annotations

import pytest

from volbench.core.records.report import FindingRow, Report
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
