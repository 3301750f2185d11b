"""A capacity in sentences."""

from __future__ import annotations

from volbench.records.capacity import CapacityRow, Objective


def capacity_text(row: CapacityRow, objective: Objective) -> str:
    """Some lines for the terminal."""
    lines = [f"{row.volume}: {capacity_words(row)} keep {objective.text}", f"  {row.load}; run {row.run_id}"]
    lines += [f"  limited by {text}" for text in row.limited_by] or ["  what limits it was not found out"]
    return "\n".join(lines) + "\n"


def capacity_words(row: CapacityRow) -> str:
    """The rate and its interval."""
    if row.held_per_s is None:
        return f"no measured rate ({row.high_per_s:g}/s broke it)" if row.high_per_s else "no measured rate"
    high = f"{row.high_per_s:g}" if row.high_per_s is not None else "never broken"
    sure = f", {row.confidence:.0%} sure" if row.confidence is not None else ""
    rehearsal = ", on an emulated volume" if row.emulated else ""
    return f"{row.held_per_s:g} transactions/s [{row.low_per_s:g}, {high}] ({row.cells} cells{sure}{rehearsal})"
