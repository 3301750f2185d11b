"""The table of forecasts against what was measured afterwards."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HEADER = """# Forecasts for volumes that nobody measured
`tests/lab/response` writes this table (`python -m response.forecasts`). A source is a run of four loads on an
emulated volume whose latencies follow a signal; it gives ms of latency for each ms of a read and of a log sync.
A goal is another volume with latencies that a seed drew. Its waiting times, its rate and its p50 were written down
before it was made; then the loads ran on it for 20 s each. Source and goal are volbench's own emulator, of one kind
and without limits. No cloud volume is among them."""
KNOWN = """
**Those of this table were made after their goals were measured**, again from the same sources. They tell what a
rule would have given, and prove nothing: who chose it knew the runs."""
NEAR = 0.15
"""Share of the measured value that a forecast may be off."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """How far off one figure of a pair is, as a share of the measured one, and whether its interval held."""

    forecast: float
    measured: float
    holds: bool

    @property
    def error(self) -> float:
        """Forecast over measured, less 1."""
        return self.forecast / self.measured - 1


def score(pair: Mapping[str, Any], figure: str) -> Score | None:
    """Return the score of `tps` or `p50_ms`; None where it was not forecast or not measured."""
    forecast, measured = pair["forecast"], pair["measured"] or {}
    expected, value = forecast.get(figure), measured.get(figure)
    if expected is None or not value:
        return None
    low, high = forecast[f"{figure.removesuffix('_ms')}_interval"]
    return Score(forecast=expected, measured=value, holds=low <= value <= high)


def table(pairs: Sequence[Mapping[str, Any]], *, is_known: bool = False) -> Iterator[str]:
    """Yield what the table is, how many forecasts are near, for all and for each load, and a row for each pair.

    Args:
        pairs: forecast and measured.
        is_known: the forecasts were made after the goals were measured.
    """
    yield from (HEADER + KNOWN if is_known else HEADER).splitlines()
    loads = [pair["measured"]["loadavg"] for pair in pairs if pair["measured"]]
    valid = sum(pair["measured"]["valid"] for pair in pairs if pair["measured"])
    if loads:
        yield (
            f"The machine's load average was {min(loads):.0f} to {max(loads):.0f} when a goal's run began, on 2"
            f" processors; volbench calls {valid} of the {len(loads)} measured steps valid."
        )
    yield ""
    lines = pairs
    pairs = [pair for pair in lines if not is_control(pair)]
    yield from summary("all pairs", pairs)
    for sources in halves(pairs):
        text = f"sources {sources[0]} to {sources[-1]}"
        yield from summary(text, [pair for pair in pairs if source_of(pair) in sources])
    for load in dict.fromkeys(pair["load"] for pair in pairs):
        yield from summary(load, [pair for pair in pairs if pair["load"] == load])
    for is_beyond, text in ((False, "waiting times within twice those of the signal"), (True, "beyond")):
        yield from summary(text, [pair for pair in pairs if pair["forecast"].get("is_beyond") is is_beyond])
    yield from summary("the server's count confirms every slope", [pair for pair in pairs if is_confirmed(pair)])
    yield from summary("controls, set as their source was", [pair for pair in lines if is_control(pair)])
    yield ""
    yield (
        "| pair | load | source: reads, writes, us | goal: reads, writes, us | transactions/s | measured | off"
        " | p50, ms | measured | off | load average |"
    )
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    yield from map(row, lines)


def source_of(pair: Mapping[str, Any]) -> int:
    """Return the number of a pair's source."""
    return int(pair["goal"].split("-")[0])


def halves(pairs: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Return the numbers of the first and of the second half of the sources; nothing of a single one."""
    sources = sorted({source_of(pair) for pair in pairs})
    middle = len(sources) // 2
    return [sources[:middle], sources[middle:]] if middle else []


def is_control(pair: Mapping[str, Any]) -> bool:
    """Return whether the goal is set as its source was."""
    return bool(pair["forecast"]["source_us"] == pair["forecast"]["goal_us"])


def is_confirmed(pair: Mapping[str, Any]) -> bool:
    """Return whether the counted waits agree with each slope that a forecast is from."""
    slopes = pair["forecast"].get("slopes", {})
    return bool(slopes) and all(agreement == "agrees" for *_, agreement in slopes.values())


def row(pair: Mapping[str, Any]) -> str:
    """Return one pair as a row."""
    forecast, measured = pair["forecast"], pair["measured"] or {}
    source, goal = (f"{us['read_us']}, {us['write_us']}" for us in (forecast["source_us"], forecast["goal_us"]))
    cells = [pair["goal"], pair["load"], source, goal]
    if "reason" in forecast:
        cells += [f"none: {forecast['reason']}", "", "", "", "", ""]
    else:
        for figure in ("tps", "p50_ms"):
            cells += _cells(score(pair, figure))
    return f"| {' | '.join(cells)} | {measured.get('loadavg', float('nan')):.1f} |"


def _cells(one: Score | None) -> list[str]:
    if one is None:
        return ["", "", ""]
    off = f"{100 * one.error:+.0f} %"
    return [f"{one.forecast:.3g}", f"{one.measured:.3g}", off if abs(one.error) <= NEAR else f"**{off}**"]


def summary(text: str, pairs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line on each figure: how many are near, the middle error, and how many intervals hold."""
    for figure, name in (("tps", "transactions/s"), ("p50_ms", "p50")):
        scores = [one for pair in pairs if (one := score(pair, figure)) is not None]
        if not scores:
            continue
        errors = [abs(one.error) for one in scores]
        near = sum(error <= NEAR for error in errors)
        held = sum(one.holds for one in scores)
        yield (
            f"- {text}, {name}: {near} of {len(scores)} within {NEAR:.0%} (median {statistics.median(errors):.0%},"
            f" largest {max(errors):.0%}); the interval held {held}; {len(pairs) - len(scores)} without a forecast."
        )
