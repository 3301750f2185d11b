"""Copies and the number of disks as causes, computed from what each disk of a pool counts."""

from __future__ import annotations

import numpy as np
import pytest

from volbench.results.explain.accounts.pool import Pool, pool_difference, pool_of
from volbench.results.explain.case import Case
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules.volume.replication import replication_findings
from volbench.results.stats.grid import Grid
from volbench.results.store.series import SeriesKey

SECONDS = 30
CAUSE = "storage.replication"


def case_of(
    *,
    writes: float,
    reads: float = 0.0,
    copies: float,
    disks: int,
    limit_per_s: float,
    burst_per_s: float | None = None,
    name: str = "step",
) -> Case:
    """A fio step on a pool: the client's operations spread evenly over the disks.

    Args:
        burst_per_s: the limit that all disks but the first have left, with credits.
    """
    columns: dict[tuple[str, str], float] = {
        ("writes_per_s", ""): writes,
        ("reads_per_s", ""): reads,
        ("w_await_ms", ""): 5.0,
        ("r_await_ms", ""): 2.0,
        ("queue_length", ""): 16.0,
    }
    for disk in range(disks):
        columns["disk_writes_per_s", f"disk {disk}"] = writes * copies / disks
        columns["disk_reads_per_s", f"disk {disk}"] = reads / disks
        columns["disk_limit_per_s", f"disk {disk}"] = burst_per_s if disk and burst_per_s else limit_per_s
    grid = Grid(
        t_s=np.arange(1.0, SECONDS + 1),
        width_s=1.0,
        columns={
            SeriesKey(source="emulator", metric=metric, entity=entity): np.full(SECONDS, value)
            for (metric, entity), value in columns.items()
        },
    )
    return Case(name=name, grid=grid, cell_grid=grid, kind="fio", threads=1, cpus=2)


def pool(**figures: float) -> Pool:
    result = pool_of(case_of(**figures).grid)  # type: ignore[arg-type]
    assert result is not None
    return result


def test_full_disks_that_write_three_times_are_named_with_the_arithmetic() -> None:
    case = case_of(writes=2900, copies=3, disks=3, limit_per_s=3000)
    (finding,) = replication_findings(case)
    values = {row.metric: row.value for row in finding.evidence}
    assert values["disk_writes_per_write"] == pytest.approx(3.0)
    assert values["disk_operations_per_s"] == pytest.approx(8700)
    assert values["pool_writes_per_s_max"] == pytest.approx(9000 / 3)
    assert finding.share == pytest.approx(2 / 3)
    assert CAUSE in [finding.cause for finding in explain_case(case).findings]


@pytest.mark.parametrize(
    ("figures", "reason"),
    [
        ({"writes": 1000, "copies": 3, "disks": 3, "limit_per_s": 3000}, "the disks have room"),
        ({"writes": 8900, "copies": 1, "disks": 3, "limit_per_s": 3000}, "one copy"),
        ({"writes": 10, "reads": 8900, "copies": 1, "disks": 3, "limit_per_s": 3000}, "reads have no copies"),
        ({"writes": 2900, "copies": 1, "disks": 1, "limit_per_s": 3000}, "a single disk is no pool"),
        ({"writes": 10, "reads": 8900, "copies": 3, "disks": 3, "limit_per_s": 3000}, "the disks read"),
    ],
)
def test_it_is_not_named_where(figures: dict[str, float], reason: str) -> None:
    assert not [*replication_findings(case_of(**figures))], reason  # type: ignore[arg-type]


def test_a_journal_of_each_disk_counts_as_another_write() -> None:
    """Two copies, each written to a log first: four disk writes, so a quarter of what the disks may do."""
    result = pool(writes=2200, copies=4, disks=3, limit_per_s=3000)
    assert (result.per_write, result.writes_per_s_max) == (pytest.approx(4.0), pytest.approx(2250))


def test_credits_that_some_disks_have_left_are_no_part_of_what_a_pool_without_them_serves() -> None:
    """12 disks of 450 a second do 5,400; 11 that have credits for 3,000 at the moment would make it 33,450."""
    spent = {"writes": 1700, "copies": 3, "disks": 12, "limit_per_s": 450, "burst_per_s": 3000}
    case = case_of(**spent)  # type: ignore[arg-type]
    (finding,) = replication_findings(case)
    texts = [row.text for row in finding.evidence]
    assert (
        "so the pool serves at most 1,800 writes a second, and 5,400 reads, at the lowest limit that a disk had in"
        " this step"
    ) in texts
    assert "24 disks like these serve at most 3,600 writes a second, at the lowest limit" in finding.advice
    pools = {"full": [pool(writes=2900, copies=3, disks=3, limit_per_s=3000)], "spent": [pool(**spent)]}
    assert pool_difference("full", "spent", pools) == (
        "spent against full: 12 instead of 3 disks, which may do 5,400 at their lowest limit instead of 9,000"
        " operations a second; the disks' limits allow 1,800 instead of 3,000 writes a second."
    )


def test_copies_are_no_difference_in_a_step_that_reads() -> None:
    pools = {
        "log": [pool(writes=10, reads=8900, copies=3, disks=3, limit_per_s=3000)],
        "wal": [pool(writes=10, reads=8900, copies=6, disks=3, limit_per_s=3000)],
        "12": [pool(writes=10, reads=35000, copies=3, disks=12, limit_per_s=3000)],
    }
    assert pool_difference("log", "wal", pools) is None
    assert pool_difference("log", "12", pools) == (
        "12 against log: 12 instead of 3 disks, which may do 36,000 instead of 9,000 operations a second."
    )


def test_one_cell_in_which_credits_ran_out_decides_what_the_disks_may_do_for_long() -> None:
    burst = pool(writes=2900, copies=3, disks=3, limit_per_s=3000)
    spent = pool(writes=1700, copies=3, disks=3, limit_per_s=1800, burst_per_s=3000)
    text = pool_difference("a", "b", {"a": [burst, burst], "b": [burst, burst, spent]})
    assert text is not None
    assert "3 disks, which may do 5,400 at their lowest limit instead of 9,000 operations a second" in text


def test_reads_take_no_part_in_the_copies() -> None:
    result = pool(writes=500, reads=7000, copies=3, disks=3, limit_per_s=3000)
    assert result.per_write == pytest.approx(3.0)
    assert result.copied_share == pytest.approx(1000 / 8500)


def test_two_pools_differ_by_copies_or_by_disks() -> None:
    pools = {
        "3x": [pool(writes=2900, copies=3, disks=3, limit_per_s=3000)],
        "2x": [pool(writes=4400, copies=2, disks=3, limit_per_s=3000)],
        "12": [pool(writes=11900, copies=3, disks=12, limit_per_s=3000)],
    }
    assert pool_difference("3x", "2x", pools) == (
        "2x against 3x: 2 instead of 3 disk writes for a write; the disks' limits allow 4,500 instead of 3,000"
        " writes a second."
    )
    more = pool_difference("3x", "12", pools)
    assert more is not None
    assert "12 instead of 3 disks, which may do 36,000 instead of 9,000 operations a second" in more
    assert pool_difference("3x", "3x", pools) is None
    assert pool_difference("3x", "missing", pools) is None


def test_disks_that_were_never_full_explain_nothing_and_say_so() -> None:
    pools = {
        "a": [pool(writes=100, copies=3, disks=3, limit_per_s=3000)],
        "b": [pool(writes=100, copies=2, disks=3, limit_per_s=3000)],
    }
    text = pool_difference("a", "b", pools)
    assert text is not None
    assert text.endswith("no disk was at its limit in this step, so this does not explain its difference.")
