from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_cell import Load, Storage, columns

from volbench.results.explain.evidence.device import Device, Resource, device_of, little_ratio
from volbench.results.explain.evidence.limits import Plateau, base_await_ms, limits_of, plateaus
from volbench.results.explain.evidence.plateau_checks import absorption, compensation, elasticity
from volbench.results.explain.thresholds import REGULARITY_CAPPED, REGULARITY_OPERATIONS
from volbench.results.stats.grid import align
from volbench.results.store.series import SeriesKey


def device(load: Load, storage: Storage) -> tuple[np.ndarray, Device]:
    grid = align(columns(load, storage))
    result = device_of(grid)
    assert result is not None
    return grid.t_s, result


def limits(load: Load, storage: Storage, **more: float | bool) -> tuple[Plateau, ...]:
    t_s, result = device(load, storage)
    return limits_of(plateaus(t_s, result, **more), result.size_kib)  # type: ignore[arg-type]


@pytest.mark.parametrize("cap", [150.0, 500.0, 3000.0, 16000.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_names_an_iops_cap_within_five_percent(cap: float, seed: int) -> None:
    result, *_ = limits(Load(seed=seed, queue=max(8.0, cap / 200)), Storage(iops=cap))
    assert result.resource == "iops"
    assert result.level == pytest.approx(cap, rel=0.05)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_flushes_that_the_kernel_counts_as_writes_are_no_part_of_a_cap(share: float) -> None:
    """Whatever share of them is counted so, when the volume counts nothing itself."""
    flushes = np.random.default_rng(3).uniform(15, 25, 60)
    writes = series_of("diskstats", "writes_per_s", "sda") + share * flushes
    result, *_ = limits(
        Load(),
        Storage(
            iops=250.0,
            extra={
                ("diskstats", "writes_per_s", "sda"): writes,
                ("diskstats", "flushes_per_s", "sda"): flushes,
            },
        ),
    )
    assert result.level == pytest.approx(250, rel=0.05)


@pytest.mark.parametrize("before", [0, 1, 2, 3])
@pytest.mark.parametrize("after", [0, 3])
def test_a_level_is_found_behind_a_moment_of_another_one(before: int, after: int) -> None:
    """An empty bucket: 1,145, 1,114 and 441 operations, then 95 for 14 s was no level (recorded).

    Fewer than four seconds are no segment, so that the level had none either.
    """
    level = np.resize([95.0, 91.0, 97.0, 93.0, 95.0, 92.0], 14)
    rate = np.concatenate([[1144.6, 1114.3, 441.4][3 - before :], level, [300.0, 700.0, 900.0][:after]])
    t_s, queue = np.arange(1.0, len(rate) + 1), np.full(len(rate), 1.8)
    volume = Device(
        source="diskstats", entity="sda", iops=rate, mib_per_s=None, await_ms=1000 * queue / rate, in_flight=queue
    )
    (plateau,) = limits_of(plateaus(t_s, volume, base_await_ms=4.1), None)
    assert plateau.level == pytest.approx(95, rel=0.03)
    assert plateau.last - plateau.first >= 14


@pytest.mark.parametrize("source", ["emulator", "ebs_nvme"])
def test_a_volume_that_counts_its_writes_is_believed(source: str) -> None:
    """Forty flushes a second, all of them counted as writes by the kernel."""
    counted = series_of("diskstats", "writes_per_s", "sda")
    entity = "" if source == "emulator" else "sda"
    result, *_ = limits(
        Load(),
        Storage(
            iops=250.0,
            extra={
                ("diskstats", "writes_per_s", "sda"): counted + 40.0,
                ("diskstats", "flushes_per_s", "sda"): np.full(60, 40.0),
                (source, "writes_per_s", entity): np.where(np.arange(60) == 7, np.nan, counted),
            },
        ),
    )
    assert result.level == pytest.approx(250, rel=0.01)


def series_of(source: str, metric: str, entity: str) -> np.ndarray:
    """Of a volume with 250 IOPS, before something is added to it."""
    return columns(Load(), Storage(iops=250.0))[SeriesKey(source=source, metric=metric, entity=entity)].value


@pytest.mark.parametrize("cap", [40.0, 125.0, 250.0])
def test_names_a_throughput_cap_of_large_operations(cap: float) -> None:
    result, *_ = limits(Load(size_kib=256, queue=24), Storage(mib_per_s=cap))
    assert result.resource == "throughput"
    assert result.level == pytest.approx(cap, rel=0.05)


@pytest.mark.parametrize(("size_kib", "likely"), [(16, "iops"), (64, "throughput"), (256, "throughput")])
def test_operations_of_one_size_do_not_tell_which_limit_it_is(size_kib: float, likely: str) -> None:
    """64 KiB: 640 operations and 40 MiB a second are the same plateau. The likely one comes first."""
    result = limits(Load(size_kib=size_kib, queue=24), Storage(mib_per_s=40.0))
    assert {item.resource for item in result} == {"iops", "throughput"}
    assert result[0].resource == likely


def test_larger_operations_at_another_time_take_no_bytes_from_a_level() -> None:
    """Thirty-one reads of 16 KiB a second, as even as a meter; ten larger ones before make the mean one larger."""
    alone = dataclasses.replace(
        steady_device(variance_over_mean=0.0), iops=np.full(60, 31.0) + np.tile([0.0, 0.3], 30)
    )
    rate = np.concatenate([np.full(10, 3.0), alone.iops[10:]])
    size_kib = np.concatenate([np.full(10, 64.0), np.full(50, 16.0)])
    device = dataclasses.replace(
        alone,
        iops=rate,
        mib_per_s=rate * size_kib / 1024,
        await_ms=np.concatenate([np.full(10, 5.0), np.full(50, 258.0)]),
        in_flight=np.concatenate([np.full(10, 0.1), np.full(50, 8.0)]),
    )
    assert device.size_kib is not None
    assert 31 * 16 / device.size_kib < REGULARITY_OPERATIONS
    levels = plateaus(np.arange(1.0, 61.0), device, base_await_ms=5.0)
    assert {level.resource for level in limits_of(levels, device.size_kib)} == {"iops", "throughput"}


@pytest.mark.parametrize("latency_ms", [0.1, 0.8, 5.0, 30.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_steady_load_on_a_volume_without_a_limit_is_none(latency_ms: float, seed: int) -> None:
    assert limits(Load(seed=seed), Storage(latency_ms=latency_ms)) == ()


def test_a_closed_loop_whose_queue_never_varies_proves_nothing() -> None:
    result = plateaus(np.arange(1.0, 61.0), steady_device(variance_over_mean=0.1))
    assert result
    assert limits_of(result, 16.0) == ()


def test_a_rate_more_regular_than_any_waiting_is_a_meter() -> None:
    """A token bucket hardly varies, and what the queue varies is time."""
    metered = steady_device(variance_over_mean=0.002)
    queue = 8 * np.exp(np.random.default_rng(4).normal(0, 0.05, 60))
    varied = dataclasses.replace(metered, in_flight=queue, await_ms=1000 * queue / metered.iops)
    result, *_ = limits_of(plateaus(np.arange(1.0, 61.0), varied), 16.0)
    assert (result.resource, round(result.level, -2)) == ("iops", 3000)


@pytest.mark.parametrize(("spread", "resources"), [(1.2, {"iops", "throughput"}), (5.0, {"iops"})])
def test_a_level_that_is_less_even_by_a_little_is_no_less_a_limit(spread: float, resources: set[str]) -> None:
    """Recorded: operations of one size, 0.0189 for their number and 0.0218 for bytes; 0.02 is as even as a meter.

    The volume gave so many bytes, and was said to be at its limit of operations (0.92).
    """
    metered = steady_device(variance_over_mean=0.025)
    assert metered.iops is not None
    noise = np.random.default_rng(7).normal(0, spread * (3000 * 0.006) ** 0.5, 60)
    levels = plateaus(np.arange(1.0, 61.0), dataclasses.replace(metered, mib_per_s=(metered.iops + noise) / 64))
    even = {level.resource: spread_of(level) for level in levels}
    assert even["iops"] < REGULARITY_CAPPED < even["throughput"]
    assert [level.resource for level in levels if level.is_limit] == ["iops"]
    assert {level.resource for level in limits_of(levels, 16.0)} == resources


def spread_of(level: Plateau) -> float:
    """Variance of the operations in an interval against their mean."""
    return next(check.value or 0.0 for check in level.checks if check.name == "regularity")


def test_an_even_rate_with_a_queue_that_never_varies_is_a_limit_or_a_constant_latency() -> None:
    """Eight streams that take nearly 2.6 ms each time come nearly as evenly as a meter lets them."""
    levels = plateaus(np.arange(1.0, 61.0), steady_device(variance_over_mean=0.1))
    assert limits_of(levels, 16.0) == ()
    assert all(level.may_be_limit for level in levels)


@pytest.mark.parametrize("spread", [0.02, 0.05, 0.2])
def test_streams_of_a_constant_latency_are_no_limit(spread: float) -> None:
    """However even their rate is: it follows the queue."""
    queue = 8 * np.exp(np.random.default_rng(4).normal(0, spread, 60))
    rate = queue / 0.0026
    streams = dataclasses.replace(
        steady_device(variance_over_mean=0.0),
        iops=rate,
        mib_per_s=rate / 64,
        in_flight=queue,
        await_ms=2.6 * np.exp(np.random.default_rng(5).normal(0, 0.002, 60)),
    )
    levels = plateaus(np.arange(1.0, 61.0), streams)
    assert not any(level.is_limit or level.may_be_limit for level in levels)
    assert (absorption(rate, queue) or 0) > 2.5


def test_what_absorbs_the_queue_is_the_time_at_a_meter_and_the_rate_elsewhere() -> None:
    queue = 12 * np.exp(np.random.default_rng(6).normal(0, 0.1, 40))
    assert absorption(np.full(40, 800.0), queue) == pytest.approx(0, abs=1e-9)
    assert (absorption(queue / 0.005, queue) or 0) > 1e6
    assert absorption(queue, np.full(40, 8.0)) is None


def steady_device(*, variance_over_mean: float) -> Device:
    """3,000 operations a second of 16 KiB with a queue of eight, and nothing else to tell a limit from."""
    n = 60
    iops = 3000 + np.random.default_rng(1).normal(0, (3000 * variance_over_mean) ** 0.5, n)
    return Device(
        source="diskstats",
        entity="sda",
        iops=iops,
        mib_per_s=iops * 16 / 1024,
        await_ms=np.full(n, 2.6),
        in_flight=np.full(n, 8.0),
    )


def test_saturated_cpus_are_no_limit_of_the_volume() -> None:
    """A short queue may be what the CPUs leave it; a long one is the volume's own, whoever uses the CPUs."""
    assert limits(Load(queue=4), Storage(iops=3000.0), cpu_bound=True) == ()
    assert limits(Load(queue=16), Storage(iops=3000.0), cpu_bound=True)


def test_without_a_queue_there_is_no_limit() -> None:
    assert limits(Load(queue=0.8), Storage(latency_ms=0.8)) == ()


def test_base_await_is_that_of_quiet_intervals() -> None:
    grid = align(columns(Load(queue=0.8), Storage(latency_ms=0.8)))
    quiet = device_of(grid)
    assert quiet is not None
    assert base_await_ms(quiet) == pytest.approx(0.8, rel=0.1)
    busy = device_of(align(columns(Load(queue=16), Storage(iops=500.0))))
    assert busy is not None
    assert base_await_ms(busy) is None


def test_littles_law_holds_for_a_queue_and_is_unknown_without_one() -> None:
    _, result = device(Load(), Storage(iops=500.0))
    assert little_ratio(result) == pytest.approx(1.0, rel=0.02)


def test_elasticity_tells_a_limit_from_latency() -> None:
    queue = np.exp(np.random.default_rng(5).normal(2, 0.4, 80))
    assert elasticity(np.full(80, 150.0), queue) == pytest.approx(0.0, abs=1e-9)
    assert elasticity(queue / 0.005, queue) == pytest.approx(1.0)
    assert elasticity(queue, np.full(80, 8.0)) is None


def test_compensation_is_low_when_reads_get_what_writes_leave() -> None:
    reads = np.random.default_rng(6).uniform(500, 2500, 60)
    writes = np.random.default_rng(7).uniform(500, 2500, 60)
    result, free = compensation(reads, 3000 - reads), compensation(reads, writes)
    assert result is not None
    assert result < 0.01
    assert free is not None
    assert free > 0.7
    assert compensation(np.full(60, 100.0), np.full(60, 100.0)) is None


@settings(max_examples=25, deadline=None)
@given(st.floats(1e-2, 1e3), st.booleans())
def test_scaling_operations_and_time_never_changes_the_verdict(scale: float, capped: bool) -> None:
    """A volume `scale` times as fast, on a clock as much faster, is the same volume."""
    load, storage = Load(), Storage(iops=600.0 if capped else None, latency_ms=2.0)
    t_s, result = device(load, storage)
    assert result.mib_per_s is not None
    assert result.await_ms is not None
    assert result.reads is not None
    assert result.writes is not None
    scaled = Device(
        source="diskstats",
        entity="sda",
        iops=result.iops * scale,
        mib_per_s=result.mib_per_s * scale,
        await_ms=result.await_ms / scale,
        in_flight=result.in_flight,
        reads=result.reads * scale,
        writes=result.writes * scale,
    )
    existing = limits_of(plateaus(t_s / scale, scaled), result.size_kib)
    assert [item.resource for item in existing] == (["iops", "throughput"] if capped else [])
    if capped:
        assert existing[0].level == pytest.approx(600 * scale, rel=0.05)


@pytest.mark.parametrize(("resource", "expected"), [("iops", 210.0), ("throughput", 3.0)])
def test_what_a_volume_carried_leaves_out_operations_without_data(resource: Resource, expected: float) -> None:
    both = Device(
        source="diskstats",
        entity="sda",
        iops=np.full(5, 250.0),
        empty_writes=np.full(5, 40.0),
        mib_per_s=np.full(5, 3.0),
        await_ms=None,
        in_flight=None,
    )
    carried = both.carried(resource)
    assert carried is not None
    assert carried.tolist() == [expected] * 5


def at_fixed_depth(spread: float, *, base_ms: float) -> bool:
    """Whether 300 operations a second of 32 streams are a limit, whose queue and rate vary together by sampling."""
    sampling = np.exp(np.random.default_rng(7).normal(0, spread, 60))
    queue, rate = 32 * sampling, 300 * sampling**0.9
    metered = dataclasses.replace(
        steady_device(variance_over_mean=0.0),
        iops=rate,
        mib_per_s=rate / 64,
        in_flight=queue,
        await_ms=1000 * queue / rate,
    )
    levels = plateaus(np.arange(1.0, 61.0), metered, base_await_ms=base_ms)
    return any(level.is_limit for level in levels)


@pytest.mark.parametrize(
    ("spread", "base_ms", "limited"), [(0.02, 2.0, True), (0.02, 100.0, False), (0.2, 2.0, False)]
)
def test_sampling_noise_at_a_fixed_depth_refutes_no_limit_of_operations_that_wait(
    spread: float, base_ms: float, limited: bool
) -> None:
    """fio below QEMU's throttle: evenness and inflation hold, and the queue varies by how it is sampled."""
    assert at_fixed_depth(spread, base_ms=base_ms) is limited


@pytest.mark.parametrize(
    ("in_flight", "even", "limited"), [(1.3, True, True), (1.3, False, False), (0.8, True, False)]
)
def test_a_meter_holds_commits_with_hardly_more_than_one_in_flight(
    in_flight: float, even: bool, limited: bool
) -> None:
    """A server's commits meet a limit of 150 operations without a queue: it is even as a meter, and they wait."""
    random = np.random.default_rng(8)
    rate = 150 * (np.ones(40) if even else np.exp(random.normal(0, 0.06, 40)))
    queue = in_flight * np.exp(random.normal(0, 0.1, 40))
    metered = dataclasses.replace(
        steady_device(variance_over_mean=0.0),
        iops=rate,
        mib_per_s=rate / 64,
        in_flight=queue,
        await_ms=1000 * queue / rate,
    )
    levels = plateaus(np.arange(1.0, 41.0), metered, base_await_ms=1.0)
    assert any(level.is_limit for level in levels) is limited
