"""The structured fuzzer itself: its changes keep types, its judges see what is wrong; and a part of its rows."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import fuzzing
import pytest
from fuzzed.reader import Reader
from lines_reached import Tracer, lines_of_package
from structured import BY_NAME, ROWS, values
from structured.outputs import CHECKS, BadOutput

from volbench.core.base import text

PAGE = "<!doctype html><html><body><p>{}</p></body></html>"
BAD: tuple[tuple[str, str], ...] = (
    ("html", PAGE.format("<b>x")),
    ("html", PAGE.format("nan ms")),
    ("html", PAGE.format("\x1b[31m")),
    ("html", PAGE.format("<i onclick='x'>y</i>")),
    ("html", PAGE.format("<script>alert(1)</script>")),
    ("md", "a \x1b[31m"),
    ("md", "| a | b |\n|---|---|\n| 1 |\n"),
    ("md", "<script>x"),
    ("md", "is inf times"),
    ("csv", "a,b\r\n1\r\n"),
    ("csv", "a,b\r\n=1+1,2\r\n"),
    ("csv", "a\r\n\u202ex\r\n"),
    ("csv", "a\r\nnan\r\n"),
    ("json", '{"a": NaN}'),
    ("json", "{"),
    ("json", '{"a": "\\ud800"}'),
    ("junit", "<a><b></a>"),
    ("junit", "<a>\u202e</a>"),
    ("text", "a\x07"),
    ("text", "took nan s"),
)
GOOD = (
    ("html", PAGE.format("inform finance &lt;b&gt; \u2212 5 %")),
    ("md", "| a | b |\n|---|---|\n| 1 | \\| |\n"),
    ("csv", "a,b\r\n-1.5,'=1\r\n"),
    ("json", '{"a": 1}'),
    ("junit", "<a>x</a>"),
    ("text", "a\tb\n"),
)


@pytest.mark.parametrize(("kind", "output"), BAD, ids=repr)
def test_a_judge_sees_what_is_wrong(kind: str, output: str) -> None:
    with pytest.raises((BadOutput, ValueError, SyntaxError)):
        CHECKS[kind](output)


@pytest.mark.parametrize(("kind", "output"), GOOD, ids=repr)
def test_a_judge_passes_what_is_right(kind: str, output: str) -> None:
    CHECKS[kind](output)


def kinds(tree: Any) -> set[type]:
    sections = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return {type(tree)}.union(*map(kinds, sections))


def test_changes_keep_types() -> None:
    tree = {"a": [1, 2], "b": {"c": "text", "d": 3}, "e": "x"}
    for number in range(300):
        changed = json.loads(values.typed_json(random.Random(number), [json.dumps(tree).encode()]))
        assert kinds(changed) <= {dict, list, int, str}
        assert isinstance(changed, dict)


@pytest.mark.parametrize("row", [ROWS[number] for number in range(0, len(ROWS), 6)], ids=lambda row: row.name)
def test_a_part_of_the_rows(row: Reader, tmp_path: Path) -> None:
    """A few seconds of the campaign; all rows are in tests/fuzz."""
    error = fuzzing.execute(row, fuzzing.damaged(row, 7), tmp_path)
    if error is not None:
        raise error


def test_lines_are_traced_and_a_guided_input_is_made_again(tmp_path: Path) -> None:
    tracer = Tracer("/volbench/")
    with tracer:
        text.percent(0.5)
    assert tracer.found_new()
    with tracer:
        text.percent(0.5)
    assert not tracer.found_new()
    (files,) = tracer.lines("x").of_reader.values()
    assert files["core/base/text.py"] <= lines_of_package(fuzzing.PACKAGE)["core/base/text.py"]

    row = BY_NAME["typed: dsn"]
    outcomes = [fuzzing.run_numbers(row, range(40), tmp_path, guided=True) for _ in range(2)]
    assert outcomes[0].guides
    assert outcomes[0].lines.of_reader[row.name]


def test_a_stopped_campaign_goes_on(tmp_path: Path) -> None:
    row = BY_NAME["typed: dsn"]
    first = fuzzing.campaign(30, [row], processes=1, state=tmp_path)
    again = fuzzing.campaign(30, [row], processes=1, state=tmp_path)
    assert first.executions == again.executions == {"typed: dsn": 30}
    assert len(list(tmp_path.iterdir())) == 1
