"""Budgets of volumes side by side: sums, differences with intervals, sentences, and the two pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from volbench.core.records.report import FindingRow, Report
from volbench.results.report.formats.markdown import markdown
from volbench.results.report.formats.terminal import summary_lines
from volbench.results.report.render import render
from volbench.results.report.rows.time_budget import (
    VolumeBudget,
    difference_sentences,
    time_budget_rows,
    time_difference_rows,
)
from volbench.results.report.views.time_budget import budget_charts, shares_note
from volbench.results.store.run_directory import RunDirectory


def volume(name: str, *cells: Mapping[str, float], step: str = "load") -> VolumeBudget:
    return VolumeBudget(volume=name, step=step, threads=8, cells=cells)


DISK = volume("disk", *({"data_reads": 2.0 + i / 10, "cpu": 1.0, "outside": 0.5} for i in range(5)))
GP3 = volume(
    "gp3", *({"data_reads": 10.0 + i / 10, "cpu": 1.0, "commit_log": 2.0, "outside": 0.5} for i in range(5))
)


def test_the_pieces_of_a_volume_sum_to_its_latency() -> None:
    rows = time_budget_rows([DISK, GP3])
    for name, latency in (("disk", 3.7), ("gp3", 13.7)):
        of = [row for row in rows if row.volume == name]
        assert sum(row.ms for row in of) == pytest.approx(latency)
        assert sum(row.share for row in of) == pytest.approx(1.0)
        assert [row.latency_ms for row in of] == pytest.approx([latency] * len(of))


def test_the_largest_difference_comes_first_and_the_shares_sum_to_one() -> None:
    rows = time_difference_rows([DISK, GP3], "disk")
    assert [row.piece for row in rows[:2]] == ["data_reads", "commit_log"]
    assert sum(row.difference_ms for row in rows) == pytest.approx(10.0)
    assert sum(row.share or 0.0 for row in rows) == pytest.approx(1.0)
    interval = rows[0].ci
    assert interval is not None
    assert interval[0] <= 8.0 <= interval[1]
    assert interval[0] > 7.5


def test_the_interval_of_a_shift_is_in_milliseconds() -> None:
    def interval(before: list[float], after: list[float], **more: Any) -> tuple[float, float] | None:
        sides = (volume(name, *({"cpu": ms} for ms in cells)) for name, cells in (("a", before), ("b", after)))
        (row,) = time_difference_rows([replace(side, **more) for side in sides], "a")
        return row.ci

    assert interval([1.0, 1.0], [2.0, 2.0]) is None  # too few to bound it
    before, after = [1.0, 1.1, 1.2, 1.3, 1.4], [3.0, 3.1, 3.2, 3.3, 3.4]
    assert interval(before, after) == pytest.approx((1.7, 2.3), abs=0.11)
    assert interval([5.0] * 5, [5.0] * 5) == pytest.approx((0.0, 0.0), abs=1e-4)
    assert interval(before, after, blocks=tuple(range(5))) == pytest.approx((2.0, 2.0), abs=1e-4)


def test_the_sentence_names_the_slower_volume_whichever_is_the_baseline() -> None:
    (text,) = difference_sentences(time_difference_rows([DISK, GP3], "disk"))
    assert text == (
        "A transaction takes 13.7 ms on gp3 and 3.70 ms on disk (load, 8 threads; means of 5 cells each)."
        " Of the extra 10.0 ms: 8.00 ms (80 %) reads of data files, 2.00 ms (20 %) COMMIT waiting for the redo log."
    )
    (reverse,) = difference_sentences(time_difference_rows([GP3, DISK], "gp3"))
    assert reverse == text


def test_the_sentence_says_which_cells_its_means_are_of() -> None:
    """`A transaction takes 10.4 ms` stood next to a median latency of 9.94 ms, and nothing told them apart."""
    fewer = replace(GP3, cells=GP3.cells[:3])
    for volumes in ([DISK, fewer], [fewer, DISK]):
        (text,) = difference_sentences(time_difference_rows(volumes, volumes[0].volume))
        assert "on gp3 and 3.70 ms on disk (load, 8 threads; means of 3 and 5 cells)." in text
    (text,) = difference_sentences(
        time_difference_rows([replace(side, cells=side.cells[:1]) for side in (DISK, GP3)], "disk")
    )
    assert "(load, 8 threads; one cell each)." in text
    earlier = [row.model_copy(update={"cells": None}) for row in time_difference_rows([DISK, GP3], "disk")]
    assert "(load, 8 threads)." in difference_sentences(earlier)[0]


def test_sentences_of_the_headlines_step_come_first() -> None:
    """A headline of one step stood above the times of another."""
    rows = time_difference_rows([DISK, GP3], "disk")
    both = [*rows, *(row.model_copy(update={"step": "night"}) for row in rows)]
    assert ["(night" in text for text in difference_sentences(both)] == [False, True]
    assert ["(night" in text for text in difference_sentences(both, first="night")] == [True, False]


def test_a_piece_that_shrank_is_named_where_the_others_exceed_the_whole() -> None:
    """As on a busy machine: waiting for a CPU was 115 % of the extra time, and nothing said what shrank."""
    before = volume("disk", *[{"data_reads": 1.0, "commit_log": 5.0}] * 4)
    after = volume("gp3", *[{"data_reads": 11.0, "commit_log": 3.0}] * 4)
    (text,) = difference_sentences(time_difference_rows([before, after], "disk"))
    assert "The extra 8.00 ms: 10.0 ms more in reads of data files, 2.00 ms less in COMMIT waiting" in text


def test_pieces_that_differ_by_chance_are_no_reason() -> None:
    """`0.0480 ms (88 %) CPU` stood above a table with +0.0480 ms [-0.249, 0.345]."""
    cells = [{"cpu": 1.0 + number / 10, "data_reads": 1.0} for number in range(5)]
    slower = [{"cpu": 1.15 + number / 10, "data_reads": 1.0} for number in reversed(range(5))]
    (text,) = difference_sentences(time_difference_rows([volume("disk", *cells), volume("gp3", *slower)], "disk"))
    assert text.endswith("No piece of the extra 0.150 ms is shown to differ: each interval has 0 within.")
    surer = [{**cell, "data_reads": 1.5} for cell in slower]
    (text,) = difference_sentences(time_difference_rows([volume("disk", *cells), volume("gp3", *surer)], "disk"))
    assert text.endswith(
        "Of the extra 0.650 ms: 0.500 ms (77 %) reads of data files, 0.150 ms (23 %) CPU (uncertain)."
    )


def test_a_page_says_why_shares_of_causes_are_not_those_of_pieces(pair_report: Report) -> None:
    """89 % of the latency, 76 % of the extra time and 73 % of a transaction were all of reads, without a word."""
    finding = FindingRow(cause="storage.iops_limit", volume="gp3", step="load", cell_ids=("1",), share=0.89)
    rows = time_budget_rows([DISK, GP3])
    report = pair_report.model_copy(update={"time_budgets": rows, "findings": (finding,)})
    assert "So these shares differ." in shares_note(report)
    assert shares_note(report) in markdown(report)
    for changes in ({"share": None}, {"step": "dump"}):
        spared = (finding.model_copy(update=changes),)
        assert shares_note(report.model_copy(update={"findings": spared})) == ""


def test_pieces_whose_names_have_commas_are_told_apart() -> None:
    """`0.0441 ms (73 %) CPU, and waiting for one, between statements (at most), 0.0429 ms (71 %) reads`."""
    before = volume("disk", *[{"data_reads": 1.0, "cpu_between": 1.0, "unaccounted": 3.0}] * 4)
    after = volume("gp3", *[{"data_reads": 5.0, "cpu_between": 9.0, "unaccounted": 1.0}] * 4)
    (text,) = difference_sentences(time_difference_rows([before, after], "disk"))
    assert text.endswith(
        "The extra 10.0 ms: 8.00 ms more in CPU, and waiting for one, between statements (at most);"
        " 4.00 ms more in reads of data files; 2.00 ms less in what is not accounted for."
    )


def test_no_piece_is_a_share_above_the_whole() -> None:
    """The report said `104 % of the extra time`: what shrank lies in many small pieces."""
    before = volume("disk", *[{"data_reads": 1.0, "commit_log": 0.3, "binlog_sync": 0.3, "doublewrite": 0.3}] * 4)
    after = volume("gp3", *[{"data_reads": 9.5, "commit_log": 0.1, "binlog_sync": 0.1, "doublewrite": 0.1}] * 4)
    (text,) = difference_sentences(time_difference_rows([before, after], "disk"))
    assert "The extra 7.90 ms: 8.50 ms more in reads of data files, 0.600 ms less in other pieces." in text
    assert not re.search(r"\d{3,} %", text)


def test_the_wait_for_a_client_thread_is_named_apart_from_what_makes_transactions_long() -> None:
    """An open loop on a volume that rsync reads, too: 1,500 of 2,000 ms were the queue, 503 of the rest reads."""
    before = volume("disk", *[{"data_reads": 2.0, "cpu": 1.0}] * 4)
    after = volume("gp3", *[{"data_reads": 505.0, "cpu": 3.0, "client_queue": 1500.0}] * 4)
    (text,) = difference_sentences(time_difference_rows([before, after], "disk"))
    assert text.endswith(
        "Of the extra 2,005 ms, 1,500 ms are waiting for a free client thread, because transactions take longer."
        " Of the other 505 ms: 503 ms (99.6 %) reads of data files."
    )


def test_a_queue_that_grows_where_transactions_get_shorter_is_a_piece_as_any() -> None:
    """A stall: its few transactions hardly raise the mean of the others, those behind them wait."""
    before = volume("disk", *[{"data_reads": 5.0}] * 4)
    after = volume("gp3", *[{"data_reads": 4.0, "client_queue": 10.0}] * 4)
    (text,) = difference_sentences(time_difference_rows([before, after], "disk"))
    assert "The extra 9.00 ms: 10.0 ms more in waiting for a free client thread, 1.00 ms less in reads" in text


def test_a_rest_that_is_noise_explains_no_queue() -> None:
    """A short stall: service takes 0.1 ms longer on average, and transactions wait 30 ms."""
    before = volume("disk", *[{"data_reads": 5.0}] * 4)
    after = volume("gp3", *[{"data_reads": 5.1, "client_queue": 30.0}] * 4)
    (text,) = difference_sentences(time_difference_rows([before, after], "disk"))
    assert text.endswith("Of the extra 30.1 ms: 30.0 ms (99.67 %) waiting for a free client thread.")


def test_no_sentence_where_the_volumes_take_the_same_time() -> None:
    second = volume("twin", *DISK.cells)
    assert difference_sentences(time_difference_rows([DISK, second], "disk")) == ()


def test_each_sentence_names_its_step() -> None:
    """Above stood p95 of one step, and `A transaction takes` was of another."""
    write = [volume(budget.volume, *budget.cells, step="write") for budget in (DISK, GP3)]
    texts = difference_sentences(time_difference_rows([DISK, GP3, *write], "disk"))
    assert [("(load" in text, "(write" in text) for text in texts] == [(True, False), (False, True)]


def test_single_cells_have_no_interval_and_the_sentence_says_so() -> None:
    few = [volume(budget.volume, *budget.cells[:1]) for budget in (DISK, GP3)]
    (text,) = difference_sentences(time_difference_rows(few, "disk"))
    assert text.endswith("(Too few cells for intervals.)")


def test_a_bar_is_drawn_to_the_longest_and_its_segments_do_not_overlap() -> None:
    (chart,) = budget_charts(time_budget_rows([DISK, GP3]), time_difference_rows([DISK, GP3], "disk"))
    assert [bar.volume for bar in chart.bars] == ["disk", "gp3"]
    ends = [bar.segments[-1].left + bar.segments[-1].width for bar in chart.bars]
    assert ends == pytest.approx([100 * 3.7 / 13.7, 100.0])
    for bar in chart.bars:
        for segment, following in zip(bar.segments, bar.segments[1:], strict=False):
            assert following.left == pytest.approx(segment.left + segment.width)


def test_pieces_of_disturbed_cells_are_marked() -> None:
    disturbed = VolumeBudget(volume="gp3", step="load", threads=8, cells=GP3.cells, valid=False)
    rows = time_difference_rows([DISK, disturbed], "disk")
    assert {row.valid for row in rows} == {False}
    (text,) = difference_sentences(rows)
    assert text.endswith("(Cells were disturbed: the pieces are approximate.)")
    assert {row.valid for row in time_budget_rows([DISK])} == {True}


@pytest.fixture(scope="module")
def budgeted(pair_report: Report) -> Report:
    differences = time_difference_rows([DISK, GP3], "disk")
    summary = pair_report.summary.model_copy(update={"time_difference": difference_sentences(differences)})
    return pair_report.model_copy(
        update={
            "summary": summary,
            "time_budgets": time_budget_rows([DISK, GP3]),
            "time_differences": differences,
        }
    )


def test_every_format_shows_the_budget(budgeted: Report, pair: RunDirectory) -> None:
    page, text, lines = render(budgeted, pair, "html"), markdown(budgeted), "\n".join(summary_lines(budgeted))
    assert 'id="time"' in page
    assert "piece-commit_log" in page
    assert "| reads of data files | 2.20 ms (59 %) | 10.2 ms (74 %) | +8.00 ms |" in text
    assert "load on gp3: a transaction takes 13.7 ms: reads of data files 74 %" in lines
    for displayed in (page, text, lines):
        assert "A transaction takes 13.7" in displayed.replace("\N{NO-BREAK SPACE}", " ")


def test_a_report_without_budgets_has_no_empty_section(pair_report: Report, pair: RunDirectory) -> None:
    bare = pair_report.model_copy(update={"time_budgets": (), "time_differences": ()})
    assert 'id="time"' not in render(bare, pair, "html")
