"""The time budgets as views show them: stacked bars with a table, and a line for each volume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from volbench.core.base.text import percent, quantity
from volbench.core.records.report import Report, TimeBudgetRow, TimeDifferenceRow
from volbench.results.explain.accounts.time_budget import PIECES

LINE_PIECES_MAX = 3
SHOWN_MIN = 0.005
"""Share of a transaction's time below which a piece is in report.json only."""
_About = tuple[str, int | None]


def budget_lines(rows: Sequence[TimeBudgetRow]) -> Iterator[str]:
    """One line for each volume and step: the largest pieces of a transaction's time."""
    groups: dict[tuple[str, int | None, str], list[TimeBudgetRow]] = {}
    for row in rows:
        groups.setdefault((row.step, row.threads, row.volume), []).append(row)
    for (step, _, volume), of in groups.items():
        largest = sorted(of, key=lambda row: -row.ms)[:LINE_PIECES_MAX]
        pieces = ", ".join(f"{row.title} {percent(row.share)}" for row in largest if row.share >= 0.01)
        yield f"{step} on {volume}: a transaction takes {quantity(of[0].latency_ms, 'ms')}: {pieces}"


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One piece in a bar: `left` and `width` in percent of the longest bar of its chart; `colour` is its class."""

    title: str
    text: str
    colour: str
    left: float
    width: float


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One volume's transaction."""

    volume: str
    latency_ms: float
    segments: tuple[Segment, ...]
    valid: bool


@dataclass(frozen=True, kw_only=True)
class BudgetChart:
    """One step: a bar for each volume, and a row for each piece with the volumes' cells in the order of the bars.

    `differences` maps a piece to the rows of the other volumes against the first, in the order of `bars[1:]`; a
    volume without a row is None.
    """

    step: str
    threads: int | None
    bars: tuple[Bar, ...]
    rows: tuple[tuple[str, str, tuple[TimeBudgetRow | None, ...]], ...]
    differences: Mapping[str, tuple[TimeDifferenceRow | None, ...]]


def shares_note(report: Report) -> str:
    """Return why shares of causes are not those of the pieces; empty where no step has both."""
    explained = {(row.volume, row.step) for row in report.findings if row.share is not None}
    if not any((row.volume, row.step) in explained for row in report.time_budgets):
        return ""
    return (
        "A cause explains a share of the latency of its volume and step, with every wait that it lengthens. A piece"
        " is one kind of wait, and a share of extra time is of what two volumes differ by. So these shares differ."
    )


def budget_charts(
    rows: Sequence[TimeBudgetRow], differences: Sequence[TimeDifferenceRow]
) -> tuple[BudgetChart, ...]:
    """One chart for each step and number of threads, from the rows of report.json."""
    groups: dict[_About, list[TimeBudgetRow]] = {}
    for row in rows:
        groups.setdefault((row.step, row.threads), []).append(row)
    return tuple(_chart(step, threads, of, differences) for (step, threads), of in groups.items())


def _chart(
    step: str, threads: int | None, rows: Sequence[TimeBudgetRow], differences: Sequence[TimeDifferenceRow]
) -> BudgetChart:
    volumes = list(dict.fromkeys(row.volume for row in rows))
    longest = max(row.latency_ms for row in rows)
    by_key = {(row.piece, row.volume): row for row in rows}
    pieces = [
        piece
        for piece in PIECES
        if any((row := by_key.get((piece, volume))) and row.share >= SHOWN_MIN for volume in volumes)
    ]
    shifts = {(row.piece, row.candidate): row for row in differences if (row.step, row.threads) == (step, threads)}
    return BudgetChart(
        step=step,
        threads=threads,
        bars=tuple(_bar(volume, [row for row in rows if row.volume == volume], longest) for volume in volumes),
        rows=tuple(
            (piece, PIECES[piece], tuple(by_key.get((piece, volume)) for volume in volumes)) for piece in pieces
        ),
        differences={piece: tuple(shifts.get((piece, volume)) for volume in volumes[1:]) for piece in pieces},
    )


def _bar(volume: str, rows: Sequence[TimeBudgetRow], longest_ms: float) -> Bar:
    latency_ms = rows[0].latency_ms
    pieces = segments([(row.piece, row.title, row.ms) for row in rows], latency_ms, longest_ms)
    return Bar(volume=volume, latency_ms=latency_ms, segments=pieces, valid=rows[0].valid)


def segments(pieces: Sequence[tuple[str, str, float]], whole_ms: float, longest_ms: float) -> tuple[Segment, ...]:
    """Return the pieces of one bar, side by side.

    Args:
        pieces: name, title and milliseconds of each.
        whole_ms: of which their texts state the shares.
        longest_ms: what is as wide as the chart.
    """
    bar: list[Segment] = []
    left = 0.0
    for piece, title, ms in pieces:
        width = 100 * ms / longest_ms if longest_ms > 0 else 0.0
        text = f"{title}: {quantity(ms, 'ms')}, {percent(ms / whole_ms if whole_ms > 0 else 0.0)}"
        bar.append(Segment(title=title, text=text, colour=f"piece-{piece}", left=left, width=width))
        left += width
    return tuple(bar)
