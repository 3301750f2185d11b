"""Whether tests hold the figures of `explain`: each constant that decides is changed, and a test must fail.

python tests/support/rule_mutants.py --state FILE [--only PATH ...] [--for SECONDS] [--table FILE]

A number that a module states by itself is multiplied and divided by 1.3. A change that no test of `explain` fails
for has survived. Tests are collected once, and of them only those run that call a function which reads the constant
(`mutant_tests`). Mutants are tried in an order of chance, so that those of an interrupted call are a fair sample.
Verdicts are kept in the state file, and a further call goes on there.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from mutant_tests import Plugin, reads_of, set_in

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path("runner/volbench/results/explain")
FACTOR = 1.3
TESTS = ("tests/unit/results/explain",)
_HEAD = """# Whether tests hold the constants of explain

Each number that a module of `explain` states by itself, multiplied and divided by 1.3 (whole numbers move by one at
least). *noticed*: a unit test of `explain` fails then; raw runs and golden reports are not among these tests.
A change is called unnoticed, too, where it acts while modules are imported, and where the tests that reach it take
more than 20 s. Made with `make mutants`.
"""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One constant with another value.

    Args:
        path: of its module, relative to the repository.
        name: of the constant.
        place: of the number in a tuple; None where the number is all of it.
        text: that replaces the number.
    """

    path: Path
    name: str
    position: int | None
    text: str

    @property
    def key(self) -> str:
        """What it is called in the state file."""
        return f"{self.path}:{self.name}:{self.position or 0}={self.text}"

    def value(self, before: object) -> object:
        """What the constant is with it."""
        number: object = ast.literal_eval(self.text)
        if self.position is None:
            return number
        if not isinstance(before, tuple):
            raise TypeError(self.key)
        return (*before[: self.position], number, *before[self.position + 1 :])


def mutants(path: Path, source: str) -> Iterator[Mutant]:
    """Yield each number of each constant of a module, times FACTOR and by it."""
    for statement in ast.parse(source).body:
        for name, value in _named(statement):
            numbers = enumerate(value.elts) if isinstance(value, ast.Tuple) else [(None, value)]
            for position, number in numbers:
                for text in _changed(number):
                    yield Mutant(path=path, name=name, position=position, text=text)


def _named(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yield the constants of an assignment, `A = 1` and `A, B = 1, 2`, with their values."""
    if not isinstance(statement, ast.Assign):
        return
    for target in statement.targets:
        pairs = [(target, statement.value)]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = [*zip(target.elts, statement.value.elts, strict=True)]
        yield from ((item.id, value) for item, value in pairs if isinstance(item, ast.Name) and item.id.isupper())


def _changed(value: ast.expr) -> Iterator[str]:
    """Yield further values of a number; whole numbers move by one at least."""
    if not isinstance(value, ast.Constant) or isinstance(value.value, bool):
        return
    number = value.value
    if isinstance(number, int):
        yield str(max(number + 1, round(number * FACTOR)))
        yield str(min(number - 1, round(number / FACTOR)))
    elif isinstance(number, float) and number:
        yield repr(number * FACTOR)
        yield repr(number / FACTOR)


def dotted(path: Path) -> str:
    """The name of a module of the package."""
    return ".".join(path.relative_to("runner").with_suffix("").parts)


def try_all(plugin: Plugin, listed: Sequence[Mutant], state: Path, for_s: float) -> None:
    """Try what has no verdict yet, and keep each verdict at once.

    Args:
        plugin: the tests, with what each of them calls.
        listed: mutants.
        state: where verdicts are kept.
        for_s: no mutant is begun after so many seconds.
    """
    until_s, verdicts = time.monotonic() + for_s, read_verdicts(state)
    left = [mutant for mutant in listed if mutant.key not in verdicts]
    left.sort(key=lambda mutant: hashlib.sha256(mutant.key.encode()).hexdigest())
    for mutant in left:
        if time.monotonic() > until_s or plugin.failed:
            return
        module = importlib.import_module(dotted(mutant.path))
        modules = {name: item for name, item in [*sys.modules.items()] if _is_ours(item)}
        reads = reads_of(mutant.name, module.__name__, modules.values())
        value = mutant.value(getattr(module, mutant.name))
        change = partial(set_in, reads.holders, value, modules)
        verdicts[mutant.key] = plugin.is_noticed(reads.functions, change)
        sys.stderr.write(f"{'noticed ' if verdicts[mutant.key] else 'SURVIVED'} {mutant.key}\n")
        state.parent.mkdir(parents=True, exist_ok=True)
        state.write_text(json.dumps(verdicts, indent=1) + "\n", encoding="utf-8")


def _is_ours(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and any(Path(file).is_relative_to(ROOT / piece) for piece in ("runner", "tests"))


def read_verdicts(state: Path) -> dict[str, bool]:
    """What is known of mutants, by their keys."""
    if not state.exists():
        return {}
    verdicts: dict[str, bool] = json.loads(state.read_text(encoding="utf-8"))
    return verdicts


def table(listed: Sequence[Mutant], verdicts: Mapping[str, bool]) -> str:
    """Return a page in Markdown: by module how many changes are noticed, and each one that is not."""
    lines = [_HEAD, "| module | changes | tried | noticed |", "|---|--:|--:|--:|"]
    by_module: dict[str, list[Mutant]] = {}
    for mutant in listed:
        by_module.setdefault(str(mutant.path.relative_to(PACKAGE)), []).append(mutant)
    for module, group in [*sorted(by_module.items()), ("**all**", [*listed])]:
        tried = [verdicts[item.key] for item in group if item.key in verdicts]
        lines.append(f"| {module} | {len(group)} | {len(tried)} | {sum(tried)} |")
    survived = [item for item in listed if verdicts.get(item.key) is False]
    lines += ["", "## Not noticed", "", "| module | constant | changed to |", "|---|---|---|"]
    lines += [f"| {item.path.relative_to(PACKAGE)} | {item.name} | {float(item.text):.4g} |" for item in survived]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Parse the command line; 1 where the tests fail without a change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--state", type=Path, required=True, help="verdicts, JSON")
    parser.add_argument("--only", nargs="*", default=[], help="parts of modules' paths; none: all of them")
    parser.add_argument("--tests", nargs="*", default=[str(ROOT / item) for item in TESTS], help="that may fail")
    parser.add_argument("--for", dest="for_s", type=float, default=7000.0, help="begin none after so many seconds")
    parser.add_argument("--table", type=Path, help="where a page with the verdicts goes")
    options = parser.parse_args()
    paths = sorted(path.relative_to(ROOT) for path in (ROOT / PACKAGE).rglob("*.py"))
    chosen = [path for path in paths if not options.only or any(piece in str(path) for piece in options.only)]
    listed = [item for path in chosen for item in mutants(path, (ROOT / path).read_text(encoding="utf-8"))]
    plugin = Plugin(package=ROOT / PACKAGE, body=lambda tests: try_all(tests, listed, options.state, options.for_s))
    if any(mutant.key not in read_verdicts(options.state) for mutant in listed):
        pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options.tests], plugins=[plugin])
    if plugin.failed:
        sys.stderr.write(f"tests fail without a change: {', '.join(plugin.failed[:5])}\n")
        return 1
    verdicts = read_verdicts(options.state)
    tried = [verdicts[mutant.key] for mutant in listed if mutant.key in verdicts]
    share = f"{sum(tried)} of {len(tried)} changes are noticed"
    sys.stdout.write(f"{share}; {len(listed) - len(tried)} of {len(listed)} are left\n")
    if options.table is not None:
        options.table.write_text(table(listed, verdicts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
