"""Designs of sweeps: one factor at a time, and full factorial.

A *combination* gives each factor a value. The first one of a design is the base.
"""

from __future__ import annotations

from functools import reduce
from itertools import product

from volbench.core.records.base import Scalar
from volbench.core.records.sweep import Factor, SweepSpec
from volbench.errors import UsageError

Combination = dict[str, Scalar]
Term = tuple[str, ...]
"""A main effect is a term of one factor, an interaction one of two."""

COMBINATIONS_MAX = 256


def combinations_of(sweep: SweepSpec) -> list[Combination]:
    """Return every combination of a design, the base first. Raise UsageError for too many combinations."""
    base = {name: factor.base for name, factor in sweep.factors.items()}
    if sweep.design == "one_factor":
        return [base, *({**base, name: level} for name, f in sweep.factors.items() for level in f.levels)]
    return _full(sweep.factors)


def _full(factors: dict[str, Factor]) -> list[Combination]:
    number = reduce(lambda n, factor: n * (1 + len(factor.levels)), factors.values(), 1)
    if number > COMBINATIONS_MAX:
        raise UsageError(
            f"the full design has {number} combinations; the maximum is {COMBINATIONS_MAX}",
            where="sweep",
            next_step="choose `design: one_factor`, or fewer levels",
        )
    rows = product(*((factor.base, *factor.levels) for factor in factors.values()))
    return [dict(zip(factors, row, strict=True)) for row in rows]
