"""What each test costs: wall time, CPU time of its process, and of the processes that it started and waited for.

`pytest --costs FILE` writes one line of JSON for each phase of each test; `python tests/support/costs.py FILE ...`
ranks directories, files and tests by CPU seconds. On a busy machine wall time says little; what servers in
containers compute is no child's time, and is missing.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

PHASES = ("setup", "call", "teardown")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where to write."""
    parser.addoption("--costs", metavar="FILE", help="write what each phase of each test costs, as lines of JSON")


def _cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


class Costs:
    """Appends one line for each phase to the file of all workers."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _measure(self, item: pytest.Item, phase: str) -> Generator[None, Any, Any]:
        wall, own, children = time.monotonic(), _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN)
        try:
            return (yield)
        finally:
            line = {
                "test": item.nodeid,
                "phase": phase,
                "wall": round(time.monotonic() - wall, 4),
                "own": round(_cpu(resource.RUSAGE_SELF) - own, 4),
                "children": round(_cpu(resource.RUSAGE_CHILDREN) - children, 4),
            }
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._measure(item, "setup"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._measure(item, "call"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._measure(item, "teardown"))


def pytest_configure(config: pytest.Config) -> None:
    """Measure where a file is given and tests run in this process."""
    if config.getoption("costs"):
        config.pluginmanager.register(Costs(Path(config.getoption("costs")).absolute()), "costs-of-tests")


def read(paths: Iterable[str]) -> list[dict[str, Any]]:
    """The lines of these files."""
    return [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]


def ranked(lines: list[dict[str, Any]], key: Callable[[dict[str, Any]], str], count: int) -> list[str]:
    """Sums by key, most CPU seconds first: CPU, own, children, wall, number of tests."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    tests: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        for index, name in enumerate(("own", "children", "wall")):
            sums[key(line)][index] += line[name]
        tests[key(line)].add(line["test"])
    order = sorted(sums, key=lambda name: -sum(sums[name][:2]))
    return [
        f"{own + children:8.1f} {own:8.1f} {children:8.1f} {wall:8.1f} {len(tests[name]):6}  {name}"
        for name in order[:count]
        for own, children, wall in [sums[name]]
    ]


def main() -> None:
    """Print the ranks."""
    lines = read(sys.argv[1:])
    count = int(os.environ.get("TOP", "40"))
    kinds: dict[str, Callable[[dict[str, Any]], str]] = {
        "directory": lambda line: "/".join(line["test"].split("::")[0].split("/")[:2]),
        "file": lambda line: line["test"].split("::")[0],
        "test and phase": lambda line: line["test"].split("[")[0] + " " + line["phase"],
    }
    for name, key in kinds.items():
        head = f"CPU, own, children, wall [s], tests by {name}"
        sys.stdout.write("\n".join(["", head, *ranked(lines, key, count), ""]))


if __name__ == "__main__":
    main()
