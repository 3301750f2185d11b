"""The forecast of remedies on the page of the gp2 report is what the credit model says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from volbench.core.base.text import duration
from volbench.core.profile.limits import limits_of
from volbench.core.profile.resolve import resolve_spec
from volbench.results.credits.dump import DumpLoad, duration_s
from volbench.results.credits.prices import load_prices, monthly_cost
from volbench.results.credits.work import constant

PAGE = (Path(__file__).parents[4] / "results/examples/gp2-credit-exhaustion/README.md").read_text()
BYTES, READ_BYTES = 3.6e9, 16384
VISITORS = (20.0, 0.0, 140.0)
"""Reads a second that visitors ask for: as the suite has them, and the ends of the range."""


def takes_s(spec: str, visitors: float, *, fill: float = 0.0, rate_max: float = math.inf) -> float | None:
    limits = limits_of(resolve_spec(spec, name="remedy"))
    load = constant(reads_per_s=visitors, writes_per_s=0.0, read_bytes=READ_BYTES, write_bytes=READ_BYTES)
    dump = DumpLoad(bytes=BYTES, io_bytes=READ_BYTES, rate_max_per_s=rate_max)
    return duration_s(limits.starting_at(fill), dump, load if visitors else None)


def rounded(seconds: float | None) -> str:
    return duration(None if seconds is None else round(seconds))


def line(start: str) -> str:
    return next(text for text in PAGE.splitlines() if text.startswith(start) and "USD" in text)


@pytest.mark.parametrize(
    ("start", "spec", "rate_max"),
    [
        ("| gp2, 50 GiB |", "ebs-gp2?size=50GiB", math.inf),
        ("| gp2, 500 GiB |", "ebs-gp2?size=500GiB", math.inf),
        ("| gp2, 1,000 GiB |", "ebs-gp2?size=1000GiB", math.inf),
        ("| gp3, 50 GiB |", "ebs-gp3?size=50GiB", math.inf),
        ("| gp2, 50 GiB, dump throttled to 60 reads", "ebs-gp2?size=50GiB", 60.0),
    ],
)
def test_times_range_and_price_are_the_models(start: str, spec: str, rate_max: float) -> None:
    usual, low, high = (rounded(takes_s(spec, visitors, rate_max=rate_max)) for visitors in VISITORS)
    resolved = resolve_spec(spec, name="remedy")
    cost = monthly_cost(
        load_prices(), resolved.profile, resolved.parameters, read_bytes_per_s=0, write_bytes_per_s=0
    )
    assert cost is not None
    assert f"| {usual} | {low} to {high}" in line(start)
    assert f"{cost.month:.2f} USD" in line(start)


def test_a_replica_has_its_own_credits_and_visitors_who_take_all_leave_none() -> None:
    assert rounded(takes_s("ebs-gp2?size=50GiB", 0.0, fill=1.0)) == "73 s"
    assert takes_s("ebs-gp2?size=50GiB", 150.0) is None
    assert "| 73 s |" in line("| dump on a replica")
