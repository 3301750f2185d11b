"""A sweep in words, before it is run: what is varied, by which design, and what it will not be able to tell."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.plan.designs import Term, combinations_of, sweep_fraction
from volbench.records.sweep import SweepSpec

_SAYS = {
    "one_factor": "one factor at a time: says nothing of how factors work together",
    "full": "full factorial: main effects and two-factor interactions, none aliased",
}


def sweep_lines(sweep: SweepSpec) -> Iterator[str]:
    """One line for the design, one a factor, one for each group of aliased terms."""
    number = len(combinations_of(sweep))
    if sweep.design == "fractional":
        fraction = sweep_fraction(sweep)
        whole = 2 ** len(sweep.factors)
        says = f"fraction of {whole} combinations, resolution {fraction.resolution}"
    else:
        says = _SAYS[sweep.design]
    yield f"sweep, {number} combinations on each volume; {says}"
    for name, factor in sweep.factors.items():
        yield f"  {name}: {factor.base} (base), {', '.join(map(str, factor.levels))}"
    for group in alias_groups(sweep):
        yield f"  cannot be told apart: {' = '.join(map(term_text, group))}"


def alias_groups(sweep: SweepSpec) -> list[tuple[Term, ...]]:
    """Groups of main effects and two-factor interactions that a fraction mixes; other designs mix none."""
    if sweep.design != "fractional":
        return []
    fraction = sweep_fraction(sweep)
    names = fraction.factors
    terms: list[Term] = [(name,) for name in names]
    terms += [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    groups: list[tuple[Term, ...]] = []
    for term in terms:
        aliases = fraction.aliases(term)
        if aliases and not any(term in group for group in groups):
            groups.append((term, *aliases))
    return groups


def term_text(term: Term) -> str:
    """`volume.iops`, `volume.iops x volume.mode`."""
    return " \N{MULTIPLICATION SIGN} ".join(term)
