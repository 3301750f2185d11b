"""`volbench capture`: the statements of a live server by class, and slow logs with masked literals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from volbench.cli import console, options
from volbench.cli.quantities import parsed
from volbench.core.base.text import counted
from volbench.core.records.base import parse_duration_s
from volbench.core.records.validation.capture import Capture
from volbench.errors import Refused, UsageError
from volbench.machine.engine.attached import account_of
from volbench.machine.engine.connection import write_private
from volbench.machine.placement.attach import parse_dsn
from volbench.measure.workload.replay.logged_statement import LoggedStatement
from volbench.measure.workload.replay.slowlog import slow_log
from volbench.validation.capture.digests import SECONDS_MAX, STATEMENT_S
from volbench.validation.capture.digests import capture as take
from volbench.validation.capture.mask import masked
from volbench.validation.source.privileged import TO_CAPTURE, refuse_privileged
from volbench.validation.source.server import read_only


def capture(
    out: Annotated[Path, typer.Argument(help="The file to write, mode 0600; never overwritten.")],
    server: Annotated[
        str,
        typer.Option(
            "--server", metavar="DSN", help="The live server: mysql://user@host:port/schema, no password."
        ),
    ] = "",
    option_file: Annotated[str, typer.Option("--option-file", help="A my.cnf with the password in [client].")] = "",
    seconds: Annotated[str, typer.Option("--for", help="How long: 60s; an hour at most.")] = "60s",
    log: Annotated[Path | None, typer.Option("--from", help="A slow log to mask instead of a server.")] = None,
    mask: Annotated[bool, typer.Option("--mask", help="Remove or mask all literals.")] = False,
    sql_mode: Annotated[
        str | None,
        typer.Option(
            "--sql-mode", help="For --mask: sql_mode of the log's sessions, as SELECT @@GLOBAL.sql_mode shows it."
        ),
    ] = None,
    allow_privileged: options.AllowPrivileged = False,
    json: options.Json = False,
) -> None:
    """Capture the statements of a live server by class (read-only), or mask the literals of a slow log."""
    if out.exists():
        raise Refused(f"{out} already exists", where="OUT", next_step="choose another path")
    if (log is None) == (not server):
        raise UsageError(
            "give either a server (--server) or a slow log (--from)",
            where="capture",
            next_step="--server mysql://user@host:3306/schema, or --from slow.log --mask",
        )
    if log is not None:
        if not mask:
            raise UsageError(
                "a slow log is captured masked only: --from needs --mask",
                where="--from",
                next_step="add --mask; unmasked, the log itself is what `queries.slow_log` and `replay.slow_log`"
                " of a validation plan, and `log` of a suite's replay step, take",
            )
        unclear: list[LoggedStatement] = []
        with slow_log(log) as logged:
            lines = masked(logged, sql_mode=sql_mode, on_skipped=unclear.append)
            text = "".join(lines).encode("utf-8", "replace").decode()
            write_private(out, text)
        if json:
            console.show_json({"path": str(out), "log": str(log), "skipped_statements": len(unclear)})
        console.say(f"masked: {out}; {log}: {logged.summary()}")
        if unclear:
            hint = "" if sql_mode is not None else "; --sql-mode tells what a backslash means"
            console.say(
                f"skipped, as literals depend on server settings: {counted(len(unclear), 'statement')}{hint}"
            )
        return
    captured = _live(server, option_file, seconds, mask=mask, privileged=allow_privileged)
    write_private(out, captured.model_dump_json(indent=1, by_alias=True) + "\n")
    if json:
        console.show_json({"path": str(out), **captured.model_dump(mode="json", by_alias=True)})
    console.say(f"captured: {out}")


def _live(server: str, option_file: str, seconds: str, *, mask: bool, privileged: bool) -> Capture:
    duration_s = parsed(parse_duration_s, "--for", seconds)
    if not 0 < duration_s <= SECONDS_MAX:
        raise UsageError(f"a capture takes at most {SECONDS_MAX:g} s", where="--for", evidence=seconds)
    account = account_of(parse_dsn(server, option_file=option_file), os.environ)
    with (
        read_only(account, snapshot=False, statement_s=STATEMENT_S) as source,
        Progress(console=console.err, transient=True) as bar,
    ):
        refuse_privileged(
            source.query, where="capture", grants=TO_CAPTURE, option="--allow-privileged", is_allowed=privileged
        )
        task = bar.add_task("capturing", total=1.0)
        return take(source, duration_s, masked=mask, progress=lambda _, share: bar.update(task, completed=share))
