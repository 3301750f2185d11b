"""A contrast of sizes tells operations from bytes: what stays with operations of another size is limited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from recorded_step import recorded_step

from volbench.core.records.size_contrast import SizeContrast
from volbench.results.explain.case import Case
from volbench.results.explain.evidence.device import Device, Resource
from volbench.results.explain.evidence.limits import Plateau
from volbench.results.explain.evidence.size_contrasts import (
    ContrastLevel,
    SampledContrast,
    level_of,
    mix_of,
    outcome_of,
)
from volbench.results.explain.findings import explain_case
from volbench.results.explain.rules.volume.plateau_rows import contrast_rows
from volbench.results.stats.grid import Floats, Grid
from volbench.results.store.series import SeriesKey

IOPS, KIB = 150.0, 16.0
"""Of the step: 2.34 MiB/s."""
BUCKETS = 8


def device(reads: float = IOPS, writes: float = 0.0) -> Device:
    each = np.ones(BUCKETS)
    return Device(
        source="diskstats",
        entity="sda",
        iops=(reads + writes) * each,
        mib_per_s=(reads + writes) * KIB / 1024 * each,
        await_ms=None,
        in_flight=8 * each,
        reads=reads * each,
        writes=writes * each,
    )


def plateau(resource: Resource, level: float) -> Plateau:
    return Plateau(
        resource=resource,
        level=level,
        window_s=(0.0, 8.0),
        first=0,
        last=BUCKETS,
        in_flight=8.0,
        await_ms=None,
        base_await_ms=None,
        checks=(),
    )


NOW: Mapping[Resource, Plateau] = {
    "iops": plateau("iops", IOPS),
    "throughput": plateau("throughput", IOPS * KIB / 1024),
}


def load(iops: float, kib: float, *, mix: str = "read", follows: bool = True) -> ContrastLevel:
    return ContrastLevel(
        iops=iops,
        mib_per_s=iops * kib / 1024,
        in_flight=16.0,
        mix=mix,  # type: ignore[arg-type]
        window_s=(10.0, 14.0),
        follows=follows,
    )


def decision(*levels: ContrastLevel, step: Device | None = None) -> str:
    """What is limited, or why that is not decided; empty where no load has the same kind in another size."""
    outcome = outcome_of(NOW, step or device(), levels)
    if outcome is None:
        return ""
    return outcome.decided.resource if outcome.decided is not None else outcome.reason


@pytest.mark.parametrize(
    ("iops", "kib", "limited"),
    [
        (150.0, 64.0, "iops"),
        (157.0, 64.0, "iops"),
        (143.0, 64.0, "iops"),
        (37.5, 64.0, "throughput"),
        (39.3, 64.0, "throughput"),
        (35.8, 64.0, "throughput"),
        (600.0, 4.0, "throughput"),
        (150.0, 4.0, "iops"),
        (150.0, 20.9, "iops"),
    ],
)
def test_what_stays_within_a_twentieth_is_limited(iops: float, kib: float, limited: str) -> None:
    assert decision(load(iops, kib)) == limited


@pytest.mark.parametrize(
    ("iops", "kib", "reason"),
    [
        (142.0, 64.0, "neither"),
        (39.5, 64.0, "neither"),
        (90.0, 64.0, "neither"),
        (35.6, 64.0, "less"),
        (158.0, 64.0, "more"),
        (300.0, 4.0, "neither"),
        (142.0, 4.0, "less"),
        (150.0, 20.7, ""),
        (150.0, 16.0, ""),
    ],
)
def test_what_changes_by_more_decides_nothing(iops: float, kib: float, reason: str) -> None:
    assert decision(load(iops, kib)) == reason


def test_of_a_volume_with_both_limits_the_second_size_decides() -> None:
    """150 operations a second and 4.7 MiB/s: those of 64 KiB meet the second one, those of 4 KiB the first."""
    large, small = load(75.0, 64.0), load(150.0, 4.0)
    assert decision(large) == "neither"
    assert decision(large, small) == "iops"


def test_loads_that_disagree_decide_nothing() -> None:
    assert decision(load(150.0, 64.0), load(600.0, 4.0)) == "both"


def test_more_of_both_contradicts_whatever_another_load_says() -> None:
    """Credits that came back, or a volume whose operations each take a time: twice the queue, twice the rate."""
    assert decision(load(37.5, 64.0), load(700.0, 24.0)) == "more"


@pytest.mark.parametrize(("follows", "contradicts"), [(True, True), (False, False)])
def test_a_load_right_after_the_step_contradicts(follows: bool, contradicts: bool) -> None:
    outcome = outcome_of(NOW, device(), [load(300.0, 64.0, follows=follows)])
    assert outcome is not None
    assert outcome.contradicts is contradicts


@pytest.mark.parametrize(
    ("reads", "writes", "mix", "limited"),
    [
        (150.0, 0.0, "read", "iops"),
        (142.6, 7.4, "read", "iops"),
        (142.4, 7.6, "read", ""),
        (0.0, 150.0, "read", ""),
        (0.0, 150.0, "write", "iops"),
        (75.0, 75.0, "both", "iops"),
        (75.0, 75.0, "read", ""),
    ],
)
def test_only_a_load_of_the_same_kind_decides(reads: float, writes: float, mix: str, limited: str) -> None:
    assert decision(load(150.0, 64.0, mix=mix), step=device(reads, writes)) == limited


def test_a_source_that_does_not_tell_reads_from_writes_decides_nothing() -> None:
    unknown = Device(
        source="nvme", entity="", iops=np.ones(8), mib_per_s=np.ones(8), await_ms=None, in_flight=np.ones(8)
    )
    assert mix_of(unknown, slice(0, 8)) is None
    assert decision(load(150.0, 64.0), step=unknown) == ""


def sampled(iops: Floats, *, in_flight: float = 16.0, kib: float = 64.0) -> ContrastLevel | None:
    contrast = SizeContrast(
        rw="randread", block_size_bytes=65536, in_flight=16, window_s=(0.0, 4.0), iops=150.0, mib_per_s=9.4
    )
    grid = Grid(t_s=np.arange(1.0, len(iops) + 1), width_s=1.0, columns={})
    volume = Device(
        source="diskstats",
        entity="sda",
        iops=iops,
        mib_per_s=iops * kib / 1024,
        await_ms=None,
        in_flight=np.full(len(iops), in_flight),
        reads=iops,
        writes=np.zeros(len(iops)),
    )
    return level_of(volume, SampledContrast(contrast=contrast, grid=grid, disk="sda", follows=True))


@pytest.mark.parametrize(
    ("iops", "level"),
    [
        ([150.0, 150.0, 150.0], 150.0),
        ([150.0, 150.0], None),
        ([150.0, 129.0, 150.0, 171.0], 150.0),
        ([150.0, 127.0, 150.0, 150.0], 150.0),
        ([150.0, 127.0, 150.0, 173.0], None),
        ([600.0, 150.0, 150.0, 150.0], 150.0),
        ([8.0, 7.0, 9.0, 8.0], 8.0),
        ([8.0, 6.0, 10.0, 8.0], None),
        ([0.0, 0.0, 0.0, 0.0], None),
        ([np.nan, 150.0, 150.0, 150.0], 150.0),
    ],
)
def test_a_level_has_three_intervals_that_agree(iops: list[float], level: float | None) -> None:
    """Within 15 % of their median, or 1.5 operations."""
    contrast = sampled(np.array(iops))
    assert (None if contrast is None else contrast.iops) == (None if level is None else pytest.approx(level))


@pytest.mark.parametrize(("in_flight", "is_level"), [(1.9, False), (2.0, True)])
def test_a_level_has_a_queue(in_flight: float, is_level: bool) -> None:
    assert (sampled(np.full(4, 150.0), in_flight=in_flight) is not None) is is_level


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        (
            [load(150.0, 64.0)],
            "with operations of 64 KiB in place of 16 KiB, after the step, the volume gave 150 IOPS as well, and"
            " 9.38 MiB/s: operations are limited, and not bytes",
        ),
        (
            [load(600.0, 4.0, follows=False)],
            "with operations of 4 KiB in place of 16 KiB, after the last step of the volume's first cell, the"
            " volume gave 2.34 MiB/s as well, and 600 IOPS: bytes are limited, and not operations",
        ),
        (
            [load(90.0, 64.0)],
            "with operations of 64 KiB in place of 16 KiB, after the step, the volume gave 90 IOPS and 5.62 MiB/s:"
            " neither is the level of this step, so that it decides nothing",
        ),
        (
            [load(20.0, 64.0)],
            "with operations of 64 KiB in place of 16 KiB, after the step, the volume gave 20 IOPS and 1.25 MiB/s:"
            " less of both than in this step, which contradicts either limit; something else held it back then",
        ),
    ],
)
def test_the_finding_says_what_the_contrast_gave(levels: list[ContrastLevel], sentence: str) -> None:
    (evidence,) = contrast_rows(outcome_of(NOW, device(), levels))
    assert evidence.text == sentence


def recorded(iops: float, kib: float) -> Case:
    """A recorded step that writes 16 KiB at 80 operations a second, with a contrast after it."""
    case = recorded_step("qemu-iops-fio")
    seconds = np.arange(1.0, 6.0)
    values = {"writes_per_s": iops, "reads_per_s": 0.0, "write_mib_per_s": iops * kib / 1024, "aqu_sz": 8.0}
    columns = {
        SeriesKey(source="diskstats", metric=metric, entity=case.disk or ""): np.full(5, value)
        for metric, value in values.items()
    }
    contrast = SizeContrast(
        step="qemu-iops-fio",
        rw="randwrite",
        block_size_bytes=65536,
        in_flight=8,
        window_s=(0.0, 5.0),
        iops=iops,
        mib_per_s=iops * kib / 1024,
    )
    grid = Grid(t_s=seconds, width_s=1.0, columns=columns)
    sampled_contrast = SampledContrast(contrast=contrast, grid=grid, disk=case.disk, follows=True)
    return replace(case, size_contrasts=(sampled_contrast,))


@pytest.mark.parametrize(
    ("iops", "kib", "limits"),
    [
        (80.0, 64.0, ["storage.iops_limit"]),
        (20.0, 64.0, ["storage.throughput_limit"]),
        (50.0, 64.0, ["storage.iops_limit", "storage.throughput_limit"]),
        (160.0, 64.0, ["storage.iops_limit", "storage.throughput_limit"]),
    ],
)
def test_a_recorded_step_has_one_cause_where_its_contrast_decides(
    iops: float, kib: float, limits: list[str]
) -> None:
    named = [one for one in explain_case(recorded(iops, kib)).findings if "_limit" in one.cause]
    assert [one.cause for one in named] == limits
    assert {one.one_of_two for one in named} == {len(limits) > 1}
    for one in named:
        assert one.confidence <= 0.85
        assert sum(evidence.metric == "size_contrast" for evidence in one.evidence) == 1
