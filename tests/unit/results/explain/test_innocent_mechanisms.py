"""Innocent mechanisms that give a cause's evidence: it may not be named for them as if it were sure.

Each is a real run with series that the mechanism would make, which are our own construction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_throttle import case_of, with_columns

from volbench.core.records.named_metrics import Client
from volbench.results.explain.case import Case
from volbench.results.explain.cause import Cause
from volbench.results.explain.findings import explain_case

SURE = 0.9
NEIGHBOUR = "interference.io"
BEGIN = 12


def clean() -> tuple[Case, Any]:
    """A run without a fault, and the seconds from one on."""
    case = case_of("clean")
    return case, np.arange(len(case.grid)) >= BEGIN


def harmed(case: Case, on: Any) -> dict[tuple[str, str, str], Any]:
    """Clients that do a third of what they did."""
    tps = case.at(Client.tps)
    assert tps is not None
    return {("client", "tps", ""): np.where(on, tps / 3, tps)}


def neighbour(case: Case) -> Cause:
    (found,) = (one for one in explain_case(case).findings if one.cause == NEIGHBOUR)
    return found


def with_reads(pages_per_s: float) -> Case:
    """80 MiB/s of reads of 4 KiB that the server's files know nothing of, and so many pages of swap a second."""
    case, on = clean()
    assert case.device is not None
    disk, rate, moved = case.device.entity, case.device.reads, case.device.read_mib_per_s
    assert rate is not None
    assert moved is not None
    return with_columns(
        case,
        {
            **harmed(case, on),
            ("diskstats", "reads_per_s", disk): rate + on * 20480,
            ("diskstats", "read_mib_per_s", disk): moved + on * 80.0,
            ("vm", "swap_in_pages_per_s", ""): on * pages_per_s,
            ("vm", "swap_out_pages_per_s", ""): 0.0,
        },
    )


@pytest.mark.parametrize(("pages_per_s", "doubtful"), [(0.0, False), (8000.0, False), (12000.0, True), (2e4, True)])
def test_pages_of_swap_are_not_surely_somebody_elses(pages_per_s: float, doubtful: bool) -> None:
    found = neighbour(with_reads(pages_per_s))
    assert ("swap_mib_per_s" in [piece.metric for piece in found.evidence]) is doubtful
    assert (found.kind == "some failed") is doubtful
    assert (found.confidence < SURE) or not doubtful


@pytest.mark.parametrize(
    ("options", "doubtful"),
    [(("rw", "nodiscard"), False), (("rw", "discard"), True), (("rw", "discard=async"), True)],
)
def test_discards_of_a_file_system_that_discards_are_not_surely_somebody_elses(
    options: tuple[str, ...], doubtful: bool
) -> None:
    """A table is dropped, or binary logs are purged: the file system discards their blocks at once."""
    case, on = clean()
    assert case.device is not None
    discards = {("diskstats", "discards_per_s", case.device.entity): on * 5000.0}
    found = neighbour(replace(with_columns(case, {**harmed(case, on), **discards}), mount_options=options))
    assert ("discards_per_s" in [piece.metric for piece in found.evidence]) is doubtful
    assert (found.kind == "some failed") is doubtful
    assert (found.confidence < SURE) or not doubtful
