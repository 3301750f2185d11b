"""`volbench capture`: what a live server is asked, and slow logs without their data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from volbench.cli import console, options
from volbench.engine.attached import account_of
from volbench.engine.connection import write_private
from volbench.errors import Refused, UsageError
from volbench.records.base import parse_duration_s
from volbench.target.attach import parse_dsn
from volbench.validation.capture import SECONDS_MAX
from volbench.validation.capture import capture as take
from volbench.validation.mask import masked
from volbench.validation.slowlog import LoggedStatement, slow_log
from volbench.validation.source import read_only


def capture(
    out: Annotated[Path, typer.Argument(help="The file to write, mode 0600; never overwritten.")],
    server: options.Server = "",
    option_file: options.OptionFile = "",
    seconds: Annotated[str, typer.Option("--for", help="How long: 60s; an hour at most.")] = "60s",
    log: Annotated[Path | None, typer.Option("--from", help="A slow log to mask, instead of a server.")] = None,
    mask: Annotated[bool, typer.Option("--mask", help="Keep no literals.")] = False,
    sql_mode: Annotated[
        str | None,
        typer.Option("--sql-mode", help="Of the log's sessions, for --mask: what SELECT @@GLOBAL.sql_mode shows."),
    ] = None,
) -> None:
    """Take the statements of a live server by class (only reading), or mask a slow log's literals."""
    if out.exists():
        raise Refused("the file is there already", where="OUT", evidence=str(out), next_step="name another one")
    if (log is None) == (not server):
        raise UsageError("give a server (--server) or a slow log (--from), one of them", where="capture")
    if log is not None:
        if not mask:
            raise UsageError(
                "--from needs --mask", where="--from", next_step="to use a slow log as it is, name the file itself"
            )
        unclear: list[LoggedStatement] = []
        with slow_log(log) as logged:
            lines = masked(logged, sql_mode=sql_mode, on_skipped=unclear.append)
            text = "".join(lines).encode("utf-8", "replace").decode()
            write_private(out, text)
        console.say(f"masked: {out}; {log}: {logged.summary()}")
        if unclear:
            hint = "" if sql_mode is not None else "; with --sql-mode, what a backslash means is known"
            console.say(
                f"{len(unclear)} statements are left out: what their literals are depends on the server{hint}"
            )
        return
    text = _live(server, option_file, seconds, mask=mask)
    write_private(out, text)
    console.say(f"captured: {out}")


def _live(server: str, option_file: str, seconds: str, *, mask: bool) -> str:
    try:
        length = parse_duration_s(seconds)
    except ValueError as error:
        raise UsageError(str(error), where="--for") from error
    if not 0 < length <= SECONDS_MAX:
        raise UsageError(f"a capture takes up to {SECONDS_MAX:g} s", where="--for", evidence=seconds)
    account = account_of(parse_dsn(server, option_file=option_file), os.environ)
    with read_only(account, snapshot=False) as source, Progress(console=console.err, transient=True) as bar:
        task = bar.add_task("capturing", total=1.0)
        found = take(source, length, masked=mask, progress=lambda _, share: bar.update(task, completed=share))
    return found.model_dump_json(indent=1, by_alias=True) + "\n"
