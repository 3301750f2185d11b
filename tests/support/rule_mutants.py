"""Whether tests hold the figures of `explain`: each constant that decides is changed, and a test must fail.

python tests/support/rule_mutants.py --state FILE [--only PATH ...] [--for SECONDS]

A number that a module states by itself is multiplied and divided by 1.3, in a copy of the package. A change that no
test of `explain` fails for has survived. Verdicts are kept in the state file, and a further call goes on there.
"""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path("runner/volbench/results/explain")
FACTOR = 1.3
TESTS = ("tests/unit/results/explain", "tests/unit/lab/test_raw_sample.py")
TEST_S_MAX = 900.0
_LINKED = ("docs", "results", "suites", "tests")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One constant with another value.

    Args:
        path: of its module, relative to the repository.
        name: of the constant.
        line, first, end: where its number is: line from 1, columns from 0.
        text: that replaces the number.
    """

    path: Path
    name: str
    line: int
    first: int
    end: int
    text: str

    @property
    def key(self) -> str:
        """What it is called in the state file."""
        return f"{self.path}:{self.name}:{self.first}={self.text}"

    def applied(self, source: str) -> str:
        """The module's text with it."""
        lines = source.splitlines(keepends=True)
        line = lines[self.line - 1].encode()
        lines[self.line - 1] = (line[: self.first] + self.text.encode() + line[self.end :]).decode()
        return "".join(lines)


def mutants(path: Path, source: str) -> Iterator[Mutant]:
    """Yield each number of each constant of a module, times FACTOR and by it."""
    for statement in ast.parse(source).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        names = [target.id for target in targets if isinstance(target, ast.Name) and target.id.isupper()]
        if not names or not isinstance(statement, ast.Assign):
            continue
        values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
        for value in values:
            for text in _changed(value):
                yield Mutant(
                    path=path,
                    name=names[0],
                    line=value.lineno,
                    first=value.col_offset,
                    end=value.end_col_offset or value.col_offset,
                    text=text,
                )


def _changed(value: ast.expr) -> Iterator[str]:
    """Yield other values of a number; whole numbers move by one at least."""
    if not isinstance(value, ast.Constant) or isinstance(value.value, bool):
        return
    number = value.value
    if isinstance(number, int):
        yield str(max(number + 1, round(number * FACTOR)))
        yield str(min(number - 1, round(number / FACTOR)))
    elif isinstance(number, float) and number:
        yield repr(number * FACTOR)
        yield repr(number / FACTOR)


def _copy(to: Path) -> None:
    """Make a tree whose package is a copy, and whose other parts are the repository's."""
    ignored = shutil.ignore_patterns("__pycache__", "target")
    shutil.copytree(ROOT / "runner" / "volbench", to / "runner" / "volbench", ignore=ignored)
    for name in _LINKED:
        (to / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "pyproject.toml", to)


def is_killed(tree: Path, mutant: Mutant, tests: Sequence[str]) -> bool:
    """Whether a test fails with it; a module that cannot be imported fails, too."""
    module = tree / mutant.path
    source = module.read_text(encoding="utf-8")
    module.write_text(mutant.applied(source), encoding="utf-8")
    try:
        return not pass_all(tree, tests)
    finally:
        module.write_text(source, encoding="utf-8")


def pass_all(tree: Path, tests: Sequence[str]) -> bool:
    """Whether tests pass in a tree, within TEST_S_MAX."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=tree, capture_output=True, timeout=TEST_S_MAX, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    """Parse the command line; 1 where the tests fail without a change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--state", type=Path, required=True, help="verdicts, JSON")
    parser.add_argument("--only", nargs="*", default=[], help="parts of modules' paths; none: all of them")
    parser.add_argument("--tests", nargs="*", default=list(TESTS), help="tests that may fail")
    parser.add_argument("--for", dest="for_s", type=float, default=7000.0, help="begin none after so many seconds")
    options = parser.parse_args()
    paths = sorted(path.relative_to(ROOT) for path in (ROOT / PACKAGE).rglob("*.py"))
    chosen = [path for path in paths if not options.only or any(piece in str(path) for piece in options.only)]
    listed = [mutant for path in chosen for mutant in mutants(path, (ROOT / path).read_text(encoding="utf-8"))]
    verdicts: dict[str, bool] = {}
    if options.state.exists():
        verdicts = json.loads(options.state.read_text(encoding="utf-8"))
    until_s = time.monotonic() + options.for_s
    with tempfile.TemporaryDirectory(prefix="volbench-mutants-") as scratch:
        _copy(Path(scratch))
        if not pass_all(Path(scratch), options.tests):
            sys.stderr.write("the tests fail without a change: mend them first\n")
            return 1
        for mutant in listed:
            if mutant.key in verdicts or time.monotonic() > until_s:
                continue
            verdicts[mutant.key] = is_killed(Path(scratch), mutant, options.tests)
            sys.stdout.write(f"{'killed  ' if verdicts[mutant.key] else 'SURVIVED'} {mutant.key}\n")
            sys.stdout.flush()
            options.state.parent.mkdir(parents=True, exist_ok=True)
            options.state.write_text(json.dumps(verdicts, indent=1) + "\n", encoding="utf-8")
    tried = [verdicts[mutant.key] for mutant in listed if mutant.key in verdicts]
    share = f"{sum(tried)} of {len(tried)} changes are noticed"
    sys.stdout.write(f"{share}; {len(listed) - len(tried)} of {len(listed)} are left\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
