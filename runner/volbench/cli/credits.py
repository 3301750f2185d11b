"""`volbench credits`: when a volume's burst credits run out, what is left then, and what would not run out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from volbench.analysis.credits.answer import INSTANCE, Answer, Question, answer, has_parameter
from volbench.analysis.credits.dump import Dump
from volbench.analysis.credits.history import Assumed, History
from volbench.analysis.credits.limits import limits_of, read_latency_s
from volbench.analysis.credits.prices import load_prices
from volbench.analysis.credits.sizing import size_parameter
from volbench.analysis.credits.sources import read_history
from volbench.analysis.credits.work import DEFAULT_IO_BYTES, Work, constant
from volbench.analysis.recorded.window import DayWindow, parse_window
from volbench.cli import console, options
from volbench.cli.credits_data import as_data
from volbench.cli.credits_plot import text_plot, write_html
from volbench.cli.credits_shown import sentences
from volbench.errors import UsageError
from volbench.profile.resolve import resolve
from volbench.records.base import parse_duration_s, parse_fraction, parse_size_bytes


def credits(  # noqa: A001 - it is the command's name
    profile: Annotated[str, typer.Option("--profile", help="A volume profile, such as ebs-gp2.")],
    size: Annotated[str, typer.Option("--size", help="Its size, such as 50GiB (of EFS: what is stored).")] = "",
    instance: Annotated[str, typer.Option("--instance", help="Adds an instance's limits, such as m5.large.")] = "",
    settings: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="Another parameter of the profile; repeat it.")
    ] = [],  # noqa: B006 - typer copies it
    iops: Annotated[float | None, typer.Option("--iops", help="A constant load, requests per second.")] = None,
    throughput: Annotated[str, typer.Option("--throughput", help="A constant load per second, as 40MiB.")] = "",
    io_size: Annotated[str, typer.Option("--io-size", help="Size of a request of load and dump; 16KiB.")] = "",
    read_share: Annotated[
        str, typer.Option("--read-share", help="Reads among the requests, such as 70%.")
    ] = "100%",
    sequential: Annotated[bool, typer.Option("--sequential", help="Requests follow one another on disk.")] = False,
    history: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE|DIR",
            help="A history: sar, iostat, CloudWatch, CSV, a run's cell; live: cloudwatch:vol-0123?hours=24.",
        ),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="Which device or volume of the history.")] = "",
    start_credits: Annotated[str, typer.Option("--start-credits", help="How full buckets are at first: 40%.")] = "",
    dump: Annotated[str, typer.Option("--dump", help="How long a dump of this size takes, such as 3.6GB.")] = "",
    streams: Annotated[
        int | None, typer.Option("--streams", min=1, help="Reads that the dump has in flight; as many as needed.")
    ] = None,
    window: Annotated[
        list[str],
        typer.Option(
            "--window", help="How long the dump may take (4h); the part of a history's day (14:35-15:10)."
        ),
    ] = [],  # noqa: B006 - typer copies it
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.html", help="Draw the balance.")] = None,
    json: options.Json = False,
) -> None:
    """Forecast when burst credits run out under a load, and which volume would not run out."""
    if plot is not None and plot.suffix != ".html":
        raise UsageError("the balance is drawn as HTML", where=f"--plot {plot}", next_step="name it FILE.html")
    chosen = _options(profile, size, instance, settings)
    resolve(profile, chosen)  # so that a wrong volume is told of first
    io_bytes = _size("--io-size", io_size) if io_size else float(DEFAULT_IO_BYTES)
    assumed = Assumed(io_bytes=io_bytes, read_share=_share("--read-share", read_share))
    of_day, dump_window = _windows(window)
    if of_day is not None and history is None:
        raise UsageError("a window of the day is of a history", where="--window", next_step="give --from")
    found = None if history is None else read_history(history, assumed, device=device, window=of_day)
    if found is not None and (iops is not None or throughput):
        raise UsageError("a load is either a history or a number", where="--from", next_step="leave --iops out")
    if found is not None and found.observed_bytes:
        found = _with_shares(found, profile, chosen)
    work = _constant(iops, throughput, io_size, assumed) if found is None else found.work
    if work is None and not dump:
        raise UsageError(
            "there is no load", where="volbench credits", next_step="give --iops, --throughput, --from or --dump"
        )
    question = Question(
        profile=profile,
        options=chosen,
        work=work.as_sequential() if work is not None and sequential else work,
        start_share=_start(start_credits, found),
        dump=_dump(dump, io_bytes, sequential, streams, profile, chosen) if dump else None,
        window_s=_duration("--window", dump_window) if dump_window else None,
    )
    if question.window_s is not None and question.dump is None:
        raise UsageError("a window is for a dump", where="--window", next_step="give --dump too")
    _show(question, answer(question, load_prices()), found, json=json, plot=plot)


def _show(question: Question, found: Answer, history: History | None, *, json: bool, plot: Path | None) -> None:
    told = sentences(question, found, history)
    if plot is not None:
        write_html(plot, found, told)
        console.say(f"the balance is drawn in {plot}")
    if json:
        console.show_json({**as_data(question, found, history), "sentences": told})
        return
    for sentence in told:
        console.out.print(sentence, markup=False)
    drawn = text_plot(found, width=min(console.out.width, 100))
    if drawn:
        console.out.print("\n" + drawn, markup=False)


def _windows(given: list[str]) -> tuple[DayWindow | None, str]:
    """The window of a history's day, and the one for the dump; a time of day has a colon."""
    of_day = [one for one in given if ":" in one]
    durations = [one for one in given if ":" not in one]
    if len(of_day) > 1 or len(durations) > 1:
        raise UsageError("one window of a kind", where=f"--window {', '.join(given)}")
    return parse_window(of_day[0]) if of_day else None, durations[0] if durations else ""


def _options(profile: str, size: str, instance: str, settings: list[str]) -> dict[str, str]:
    """What a SPEC would hold."""
    found = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key.strip():
            raise UsageError(
                "expected KEY=VALUE", where=f"--set {setting}", next_step="for example --set iops=5000"
            )
        found[key.strip()] = value.strip()
    if size:
        parameter = size_parameter(profile)
        if parameter is None:
            raise UsageError(f"{profile} has no size", where=f"--size {size}", next_step="leave it out")
        found[parameter] = size
    if instance:
        if not has_parameter(profile, INSTANCE):
            raise UsageError(f"{profile} is not an instance's disk", where="--instance", next_step="leave it out")
        found[INSTANCE] = instance
    return found


def _constant(iops: float | None, throughput: str, io_size: str, assumed: Assumed) -> Work | None:
    """A load given as numbers: of IOPS, throughput and size of a request, two tell the third."""
    if iops is None and not throughput:
        return None
    io_bytes, per_s = assumed.io_bytes, iops
    if throughput:
        bytes_per_s = _size("--throughput", throughput)
        if per_s is None:
            per_s = bytes_per_s / io_bytes
        elif io_size:
            raise UsageError("--iops, --throughput and --io-size are one too many", where="--io-size")
        else:
            io_bytes = bytes_per_s / per_s if per_s > 0 else io_bytes
    rate = per_s or 0.0
    return constant(
        reads_per_s=rate * assumed.read_share,
        writes_per_s=rate * (1.0 - assumed.read_share),
        read_bytes=io_bytes,
        write_bytes=io_bytes,
    )


def _dump(
    text: str, io_bytes: float, sequential: bool, streams: int | None, profile: str, chosen: dict[str, str]
) -> Dump:
    latency_s = read_latency_s(resolve(profile, chosen), io_bytes)
    return Dump(
        bytes=_size("--dump", text),
        io_bytes=io_bytes,
        sequential=sequential,
        rate_max_per_s=float("inf") if streams is None or latency_s <= 0 else streams / latency_s,
    )


def _start(text: str, history: History | None) -> float | None:
    """How full buckets are at first: as told, else as the vendor's metric says, else as the profile says."""
    if text:
        return _share("--start-credits", text)
    return min(max(history.observed[0][1], 0.0), 1.0) if history is not None and history.observed else None


def _with_shares(history: History, profile: str, chosen: dict[str, str]) -> History:
    """Balances in bytes as shares of the bucket that the profile has; as it was, where there is no such bucket."""
    buckets = limits_of(resolve(profile, chosen)).buckets
    capacity = next((one.capacity for one in buckets if one.metric and not one.percent and one.capacity), None)
    if capacity is None:
        return history
    return replace(history, observed=tuple((t_s, held / capacity) for t_s, held in history.observed_bytes))


def _size(option: str, text: str) -> float:
    try:
        value = float(parse_size_bytes(text))
    except ValueError as error:
        raise UsageError(str(error), where=f"{option} {text}") from error
    if value <= 0:
        raise UsageError("a size is above 0", where=f"{option} {text}")
    return value


def _share(option: str, text: str) -> float:
    try:
        value = parse_fraction(text)
    except ValueError as error:
        raise UsageError(str(error), where=f"{option} {text}") from error
    if not 0.0 <= value <= 1.0:
        raise UsageError("a share is 0 % to 100 %", where=f"{option} {text}")
    return value


def _duration(option: str, text: str) -> float:
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise UsageError(str(error), where=f"{option} {text}") from error
