"""Counts of slopes and of forecasts: from the rows of a page, and from pairs and sources that are kept."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import cache
from unittest import mock

from printed_counts import plain

from recounts.lab import LAB
from response.pairs_table import is_control, score, table
from response.stored import Pair, again, by_rule_of_what_if, by_specs_alone, near, stored
from volbench.results.response import levels

FIRST_SOURCES = ("21", "22")
"""On whose pairs the error of another run was chosen first, as EARLIER_SD."""
EARLIER_SD = 0.08
NARROW = 20


def narrow_slopes() -> Iterator[str]:
    """Intervals of at most a fifth of their slope, and medians of widths."""
    sections = (LAB / "response.md").read_text(encoding="utf-8").split("\n## ")
    before, after = _widths(sections[0]), _widths(sections[2]) + _widths(sections[3])
    for widths in (before, after):
        yield f"20 % or less in {sum(width <= NARROW for _, width in widths)} of {len(widths)}"
    reads, syncs = (statistics.median(width for of, width in after if of == kind) for kind in ("read", "log_sync"))
    yield f"They span {reads:.0f} % of the slope for reads at the median and {syncs:.0f} % for syncs"


def _widths(section: str) -> list[tuple[str, int]]:
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in section.splitlines()]
    return [(row[3], int(row[8].rstrip("%"))) for row in cells if len(row) >= 9 and row[8].endswith("%")]


@cache
def _pairs() -> tuple[Pair, ...]:
    return tuple(pair for pair in stored()[0] if not is_control(pair))


@cache
def _again(*, measured_awaits: bool = False, sd: float = levels.OTHER_RUN_SD) -> tuple[Pair, ...]:
    with mock.patch.object(levels, "OTHER_RUN_SD", sd):
        return tuple(again(*stored(), measured_awaits=measured_awaits))


def _within_intervals(pairs: Sequence[Pair], figure: str) -> str:
    scores = [item for pair in pairs if (item := score(pair, figure)) is not None]
    return f"{sum(item.holds for item in scores)} of {len(scores)}"


def _error(pairs: Sequence[Pair]) -> str:
    errors = [abs(item.error) for pair in pairs if (item := score(pair, "tps")) is not None]
    return f"{100 * statistics.median(errors):.1f}"


def slopes_on_drawn_volumes() -> Iterator[str]:
    """Of the last five runs, by what the load does."""
    section = (LAB / "response.md").read_text(encoding="utf-8").split("\n## ")[4]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in section.splitlines()]
    slopes = [(row[2], row[3], row[7] == "yes") for row in cells if len(row) == 11 and row[0].isdigit()]
    reads_only = [holds for load, of, holds in slopes if load in ("point-select", "read-only")]
    reads = [holds for load, of, holds in slopes if load in ("read-write", "write-only") and of == "read"]
    yield f"{sum(reads)} of {len(reads)} for reads in loads that write"
    yield f"{sum(reads_only)} of {len(reads_only)} for reads in loads that only read"


def pairs_again() -> Iterator[str]:
    """What the documentation says of the sixty pairs."""
    pairs, now = _pairs(), _again()
    far = near([pair for pair in now if pair["forecast"]["is_beyond"]])
    yield (
        f"On the {len(pairs)} pairs below, forecast again from their sources, {near(now)[0]} rates in place of"
        f" {near(pairs)[0]} are then within 15 %, {far[0]} of {far[1]} far from the signal, and the median error is"
        f" {_error(now)} in place of {_error(pairs)} %"
    )
    at, beyond = ([pair for pair in pairs if pair["forecast"]["is_beyond"] is is_far] for is_far in (False, True))
    yield "{} of {} rates are within 15 %; far from it, {} of {}: where a forecast leaves that range".format(
        *near(at), *near(beyond)
    )
    measured = near(_again(measured_awaits=True))
    yield f"{measured[0]} of the {measured[1]} rates are within 15 %"
    yield f"The slopes' own intervals held {_within_intervals(pairs, 'tps').replace('of', 'of the')} rates"
    yield f"8 %, chosen on the first 24, held {_within_intervals(_later(), 'tps').replace('of', 'of the other')}"


@cache
def _by_what_if(*, by_specs: bool = False) -> tuple[Pair, ...]:
    pairs = by_specs_alone(*stored()) if by_specs else by_rule_of_what_if(*stored())
    return tuple(pairs)


def _counts(pairs: Sequence[Pair], separator: str = " of ") -> list[str]:
    """Rates within 15 %: of all pairs, of both halves of the sources, and of loads that write; and medians."""
    forecast = [pair for pair in pairs if not is_control(pair)]
    is_first = [pair["goal"].partition("-")[0] in FIRST_SOURCES for pair in forecast]
    first, later = (
        [pair for pair, of in zip(forecast, is_first, strict=True) if of is half] for half in (True, False)
    )
    writing = [pair for pair in forecast if pair["load"] in ("read-write", "write-only")]
    groups = (near(forecast), near(first), near(later), near(writing), near(forecast, "p50_ms"))
    return [separator.join(map(str, count)) if separator else str(count[0]) for count in groups]


def rules_for_waiting_times() -> Iterator[str]:
    """The table of rules: a row of each."""
    rules = {
        "on a line through both states of a signal": _again(),
        "as above, from the fast state alone": _by_what_if(),
        "as measured afterwards": _again(measured_awaits=True),
    }
    yield f"| of the SPEC, a sync as one write and flush | {' | '.join(_counts(_by_what_if(by_specs=True)))} |"
    for name, pairs in rules.items():
        yield f"| {name} | {' | '.join(_counts(pairs, separator=''))} |"


def known_pairs() -> Iterator[str]:
    """The table of the pairs that were forecast again."""
    yield from filter(None, map(plain, list(table(_by_what_if(), is_known=True))[1:]))


def _later() -> list[Pair]:
    pairs = _again(sd=EARLIER_SD)
    return [pair for pair in pairs if pair["goal"].partition("-")[0] not in FIRST_SOURCES]


def held_by_the_error_of_another_run() -> Iterator[str]:
    """What the docstring of that constant says."""
    rates, medians = _within_intervals(_again(), "tps").partition(" ")[0], _within_intervals(_again(), "p50_ms")
    yield f"with this {rates} and {medians}. It was chosen on these;"
    count, pairs_left = _within_intervals(_later(), "tps").split(" of ")
    yield f"0.08, chosen on the first 24, holds {count} rates of the other {pairs_left}"


def pairs_of_page() -> Iterator[str]:
    """The table as it is made, and what the page says of forecasts by later rules."""
    yield from filter(None, map(plain, table(stored()[0])))
    steps = [pair["measured"] for pair in stored()[0]]
    invalid = [step["invalid_reasons"] for step in steps if not step["valid"]]
    late = sum(any("operations came late" in reason or "late" in reason for reason in step) for step in invalid)
    yield f"{late} of the {len(invalid)} invalid steps are so because emulated operations that came late"
    busy = [line.split(" | ") for line in (LAB / "forecasts-busy.md").read_text(encoding="utf-8").splitlines()]
    rates = [row[6] for row in busy if len(row) == 11 and "%" in row[6] and not row[0].endswith("-0")]
    busy_right = sum(not rate.startswith("**") for rate in rates)
    yield f"The same beside other work had {busy_right} of {len(rates)} rates within 15 %"
    by_specs, by_rule = _counts(_by_what_if(by_specs=True)), _counts(_by_what_if())
    yield f"gives {by_specs[0]} rates, {by_specs[3]} of loads that write"
    yield f"{by_rule[0]} rates and {by_rule[4]} medians"
    yield f"({by_rule[1]} and {by_rule[2]} rates by halves of the sources)"
    pairs, now = _pairs(), _again()
    at = [pair for pair in pairs if not pair["forecast"]["is_beyond"]]
    beyond = [pair for pair in pairs if pair["forecast"]["is_beyond"]]
    (right, pairs_scored), medians = near(pairs), near(pairs, "p50_ms")
    yield (
        f"Asked are 90 % of {pairs_scored} within 15 %: {right} rates ({100 * right / pairs_scored:.0f} %) and"
        f" {medians[0]} of {medians[1]} medians"
    )
    yield "{} of {} rates (91 %) and {} medians are; far from them, which each forecast says, {} of {}".format(
        *near(at), near(at, "p50_ms")[0], *near(beyond)
    )
    later, count = _later(), _within_intervals(now, "tps")
    first_rates, first_medians = _within_intervals(later, "tps"), _within_intervals(later, "p50_ms")
    first_rates = first_rates.partition(" ")[0]
    yield f"of the other {len(later)} pairs they hold {first_rates} rates and {first_medians} medians"
    yield f"they hold {count} and {_within_intervals(now, 'p50_ms')}"
    far = near([pair for pair in now if pair["forecast"]["is_beyond"]])
    yield f"gives {near(now)[0]} of the {near(now)[1]} rates ({far[0]} of {far[1]} far from the signal)"
    slow = [pair for pair in now if pair["load"] == "point-select" and near([pair])[0] == 0]
    slow = [pair for pair in slow if pair["measured"]["awaits_ms"]["read"] > 2.5]
    assert len(slow) == 3
    yield f"Without the three, {near(now)[0]} of {near(now)[1] - len(slow)} rates"
