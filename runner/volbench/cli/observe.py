"""`volbench observe`: a server in use, watched without load and without writing to it; and the report of it."""

from __future__ import annotations

import json as jsonlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from volbench.cli import console, options
from volbench.cli.quantities import parsed
from volbench.core.base.text import counted, number
from volbench.core.records.base import parse_duration_s, parse_size_bytes
from volbench.errors import UsageError
from volbench.machine.placement.attach import parse_dsn
from volbench.observe.exposition import ObservationCollector
from volbench.observe.listening import EXPOSED, parse_listen, serve
from volbench.observe.observer import Now, ObserveOptions, Observer, observing
from volbench.observe.report import as_json, report_of
from volbench.observe.ring import write_whole
from volbench.observe.sections import document_of
from volbench.observe.triggers import METRICS, parse_trigger
from volbench.results.report.formats.sections import sections_markdown, sections_page

app = typer.Typer(
    rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False, invoke_without_command=True
)
LINE_EVERY_S = 10.0
"""Without a terminal."""
MESSAGES_SHOWN = 6
_METRICS_DISPLAYED = (
    "statements",
    "p95",
    "statement_time",
    "threads_running",
    "iops",
    "await",
    "queue",
    "credits",
    "cpu",
)


@app.callback()
def observe(
    ctx: typer.Context,
    server: Annotated[
        str, typer.Option("--server", metavar="DSN", help="mysql://user@host:port, no password.")
    ] = "",
    option_file: Annotated[str, typer.Option("--option-file", help="A my.cnf with the password in [client].")] = "",
    volume: Annotated[
        str, typer.Option("--volume", metavar="PATH|auto|none", help="The data directory on this machine.")
    ] = "auto",
    length: Annotated[str, typer.Option("--for", help="How long, such as 30m; else until Ctrl-C.")] = "",
    on: Annotated[
        list[str], typer.Option("--on", metavar="TRIGGER", help='Keep incidents: "p95 > 200ms for 5s"; repeat it.')
    ] = [],
    out: Annotated[
        Path | None, typer.Option("--out", help="Directory of the observation; it must not exist.")
    ] = None,
    keep: Annotated[str, typer.Option("--keep", help="Erase readings that are older.")] = "2h",
    max_size: Annotated[str, typer.Option("--max-size", help="Maximum disk usage.")] = "500MB",
    interval: Annotated[str, typer.Option("--interval", help="Sampling interval, 0.1s to 60s.")] = "1s",
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS:PORT", help="Answer Prometheus there: 127.0.0.1:9104.")
    ] = "",
    listen_remote: Annotated[
        bool,
        typer.Option(
            "--listen-remote",
            help="Let --listen take an address of the network: whoever reaches it can read the metrics.",
        ),
    ] = False,
    allow_privileged: options.AllowPrivileged = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the output directory.")] = False,
    json: options.Json = False,
) -> None:
    """Watch a server in use: its statements, its volume, and what explains its latency. Only reads."""
    if ctx.invoked_subcommand is not None:
        return
    if not server:
        raise UsageError(
            "a server is needed", where="observe", next_step="volbench observe --server mysql://user@host:3306"
        )
    options_given = ObserveOptions(
        attach=parse_dsn(server, option_file=option_file),
        directory=out or Path("results") / f"observe-{datetime.now(UTC):%Y%m%dT%H%M%SZ}",
        volume=volume,
        for_s=parsed(parse_duration_s, "--for", length) if length else None,
        triggers=tuple(map(parse_trigger, on)),
        keep_s=parsed(parse_duration_s, "--keep", keep),
        bytes_max=parsed(parse_size_bytes, "--max-size", max_size),
        interval_s=parsed(parse_duration_s, "--interval", interval),
        explains=not quiet,
        allow_privileged=allow_privileged,
    )
    if not 0.1 <= options_given.interval_s <= 60:
        raise UsageError("the interval is outside 0.1s to 60s", where=f"--interval {interval}")
    listen_address = parse_listen(listen, remote=listen_remote) if listen else None
    with _stopped_by_signal() as stopped, observing(options_given) as (observer, process), ExitStack() as stack:
        if listen_address is not None:
            answering = serve(*listen_address, ObservationCollector(observer.latest, observer.now))
            stack.callback(answering.server_close)
            stack.callback(answering.shutdown)
            if listen_remote:
                console.say(f"listening on {listen}: whoever reaches it sees {EXPOSED}")
        if not quiet:
            _introduce(observer)
        with _display(observer, quiet=quiet) as show:
            observer.run(process, stopped.is_set, show)
    if json:
        console.show_json({"directory": str(options_given.directory), "incidents": observer.now.incidents})
    console.say(f"observed: {options_given.directory}; {counted(observer.now.incidents, 'incident')}")
    console.say(f"report: volbench observe report {options_given.directory}")


@app.command("report")
def report(
    directory: Annotated[Path, typer.Argument(help="A directory that `volbench observe` made.")],
    add: Annotated[
        list[str],
        typer.Option(
            "--add",
            metavar="FILE|cloudwatch:NAME",
            help="The volume's own side of that time: CloudWatch JSON, a log of NVMe counters; repeat it.",
        ),
    ] = [],
    json: options.Json = False,
) -> None:
    """Explain an observation: all of its time, each incident against the time before it, top statements."""
    observation_report = report_of(directory, recorded=add)
    document = document_of(observation_report)
    write_whole(directory / "report.json", jsonlib.dumps(as_json(observation_report), indent=1) + "\n")
    write_whole(directory / "report.md", sections_markdown(document))
    write_whole(directory / "report.html", sections_page(document))
    if json:
        console.show_json(as_json(observation_report))
        return
    console.show_text(sections_markdown(document, str))
    console.say(f"written: {directory / 'report.html'}, with report.md and report.json")


def _introduce(observer: Observer) -> None:
    observation = observer.observation
    volume = observation.volume
    where = (
        "not observed from here" if volume is None else volume.disk or volume.nfs_server or f"{volume.filesystem}"
    )
    server = f"{observation.server.flavor} {observation.server.version} at {observation.server_address}"
    console.say(f"observing {server}; volume: {where}")
    for note in observation.notes:
        console.say(f"note: {note}")
    console.say(f"readings: {observer.directory}; Ctrl-C ends it")


@contextmanager
def _stopped_by_signal() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM end the observation in order; what was read is kept."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _display(observer: Observer, *, quiet: bool) -> Iterator[Callable[[Now], None]]:
    if quiet:
        yield lambda _: None
    elif console.err.is_terminal:
        with Live(console=console.err, refresh_per_second=2, transient=True) as live:
            yield lambda now: live.update(view(observer, now))
    else:
        yield _Lines()


class _Lines:
    """A line every ten seconds, and each message when it comes."""

    def __init__(self) -> None:
        self._said = 0
        self._last_s = float("-inf")

    def __call__(self, now: Now) -> None:
        for message in now.messages[self._said :]:
            console.say(message)
        self._said = len(now.messages)
        if now.t_s - self._last_s >= LINE_EVERY_S:
            self._last_s = now.t_s
            console.say(line(now))


def line(now: Now) -> str:
    """Return the present in one line; metrics that are not known are left out."""
    figures = [f"{name} {_figure(now, name)}" for name in _METRICS_DISPLAYED if now.value(name) is not None]
    suspected = f"; suspicion: {now.suspicion}" if now.suspicion else ""
    return f"{now.t_s:.0f} s: {', '.join(figures) or 'no readings yet'}{suspected}"


def view(observer: Observer, now: Now) -> Group:
    """Return the present as a table for a terminal."""
    table = Table(box=None, pad_edge=False)
    for name in _METRICS_DISPLAYED:
        if now.value(name) is not None:
            table.add_column(name, justify="right")
    table.add_row(*(_figure(now, name) for name in _METRICS_DISPLAYED if now.value(name) is not None))
    observation = observer.observation
    incident = f"; incident {now.in_incident} goes on" if now.in_incident else ""
    head = f"{observation.server_address}, {now.t_s:.0f} s, {counted(now.incidents, 'incident')}{incident}"
    suspected = Text(f"suspicion (last 60 s): {now.suspicion or 'not yet'}")
    return Group(Text(head, style="bold"), table, suspected, *map(Text, now.messages[-MESSAGES_SHOWN:]))


def _figure(now: Now, name: str) -> str:
    value = now.value(name)
    return (
        ""
        if value is None
        else f"{value:,.0f}{METRICS[name].unit}"
        if value >= 100
        else f"{number(value)}{METRICS[name].unit}"
    )
