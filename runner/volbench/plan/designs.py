"""Designs of sweeps: one factor at a time, full factorial, and regular fractions of two levels with their aliases.

A *combination* gives each factor a value. The first one of a design is the base, unless the fraction leaves it out.
Fractions are those of NIST/SEMATECH's e-Handbook of Statistical Methods, section 5.3.3.4.7 (after Box, Hunter and
Hunter): of each number of factors and runs the one with the fewest short words in its defining relation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from operator import xor

from volbench.errors import UsageError
from volbench.records.base import Scalar
from volbench.records.sweep import Factor, SweepSpec

Combination = dict[str, Scalar]
Term = tuple[str, ...]
"""A main effect is a term of one factor, an interaction one of two."""

COMBINATIONS_MAX = 256
_GENERATORS: dict[int, tuple[tuple[str, ...], ...]] = {
    3: (("AB",),),
    4: (("ABC",),),
    5: (("AB", "AC"), ("ABCD",)),
    6: (("AB", "AC", "BC"), ("ABC", "BCD"), ("ABCDE",)),
    7: (("AB", "AC", "BC", "ABC"), ("ABC", "BCD", "ACD"), ("ABCD", "ABDE"), ("ABCDEF",)),
    8: (("BCD", "ACD", "ABC", "ABD"), ("ABC", "ABD", "BCDE"), ("ABCD", "ABEF")),
}
"""Number of factors -> fractions, the smallest first: what each factor after the free ones is the product of."""


@dataclass(frozen=True, kw_only=True)
class Fraction:
    """A regular fraction 2^(k-p). `words` is its defining relation: products of factors that are constant."""

    factors: tuple[str, ...]
    runs: tuple[tuple[int, ...], ...]
    words: tuple[frozenset[str], ...]

    @property
    def resolution(self) -> int:
        """Length of the shortest word."""
        return min(map(len, self.words))

    def aliases(self, term: Term) -> tuple[Term, ...]:
        """Main effects and two-factor interactions that cannot be told from `term`, shortest first."""
        found = {tuple(f for f in self.factors if f in frozenset(term) ^ word) for word in self.words}
        return tuple(sorted((t for t in found if 0 < len(t) <= 2), key=lambda t: (len(t), t)))


def fraction(factors: Sequence[str], *, resolution: int) -> Fraction:
    """The smallest fraction of at least that resolution. Raises UsageError when the table has none."""
    for generators in _GENERATORS.get(len(factors), ()):
        found = _fraction(tuple(factors), generators)
        if found.resolution >= resolution:
            return found
    known = ", ".join(
        f"{max(_fraction(tuple('ABCDEFGH'[:k]), g).resolution for g in choices)} of {k}"
        for k, choices in _GENERATORS.items()
    )
    raise UsageError(
        f"there is no fraction of {len(factors)} factors with resolution {resolution}",
        where="sweep",
        evidence=f"highest resolutions known: {known} factors",
        next_step="choose `design: full`, or a lower resolution",
    )


def _fraction(factors: tuple[str, ...], generators: Sequence[str]) -> Fraction:
    free = len(factors) - len(generators)
    sources = [[ord(letter) - ord("A") for letter in generator] for generator in generators]
    runs = []
    for bits in product((0, 1), repeat=free):
        signs = [2 * bit - 1 for bit in bits]
        made = [reduce(lambda a, b: a * b, (signs[i] for i in source)) for source in sources]
        runs.append(tuple((sign + 1) // 2 for sign in (*signs, *made)))
    words = [frozenset(factors[i] for i in (*source, free + number)) for number, source in enumerate(sources)]
    relation = [reduce(xor, chosen) for size in range(1, len(words) + 1) for chosen in combinations(words, size)]
    return Fraction(factors=factors, runs=tuple(sorted(runs)), words=tuple(relation))


def combinations_of(sweep: SweepSpec) -> list[Combination]:
    """Every combination that a design runs, the base first where it is one of them.

    Raises UsageError for too many combinations, and for a fraction of factors with more than two values.
    """
    base = {name: factor.base for name, factor in sweep.factors.items()}
    if sweep.design == "one_factor":
        return [base, *({**base, name: level} for name, f in sweep.factors.items() for level in f.levels)]
    if sweep.design == "fractional":
        values = {name: (factor.base, *factor.levels) for name, factor in sweep.factors.items()}
        return [
            {name: values[name][level] for name, level in zip(values, run, strict=True)}
            for run in sweep_fraction(sweep).runs
        ]
    return _full(sweep.factors)


def sweep_fraction(sweep: SweepSpec) -> Fraction:
    """The fraction that a fractional sweep runs. Raises UsageError as `combinations_of` does."""
    for name, factor in sweep.factors.items():
        if len(factor.levels) != 1:
            raise UsageError(
                f"a fraction is of two values a factor, and {name} has {1 + len(factor.levels)}",
                where=f"sweep.factors.{name}",
                next_step="give it one level, or choose `design: full`",
            )
    return fraction(list(sweep.factors), resolution=sweep.resolution)


def _full(factors: dict[str, Factor]) -> list[Combination]:
    number = reduce(lambda n, factor: n * (1 + len(factor.levels)), factors.values(), 1)
    if number > COMBINATIONS_MAX:
        raise UsageError(
            f"the full design has {number} combinations; at most {COMBINATIONS_MAX} are run",
            where="sweep",
            next_step="choose `design: fractional` or `one_factor`, or fewer levels",
        )
    rows = product(*((factor.base, *factor.levels) for factor in factors.values()))
    return [dict(zip(factors, row, strict=True)) for row in rows]
