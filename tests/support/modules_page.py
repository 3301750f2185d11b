"""docs/modules.md: every package and module with the first sentence of its docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "runner" / "volbench"
HEAD = """# Modules

Every package and module below `runner/volbench/`, with the first line of its docstring. `make docs` writes this
page. [ARCHITECTURE.md](../runner/ARCHITECTURE.md) says how the packages depend on each other,
[internals](internals.md) how the parts work.
"""


def modules_page() -> str:
    """Return the page's text."""
    return HEAD + "".join(_package_text(path) for path in _packages())


def _packages() -> Iterator[Path]:
    """Yield the directories of packages, a package before those in it."""
    yield from sorted(path.parent for path in PACKAGE.rglob("__init__.py"))


def _package_text(package: Path) -> str:
    """Return a heading, the package's own sentence, and a table of its modules."""
    modules = sorted(path for path in package.glob("*.py") if path.name != "__init__.py")
    name = package.relative_to(PACKAGE).as_posix()
    heading = "volbench" if name == "." else f"{name}/"
    rows = "".join(f"| `{path.name}` | {_sentence(path)} |\n" for path in modules)
    table = f"\n| module | |\n|---|---|\n{rows}" if rows else ""
    return f"\n## {heading}\n{_sentence(package / '__init__.py')}\n{table}"


def _sentence(path: Path) -> str:
    """Return the first line of a module's docstring. Raise ValueError where it has none."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    if not docstring:
        raise ValueError(f"{path} has no docstring")
    return docstring.splitlines()[0].replace("|", "\\|")
