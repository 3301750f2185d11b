"""`volbench recommend`: the cheapest volume and settings that keep an objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console, options
from volbench.cli.quantities import positive
from volbench.cli.recommendation.sources import NamedSource, ReadingOptions, evidence_of, servers_of
from volbench.cli.tables import show_rows
from volbench.core.base.nearest import suggestion
from volbench.core.records.base import parse_duration_s, parse_size_bytes
from volbench.errors import EXIT_UNDECIDED, RunUnreadable, Undecided, UsageError
from volbench.results.credits.dump import DumpLoad
from volbench.results.credits.prices import Prices, load_prices
from volbench.results.credits.work import DEFAULT_IO_BYTES
from volbench.results.recommend.catalogue import candidates
from volbench.results.recommend.choice import Recommendation
from volbench.results.recommend.choice import recommend as choose
from volbench.results.recommend.goal import Goal
from volbench.results.recorded.timelines import Choice
from volbench.results.report.recommendation import COLUMNS, SCHEMA, data, row, sentences, total_text


def recommend(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="A run (directory, id, `latest`), an observation, a recording of a volume (file, directory), or "
            "cloudwatch:vol-0123?hours=168. Several: a table, one server a line.",
        ),
    ],
    size: Annotated[
        list[str],
        typer.Option("--size", metavar="[SERVER=]SIZE", help="What the volume must hold at least, such as 200GiB."),
    ],
    p95: Annotated[str, typer.Option("--p95", help="Objective: 95 % within this time, such as 20ms.")] = "",
    backup: Annotated[str, typer.Option("--backup", help="What a backup reads (default: --size).")] = "",
    backup_window: Annotated[
        str, typer.Option("--backup-window", help="Objective: a backup within this time, such as 4h.")
    ] = "",
    streams: Annotated[int, typer.Option("--streams", min=1, max=1024, help="Reads of the backup at a time.")] = 1,
    recovery: Annotated[
        str, typer.Option("--recovery", help="Objective: a crash recovery within this time. Needs a crash step.")
    ] = "",
    profile: Annotated[
        list[str], typer.Option("--profile", help="A type to choose from; may be repeated (default: all priced).")
    ] = [],
    prices: Annotated[
        Path | None, typer.Option("--prices", help="Prices in place of suites/prices/aws.yaml.")
    ] = None,
    fleet: Annotated[
        bool, typer.Option("--fleet", help="SOURCE is a directory with a file or a directory for each server.")
    ] = False,
    step: Annotated[list[str], typer.Option("--step", help="Of a run: the load; may be repeated.")] = [],
    from_volume: Annotated[
        str, typer.Option("--from-volume", help="Of a run: the volume that loads are predicted from.")
    ] = "",
    device: Annotated[str, typer.Option("--device", help="Of a recording: which device.")] = "",
    host: options.RecordedHost = "",
    volume: options.RecordedVolume = "",
    date: options.RecordedDate = "",
    timezone: options.TimeZone = "",
    interval: options.RecordedInterval = "",
    output: options.Output = options.OutputFormat.TABLE,
    json: options.Json = False,
) -> None:
    """Recommend the cheapest volume and settings that keep an objective, or say which measurement would decide."""
    sizes = _sizes(size)
    price_list = load_prices(prices)
    goal = _goal(p95, backup, backup_window, streams, recovery)
    choice = Choice(host=host, device=device, volume=volume, day=options.day_of(date), zone=timezone)
    reading = ReadingOptions(
        choice=choice, interval_s=options.interval_of(interval), steps=tuple(step), volume=from_volume
    )
    servers = servers_of(sources, is_fleet=fleet)
    _check_names(sizes, servers)
    answers = []
    for server in servers:
        size_bytes = sizes.get(server.name, sizes.get("", 0))
        if not size_bytes:
            raise UsageError(
                "no size is given for this server", where=server.name, next_step=f"add --size {server.name}=200GiB"
            )
        offered = candidates(price_list, size_bytes=size_bytes, profiles=profile)
        try:
            evidence = evidence_of(server, reading)
            answers.append(choose(evidence, offered, _with_backup(goal, size_bytes, streams)))
        except (UsageError, RunUnreadable, Undecided) as error:
            if len(servers) == 1:
                raise
            answers.append(_refusal(server.name, goal, error))
    _show(answers, price_list, options.OutputFormat.JSON if json else output)
    if any(answer.chosen is None for answer in answers):
        raise typer.Exit(EXIT_UNDECIDED)


def _show(answers: Sequence[Recommendation], prices: Prices, output: options.OutputFormat) -> None:
    if len(answers) == 1 and output == options.OutputFormat.TABLE:
        for sentence in sentences(answers[0], prices):
            console.out.print(sentence, markup=False)
        return
    rows = [row(answer, prices) for answer in answers]
    answer_data = {"schema": SCHEMA, "servers": [data(answer, prices) for answer in answers]}
    show_rows(COLUMNS, rows, output, data=answer_data)
    if output == options.OutputFormat.TABLE:
        console.say(total_text(answers, prices))


def _refusal(name: str, goal: Goal, error: UsageError | RunUnreadable | Undecided) -> Recommendation:
    reason = f"{error.what}: {error.evidence}" if error.evidence else error.what
    return Recommendation(
        name=name,
        goal=goal,
        chosen=None,
        cheaper=None,
        is_cheapest=False,
        refusal=reason,
        measurement=error.next_step,
    )


def _sizes(texts: Sequence[str]) -> dict[str, int]:
    """Return bytes by server's name; of all others under an empty name."""
    sizes: dict[str, int] = {}
    for text in texts:
        name = text.rpartition("=")[0]
        if name in sizes:
            raise UsageError(
                f"the size of {name} is given twice" if name else "the size of all servers is given twice",
                where=f"--size {text}",
                next_step="give it once; --size SERVER=SIZE is for a server of another size",
            )
        sizes[name] = positive(_parse_named_size, "--size", text, noun="a size")
    return sizes


def _parse_named_size(text: str) -> int:
    return parse_size_bytes(text.rpartition("=")[2])


def _check_names(sizes: Mapping[str, int], servers: Sequence[NamedSource]) -> None:
    """Raise UsageError for a size of a server that is not asked about: its own size would be the general one."""
    names = [server.name for server in servers]
    for name in sizes:
        if name and name not in names:
            raise UsageError(
                f"no source is the server {name!r}", where=f"--size {name}=...", next_step=suggestion(name, names)
            )


def _goal(p95: str, backup: str, window: str, streams: int, recovery: str) -> Goal:
    if not (p95 or window or recovery):
        raise UsageError(
            "there is no objective",
            where="volbench recommend",
            next_step="give --p95 20ms, --backup-window 4h with --backup SIZE, or --recovery 60s",
        )
    if backup and not window:
        raise UsageError(
            "a backup needs the time that it may take", where="--backup", next_step="add --backup-window"
        )
    if streams > 1 and not window:
        raise UsageError("streams are of a backup", where="--streams", next_step="add --backup-window")
    size_bytes = positive(parse_size_bytes, "--backup", backup, noun="a size") if backup else 0
    return Goal(
        p95_s=_seconds("--p95", p95),
        backup=_backup(float(size_bytes), streams) if backup else None,
        window_s=_seconds("--backup-window", window),
        recovery_s=_seconds("--recovery", recovery),
    )


_READ_S = 0.001
"""What one read of a backup's stream takes at least: a volume of a cloud answers in about a millisecond."""


def _backup(size_bytes: float, streams: int) -> DumpLoad:
    return DumpLoad(bytes=size_bytes, io_bytes=float(DEFAULT_IO_BYTES), rate_max_per_s=streams / _READ_S)


def _with_backup(goal: Goal, size_bytes: int, streams: int) -> Goal:
    """Return the goal, its backup of the whole volume's data where nothing else is said."""
    if goal.window_s is None or goal.backup is not None:
        return goal
    return Goal(
        p95_s=goal.p95_s,
        backup=_backup(float(size_bytes), streams),
        window_s=goal.window_s,
        recovery_s=goal.recovery_s,
    )


def _seconds(option: str, text: str) -> float | None:
    return positive(parse_duration_s, option, text, noun="a time") if text else None
