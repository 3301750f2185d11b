"""Another logical volume's I/O on the same disks is in the disks' counters alone."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_throttle import case_of, with_columns

from volbench.core.records.facts import VolumeFacts
from volbench.core.records.named_metrics import Client
from volbench.measure.sample.device.diskstats import DiskStats
from volbench.measure.sample.interface import Reading
from volbench.measure.sample.parsers.diskstats import parse_diskstats
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.device import device_of
from volbench.results.explain.evidence.disks_below import DisksBelow, disks_below, foreign_below
from volbench.results.explain.findings import explain_case
from volbench.results.stats.grid import align
from volbench.results.store.series import Series, SeriesKey

FIXTURES = Path(__file__).parents[3] / "fixtures"
DISKS = ("nvme1n1", "nvme2n1")


def over_disks(case: Case, *, copies: float = 1.0, other_mib: Any = 0.0, other_kib: float = 16.0) -> Case:
    """The case's volume over two disks with half of its I/O each, and half of what another volume reads."""
    device = case.device
    assert device is not None
    columns: dict[tuple[str, str, str], Any] = {}
    for disk in DISKS:
        for metric, own, remaining in (
            ("reads_per_s", device.reads, other_mib * 1024 / other_kib),
            ("read_mib_per_s", device.read_mib_per_s, other_mib),
            ("writes_per_s", device.writes, 0.0),
            ("write_mib_per_s", device.write_mib_per_s, 0.0),
        ):
            assert own is not None
            factor = copies if metric.startswith("write") else 1.0
            columns["diskstats", metric, disk] = (factor * np.nan_to_num(own) + remaining) / len(DISKS)
    return replace(with_columns(case, columns), below=DisksBelow(names=DISKS, write_copies=copies))


def causes(case: Case) -> list[str]:
    return [finding.cause for finding in explain_case(case).findings]


@pytest.mark.parametrize("copies", [1.0, 2.0])
def test_disks_that_carry_this_volume_alone_have_no_foreign_io(copies: float) -> None:
    alone = case_of("clean")
    case = over_disks(alone, copies=copies)
    assert case.foreign is not None
    assert alone.foreign is not None
    assert case.foreign.share == pytest.approx(alone.foreign.share)
    assert causes(case) == causes(alone)


def test_reads_of_another_volume_are_named_with_their_start() -> None:
    clean = case_of("clean")
    on = np.arange(len(clean.grid)) >= 12
    tps = clean.at(Client.tps)
    assert tps is not None
    slower = with_columns(clean, {("client", "tps", ""): np.where(on, tps / 3, tps)})
    assert "interference.io" not in causes(slower)
    assert "interference.io" not in causes(over_disks(slower))
    findings = explain_case(over_disks(slower, other_mib=on * 100.0)).findings
    finding = next(finding for finding in findings if finding.cause == "interference.io")
    assert finding.window_s[0] == pytest.approx(float(clean.grid.t_s[11]), abs=1)
    assert finding.evidence[1].metric == "foreign_mib_per_s"
    assert finding.evidence[1].value == pytest.approx(100.0, rel=0.1)


def test_a_stack_whose_layers_copy_is_not_balanced() -> None:
    """What a snapshot, a cache or parity writes below the volume is no neighbour's."""
    kinds = {
        "snapshot": {"dm-0": "LVM vg-data", "dm-1": "LVM vg-data-real", "nvme1n1": "disk"},
        "parity": {"md0": "md raid5", "nvme1n1": "disk"},
        "mirror with an unknown number of copies": {"md0": "md raid10", "nvme1n1": "disk"},
        "bcache": {"bcache0": "bcache", "nvme1n1": "disk"},
    }
    for stack in kinds.values():
        facts = VolumeFacts(path="/x", disk=next(iter(stack)), stack=stack, lower_devices=("nvme1n1",))
        assert disks_below(facts) is None


def test_a_mirror_writes_each_byte_to_every_disk() -> None:
    facts = VolumeFacts(
        path="/x",
        disk="dm-0",
        stack={"dm-0": "LVM vg-data", "md0": "md raid1", "nvme1n1": "disk", "nvme2n1": "disk"},
        lower_devices=DISKS,
    )
    assert disks_below(facts) == DisksBelow(names=DISKS, write_copies=2.0)


def test_a_disk_without_layers_has_none_below() -> None:
    assert disks_below(VolumeFacts(path="/x", disk="nvme1n1", stack={"nvme1n1": "disk"})) is None


def series_of(text: str) -> dict[SeriesKey, Series]:
    """The sampler's rates of samples that each begin with a line `TS`."""
    readings = []
    for sample in text.split("TS ")[1:]:
        heading, _, lines = sample.partition("\n")
        counters = {
            (name, disk): value
            for disk, columns in parse_diskstats(lines).items()
            for name, value in asdict(columns).items()
        }
        readings.append(Reading(t_s=float(heading.split()[0]), values=counters))
    rows = [row for before, after in pairwise(readings) for row in DiskStats.rates(before, after)]
    keys = {SeriesKey(source=row.source, metric=row.metric, entity=row.entity) for row in rows}
    return {
        key: Series(
            t_s=np.array([row.t_s for row in rows if (row.metric, row.entity) == (key.metric, key.entity)]),
            value=np.array([row.value for row in rows if (row.metric, row.entity) == (key.metric, key.entity)]),
        )
        for key in keys
    }


def test_reads_of_a_real_neighbour_are_those_that_its_own_device_counted() -> None:
    """A recording of two logical volumes on one disk: the second one's counters are the truth about the first's."""
    text = (FIXTURES / "real-kernels/throttles/neighbour-on-another-logical-volume.txt").read_text()
    grid = align(series_of(text))
    (disk,) = (entity for entity in grid.entities("diskstats", "reads_per_s") if entity.startswith("nvme"))
    device = device_of(grid, "dm-0")
    assert device is not None
    flow = foreign_below(grid, device, DisksBelow(names=(disk,), write_copies=1.0))
    truth = grid.column("diskstats", "read_mib_per_s", "dm-1")
    assert flow is not None
    assert truth is not None
    during = truth > 1.0
    assert 15 <= int(during.sum()) <= 25
    assert float(flow.read_mib_per_s[during].sum()) == pytest.approx(float(truth[during].sum()), rel=0.1)
    assert float(flow.read_mib_per_s[~during].sum()) < 0.05 * float(truth[during].sum())
    assert np.median(flow.share[during]) > 0.4
