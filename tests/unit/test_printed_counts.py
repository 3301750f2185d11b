"""Each count that a page prints is made again from committed data by a test, or listed with the reason why not."""

from __future__ import annotations

import ast
import datetime
import re
from collections.abc import Iterator
from functools import cache
from typing import TypedDict

import pytest
from printed_counts import COUNT, ROOT, counts_of, pattern_of, plain, tracked
from recounts import RECOUNTS
from ruamel.yaml import YAML

LISTED = ROOT / "tests/fixtures/printed-counts.yaml"
LEFT_OUT = re.compile(r"^(CHANGELOG\.md|docs/changes/|tests/golden/|results/examples/.*/report[^/]*\.md$)")
"""News of a version, expected outputs, and reports, which volbench writes."""
EXAMPLES = ("Return ", "The key of ")
"""Beginnings of docstrings whose counts are examples of what is returned."""


def docstrings(path: str) -> str:
    """The docstrings of a module that say more than what is returned, as sentences."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    expressions = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    texts = [item.value for item in expressions if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return plain("\n".join(text for text in texts if not text.startswith(EXAMPLES)))


SOURCES = [
    path for path in tracked("runner/**.py") if COUNT.search(plain((ROOT / path).read_text(encoding="utf-8")))
]
MODULES = {path: text for path in SOURCES if any(counts_of(text := docstrings(path)))}
PAGES = {
    path: plain((ROOT / path).read_text(encoding="utf-8")) for path in tracked("*.md") if not LEFT_OUT.match(path)
} | MODULES


class _Listed(TypedDict, total=False):
    page: str
    text: str
    test: str
    reason: str
    since: str


@cache
def listed() -> tuple[_Listed, ...]:
    return tuple(YAML(typ="safe").load(LISTED.read_text(encoding="utf-8")))


def spans(page: str, text: str) -> Iterator[tuple[int, int]]:
    """Parts of a page whose counts are accounted for."""
    patterns = [pattern_of(entry["text"]) for entry in listed() if entry["page"] == page and entry["text"] != "…"]
    sentences = [
        re.compile(re.escape(plain(sentence))) for recount in RECOUNTS.get(page, ()) for sentence in recount()
    ]
    for pattern in (*patterns, *sentences):
        matches = [match.span() for match in pattern.finditer(text)]
        assert matches, f"{page} has no such sentence: {pattern.pattern}"
        yield from matches
    if any(entry["page"] == page and entry["text"] == "…" for entry in listed()):
        yield 0, len(text)


@pytest.mark.parametrize("page", PAGES)
def test_each_count_of_a_page_is_made_again_or_listed(page: str) -> None:
    """A count that no test made again said 15 of 69 where 17 of 69 were."""
    text = PAGES[page]
    accounted = [*spans(page, text)]
    open_counts = [
        count.text
        for count in counts_of(text)
        if not any(start <= count.start and count.end <= end for start, end in accounted)
    ]
    assert open_counts == [], "make them again in tests/support/recounts, or list them in printed-counts.yaml"


def test_the_pages_of_counts_are_there() -> None:
    assert {*RECOUNTS, *(entry["page"] for entry in listed())} <= {*PAGES}


@pytest.mark.parametrize("entry", listed(), ids=lambda entry: f"{entry['page']}: {entry['text'][:40]}")
def test_a_listed_count_names_its_test_or_its_reason(entry: _Listed) -> None:
    if "test" not in entry:
        assert len(entry["reason"]) > 10
        assert datetime.date.fromisoformat(str(entry["since"])) >= datetime.date(2026, 11, 28)
        return
    assert "reason" not in entry
    file, _, name = entry["test"].partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("20 of 21 are named", 1),
        ("**5 of their** 9 cuts lost 9,074 of the 20,142 commits", 2),
        ("a gp2 of 100 GiB, a file of 20 of 30 MiB, 11 to 20 % of 2", 0),
        ("the day of 26 of 27 November", 0),
        ("1.5 of 2 CPUs and 3 of 2", 0),
    ],
)
def test_counts_are_told_from_other_numbers(text: str, count: int) -> None:
    assert len([*counts_of(plain(text))]) == count
