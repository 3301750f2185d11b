"""`volbench credits`: when a volume's burst credits run out, and which volumes sustain the load."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console, options
from volbench.cli.quantities import parsed, positive
from volbench.core.profile.limits import limits_of, read_latency_s
from volbench.core.profile.resolve import resolve
from volbench.core.records.base import parse_duration_s, parse_fraction, parse_size_bytes
from volbench.errors import UsageError
from volbench.results.credits.answer import INSTANCE, CreditForecast, Question, answer, has_parameter
from volbench.results.credits.dump import DumpLoad
from volbench.results.credits.history import Defaults, History
from volbench.results.credits.prices import load_prices
from volbench.results.credits.sizing import size_parameter
from volbench.results.credits.sources import read_history
from volbench.results.credits.work import DEFAULT_IO_BYTES, Work, constant
from volbench.results.recorded.timelines import Choice
from volbench.results.recorded.window import DayWindow, parse_window
from volbench.results.report.credits.data import answer_data
from volbench.results.report.credits.plot import text_plot, write_html
from volbench.results.report.credits.text import sentences

HistorySource = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE|DIR",
        help="A history: sar, iostat, CloudWatch, CSV, a run's cell; live: cloudwatch:vol-0123?hours=24.",
    ),
]
Windows = Annotated[
    list[str],
    typer.Option("--window", help="Time for the dump (4h), or part of the history's day (14:35-15:10)."),
]
Settings = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the profile; may be repeated.")
]


def credits(
    profile: Annotated[str, typer.Option("--profile", help="A volume profile, such as ebs-gp2.")],
    size: Annotated[str, typer.Option("--size", help="Its size, such as 50GiB (EFS: bytes stored).")] = "",
    instance: Annotated[
        str, typer.Option("--instance", help="Add the limits of an instance, such as m5.large.")
    ] = "",
    settings: Settings = [],
    iops: Annotated[float | None, typer.Option("--iops", help="A constant load, requests per second.")] = None,
    throughput: Annotated[str, typer.Option("--throughput", help="A constant load, bytes per second: 40MiB.")] = "",
    io_size: Annotated[
        str, typer.Option("--io-size", help="Size of a request of load and dump (default: 16KiB).")
    ] = "",
    read_share: Annotated[
        str, typer.Option("--read-share", help="Share of reads among the requests, such as 70%.")
    ] = "100%",
    sequential: Annotated[bool, typer.Option("--sequential", help="Requests are sequential.")] = False,
    history: HistorySource = None,
    device: Annotated[str, typer.Option("--device", help="Which device or volume of the history.")] = "",
    start_credits: Annotated[str, typer.Option("--start-credits", help="Initial fill of the buckets: 40%.")] = "",
    dump: Annotated[str, typer.Option("--dump", help="Also forecast a dump of this size, such as 3.6GB.")] = "",
    streams: Annotated[
        int | None, typer.Option("--streams", min=1, help="Concurrent reads of the dump (default: unlimited).")
    ] = None,
    window: Windows = [],
    timezone: options.TimeZone = "",
    host: options.RecordedHost = "",
    volume: options.RecordedVolume = "",
    date: options.RecordedDate = "",
    interval: options.RecordedInterval = "",
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.html", help="Draw the balance.")] = None,
    json: options.Json = False,
) -> None:
    """Forecast when burst credits run out under a load, and which volumes sustain the load."""
    if plot is not None and plot.suffix != ".html":
        raise UsageError("the balance is drawn as HTML", where=f"--plot {plot}", next_step="name it FILE.html")
    profile_options = _options(profile, size, instance, settings)
    resolve(profile, profile_options)  # so that a wrong volume is reported first
    io_bytes = _size("--io-size", io_size) if io_size else float(DEFAULT_IO_BYTES)
    defaults = Defaults(io_bytes=io_bytes, read_share=_share("--read-share", read_share))
    day_window, dump_window = _windows(window)
    loaded_history = _history(
        history,
        defaults,
        profile=profile,
        profile_options=profile_options,
        choice=Choice(host=host, device=device, volume=volume, day=options.day_of(date), zone=timezone),
        window=day_window,
        interval_s=options.interval_of(interval),
        constant=iops is not None or bool(throughput),
    )
    work = _constant(iops, throughput, io_size, defaults) if loaded_history is None else loaded_history.work
    if work is None and not dump:
        raise UsageError(
            "there is no load", where="volbench credits", next_step="add --iops, --throughput, --from or --dump"
        )
    question = Question(
        profile=profile,
        options=profile_options,
        work=work.as_sequential() if work is not None and sequential else work,
        start_share=_start(start_credits, loaded_history),
        dump=_dump(dump, io_bytes, sequential, streams, profile, profile_options) if dump else None,
        window_s=parsed(parse_duration_s, "--window", dump_window) if dump_window else None,
    )
    if question.window_s is not None and question.dump is None:
        raise UsageError("a window needs a dump", where="--window", next_step="add --dump")
    _show(question, answer(question, load_prices()), loaded_history, json=json, plot=plot)


def _history(
    source: Path | None,
    defaults: Defaults,
    *,
    profile: str,
    profile_options: dict[str, str],
    choice: Choice,
    window: DayWindow | None,
    interval_s: float | None,
    constant: bool,
) -> History | None:
    if source is None:
        if window is not None:
            raise UsageError("a window of the day needs a history", where="--window", next_step="add --from")
        return None
    history = read_history(source, defaults, choice=choice, window=window, interval_s=interval_s)
    if constant:
        raise UsageError(
            "a load is either a history or a constant rate", where="--from", next_step="omit --iops or --from"
        )
    return _with_shares(history, profile, profile_options) if history.observed_bytes else history


def _show(
    question: Question, forecast_answer: CreditForecast, history: History | None, *, json: bool, plot: Path | None
) -> None:
    sentence_list = sentences(question, forecast_answer, history)
    if plot is not None:
        write_html(plot, forecast_answer, sentence_list)
        console.say(f"the balance is drawn in {plot}")
    if json:
        console.show_json({**answer_data(question, forecast_answer, history), "sentences": sentence_list})
        return
    for sentence in sentence_list:
        console.out.print(sentence, markup=False)
    plot_text = text_plot(forecast_answer, width=min(console.out.width, 100))
    if plot_text:
        console.out.print("\n" + plot_text, markup=False)


def _windows(texts: list[str]) -> tuple[DayWindow | None, str]:
    """Return the window of a history's day, and the one for the dump; a time of day has a colon."""
    day_windows = [text for text in texts if ":" in text]
    durations = [text for text in texts if ":" not in text]
    if len(day_windows) > 1 or len(durations) > 1:
        raise UsageError("at most one window of each kind", where=f"--window {', '.join(texts)}")
    return parse_window(day_windows[0]) if day_windows else None, durations[0] if durations else ""


def _options(profile: str, size: str, instance: str, settings: list[str]) -> dict[str, str]:
    """Return the options as in a SPEC."""
    profile_options = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key.strip():
            raise UsageError(
                "expected KEY=VALUE", where=f"--set {setting}", next_step="for example --set iops=5000"
            )
        profile_options[key.strip()] = value.strip()
    if size:
        parameter = size_parameter(profile)
        if parameter is None:
            raise UsageError(f"{profile} has no size", where=f"--size {size}", next_step="omit --size")
        profile_options[parameter] = size
    if instance:
        if not has_parameter(profile, INSTANCE):
            raise UsageError(
                f"{profile} is not a volume of an instance", where="--instance", next_step="omit --instance"
            )
        profile_options[INSTANCE] = instance
    return profile_options


def _constant(iops: float | None, throughput: str, io_size: str, defaults: Defaults) -> Work | None:
    """Return a constant load: two of IOPS, throughput and request size determine the third."""
    if iops is None and not throughput:
        return None
    io_bytes, per_s = defaults.io_bytes, iops
    if throughput:
        bytes_per_s = _size("--throughput", throughput)
        if per_s is None:
            per_s = bytes_per_s / io_bytes
        elif io_size:
            raise UsageError("give at most two of --iops, --throughput, --io-size", where="--io-size")
        else:
            io_bytes = bytes_per_s / per_s if per_s > 0 else io_bytes
    rate = per_s or 0.0
    return constant(
        reads_per_s=rate * defaults.read_share,
        writes_per_s=rate * (1.0 - defaults.read_share),
        read_bytes=io_bytes,
        write_bytes=io_bytes,
    )


def _dump(
    text: str, io_bytes: float, sequential: bool, streams: int | None, profile: str, profile_options: dict[str, str]
) -> DumpLoad:
    latency_s = read_latency_s(resolve(profile, profile_options), io_bytes)
    return DumpLoad(
        bytes=_size("--dump", text),
        io_bytes=io_bytes,
        sequential=sequential,
        rate_max_per_s=float("inf") if streams is None or latency_s <= 0 else streams / latency_s,
    )


def _start(text: str, history: History | None) -> float | None:
    """Return the initial fill of the buckets: the option, else the vendor's metric; None: the profile's."""
    if text:
        return _share("--start-credits", text)
    return min(max(history.observed[0][1], 0.0), 1.0) if history is not None and history.observed else None


def _with_shares(history: History, profile: str, profile_options: dict[str, str]) -> History:
    """Return the history with balances in bytes as shares of the profile's bucket; unchanged without a bucket."""
    buckets = limits_of(resolve(profile, profile_options)).buckets
    capacity = next(
        (bucket.capacity for bucket in buckets if bucket.metric and not bucket.percent and bucket.capacity), None
    )
    if capacity is None:
        return history
    return replace(
        history, observed=tuple((t_s, balance_bytes / capacity) for t_s, balance_bytes in history.observed_bytes)
    )


def _size(option: str, text: str) -> float:
    return float(positive(parse_size_bytes, option, text, noun="a size"))


def _share(option: str, text: str) -> float:
    value = parsed(parse_fraction, option, text)
    if not 0.0 <= value <= 1.0:
        raise UsageError("a share must be from 0 % to 100 %", where=f"{option} {text}")
    return value
