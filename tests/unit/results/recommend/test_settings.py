"""Server options for a volume: what reads leave of it is for flushing, and never less than the server takes."""

from __future__ import annotations

import pytest

from volbench.results.credits.prices import load_prices
from volbench.results.recommend.catalogue import Candidate, candidates
from volbench.results.recommend.settings import volume_settings


def io2(iops: int) -> Candidate:
    offered = candidates(load_prices(), size_bytes=20 << 30, profiles=("ebs-io2",))
    return next(candidate for candidate in offered if candidate.options["iops"] == str(iops))


def test_half_of_what_reads_leave_is_for_flushing() -> None:
    capacity, most, neighbours = volume_settings(io2(3000), reads_per_s=1000)
    assert (capacity.value, most.value, neighbours.value) == ("1000", "2000", "0")
    assert capacity.reason.startswith("half of the 2,000 operations/s that the volume sustains with 1,000 reads/s")
    assert most.reason.startswith("all of what reads leave")


@pytest.mark.parametrize("reads_per_s", [249.6, 250.4])
def test_rounding_does_not_change_what_the_most_is_said_to_be(reads_per_s: float) -> None:
    _, most, _ = volume_settings(io2(500), reads_per_s=reads_per_s)
    assert most.value == "250"
    assert most.reason.startswith("all of what reads leave")


@pytest.mark.parametrize(("reads_per_s", "left"), [(600, "nothing"), (700, "nothing"), (450, "150")])
def test_a_volume_that_reads_fill_gets_the_least_and_the_reason_says_so(reads_per_s: float, left: str) -> None:
    capacity, most, _ = volume_settings(io2(600), reads_per_s=reads_per_s)
    assert capacity.value == "100"
    assert (
        f"the least that MySQL takes: {reads_per_s:,} reads/s leave {left} of the 600 operations/s"
        in capacity.reason
    )
    assert most.value == ("150" if left == "150" else "100")
    assert ("all of what reads leave" in most.reason) == (left == "150")
