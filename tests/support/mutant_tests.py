"""Which tests can notice a changed constant, and whether one of them does: a plugin that one pytest process loads.

The process imports and collects once. It runs each test once to see which functions of the package it calls. For
each changed constant a forked child sets the value in every module that has it, and runs only tests that call a
function which reads it, the fastest first, until one fails.

What is read while modules are imported (a constant made of another one, a default of an argument) keeps its value
in the child: such a change may be said to survive though a test would notice it, never the other way round.
"""

from __future__ import annotations

import ast
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

Function = tuple[str, int]
"""A function by its file and its first line, that of a decorator where it has one."""
TESTS_S_MAX = 20.0
"""Of the tests that may notice a change, as they took without one: more are not run."""
CPU_S_MAX = 150


@dataclass(frozen=True, kw_only=True)
class Reads:
    """Where a constant is read.

    Args:
        functions: that read it.
        holders: names of modules that have it, and by which name.
    """

    functions: frozenset[Function]
    holders: frozenset[tuple[str, str]]


@dataclass(kw_only=True)
class Plugin:
    """Runs each test once, then hands itself to `body` in place of pytest's own loop.

    Args:
        package: directory whose functions are traced.
        body: what to do with the tests.
    """

    package: Path
    body: Callable[[Plugin], None]
    items: list[pytest.Item] = field(default_factory=list)
    called: dict[str, frozenset[Function]] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Trace all tests, then run the body."""
        self.items = list(session.items)
        for at, item in enumerate(self.items):
            following = self.items[at + 1] if at + 1 < len(self.items) else None
            begun_s, functions = time.process_time(), set[Function]()
            passes = _traced(item, following, str(self.package), functions)
            self.took_s[item.nodeid] = time.process_time() - begun_s
            self.called[item.nodeid] = frozenset(functions)
            if not passes:
                self.failed.append(item.nodeid)
        self.body(self)
        return True

    def is_noticed(self, functions: frozenset[Function], change: Callable[[], None]) -> bool:
        """Whether a test fails once `change` has run; in a child, so that it leaves nothing behind.

        Args:
            functions: that read what changes.
            change: the change.
        """
        chosen = [item for item in self.items if self.called[item.nodeid] & functions]
        chosen.sort(key=lambda item: self.took_s[item.nodeid])
        whole_s, fitting = 0.0, []
        for item in chosen:
            whole_s += self.took_s[item.nodeid]
            if whole_s <= TESTS_S_MAX:
                fitting.append(item)
        return bool(fitting) and _fails_in_child(fitting, change)


def _fails_in_child(items: Sequence[pytest.Item], change: Callable[[], None]) -> bool:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status) != 0
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX))
        change()
        code = int(any(not _passes(item, None) for item in items))
    finally:
        os._exit(code)


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def _traced(item: pytest.Item, following: pytest.Item | None, package: str, functions: set[Function]) -> bool:
    visited: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code not in visited:
            visited.add(code)
            if code.co_filename.startswith(package):
                functions.add((code.co_filename, code.co_firstlineno))

    sys.setprofile(note)
    try:
        return _passes(item, following)
    finally:
        sys.setprofile(None)


def reads_of(name: str, defined_in: str, modules: Iterable[ModuleType]) -> Reads:
    """Where a constant is read, by the text of modules.

    Args:
        name: of the constant.
        defined_in: the dotted name of its module.
        modules: that may have it.
    """
    functions, holders = set[Function](), set[tuple[str, str]]()
    for module in modules:
        file = getattr(module, "__file__", None)
        if file is None or not file.endswith(".py"):
            continue
        tree = _tree(file)
        own = {name} if module.__name__ == defined_in else _imported(tree, defined_in, name)
        holders |= {(module.__name__, alias) for alias in own}
        aliases = _aliases(tree, defined_in)
        if own or aliases:
            functions |= {(file, line) for line in _readers(tree, own, aliases, name)}
    return Reads(functions=frozenset(functions), holders=frozenset(holders))


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def _imported(tree: ast.Module, defined_in: str, name: str) -> set[str]:
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == defined_in
        for alias in node.names
        if alias.name == name
    }


def _aliases(tree: ast.Module, defined_in: str) -> set[str]:
    parent, _, last = defined_in.rpartition(".")
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == parent
        for alias in node.names
        if alias.name == last
    }


def _readers(tree: ast.Module, own: set[str], aliases: set[str], name: str) -> set[int]:
    """First lines of the outermost functions in which a constant is read."""
    lines = set()
    for function in _outermost(tree.body):
        for node in ast.walk(function):
            by_name = isinstance(node, ast.Name) and node.id in own
            by_module = (
                isinstance(node, ast.Attribute)
                and node.attr == name
                and isinstance(node.value, ast.Name)
                and node.value.id in aliases
            )
            if by_name or by_module:
                lines.add(min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)]))
    return lines


def _outermost(body: Sequence[ast.stmt]) -> Iterable[ast.FunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _outermost(node.body)


def set_in(holders: Iterable[tuple[str, str]], value: Any, modules: Mapping[str, ModuleType]) -> None:
    """Give a constant another value wherever a module has it."""
    for module, name in holders:
        if module in modules:
            setattr(modules[module], name, value)
