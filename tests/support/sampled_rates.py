"""Rates that a sampler makes of two readings, and recorded texts of the kernel."""

from __future__ import annotations

from pathlib import Path

from volbench.measure.sample.interface import Reading, Sampler, Values

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sample"


def rates(sampler: type[Sampler], before: Values, after: Values, dt_s: float = 1.0) -> dict[tuple[str, str], float]:
    """Value by metric and entity; the later reading is `dt_s` after the other."""
    rows = sampler.rates(Reading(t_s=5.0, values=before), Reading(t_s=5.0 + dt_s, values=after))
    return {(row.metric, row.entity): row.value for row in rows}
