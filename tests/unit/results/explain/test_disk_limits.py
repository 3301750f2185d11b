"""A limit of a disk is in the disk's own counters, whatever lies above it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from recorded_step import recorded_step

from volbench.core.records.facts import VolumeFacts
from volbench.results.explain.evidence.disk_limits import DiskLimit, disk_limits
from volbench.results.explain.evidence.disks_below import disks_of_stack
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

SECONDS = 20
QUIET = np.arange(SECONDS + 6) >= SECONDS
"""Seconds after the step, in which the disk has hardly a queue: what an operation takes then is its own time."""
QUEUES = np.array([3.0, 9.0, 20.0, 5.0, 14.0])[np.arange(SECONDS + 6) % 5]
FLUSHES = np.array([4.0, 19.0, 8.0, 27.0, 12.0])[np.arange(SECONDS + 6) % 5]


def cell_of(rates: dict[str, Floats], *, flushes: Floats, flush_ms: float = 1.0, util: float = 1.0) -> Grid:
    """Disks with data writes at these rates, and with flushes that the kernel counts as writes as well."""
    columns: dict[SeriesKey, Floats] = {}
    for disk, rate in rates.items():
        writes = np.where(QUIET, 5.0, rate + flushes)
        queue = np.where(QUIET, 0.005, QUEUES * util)
        of_disk = {
            "reads_per_s": np.zeros(len(writes)),
            "writes_per_s": writes,
            "flushes_per_s": np.where(QUIET, 0.0, flushes),
            "read_mib_per_s": np.zeros(len(writes)),
            "write_mib_per_s": writes * np.where(QUEUES > 10, 4.0, 16.0) / 1024,
            "w_await_ms": 1000 * queue / writes,
            "f_await_ms": np.full(len(writes), flush_ms),
            "aqu_sz": queue,
            "util_ratio": np.full(len(writes), min(1.0, util)),
        }
        columns |= {
            SeriesKey(source="diskstats", metric=metric, entity=disk): values for metric, values in of_disk.items()
        }
    return Grid(t_s=np.arange(1.0, len(QUIET) + 1), width_s=1.0, columns=columns)


def limits(cell: Grid, *disks: str) -> tuple[DiskLimit, ...]:
    step = cell.within(0.0, float(SECONDS))
    still = np.zeros(len(step), dtype=np.bool_)
    return disk_limits(step, cell, disks, still=still, cpu_bound=False)


def steady(level: float) -> Floats:
    return level + np.array([0.5, -0.5, 1.0, -1.0, 0.0])[np.arange(len(QUIET)) % 5]


def test_flushes_count_for_no_limit_of_a_disk_below() -> None:
    """Each flush is one more write of the disk; what is left comes as evenly as a meter gives it."""
    (found,) = limits(cell_of({"sda": steady(60.0)}, flushes=FLUSHES), "sda")
    assert found.disks == ("sda",)
    assert found.plateau.resource == "iops"
    assert found.plateau.level == pytest.approx(60.0, abs=1.0)
    assert found.carried[:SECONDS] == pytest.approx(steady(60.0)[:SECONDS])


@pytest.mark.parametrize(("flush_ms", "limited"), [(23.0, True), (25.0, False)])
def test_a_disk_that_flushes_all_along_has_the_rate_of_its_flushes(flush_ms: float, limited: bool) -> None:
    """35 flushes a second of 23 ms are under way in 81 % of the time, of 25 ms in 88 %."""
    found = limits(cell_of({"sda": steady(60.0)}, flushes=np.full(len(QUIET), 35.0), flush_ms=flush_ms), "sda")
    assert bool(found) == limited


def test_the_disk_at_its_limit_is_named_and_not_the_one_that_has_room() -> None:
    rates = {"sda": 50 + 3 * QUEUES, "sdb": steady(60.0)}
    (found,) = limits(cell_of(rates, flushes=FLUSHES), "sda", "sdb")
    assert found.disks == ("sdb",)


def test_disks_that_are_even_together_only_are_at_a_limit_together() -> None:
    """Each has too short a queue by itself, and its rate wanders; their sum does not."""
    wander = np.array([14.0, -11.0, 6.0, -16.0, 9.0])[np.arange(len(QUIET)) % 5]
    rates = {"sda": steady(60.0) + wander, "sdb": 60.0 - wander}
    cell = cell_of(rates, flushes=FLUSHES)
    assert limits(cell, "sda") == ()
    (found,) = limits(cell, "sda", "sdb")
    assert found.disks == ("sda", "sdb")
    assert found.plateau.level == pytest.approx(120.0, abs=1.0)


@pytest.mark.parametrize("disks", [("sda", "sdb"), ("sdc",)])
def test_a_disk_that_is_not_counted_makes_no_sum(disks: tuple[str, ...]) -> None:
    cell = cell_of({"sda": 10.0 * QUEUES}, flushes=FLUSHES)
    assert limits(cell, *disks) == ()


@pytest.mark.parametrize(
    ("lower", "disks"),
    [((), ()), (("nvme0n1",), ()), (("nvme0n1", "nvme1n1"), ("nvme0n1", "nvme1n1")), (("sda",), ("sda",))],
)
def test_a_volume_on_one_disk_has_no_disks_below(lower: tuple[str, ...], disks: tuple[str, ...]) -> None:
    facts = VolumeFacts(path="/data", disk="nvme0n1", lower_devices=lower)
    assert disks_of_stack(facts) == disks


@pytest.mark.parametrize(
    ("name", "level", "of_what"),
    [
        ("lvm-iops-commits", 40, "the disk nvme0n1 below dm-0 gives"),
        ("thin-iops-commits", 80, "the disk nvme0n1 below dm-4 gives"),
        ("thin-snapshot", 120, "the disk nvme0n1 below dm-4 gives"),
        ("btrfs-iops-commits", 120, "the disks nvme0n1, nvme3n1 together give"),
        ("mapper-iops-commits", 50, "the disk nvme0n1 below dm-0 gives"),
    ],
)
def test_a_limit_of_the_disks_is_named_through_a_layer(name: str, level: float, of_what: str) -> None:
    """QEMU's throttle of 40, 80, 120, twice 60 and 50 operations a second, met by commits of a server."""
    first = explain_case(recorded_step(name)).findings[0]
    assert first.cause == "storage.iops_limit"
    assert not first.one_of_two
    stated = first.evidence[0]
    assert stated.metric == "disk_iops"
    assert stated.value == pytest.approx(level, rel=0.02)
    assert stated.text.startswith(of_what)
    assert first.share is not None
    assert first.share >= 0.3


@pytest.mark.parametrize("name", ["calm-mapper", "delay-all", "delay-reads", "suspended"])
def test_disks_below_a_slow_or_calm_layer_are_at_no_limit(name: str) -> None:
    case = recorded_step(name)
    assert case.disks
    assert case.disk_limits == ()


def test_without_its_disks_the_same_step_has_a_limit_as_one_of_two_at_most() -> None:
    case = replace(recorded_step("lvm-iops-commits"), disks=())
    limits = [finding for finding in explain_case(case).findings if finding.cause == "storage.iops_limit"]
    assert all(finding.one_of_two for finding in limits)
    assert not case.limits


def test_a_level_of_disks_below_what_they_served_is_no_limit() -> None:
    """The check reads the disks' own rate: here three seconds in a row have half as much again."""
    case = recorded_step("thin-iops-commits")
    key = SeriesKey(source="diskstats", metric="writes_per_s", entity="nvme0n1")
    more = case.grid.columns[key].copy()
    more[8:11] += 45.0
    raised = replace(case, grid=replace(case.grid, columns={**case.grid.columns, key: more}))
    explanation = explain_case(raised)
    assert "storage.iops_limit" not in [finding.cause for finding in explanation.findings]
    assert any("storage.iops_limit would have been named" in text for text in explanation.refuted_texts)
