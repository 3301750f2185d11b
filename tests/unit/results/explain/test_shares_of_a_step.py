"""Shares of one step of one cell are of one time: they add up to no more than its latency."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from contradictions import contradictions

from volbench.core.records.report import EvidenceRow, FindingRow
from volbench.results.explain.cause import Cause
from volbench.results.explain.shares import share_alone, with_shares_that_fit


def cause(name: str, share: float | None, *, one_of_two: bool = False, confidence_max: float = 1.0) -> Cause:
    return Cause(
        cause=name,
        window_s=(0.0, 60.0),
        share=share,
        of_clients=True,
        checks=(True, True),
        evidence=(),
        advice="Look at it.",
        one_of_two=one_of_two,
        decided_by="counted",
        confidence_max=confidence_max,
    )


def shares(findings: Sequence[Cause]) -> list[float | None]:
    return [None if finding.share is None else round(finding.share, 3) for finding in findings]


def texts(findings: Sequence[Cause]) -> list[str]:
    return [piece.text for finding in findings for piece in finding.evidence if piece.metric == "share_alone"]


def test_two_causes_of_one_time_have_it_once() -> None:
    """90 and 80 % of the latency were printed on one page."""
    (page,) = with_shares_that_fit([cause("host.io_limit", 0.9), cause("interference.io", 0.8)])
    assert shares(page) == [0.529, 0.471]
    assert [share_alone(finding) for finding in page] == [0.9, 0.8]
    assert texts(page)[0].startswith("by itself it would explain 90 % of the latency")


def test_time_that_nothing_accounts_for_is_not_given_to_causes() -> None:
    """66 and 34 % were printed above a table in which 10 % of a transaction is not accounted for."""
    (page,) = with_shares_that_fit(
        [cause("storage.burst_exhausted", 0.762), cause("storage.replication", 0.402)], unaccounted=0.103
    )
    assert shares(page) == [0.587, 0.31]
    assert texts(page)[0] == (
        "by itself it would explain 76 % of the latency; the causes of this step together would explain more than"
        " all of it, less 10 % that nothing accounts for, so each is given its part"
    )


def test_a_cause_that_explains_time_without_a_wait_keeps_it() -> None:
    """A server without CPU spends time that no wait shows: by itself it may explain more than is accounted for."""
    (page,) = with_shares_that_fit([cause("cpu.server_saturated", 0.94)], unaccounted=0.2)
    assert (shares(page), texts(page)) == ([0.94], [])
    (page,) = with_shares_that_fit(
        [cause("cpu.server_saturated", 0.9), cause("storage.iops_limit", 0.3)], unaccounted=0.2
    )
    assert shares(page) == [0.675, 0.225], "both together get no more than the larger claims"


def test_shares_that_fit_stay_and_say_nothing() -> None:
    unknown = cause("storage.split_operations", None)
    (page,) = with_shares_that_fit([cause("host.io_limit", 0.6), cause("interference.io", 0.4), unknown])
    assert shares(page) == [0.6, 0.4, None]
    assert texts(page) == []
    assert share_alone(unknown) is None


def test_one_of_two_causes_is_counted_once() -> None:
    pair = [cause(f"storage.{name}_limit", 0.9, one_of_two=True) for name in ("iops", "throughput")]
    (page,) = with_shares_that_fit(pair)
    assert shares(page) == [0.9, 0.9]
    (page,) = with_shares_that_fit([*pair, cause("cpu.server_saturated", 0.6)])
    assert shares(page) == [0.6, 0.6, 0.4]
    of_cpus = [cause(f"cpu.{name}_saturated", 0.9, one_of_two=True) for name in ("server", "client")]
    (page,) = with_shares_that_fit([*pair, *of_cpus])
    assert shares(page) == [0.5, 0.5, 0.5, 0.5], "two pairs are two causes"


@pytest.mark.parametrize(("confidence", "left"), [(0.39, [0.9, 0.1]), (0.41, [0.529, 0.471])])
def test_a_question_takes_nothing_from_what_is_likely(confidence: float, left: list[float]) -> None:
    hint = cause("interference.io", 0.8, confidence_max=confidence)
    (page,) = with_shares_that_fit([cause("host.io_limit", 0.9), hint])
    assert shares(page) == left


def test_another_volume_of_the_layout_has_its_part_of_the_same_time() -> None:
    """As if all were divided at once: findings that were divided before have their claims again."""
    (data,) = with_shares_that_fit([cause("host.io_limit", 0.9), cause("interference.io", 0.6)])
    both = with_shares_that_fit(data, [cause("storage.sync_latency", 0.5)])
    assert [shares(findings) for findings in both] == [[0.45, 0.3], [0.25]]
    assert [share_alone(finding) for findings in both for finding in findings] == [0.9, 0.6, 0.5]
    assert len(texts([finding for findings in both for finding in findings])) == 3


def test_what_was_divided_is_not_divided_again() -> None:
    once = with_shares_that_fit([cause("host.io_limit", 0.9), cause("interference.io", 0.8)])
    assert with_shares_that_fit(*once) == once


@pytest.mark.parametrize(("second", "cell", "is_seen"), [(0.5, "1", False), (0.52, "1", True), (0.9, "2", False)])
def test_a_page_that_explains_more_than_all_of_a_cell_is_a_contradiction(
    second: float, cell: str, is_seen: bool
) -> None:
    checks = (EvidenceRow(metric="checks", value="all held", text=""),)
    page = [
        FindingRow(cause=name, volume="a", step="load", cell_ids=(of_cell,), share=share, evidence=checks)
        for name, share, of_cell in (("host.io_limit", 0.5, "1"), ("interference.io", second, cell))
    ]
    assert (contradictions(page) != []) is is_seen
