"""The manual page volbench(1), from the commands and options that `--help` shows.

man -l docs/man/volbench.1
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from volbench import __version__, errors
from volbench.cli.main import GROUPS, app

_SEE_ALSO = "mysqld(8), sysbench(1), fio(1), iostat(1). The documentation is in docs/ of the source."


def man_page() -> str:
    """Return the page in the man(7) macros."""
    lines = [
        f'.TH VOLBENCH 1 "" "volbench {__version__}" "User Commands"',
        ".SH NAME",
        r"volbench \- " + escaped("tell what a storage volume does to MySQL, and why"),
        ".SH SYNOPSIS",
        r".B volbench",
        escaped("[--verbose] [--quiet] COMMAND [OPTIONS] [ARGUMENTS]"),
        ".SH DESCRIPTION",
        escaped(
            "volbench runs real MySQL with the data directory on the volumes that you choose, puts load on it, "
            "samples queries and storage on one clock, compares the volumes, and names the cause of what it saw."
        ),
    ]
    root: Any = typer.main.get_command(app)
    context = typer.Context(root)
    lines += [".SH OPTIONS", *_options(root)]
    for heading, commands in GROUPS.items():
        lines.append(f".SH COMMANDS: {heading.upper()}")
        for name in commands:
            lines += _command(root.get_command(context, name), name)
    lines += [".SH EXIT STATUS", *_exit_codes(), ".SH SEE ALSO", escaped(_SEE_ALSO)]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return text that the macros print as it is: backslashes, hyphens, and what would begin a request."""
    plain = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{plain}" if plain.startswith((".", "'")) else plain


def _command(command: Any, name: str) -> Iterator[str]:
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        if command.params and command.invoke_without_command:
            yield from _described(command, name)
        for child in command.list_commands(context):
            yield from _command(command.get_command(context, child), f"{name} {child}")
        return
    yield from _described(command, name)


def _described(command: Any, name: str) -> Iterator[str]:
    arguments = [_metavar(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
    yield f".SS {escaped(' '.join(['volbench', name, *map(str, arguments)]))}"
    yield escaped(command.help or "")
    yield from _options(command)


def _options(command: Any) -> Iterator[str]:
    context = typer.Context(command)
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is None or "--help" in parameter.opts:
            continue
        yield ".TP"
        yield rf"\fB{escaped(record[0])}\fR"
        yield escaped(record[1])


def _exit_codes() -> Iterator[str]:
    """Yield each exit code with the kinds of failures that have it."""
    meanings: dict[int, list[str]] = {0: ["Success, or go."], errors.EXIT_NO_GO: ["No-go, or a regression."]}
    kinds = sorted(errors.VolbenchError.__subclasses__(), key=lambda kind: (kind.exit_code, kind.__name__))
    for kind in kinds:
        meanings.setdefault(kind.exit_code, []).append((kind.__doc__ or kind.__name__).split("\n")[0])
    meanings[errors.EXIT_UNDECIDED] = ["Undecided: no verdict."]
    meanings[errors.EXIT_CRASHED] = ["A fault of volbench itself."]
    meanings[errors.EXIT_INTERRUPTED] = ["Interrupted; completed work is kept."]
    for code, texts in sorted(meanings.items()):
        yield ".TP"
        yield rf"\fB{code}\fR"
        yield escaped(" ".join(dict.fromkeys(texts)))


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())
