"""Commands that volbench prints: found in its source and in its output, and parsed to their end.

A command in a sentence begins with `volbench` and a command's name. It ends at the end of its backticks, or at the
first word that is no argument. Placeholders in capitals, and what an f-string fills in, get a value of their kind.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from command_line import ROOT
from typer._click.exceptions import UsageError as WrongArguments

from volbench.cli.main import COMMANDS, HIDDEN, app
from volbench.core.suite.load import load_suite
from volbench.errors import VolbenchError

PACKAGE = ROOT / "runner/volbench"
FILLED = "\N{WHITE SQUARE}"
"""Stands for what an f-string fills in."""
_BEGIN = re.compile(rf"(?P<tick>`?)\bvolbench (?=(?:{'|'.join(COMMANDS.keys() - HIDDEN)})\b)")
_EXAMPLE = "KEY=VALUE"
_SETTING = re.compile(r"--set\s+(?P<setting>(?:[\w.-]|\N{WHITE SQUARE})+=[^\s`'\"]*[^\s`'\",.;:)])")
_TARGET = re.compile(r"`make (?P<target>[a-z-]+)[^`]*`")
_PLACEHOLDERS: Mapping[str, str] = {
    "NAME=SPEC": "disk=path:/mnt/disk",
    "SPEC": "ebs-gp3?iops=6000",
    "PROFILE": "ebs-gp3",
    "NAME": "disk",
    "FILE": str(ROOT / "suites/quick.yaml"),
}
_SETTINGS_OF = {"run", "plan"}
_NEVER_BARE = {"resume"}
"""Commands that are advice wherever they are named; the bare name of another may be a mention of it."""
_ENDS = ".,;:)"


@dataclass(frozen=True)
class Printed:
    """A command as it is printed, and where."""

    text: str
    where: str
    is_quoted: bool


def in_text(text: str, where: str) -> Iterator[Printed]:
    """Yield the commands of a text; a line break within one is a blank."""
    for match in _BEGIN.finditer(text):
        remainder = text[match.end() :]
        if match["tick"]:
            yield Printed(text=" ".join(remainder.partition("`")[0].split()), where=where, is_quoted=True)
        else:
            yield Printed(
                text=_unquoted(remainder.partition("\n")[0].partition("`")[0]), where=where, is_quoted=False
            )


def _unquoted(remainder: str) -> str:
    """Return the arguments at the beginning of the rest of a sentence."""
    matches: list[str] = re.findall(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""", remainder)
    used = [matches[0].rstrip(_ENDS)]
    if matches[0] != used[0]:
        return used[0]
    group = matches[0] in GROUPS
    for match in matches[1:]:
        bare = match.rstrip(_ENDS)
        is_argument = (
            bare.startswith("-")
            or used[-1].startswith("-")
            or re.search(r"[/=:<\d\N{WHITE SQUARE}]|^[A-Z_.]+$|^latest$", bare) is not None
            or (group and len(used) == 1)
        )
        if not is_argument:
            break
        used.append(bare)
        if bare != match:
            break
    return " ".join(used)


def in_source(package: Path = PACKAGE) -> Iterator[Printed]:
    """Yield the commands of all strings of the package that are no docstrings."""
    for path, line, text in strings(package):
        yield from in_text(text, f"{path.relative_to(ROOT)}:{line}")


@cache
def strings(package: Path = PACKAGE) -> tuple[tuple[Path, int, str], ...]:
    """Return file, line and text of each string that may be printed; FILLED for what an f-string fills in."""
    return tuple(
        (path, line, text)
        for path in sorted(package.rglob("*.py"))
        for line, text in _strings_of(ast.parse(path.read_text()))
    )


def _strings_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string that is no docstring and no part of another, in `ast.walk`'s order."""
    nodes: deque[ast.AST] = deque([tree])
    while nodes:
        node = nodes.popleft()
        if isinstance(node, ast.JoinedStr):
            texts = (value.value if isinstance(value, ast.Constant) else FILLED for value in node.values)
            yield node.lineno, "".join(map(str, texts))
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield node.lineno, node.value
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    nodes.extend(item for item in value if isinstance(item, ast.AST))
                elif isinstance(value, ast.AST):
                    nodes.append(value)


def settings_in(text: str) -> Iterator[str]:
    """Yield each KEY=VALUE of `--set KEY=VALUE` in a text."""
    yield from (match["setting"] for match in _SETTING.finditer(text) if match["setting"] != _EXAMPLE)


def targets_in(text: str) -> Iterator[str]:
    """Yield the targets of each `make TARGET` in a text."""
    yield from (match["target"] for match in _TARGET.finditer(text))


def fault_of(printed: Printed, *, suite: Path, run: Path) -> str:
    """Return what the command line refuses of a command; empty where it is parsed to its end.

    Args:
        suite, run: what SUITE and RUN stand for; the suite's first step for `steps.NAME`.
    """
    try:
        result = filled(printed.text, suite=suite, run=run)
    except ValueError as error:
        return str(error)
    command, arguments = _command(result)
    if result[0] not in _NEVER_BARE and all(argument.startswith("-") for argument in arguments):
        names = {name for parameter in command.params for name in parameter.opts}
        return "".join(
            f"no option {argument}" for argument in arguments if argument not in names and "=" not in argument
        )
    try:
        command.make_context("volbench", list(arguments))
    except WrongArguments as error:
        return error.format_message()
    except VolbenchError:
        pass  # a callback was reached: all arguments are parsed
    except typer.Exit:
        pass
    if result[0] in _SETTINGS_OF:
        suite = next((ROOT / argument for argument in arguments if argument.endswith(".yaml")), suite)
        if not suite.is_file():
            return "" if "suites" not in suite.parts else f"there is no {suite}"
        settings = [value for name, value in pairwise(arguments) if name == "--set"]
        return setting_fault(settings, suite=suite)
    return ""


def filled(text: str, *, suite: Path, run: Path) -> list[str]:
    """Return the words of a command with values for its placeholders. Raises ValueError for an open quote."""
    return [_value_of(term, suite=suite, run=run) for term in shlex.split(text)]


def setting_fault(settings: Sequence[str], *, suite: Path) -> str:
    """Return what a suite refuses of settings; empty for nothing."""
    named = [filled_setting(setting, suite) for setting in settings]
    try:
        load_suite(suite, settings=named)
    except VolbenchError as error:
        return f"{error}"
    return ""


def filled_setting(setting: str, suite: Path) -> str:
    """Return KEY=VALUE for a suite: its first step for `steps.NAME`, a value for what is left open."""
    key, _, value = setting.partition("=")
    if key.startswith(("steps.NAME", f"steps.{FILLED}")):
        step = load_suite(suite)[0].steps[0].name
        key = ".".join(("steps", step, *key.split(".")[2:]))
    key = key.replace(FILLED, "mysql" if key == FILLED else "2")
    value = value.replace("...", "2").replace(FILLED, "mysql" if key == "engine.flavor" else "64")
    return f"{key}={value}"


def _value_of(term: str, *, suite: Path, run: Path) -> str:
    if term in ("SUITE", "suites/FILE"):
        return str(suite)
    if term in ("RUN", "RUN_ID", "results/RUN", "results/<run>"):
        return str(run)
    for placeholder, value in _PLACEHOLDERS.items():
        if term == placeholder:
            return value
    return term if term.startswith("steps.") else term.replace(FILLED, "2").replace("...", "2")


def _command(arguments: Sequence[str]) -> tuple[Any, Sequence[str]]:
    """Return the command that words name, and its arguments."""
    root: Any = typer.main.get_command(app)
    command, remainder = root, list(arguments)
    while hasattr(command, "get_command") and (remainder or command is root):
        context = typer.Context(command)
        child = command.get_command(context, remainder[0]) if remainder else None
        if child is None and command.params and remainder:
            break  # a group that does something by itself
        if child is None:
            raise AssertionError(f"no command: volbench {' '.join(arguments)}")
        command, remainder = child, remainder[1:]
    return command, remainder


def _groups() -> frozenset[str]:
    root: Any = typer.main.get_command(app)
    context = typer.Context(root)
    names = set()
    for name in COMMANDS:
        with suppress(ImportError):
            if hasattr(root.get_command(context, name), "get_command"):
                names.add(name)
    return frozenset(names)


GROUPS = _groups()
"""Commands that have commands below them."""
