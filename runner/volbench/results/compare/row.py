"""One value of one cell, as comparisons take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from volbench.results.stats.statistics import Better

Scalar = bool | int | float | str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One metric of one step of one cell. `cell` is unique over everything compared; a missing value is None.

    `bounds` of an invalid row: the value is known within them, and nothing else is wrong with it. `rank` orders the
    primary metrics of a family: the lowest is tested first. `node` is the name of the cell's; empty: not known.
    `shares` are what other work took, by covariate; `adjustable`: nothing else disturbed an invalid row, but for
    late emulated operations, which delayed it for at most the share `late` of its time.
    `is_beyond`: the value is missing because it is worse than was measured. `block`: cells of one block are
    neighbours in time; None: not known.
    """

    step: str
    parameters: Mapping[str, Scalar]
    metric: str
    unit: str
    better: Better
    volume: str
    cell: str
    value: float | None
    valid: bool = True
    primary: bool = True
    rank: int = 0
    bounds: tuple[float, float] | None = None
    node: str = ""
    is_beyond: bool = False
    block: int | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    adjustable: bool = False
    late: float = 0.0
