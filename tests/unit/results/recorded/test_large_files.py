"""What a large file costs: a few times what its JSON or its lines cost alone, whatever formats there are."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volbench.core.base.parse import NUMBER_MAX, WHOLE_MAX, json_at, parse_json
from volbench.results.recorded.formats import FORMATS, read_text
from volbench.results.recorded.json_values import json_values
from volbench.results.recorded.parsed import HEAD_CHARACTERS, all_times, first_lines, joined
from volbench.results.recorded.passed_on import passed_on
from volbench.results.store.series import Series

METRICS = ("VolumeReadOps", "VolumeWriteOps", "VolumeReadBytes", "VolumeWriteBytes")
MINUTES = 20 * 24 * 60
JSON_TIMES_MAX = 5
"""CPU time of an answer of CloudWatch over that of json.loads: about 2; with each format on its one line, 11."""
LINES_TIMES_MAX = 14
"""CPU time of a CSV that no format is, over that of its splitlines: 5 to 9; with its lines for each format, 27."""


def cloudwatch() -> str:
    """All points in one line, as `json.dumps` and the AWS CLI's answer without a pager have them."""
    random = np.random.default_rng(1)
    stamps = np.datetime_as_string(np.datetime64(1767225600, "s") + 60 * np.arange(MINUTES)).tolist()
    results = [
        {"Label": name, "Timestamps": stamps, "Values": random.exponential(1e8, MINUTES).round(1).tolist()}
        for name in METRICS
    ]
    return json.dumps({"MetricDataResults": results})


def series_of_minutes() -> str:
    return "t,iops\n" + "".join(f"{1767225600 + 60 * n},{n % 977}.25\n" for n in range(5 * MINUTES))


def cpu_s(call: Callable[[], object]) -> float:
    """Return the CPU time of a call, without collections of garbage, which cost what else the process holds."""
    gc.disable()
    try:
        begun_s = time.process_time()
        call()
        return time.process_time() - begun_s
    finally:
        gc.enable()


def least_ratio(call: Callable[[], object], unit: Callable[[], object]) -> float:
    """Return the least of five ratios of neighbours in time: what else runs makes single ones dearer."""
    return min(cpu_s(call) / cpu_s(unit) for _ in range(5))


def test_an_answer_in_one_line_costs_a_few_times_what_its_json_costs() -> None:
    text = cloudwatch()
    assert least_ratio(lambda: read_text(text), lambda: json.loads(text)) < JSON_TIMES_MAX


def test_a_file_that_no_format_is_costs_a_few_times_what_its_lines_cost() -> None:
    text = series_of_minutes()
    assert least_ratio(lambda: read_text(text), text.splitlines) < LINES_TIMES_MAX


@pytest.mark.parametrize("made", [cloudwatch, series_of_minutes])
def test_formats_are_told_by_the_head_of_a_text(made: Callable[[], str]) -> None:
    text = made()
    longer = text * 4
    assert len(text) > HEAD_CHARACTERS
    assert [one.matches(longer) for one in FORMATS] == [one.matches(text) for one in FORMATS]


def test_first_lines_are_those_of_the_text_and_a_line_without_an_end_is_none() -> None:
    assert first_lines("a\nb\nc", 2) == ["a", "b"]
    assert first_lines("a\nb\nc", 9) == ["a", "b", "c"]
    line = "x" * 100
    many = f"{line}\n" * 20_000
    assert first_lines(many, 4000) == [line] * 4000
    assert set(first_lines(many, 20_000)) == {line}
    assert first_lines("{" * (HEAD_CHARACTERS + 1), 400) == []


def reference(text: str) -> Any:
    """Return JSON read with a function for each number, as slow as that is."""

    def whole(digits: str) -> int:
        if len(digits) > 40 or abs(int(digits)) > WHOLE_MAX:
            raise ValueError(digits)
        return int(digits)

    def fraction(digits: str) -> float:
        if not abs(float(digits)) <= NUMBER_MAX:
            raise ValueError(digits)
        return float(digits)

    return json.loads(text, parse_int=whole, parse_float=fraction)


NUMBERS = st.from_regex(r"-?(?:0|[1-9][0-9]{0,24})(?:\.[0-9]{1,24})?(?:[eE][-+]?[0-9]{1,3})?", fullmatch=True)


@given(st.lists(st.tuples(st.sampled_from(["a", "0e", "é"]), NUMBERS), max_size=4))
def test_numbers_are_read_or_refused_as_one_by_one(
    pairs: list[tuple[str, str]],
) -> None:
    text = "[" + ", ".join(f'"{name}", {number}' for name, number in pairs) + "]"
    try:
        expected = reference(text)
    except ValueError:
        for read in (parse_json, lambda text: json_at(text)(0), lambda text: list(json_values(text))):
            with pytest.raises(ValueError, match=r"."):
                read(text)
        return
    assert parse_json(text) == expected
    assert json_at(text)(0) == (expected, len(text))
    assert list(json_values(f"{text}\nmessage\n{text}")) == [expected, expected]


def test_quotes_are_taken_off_where_nine_of_ten_lines_that_are_not_empty_have_them() -> None:
    quoted, blank = "> a\n" * 9, "\n" * 7
    assert passed_on(f"{blank}{quoted}b\n").text.split() == ["a"] * 9 + ["b"]
    assert passed_on(f"b\nb\n{blank}{quoted}").text == f"b\nb\n{blank}{quoted}"


def test_times_of_several_series_are_ascending_and_unique() -> None:
    def series(*t_s: float) -> Series:
        return Series(t_s=np.array(t_s), value=np.arange(len(t_s), dtype=float))

    assert all_times([series(1, 2, 3), series(1, 2, 3)]).tolist() == [1, 2, 3]
    assert all_times([series(1, 3), series(2, 3)]).tolist() == [1, 2, 3]
    assert all_times([series(3, 1, 1)]).tolist() == [1, 3]
    for times, values in (((1, 2), [0, 1]), ((2, 1, 2), [1, 2]), ((), [])):
        one = joined([series(*times)])
        assert (one.t_s.tolist(), one.value.tolist()) == (sorted(set(times)), values)
