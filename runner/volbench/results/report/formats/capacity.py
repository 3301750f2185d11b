"""A capacity as text."""

from __future__ import annotations

from volbench.core.base.text import counted, number, percent
from volbench.core.records.goals.capacity import CapacityRow, Objective


def capacity_text(row: CapacityRow, objective: Objective) -> str:
    """Return the lines for the terminal."""
    lines = [f"{row.volume}: {capacity_words(row)} keep {objective.text}", f"  {row.load}; run {row.run_id}"]
    lines += [f"  limited by {text}" for text in row.limited_by] or ["  its limit is unknown"]
    return "\n".join(lines) + "\n"


def capacity_words(row: CapacityRow) -> str:
    """Return the rate and its interval."""
    if row.sustained_per_s is None:
        return f"no measured rate ({number(row.high_per_s)}/s broke it)" if row.high_per_s else "no measured rate"
    high = f"{number(row.high_per_s)}" if row.high_per_s is not None else "never broken"
    confidence = f", {percent(row.confidence)} sure" if row.confidence is not None else ""
    rehearsal = ", on an emulated volume" if row.emulated else ""
    rate = f"{number(row.sustained_per_s)} transactions/s [{number(row.low_per_s)}, {high}]"
    return f"{rate} ({counted(row.cells, 'cell')}{confidence}{rehearsal})"
