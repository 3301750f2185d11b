"""What happened between two readings of one source: differences that are absent rather than wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from volbench.core.records.series import SeriesRow
from volbench.measure.sample.interface import Reading

MIB = 1 << 20
_WRAP_32 = 1 << 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Two readings and the source they are of."""

    source: str
    before: Reading
    after: Reading

    @property
    def dt_s(self) -> float:
        """Seconds between the readings."""
        return self.after.t_s - self.before.t_s

    @property
    def usable(self) -> bool:
        """Time went on: without that there is no rate."""
        return self.dt_s > 0

    def entities(self, counter: str) -> list[str]:
        """Return entities of a counter that both readings have."""
        return [e for name, e in self.after.values if name == counter and (name, e) in self.before.values]

    def gauge(self, name: str, entity: str = "") -> float | None:
        """Return the later value; None when it was not read."""
        return self.after.values.get((name, entity))

    def grown(self, counter: str, entity: str = "") -> float | None:
        """Return by how much a counter grew; None when a reading lacks it or it went backwards (reset)."""
        a, b = self.before.values.get((counter, entity)), self.after.values.get((counter, entity))
        return b - a if a is not None and b is not None and b >= a else None

    def grown_32bit(self, counter: str, entity: str = "") -> float | None:
        """Return the growth of a counter of 32 bits that wraps; None for a reset, more than half its range."""
        a, b = self.before.values.get((counter, entity)), self.after.values.get((counter, entity))
        if a is None or b is None:
            return None
        difference = (b - a) % _WRAP_32
        return difference if difference <= _WRAP_32 / 2 else None

    def per_s(self, counter: str, entity: str = "", *, unit: float = 1) -> float | None:
        """Return growth a second, in `unit`s of the counter (MIB for bytes shown as MiB)."""
        grown = self.grown(counter, entity)
        return None if grown is None else grown / unit / self.dt_s

    def grown_sum(self, counters: Iterable[str], entity: str = "") -> float | None:
        """Return the growth of several counters together; None when one of them is not known."""
        total = 0.0
        for counter in counters:
            grown = self.grown(counter, entity)
            if grown is None:
                return None
            total += grown
        return total

    def row(self, metric: str, value: float, entity: str = "") -> SeriesRow:
        """Return a row for the interval."""
        return SeriesRow(t_s=self.after.t_s, source=self.source, metric=metric, value=float(value), entity=entity)

    def rows(self, values: Iterable[tuple[str, float | None]], entity: str = "") -> Iterable[SeriesRow]:
        """Return rows of the metrics that are known."""
        return [self.row(metric, value, entity) for metric, value in values if value is not None]


def ratio(numerator: float | None, denominator: float | None, *, scale: float = 1) -> float | None:
    """Return `numerator / denominator * scale`.

    None when one is not known or nothing happened (the denominator is 0).
    """
    return None if numerator is None or not denominator else numerator / denominator * scale
