"""`volbench`: the command line."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from volbench import __version__
from volbench.cli import (
    add,
    capacity,
    capture,
    cell,
    console,
    credits,  # noqa: A004 - the command's name
    doctor,
    explain,
    gate,
    k8s,
    plan,
    query,
    report,
    run,
    sealed,
    suite,
    validate,
    volume,
)
from volbench.errors import EXIT_INTERRUPTED, VolbenchError

app = typer.Typer(
    name="volbench",
    help="Tells a DBA what a storage volume does to MySQL, and why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("run")(run.run)
app.command("plan")(plan.plan)
app.command("resume")(run.resume)
app.command("report")(report.report)
app.command("explain")(explain.explain)
app.command("add")(add.add)
app.command("compare")(report.compare)
app.command("gate")(gate.gate)
app.command("validate")(validate.validate)
app.command("capacity")(capacity.capacity)
app.command("capture")(capture.capture)
app.command("query")(query.query)
app.command("doctor")(doctor.doctor)
app.command("credits")(credits.credits)
app.add_typer(suite.app, name="suite")
app.add_typer(volume.app, name="volume")
app.add_typer(k8s.app, name="k8s")
app.add_typer(sealed.app, name="sealed")
app.add_typer(cell.app, name="cell", hidden=True)


def _version(wanted: bool) -> None:
    if wanted:
        console.out.print(f"volbench {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Tells a DBA what a storage volume does to MySQL, and why."""


def main() -> NoReturn:
    """Run a command; every expected failure becomes one message and its exit code."""
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
    sys.exit(0)
