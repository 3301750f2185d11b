"""Names say what a value is: pronouns, participles and everyday words are no names."""

from __future__ import annotations

import ast
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


def test_the_check_finds_functions_parameters_and_variables() -> None:
    tree = ast.parse("def told(said):\n    for one in said:\n        found = one\n")
    assert [name for _, name in bound_names(tree) if name in VAGUE] == ["told", "said", "one", "found"]
