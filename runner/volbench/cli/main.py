"""`volbench`: the command line."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from typer.core import TyperGroup

from volbench import __version__
from volbench.cli import console, logs
from volbench.cli.crash import crashed
from volbench.errors import EXIT_CRASHED, EXIT_INTERRUPTED, VolbenchError

if TYPE_CHECKING:
    from typer._click import Command, Context

COMMANDS = {
    "run": "run",
    "plan": "plan",
    "resume": "run",
    "report": "report",
    "explain": "explain",
    "add": "add",
    "compare": "report",
    "gate": "gate",
    "validate": "validate",
    "capacity": "capacity",
    "capture": "capture",
    "observe": "observe",
    "query": "query",
    "doctor": "doctor",
    "credits": "credits",
    "suite": "suite",
    "volume": "volume",
    "k8s": "k8s",
    "sealed": "sealed",
    "cell": "cell",
}
"""Command to its module in this package: a function of that name there, or `app` with commands of its own."""
HIDDEN = frozenset({"cell"})


class OnDemand(TyperGroup):
    """Commands whose modules are imported when they are asked for: every cell starts several processes.

    All of them take 1.6 s of CPU to import, those of one command 0.6 to 1.0 s.
    """

    def list_commands(self, ctx: Context) -> list[str]:
        """All names, in the order of help."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """One command; for a name that is none all are loaded, so that the like can be proposed."""
        del ctx
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.commands[name] = _command(name)
        return self.commands.get(cmd_name)


def _command(name: str) -> Command:
    module = import_module(f"volbench.cli.{COMMANDS[name]}")
    alone = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
    if hasattr(module, "app"):
        alone.add_typer(module.app, name=name, hidden=name in HIDDEN)
    else:
        alone.command(name)(getattr(module, name))
    return typer.main.get_group(alone).commands[name]


app = typer.Typer(
    name="volbench",
    help="Tells a DBA what a storage volume does to MySQL, and why.",
    cls=OnDemand,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        console.out.print(f"volbench {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Log what is run, asked and decided; VOLBENCH_LOG=FILE keeps it.")
    ] = False,
) -> None:
    """Tells a DBA what a storage volume does to MySQL, and why."""
    del version
    logs.set_up(verbose=verbose)


def main() -> NoReturn:
    """Run a command; every expected failure becomes one message and its exit code."""
    sys.argv[1:] = logs.verbose_first(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file's name may hold what the locale cannot write
    try:
        app(standalone_mode=True)
    except VolbenchError as error:
        console.show_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        console.say("interrupted; what is done is kept")
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:  # noqa: BLE001 - the one net: exit code 1 is a gate's no-go
        console.show_error(crashed(error, sys.argv[1:]))
        sys.exit(EXIT_CRASHED)
    sys.exit(0)
