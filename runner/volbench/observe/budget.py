"""Where the time of a statement goes in an observation, and what the extra time of an incident is."""

from __future__ import annotations

from dataclasses import dataclass

from volbench.core.base.text import quantity
from volbench.core.records.report import TimeDifferenceRow
from volbench.results.explain.accounts.time_budget import PIECES, TimeBudget, statement_budget
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.episodes import FigureChange
from volbench.results.report.rows.time_budget import (
    DIFFERENCE_MIN,
    VolumeBudget,
    extra_pieces,
    time_difference_rows,
)

SHOWN_MIN = 0.005
"""Share of a statement's time below which a piece is in report.json only."""
_WITH_CPU = "CPU and what has no instrument"


@dataclass(frozen=True, kw_only=True)
class ExtraTime:
    """A statement in an incident against the time before it; `rows`: by piece, the largest difference first."""

    before_ms: float
    during_ms: float
    rows: tuple[TimeDifferenceRow, ...]
    sentence: str


def extra_time(before: Case, during: Case) -> ExtraTime | None:
    """Return what the extra time of a statement is; None where one side is not known or they hardly differ."""
    sides = {name: statement_budget(case) for name, case in (("before", before), ("during", during))}
    budgets = {name: budget for name, budget in sides.items() if budget is not None}
    if len(budgets) < len(sides):
        return None
    before_ms, during_ms = (budgets[name].statement_ms for name in sides)
    if abs(during_ms - before_ms) < DIFFERENCE_MIN * before_ms:
        return None
    sides_as_volumes = [
        VolumeBudget(volume=name, step="observed", threads=None, cells=(budget.pieces,))
        for name, budget in budgets.items()
    ]
    rows = tuple(
        row.model_copy(update={"title": piece_title(row.piece, *budgets.values())})
        for row in time_difference_rows(sides_as_volumes, "before")
    )
    sentence = (
        f"A statement took {quantity(during_ms, 'ms')} in the incident and {quantity(before_ms, 'ms')} before it"
        f" (mean). {extra_pieces(rows) if during_ms > before_ms else ''}"
    )
    return ExtraTime(before_ms=before_ms, during_ms=during_ms, rows=rows, sentence=sentence.strip())


def statement_level(before: Case, during: Case) -> FigureChange | None:
    """Return the mean of all statements that ended, before and in an incident: the figures of `extra_time`."""
    budgets = [statement_budget(case) for case in (before, during)]
    before_ms, during_ms = (None if budget is None else budget.statement_ms for budget in budgets)
    if before_ms is None and during_ms is None:
        return None
    return FigureChange(name="statement, mean of all that ended", unit="ms", before=before_ms, during=during_ms)


def difference_text(row: TimeDifferenceRow) -> str:
    """Return a piece's difference with its sign and unit."""
    return f"{'+' if row.difference_ms > 0 else ''}{quantity(row.difference_ms, 'ms')}"


def piece_title(piece: str, *budgets: TimeBudget) -> str:
    """Return the title of a piece: what is left over includes the CPU where no CPU times of statements are kept."""
    has_cpu = any({"cpu", "cpu_server"} & budget.pieces.keys() for budget in budgets)
    return PIECES[piece] if has_cpu or piece != "unaccounted" else _WITH_CPU
