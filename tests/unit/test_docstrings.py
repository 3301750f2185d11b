"""Docstrings begin with a verb, and their `Args:` name parameters that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_SECTION = re.compile(r"^Args:\n(?P<lines>(?: +\S.*\n?)+)", re.MULTILINE)
_NAMES = re.compile(r"[\w*]+(?:, [\w*]+)*(?=:)")
_NO_VERB = frozenset(
    re.findall(r"\w+", "A All An As By Each Every How In None Of That The Those What When Where Whether Which Who")
)
OWN_WORDS = ("observe", "results/explain", "results/recorded", "results/report", "results/response")
"""Packages whose docstrings are still to be read."""
Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def described(docstring: str) -> Iterator[str]:
    """Yield the names that a docstring describes below `Args:`; a continued line is indented further."""
    section = _SECTION.search(docstring)
    lines = section["lines"].splitlines() if section else []
    indent = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    for line in lines:
        names = _NAMES.match(line[indent:])
        if names:
            yield from (name.strip("*") for name in names[0].split(", "))


def accepted(node: Documented) -> set[str]:
    """Return the parameters of a function; of a class its fields and those of its constructor."""
    if isinstance(node, ast.ClassDef):
        fields = {
            item.target.id
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        }
        made = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
        return fields.union(*(accepted(item) for item in made))
    taken = node.args
    stars = [star for star in (taken.vararg, taken.kwarg) if star is not None]
    return {argument.arg for argument in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs, *stars)}


def unknown(text: str) -> list[str]:
    """Return each name that a docstring of a module describes and nothing there takes, with what describes it."""
    documented = [node for node in ast.walk(ast.parse(text)) if isinstance(node, Documented)]
    return [
        f"{node.name}: {name}"
        for node in documented
        for name in described(ast.get_docstring(node) or "")
        if name not in accepted(node)
    ]


def test_docstrings_describe_the_parameters_that_there_are() -> None:
    files = sorted(Path("runner").rglob("*.py"))
    assert len(files) > 500
    assert [f"{path}: {fault}" for path in files for fault in unknown(path.read_text())] == []


def test_the_check_reads_pairs_of_names_and_continued_lines() -> None:
    text = '''
def f(low, *rest):
    """Do it.

    Args:
        low, high: of the range, such
            as: this.
        rest: more.
    """
class C:
    """A thing.

    Args:
        kind: of it.
        size: of it.
    """
    kind: str
'''
    assert unknown(text) == ["f: high", "C: size"]


def _without_verb(path: Path) -> Iterator[str]:
    """Yield the first lines of functions' docstrings that say what a value is and not what the function does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef) or any("property" in ast.unparse(d) for d in node.decorator_list):
            continue
        first_line = (ast.get_docstring(node) or "").partition("\n")[0]
        if re.split(r"\W", first_line)[0] in _NO_VERB:
            yield f"{path}:{node.lineno}: {first_line}"


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    own = tuple(f"runner/volbench/{package}/" for package in OWN_WORDS)
    files = [path for path in sorted(Path("runner/volbench").rglob("*.py")) if not str(path).startswith(own)]
    assert len(files) > 500
    assert [line for path in files for line in _without_verb(path)] == []
