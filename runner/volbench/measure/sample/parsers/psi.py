"""Pressure stall information: `some avg10=2.68 avg60=4.32 avg300=7.04 total=60779442`."""

from __future__ import annotations


def parse_pressure(text: str) -> dict[str, int]:
    """Return microseconds stalled in all, by `some` and `full`.

    Raises ValueError for a line without a total. Source: Documentation/accounting/psi.rst.
    """
    totals: dict[str, int] = {}
    for line in text.splitlines():
        kind, _, fields = line.partition(" ")
        pairs = dict(pair.split("=", 1) for pair in fields.split())
        if "total" not in pairs:
            raise ValueError(f"not a line of pressure stall information: {line!r}")
        totals[kind] = int(pairs["total"])
    return totals
