"""`volbench`: the command line."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from typer.core import TyperGroup

from volbench import __version__
from volbench.cli import console, logs
from volbench.core.base.environment import search_path
from volbench.core.base.python import collect_nothing_at_end, importing_modules
from volbench.core.base.system_errors import refusal_of_system
from volbench.errors import EXIT_CRASHED, EXIT_INTERRUPTED, VolbenchError

if TYPE_CHECKING:
    from typer._click import Command, Context
    from typer._click.formatting import HelpFormatter
    from typer._click.shell_completion import CompletionItem

COMMANDS = {
    "run": "runs.run",
    "plan": "runs.plan",
    "resume": "runs.run",
    "report": "runs.report",
    "explain": "runs.explain",
    "add": "runs.add",
    "compare": "runs.report",
    "gate": "runs.gate",
    "validate": "migration.validate",
    "capacity": "runs.capacity",
    "capture": "migration.capture",
    "observe": "observe",
    "query": "runs.query",
    "site": "runs.site",
    "pack": "runs.pack",
    "list": "runs.list",
    "doctor": "doctor",
    "credits": "credits.command",
    "recommend": "recommendation.command",
    "suite": "suite",
    "volume": "volumes.command",
    "k8s": "cluster.k8s",
    "compose": "compose",
    "cell": "cell",
}
"""Command -> its module in this package, which has a function of that name or `app` with subcommands."""
HIDDEN = frozenset({"cell"})
FUNCTIONS = {"list": "list_runs"}
"""Commands whose function has another name than they."""
GROUPS = {
    "Measure": {
        "plan": "Show what would run: cells in order, time and space needed.",
        "run": "Run a suite on volumes and leave a report in results/.",
        "resume": "Continue an interrupted run; completed cells are not repeated.",
        "capacity": "Find the highest rate that keeps an objective on each volume.",
        "compare": "Compare volumes within a run or across runs.",
        "report": "Rebuild a run's reports, or print one of them.",
        "list": "List the runs below results/.",
        "query": "Query the results of all runs in SQL, read-only.",
        "site": "Write a static site of all runs: trends, change points, regressions.",
        "pack": "Make a run one file for others, or check such a file.",
    },
    "Explain": {
        "observe": "Watch a server in use, read-only, and explain its slow moments.",
        "explain": "Name the causes of what a run or a recording shows, with evidence.",
        "add": "Add recorded metrics (CloudWatch, sar, iostat) to a run.",
    },
    "Predict": {
        "credits": "Forecast when burst credits run out, and what would prevent that.",
        "recommend": "Name the cheapest volume and settings that keep an objective.",
        "volume": "Show volume profiles, emulate volumes, probe any volume.",
    },
    "Validate": {
        "capture": "Take the statements of a live server, read-only.",
        "validate": "Compare a candidate server with its source.",
        "gate": "Decide by a policy: exit code 0 is go, 1 no-go, 6 undecided.",
    },
    "Set up": {
        "doctor": "Report what this machine can do, and how to get what is missing.",
        "suite": "Check suite files, print their schema and documentation.",
        "k8s": "Write manifests of runs on Kubernetes.",
        "compose": "Write a compose file for any number of volumes.",
    },
}
"""Heading -> command -> what it does, for `volbench --help`, which imports no command."""
HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


class LazyGroup(TyperGroup):
    """Imports the module of a command when it is called, since every cell starts several processes.

    All modules take 1.6 s of CPU to import, those of one command 0.6 to 1.0 s.
    """

    def list_commands(self, ctx: Context) -> list[str]:
        """Return all names in the order of the help text."""
        del ctx
        return list(COMMANDS)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the commands under their headings, without importing any."""
        del ctx
        width = max(map(len, COMMANDS))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in commands.items()])

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so, without importing any; options are the base class's."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from typer._click.shell_completion import CompletionItem

        summaries = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}
        return [CompletionItem(name, help=text) for name, text in summaries.items() if name.startswith(incomplete)]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Return a command; for an unknown name load all, so that the help can suggest similar ones."""
        del ctx
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.commands[name] = command_of(name)
        return self.commands.get(cmd_name)


@cache
def command_of(name: str) -> Command:
    """Return a command of COMMANDS; its module is imported."""
    with importing_modules():
        module = import_module(f"volbench.cli.{COMMANDS[name]}")
    alone = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
    if hasattr(module, "app"):
        alone.add_typer(module.app, name=name, hidden=name in HIDDEN)
    else:
        alone.command(name)(getattr(module, FUNCTIONS.get(name, name)))
    return typer.main.get_group(alone).commands[name]


app = typer.Typer(
    name="volbench",
    help="Tells a DBA what a storage volume does to MySQL, and why.",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=HELP_OPTIONS,
)


def _version(requested: bool) -> None:
    if requested:
        console.out.print(f"volbench {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="Log commands, requests and decisions to stderr; VOLBENCH_LOG=FILE logs to a file."
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print results and errors only, no messages about the work.")
    ] = False,
) -> None:
    """Tells a DBA what a storage volume does to MySQL, and why."""
    del version
    logs.set_up(verbose=verbose)
    console.messages.quiet = quiet


def main() -> NoReturn:
    """Run a command; print one message for an expected failure and exit with its code."""
    try:
        _prepare()
        try:
            app(standalone_mode=True)
        finally:
            sys.stdout.flush()  # here, and not when the interpreter ends, which would tell nobody
    except VolbenchError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        from volbench.core.base.extras import missing_extra

        if (lacking := missing_extra(error)) is None:
            _crash(error)
        _fail(lacking)
    except KeyboardInterrupt:
        with suppress(OSError):
            console.say("interrupted; completed work is kept")
        console.discard_output()
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        console.discard_output()
        sys.exit(0)
    except Exception as error:  # noqa: BLE001 - the last resort: exit code 1 would be a gate's no-go
        if (refusal := refusal_of_system(error)) is None:
            _crash(error)
        _fail(refusal)
    sys.exit(0)


def _prepare() -> None:
    """Set arguments, environment and streams for a command."""
    collect_nothing_at_end()
    sys.argv[1:] = logs.global_options_first(sys.argv[1:])
    os.environ |= {"PATH": search_path(), "PYTHONSAFEPATH": "1"}  # libraries start programs too: credential helpers
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file name may have characters outside the locale


def _fail(error: VolbenchError) -> NoReturn:
    console.show_error(error)
    console.discard_output()
    sys.exit(error.exit_code)


def _crash(error: Exception) -> NoReturn:
    from volbench.cli.crash import crashed

    console.show_error(crashed(error, sys.argv[1:]))
    console.discard_output()
    sys.exit(EXIT_CRASHED)
