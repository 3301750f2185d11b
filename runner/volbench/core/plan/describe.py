"""A text about a sweep before its run: the factors and the design."""

from __future__ import annotations

from collections.abc import Iterator

from volbench.core.plan.designs import Term, combinations_of
from volbench.core.records.sweep import SweepSpec

_DESIGNS = {
    "one_factor": "one factor at a time, without interactions of factors",
    "full": "full factorial, with main effects and two-factor interactions",
}


def sweep_lines(sweep: SweepSpec) -> Iterator[str]:
    """Yield one line for the design, and one for each factor."""
    number = len(combinations_of(sweep))
    yield f"sweep, {number} combinations on each volume; {_DESIGNS[sweep.design]}"
    for name, factor in sweep.factors.items():
        yield f"  {name}: {factor.base} (base), {', '.join(map(str, factor.levels))}"


def term_text(term: Term) -> str:
    """Return `volume.iops`, `volume.iops x volume.mode`."""
    return " \N{MULTIPLICATION SIGN} ".join(term)
