"""Names say what a value is: pronouns, participles and everyday words are no names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from vocabulary import VAGUE

PACKAGE = Path("runner/volbench")
CHECKED = (
    *("cli", "core/base", "core/plan", "core/suite", "measure/execute", "measure/sample", "measure/session"),
    *("measure/workload", "observe", "results/report", "results/site", "results/store", "testing", "validation"),
)
"""Packages without such names; the list only grows."""


def bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each name of a function, parameter, class, field or variable, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


@pytest.mark.parametrize("package", CHECKED)
def test_names_are_nouns_and_verbs_of_the_field(package: str) -> None:
    files = sorted((PACKAGE / package).rglob("*.py"))
    assert len(files) > 5
    vague = [
        f"{path}:{line}: {name}"
        for path in files
        for line, name in bound_names(ast.parse(path.read_text()))
        if name.strip("_").lower() in VAGUE
    ]
    assert vague == []


TESTS_AT_MOST = 5
"""Of 1,000 names in tests: classes, fields and modules' constants that several files share."""


def test_tests_use_the_names_of_the_field() -> None:
    names = [
        name
        for path in sorted(Path("tests").rglob("*.py"))
        if "fixtures" not in path.parts
        for _, name in bound_names(ast.parse(path.read_text()))
    ]
    vague = [name for name in names if name.strip("_").lower() in VAGUE]
    assert len(names) > 10_000
    assert len(vague) <= TESTS_AT_MOST * len(names) / 1_000, sorted(set(vague))


SPOKEN = re.compile(r"(?<!`)\b(anew|beside|mend(?:s|ed|ing)?|told|meanwhile)\b(?!-)", re.IGNORECASE)
"""Words that the glossary lists as not used, and that are no English of the field in a message either."""
OWN_WORDS = ("results/explain", "results/recorded", "results/report", "results/response")
"""Packages whose sentences are still to be read."""


def test_messages_speak_the_language_of_the_field() -> None:
    """Texts that a user reads: all strings but docstrings; a name such as `beside-dump` is a name."""
    spoken = [
        f"{path}:{line}: {text[:80]}"
        for path in sorted(Path("runner").rglob("*.py"))
        if not str(path.relative_to("runner")).startswith(tuple(f"volbench/{package}/" for package in OWN_WORDS))
        for line, text in _messages(ast.parse(path.read_text()))
        if SPOKEN.search(re.sub(r"`[^`]*`", "", text))
    ]
    assert spoken == []


def _messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each string but docstrings and notes below a constant, with its line."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    notes = {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(node, documented)
        for statement in node.body
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.lineno, node.value


def test_the_check_of_messages_reads_texts_and_no_docstrings() -> None:
    tree = ast.parse('def f():\n    """Made anew."""\n    return f"{1} made anew"\n')
    assert [text for _, text in _messages(tree)] == [" made anew"]


def test_the_check_finds_functions_parameters_and_variables() -> None:
    tree = ast.parse("def told(said):\n    for one in said:\n        found = one\n")
    assert [name for _, name in bound_names(tree) if name in VAGUE] == ["told", "said", "one", "found"]
