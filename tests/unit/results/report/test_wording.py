"""Labels of metrics: each metric that can be reported has one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from volbench.core.records.base import Scalar
from volbench.core.records.metrics import CATALOGUE
from volbench.core.records.report import ComparisonRow
from volbench.results.report.rows.verdict.clauses import size_words
from volbench.results.report.wording import (
    adjustment_text,
    cells_text,
    change_text,
    confidence_text,
    decides_text,
    interval_text,
    label,
    load_text,
    table_notes,
)
from volbench.results.stats.covariates import Adjustment


def test_labels_are_those_of_the_catalogue() -> None:
    """A metric of another version goes by its own name."""
    assert {label(name) for name in CATALOGUE} == {metric.label for metric in CATALOGUE.values()}
    assert label("no_such_metric") == "no_such_metric"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"threads": 64, "rate": 100.0, "test": "oltp_read_write"}, "64 threads at 100/s"),
        ({"threads": 1, "rate": 2.5}, "1 thread at 2.5/s"),
        ({"rate": 12000}, "at 12,000/s"),
        ({"iodepth": 16, "numjobs": 1}, "16 deep"),
        ({"tool": "mysqldump"}, ""),
    ],
)
def test_a_load_in_words(parameters: dict[str, Scalar], text: str) -> None:
    assert load_text(parameters) == text


def row(ratio: float | None, ci: tuple[float, float] | None, *, after: float = 80.0) -> ComparisonRow:
    return ComparisonRow(
        step="s",
        parameters={},
        metric="tps",
        unit="1/s",
        better="higher",
        baseline="a",
        candidate="b",
        baseline_value=100.0,
        candidate_value=after,
        ratio=ratio,
        ci=ci,
        p_value=0.01,
        verdict="inconclusive",
        runs=(5, 5),
        margin=0.05,
        confidence=0.95,
    )


def test_a_change_unlike_that_of_the_medians_has_a_note() -> None:
    """As on a busy machine: 73 and 91 ms with a change of +56 %; on an idle one, 12.2 and 231 ms with x 19.1."""
    assert table_notes([row(0.8, (0.7, 0.9)), row(0.8001, (0.7, 0.9))]) == []
    (note,) = table_notes([row(0.78, (0.7, 0.9))])
    assert note.startswith(
        "Figures of volumes are medians of valid cells, or of others where none is valid, and a change is not"
    )


def test_medians_that_point_the_other_way_have_a_note_of_their_own() -> None:
    """`264 ms` and `265 ms` stood beside `-5.1 %`."""
    _, note = table_notes([row(1.05, (0.9, 1.2))])
    assert note.startswith("Where the medians point the other way, the verdict is that of the change")
    assert all("the other way" not in text for text in table_notes([row(0.78, (0.7, 0.9))]))


def test_cells_that_a_median_is_not_of_are_counted() -> None:
    """`5 / 5` stood beside medians of 3 and 4 cells: the disturbed ones are in the change alone."""
    compared = row(0.8, (0.7, 0.9))
    assert cells_text(compared) == "5 / 5"
    assert cells_text(compared.model_copy(update={"within_bounds": (2, 1)})) == "5 / 5, 3 of them disturbed"


def test_cells_too_few_to_show_their_spread_do_not_say_how_many_would_decide() -> None:
    """`no interval: may be anything` stood above `4 cells would decide` in each row of one cell."""
    undecided = row(0.8, None).model_copy(update={"runs_needed": 4, "runs": (1, 1)})
    assert decides_text(undecided) == "at least 4 cells a side are needed"
    assert decides_text(undecided.model_copy(update={"runs": (2, 3)})) == "about 4 cells a side would decide"
    assert decides_text(undecided.model_copy(update={"runs_needed": None})) == ""


def test_intervals_of_several_looks_hold_with_the_confidence_of_all_of_them() -> None:
    """`99.05 %` in a headline puzzled readers: it is the level of one look, and a table's note has it."""
    looks = [row(0.8, (0.7, 0.9)).model_copy(update={"confidence": 1 - level}) for level in (0.0095, 0.0055)]
    assert confidence_text(looks) == "95 %"
    assert size_words(looks[0]).endswith(" lower (95 %: 10 to 30 %)")
    (note,) = table_notes(looks)
    assert note.startswith("An interval is of 99.05 to 99.45 % by itself: ")
    assert note.endswith(" all these looks at a pair together hold with 95 %.")
    fixed = row(0.8, (0.7, 0.9)).model_copy(update={"confidence": 0.9})
    assert (confidence_text([fixed]), table_notes([fixed])) == ("90 %", [])


def test_no_bound_is_explained_where_it_stands() -> None:
    (note,) = table_notes([row(0.8, None)])
    assert note.startswith("No interval")
    assert table_notes([row(None, None)]) == []
    (note,) = table_notes([row(None, None).model_copy(update={"baseline_value": None})])
    assert note.startswith("A dash: no cell of that volume gave the figure.")


def test_an_interval_of_the_cells_as_they_ran_is_printed_and_explained() -> None:
    disturbed = row(5.09, None).model_copy(update={"plain_ci": (3.9, 6.7)})
    assert interval_text(disturbed) == "[× 3.90, × 6.70], with other work"
    assert change_text(disturbed) == "× 5.09 [× 3.90, × 6.70], with other work"
    assert change_text(row(0.8, None)) == "−20 %"
    *_, note = table_notes([disturbed])
    assert note.startswith("With other work: the bounds of what disturbed these cells")
    assert not any(text.startswith("No interval") for text in table_notes([disturbed]))


def test_other_work_that_hardly_varied_on_a_volume_changed_nothing_there() -> None:
    """`changes transactions/s hardly varied on gp2 and by +6.0 % on gp2-1000` was no sentence."""
    adjustment = Adjustment(covariate="cpu_wanted", low=0.01, high=0.04, slopes=(None, -0.5), differ=False)
    text = adjustment_text(cast("Any", row(0.8, (0.7, 0.9))), adjustment)
    assert "a tenth less CPU time for MySQL changes transactions/s by +5.4 % on b; on a such work hardly" in text
    both = adjustment_text(cast("Any", row(0.8, (0.7, 0.9))), replace(adjustment, slopes=(0.5, 0.5)))
    assert both.endswith("% on a and by \N{MINUS SIGN}5.1 % on b.")


def test_a_slope_that_was_taken_for_none_is_said_to_be() -> None:
    adjustment = Adjustment(covariate="cpu_taken", low=0.01, high=0.04, slopes=(0.0, 0.5), differ=False)
    text = adjustment_text(cast("Any", row(0.8, (0.7, 0.9))), adjustment)
    assert "by 0 % on a and by \N{MINUS SIGN}5.1 % on b; where that is 0 %, the cells with more other work" in text
