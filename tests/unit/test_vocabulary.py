"""Names say what a value is: pronouns, participles and everyday words are no names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from vocabulary import VAGUE

PACKAGE = Path("runner/volbench")
KEPT = {
    ("core/profile/schema.py", "parts"): "a key of profiles",
    ("core/records/cell.py", "places"): "of a CellPlaces; its key is `paths`",
    ("core/sql/tokens.py", "WORD"): "a token that is a word",
}
WHAT_FAILED = "what"
"""The first field of a VolbenchError, and of the classes that describe one."""
WITH_ERRORS = ("errors.py", "machine")


def bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Each name of a function, parameter, class, field or variable, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def _vague(path: Path) -> Iterator[str]:
    """Yield the names of a module that are none of the field's."""
    module = str(path.relative_to(PACKAGE))
    for line, name in bound_names(ast.parse(path.read_text())):
        if name.strip("_").lower() not in VAGUE or (module, name) in KEPT:
            continue
        if name != WHAT_FAILED or not module.startswith(WITH_ERRORS):
            yield f"{path}:{line}: {name}"


def test_names_are_nouns_and_verbs_of_the_field() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 500
    assert [name for path in files for name in _vague(path)] == []


def test_each_class_has_a_name_of_its_own() -> None:
    """A reader who looks a public class up by its name finds one."""
    modules: dict[str, list[str]] = {}
    for path in sorted(Path("runner").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(str(path))
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}


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
