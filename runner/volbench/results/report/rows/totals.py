"""Totals over the parts of a step, such as the time of all phases over small files, and their validity."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from volbench.core.records.cell import Disturbance
from volbench.core.records.report import CellRow
from volbench.results.compare.disturbance import bounds, held_share

TOTALS = ("files_total_s", "ddl_total_s")
"""Metrics that are a sum over the parts of their step."""
NEGLIGIBLE = 0.01
"""Share of a total that disturbed parts may have been held back for: as many operations of an emulated volume may
come late."""
_NOT_ADDED = "read_warm"
"""The part of small files that no total has: memory is read, not the volume."""


def with_parts(rows: Sequence[CellRow]) -> tuple[CellRow, ...]:
    """Return the rows; a total of which a part is invalid is invalid, or known within bounds as its parts are.

    What held back a part held back the whole for no longer, so that the total's bound is the sum of theirs. Where
    that is at most `NEGLIGIBLE` of the total, it stays valid.
    """
    invalid_parts: dict[tuple[str, str], list[CellRow]] = {}
    for row in rows:
        parent, _, phase = row.step.rpartition("/")
        if parent and phase != _NOT_ADDED and not row.valid:
            invalid_parts.setdefault((row.cell_id, parent), []).append(row)
    return tuple(_judged(row, invalid_parts.get((row.cell_id, row.step), ())) for row in rows)


def _judged(row: CellRow, invalid: Sequence[CellRow]) -> CellRow:
    total = next((name for name in TOTALS if name in row.metrics), None)
    if not invalid or total is None:
        return row
    worse = invalid if row.valid else [phase for phase in invalid if not phase.bounds]
    if not worse:
        return row  # what disturbed the whole step disturbed its parts
    reasons = tuple(dict.fromkeys((*row.invalid_reasons, *_reasons(worse))))
    update = {"valid": False, "invalid_reasons": reasons, "bounds": {}}
    if all(phase.bounds for phase in worse):
        total_s = row.metrics[total].value
        records = _combined(worse, total_s)
        held_ratio = held_share(records, ceiling=1.0)
        if row.valid and held_ratio <= NEGLIGIBLE:
            return row
        low, high = bounds(row.metrics, total, delayed=held_ratio, open_loop=False, window_s=total_s)
        ends = {total: (low, high if math.isfinite(high) else None)}
        update |= {"disturbances": records, "delayed_share_max": held_ratio, "bounds": ends}
    return row.model_copy(update=update)


def _reasons(invalid_parts: Sequence[CellRow]) -> Iterator[str]:
    for phase in invalid_parts:
        yield from (f"{phase.step.rpartition('/')[2]}: {reason}" for reason in phase.invalid_reasons)


def _combined(invalid_parts: Sequence[CellRow], total_s: float) -> tuple[Disturbance, ...]:
    """Return what delayed the parts, each kind once, with its share of the total."""
    by_kind: dict[str, Disturbance] = {}
    for phase in invalid_parts:
        weight = min(1.0, _length_s(phase) / total_s) if total_s > 0 else 1.0
        for record in phase.disturbances:
            earlier = by_kind.get(record.kind, record)
            shares = record.delayed_share_max * weight
            shares += earlier.delayed_share_max if earlier is not record else 0.0
            largest = max(earlier, record, key=lambda each: each.size)
            by_kind[record.kind] = largest.model_copy(update={"delayed_share_max": min(1.0, shares)})
    return tuple(by_kind.values())


def _length_s(row: CellRow) -> float:
    return row.window_s[1] - row.window_s[0] if row.window_s is not None else math.inf
