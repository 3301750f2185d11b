"""No sentence counts `1 rows`: what is counted goes through `counted`, which knows the singular."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ROOT

from volbench.core.base.text import counted

PACKAGE = ROOT / "runner/volbench"
COUNTS = frozenset(
    {"count", "cells", "unneeded", "points", "samples", "tables", "missing", "matching", "rows_read"}
)
"""Names of numbers of things, besides len()."""
NEVER_ONE = frozenset(
    {
        "core/base/parse.py: len(text) digits",
        "results/explain/calibration.py: len(checks) hold,",
        "results/explain/recordings/timeline.py: len(entities) devices (--device names another)",
        "results/recorded/formats.py: len(recorded) recordings in this file are read: divide",
        "results/recorded/timelines.py: len(hosts) hosts, explained each for itself:",
        "results/report/formats/terminal.py: count comparisons without a test:",
        "results/report/wording.py: base cells of each level",
        "results/report/rows/nodes.py: count cells",
        "results/report/views/cost_tables.py: row.cells cells",
    }
)
"""Where the line before has asked whether there are several, and a key of a file."""
NO_NOUNS = frozenset({"is", "this", "as", "was", "has", "ms", "s", "times", "less", "across", "plus", "us", "does"})
_TOKEN = re.compile(r" (?P<word>[a-z]+)\b(?! or one)")


def counts_without_singular(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and words after each count of an f-string that stand in the plural whatever the count is."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            if not (isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant)):
                continue
            match = _TOKEN.match(str(after.value))
            if match and _is_count(value.value) and _is_plural(match["word"]):
                yield node.lineno, f"{ast.unparse(value.value)} {str(after.value).strip()[:40]}"


def _is_count(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "len"
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in COUNTS


def _is_plural(term: str) -> bool:
    verb = term in {"are", "were", "have", "differ", "fail", "hold"}
    return verb or (term.endswith("s") and not term.endswith("ss") and term not in NO_NOUNS)


@pytest.mark.parametrize("folder", sorted(path.name for path in PACKAGE.iterdir() if path.is_dir()))
def test_a_count_has_its_singular(folder: str) -> None:
    paths = [
        f"{path.relative_to(PACKAGE)}: {arguments}"
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for _, arguments in counts_without_singular(path.read_text())
    ]
    assert [text for text in paths if text not in NEVER_ONE] == []


def test_the_check_finds_a_plural() -> None:
    assert list(counts_without_singular('f"{len(x)} rows differ"')) == [(1, "len(x) rows differ")]
    assert not list(counts_without_singular('f"{len(x)} ms"'))
    assert [counted(count, "class is", "classes are") for count in (1, 2)] == ["1 class is", "2 classes are"]


_IN_TEMPLATE = re.compile(
    r"\{\{(?P<count>[^{}]*(?:\|length|\.(?:cells|threads|samples|intervals|runs\w*)) *)\}\} (?P<noun>[a-z]+s)\b"
)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.j2")), ids=lambda path: path.name)
def test_no_page_counts_in_the_plural_only(path: Path) -> None:
    """`12 runs of 1 suites` headed the history."""
    plurals = [match[0] for match in _IN_TEMPLATE.finditer(path.read_text()) if match["noun"] not in NO_NOUNS]
    assert plurals == []
