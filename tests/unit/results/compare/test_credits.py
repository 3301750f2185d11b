"""Credit buckets: the vendor's tables, what holds of every load, and histories with gaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from credit_loads import PAGE, load, points, profile_limits
from hypothesis import given
from hypothesis import strategies as st

from volbench.core.profile.limits import Charge, Limits, VolumeLimit, limits_of, read_latency_s
from volbench.core.profile.resolve import resolve
from volbench.errors import UsageError
from volbench.results.credits.balance import is_sustainable, replay
from volbench.results.credits.dump import DumpLoad, duration_s, forecast_dump
from volbench.results.credits.extrapolation import ahead
from volbench.results.credits.forecast import POINTS_MAX, forecast
from volbench.results.credits.work import from_points


@pytest.mark.parametrize(
    ("size", "burst_s", "refill_s"),
    [
        ("33.33GiB", 1862, 54_000),
        ("20GiB", 1862, 54_000),
        ("50GiB", 1895, 36_000),
        ("100GiB", 2000, 18_000),
        ("334GiB", 2703, 5389),
        ("750GiB", 7200, 2400),
        ("1000GiB", None, None),
        ("4000GiB", None, None),
    ],
)
def test_gp2_bursts_and_refills_as_its_table_says(size: str, burst_s: int | None, refill_s: int | None) -> None:
    """Amazon's table of gp2: seconds at 3,000 IOPS, and seconds to fill an empty bucket."""
    result = forecast(profile_limits("ebs-gp2", size=size), load(3000))
    rounded = [None if value is None else round(value) for value in (result.exhausted_after_s, result.refill_s)]
    assert rounded == [burst_s, refill_s]


def test_after_exhaustion_the_baseline_is_left() -> None:
    result = forecast(profile_limits("ebs-gp2", size="50GiB"), load(3000))
    assert result.after is not None
    assert result.after.iops == pytest.approx(150)
    assert result.after.mib_per_s == pytest.approx(150 * PAGE / 2**20)
    assert result.throttled_s is None


def test_a_load_beyond_the_cap_spends_no_faster_than_the_cap() -> None:
    limits = profile_limits("ebs-gp2", size="50GiB")
    assert forecast(limits, load(30_000)).exhausted_after_s == pytest.approx(5.4e6 / 2850)
    assert forecast(limits, load(30_000)).capped_s is None


def test_a_load_at_the_baseline_lasts_for_ever() -> None:
    result = forecast(profile_limits("ebs-gp2", size="50GiB"), load(150))
    assert result.exhausted_after_s is None
    assert result.throttled_s == 0.0


def test_half_a_bucket_lasts_half_as_long() -> None:
    limits = profile_limits("ebs-gp2", size="50GiB")
    assert forecast(limits.starting_at(0.5), load(3000)).exhausted_after_s == pytest.approx(5.4e6 / 2850 / 2)
    assert forecast(profile_limits("ebs-gp2", size="50GiB", credits="50%"), load(3000)) == forecast(
        limits.starting_at(0.5), load(3000)
    )


def test_an_empty_bucket_is_exhausted_at_once() -> None:
    result = forecast(profile_limits("ebs-gp2", size="50GiB").starting_at(0.0), load(200))
    assert result.exhausted_after_s == 0.0


@pytest.mark.parametrize(("profile", "baseline_mib", "burst_mib"), [("ebs-st1", 40, 250), ("ebs-sc1", 12, 80)])
def test_hdd_volumes_spend_bytes(profile: str, baseline_mib: int, burst_mib: int) -> None:
    """st1 and sc1 of 1 TiB: a bucket of 1 TiB, emptied by sequential I/O at the burst rate."""
    result = forecast(profile_limits(profile, size="1TiB"), load(burst_mib, io_bytes=2**20).as_sequential())
    assert result.exhausted_after_s == pytest.approx(2**20 / (burst_mib - baseline_mib))
    assert result.refill_s == pytest.approx(2**20 / baseline_mib)


def test_a_small_random_read_costs_an_hdd_volume_a_whole_mib_and_a_sequential_one_its_bytes() -> None:
    limits = profile_limits("ebs-st1", size="1TiB")
    random, sequential = load(100), load(100).as_sequential()
    bucket = limits.buckets[0]
    assert random.demand(bucket.charge)[0] == 100 * 2**20
    assert sequential.demand(bucket.charge)[0] == 100 * PAGE


def test_efs_reads_cost_a_third_and_small_requests_four_kib() -> None:
    """100 GiB stored: baseline 4.88 MiB/s, 2.1 TiB of credits."""
    bucket = profile_limits("efs-bursting", stored="100GiB").buckets[0]
    assert load(300, io_bytes=PAGE).demand(bucket.charge)[0] == pytest.approx(100 * PAGE)
    assert load(300, io_bytes=100, reads=0.0).demand(bucket.charge)[0] == pytest.approx(300 * 4096)
    writes = forecast(profile_limits("efs-bursting", stored="100GiB"), load(100, io_bytes=2**20, reads=0.0))
    assert writes.exhausted_after_s == pytest.approx(2.1 * 2**40 / (100 * 2**20 - 50 * 2**20 * 100 / 1024))


def test_an_instance_in_series_runs_dry_first_when_its_baseline_is_smaller() -> None:
    """t3.medium: 2,000 IOPS for ever, 30 minutes a day at 11,800."""
    result = forecast(profile_limits("ebs-gp2", size="900GiB", instance="t3.medium"), load(3000))
    assert result.bucket is not None
    assert result.bucket.name == "instance.iops_credits"
    assert result.exhausted_after_s == pytest.approx(9800 * 1800 / 1000)
    assert result.after is not None
    assert result.after.iops == pytest.approx(2000)


def test_large_requests_are_counted_in_parts_of_256_kib() -> None:
    charge = profile_limits("ebs-gp2", size="50GiB").buckets[0].charge
    sizes = np.array([1.0, 4096, 256 * 2**10, 256 * 2**10 + 1, 2**20])
    assert charge.per_request(sizes, sequential=False).tolist() == [1, 1, 1, 2, 4]
    assert charge.per_request(np.array([16384.0, 32768]), sequential=True).tolist() == [1, 0.125]


def test_a_profile_without_a_bucket_never_runs_out() -> None:
    result = forecast(profile_limits("ebs-gp3"), load(3000))
    assert result.bucket is None
    assert (result.exhausted_after_s, result.refill_s, result.throttled_s, result.capped_s) == (
        None,
        None,
        0.0,
        0.0,
    )


def test_a_history_runs_dry_where_its_load_says() -> None:
    """An hour of nothing, then 3,000 IOPS: dry 1,895 s later, held back to the end."""
    work = points([0.0] * 60 + [3000.0] * 60)
    result = forecast(profile_limits("ebs-gp2", size="50GiB"), work)
    assert result.exhausted_after_s == pytest.approx(3600 + 5.4e6 / 2850)
    assert result.throttled_s == pytest.approx(3600 - 5.4e6 / 2850)
    assert len(result.episodes) == 1
    assert result.after is not None
    assert result.final_balances == (0.0,)


def test_a_bucket_fills_again_in_a_quiet_night() -> None:
    """Emptied, then ten hours idle: full, and it bursts for as long again."""
    busy = [3000.0] * 40
    result = replay(profile_limits("ebs-gp2", size="50GiB"), points(busy + [0.0] * 600 + busy))
    assert result.balances[639, 0] == pytest.approx(5.4e6)
    assert result.throttled_s[:40].sum() == pytest.approx(result.throttled_s[640:].sum())


def test_a_gap_is_unknown_and_bounded_both_ways() -> None:
    """Emptied before the gap: idle, the gap refills the bucket; at the baseline it stays empty."""
    rates = np.full(80, 3000.0)
    t_s = np.concatenate([np.arange(1, 41) * 60.0, 50_000 + np.arange(1, 41) * 60.0])
    work = from_points(t_s=t_s, reads_per_s=rates, writes_per_s=np.zeros(80))
    limits = profile_limits("ebs-gp2", size="50GiB")
    idle, at_baseline = forecast(limits, work, gaps="idle"), forecast(limits, work, gaps="baseline")
    assert work.gap_s == pytest.approx(50_000 - 2400)
    assert len(work.gaps) == 1
    assert idle.throttled_s is not None
    assert at_baseline.throttled_s is not None
    assert idle.throttled_s < at_baseline.throttled_s


def test_a_missing_rate_is_a_gap_and_no_zero() -> None:
    work = points([100.0, float("nan"), 100.0])
    assert work.is_known.tolist() == [True, False, True]
    assert work.mean().iops[0] == pytest.approx(100.0)


def test_times_that_do_not_ascend_are_refused_with_the_place() -> None:
    with pytest.raises(UsageError, match="point 3 is at 90 s, after 120 s"):
        from_points(t_s=np.array([60.0, 120, 90]), reads_per_s=np.ones(3), writes_per_s=np.ones(3))
    with pytest.raises(UsageError, match="no point"):
        from_points(t_s=np.array([]), reads_per_s=np.array([]), writes_per_s=np.array([]))
    with pytest.raises(UsageError, match="no point of the history has a rate"):
        points([float("nan")] * 3)
    with pytest.raises(UsageError, match="below 0"):
        points([1.0, -1.0])
    with pytest.raises(UsageError, match="0 or more"):
        load(-1.0)


def test_a_long_history_is_drawn_with_its_lowest_points() -> None:
    rates = [0.0] * 5000
    rates[2000:2032] = [3000.0] * 32
    result = forecast(profile_limits("ebs-gp2", size="50GiB"), points(rates))
    assert len(result.balance) <= POINTS_MAX
    assert min(point.balance for point in result.balance) == 0.0


def test_a_dump_takes_what_its_reads_allow() -> None:
    """3.6 GB in pages at 150 IOPS: 1,465 s; with credits at 3,000 IOPS: 73 s; beside 100 IOPS a third is left."""
    limits = profile_limits("ebs-gp2", size="50GiB")
    dump = DumpLoad(bytes=3.6e9, io_bytes=PAGE)
    result = forecast_dump(limits, dump, load(100), window_s=3600)
    assert result.now.alone_s == pytest.approx(3.6e9 / PAGE / 3000)
    assert result.exhausted.alone_s == pytest.approx(3.6e9 / PAGE / 150)
    assert result.now.beside_load_s == pytest.approx(3.6e9 / PAGE / 2900)
    assert result.exhausted.beside_load_s == pytest.approx(3.6e9 / PAGE / 50)
    assert (result.fits_now, result.fits_exhausted) == (True, False)


def test_a_dump_that_empties_the_bucket_goes_on_at_the_baseline() -> None:
    """100 GB at 50 GiB: fast for 1,895 s, then 150 reads a second."""
    limits = profile_limits("ebs-gp2", size="50GiB")
    burst_s = 5.4e6 / 2850
    expected = burst_s + (100e9 / PAGE - burst_s * 3000) / 150
    assert duration_s(limits, DumpLoad(bytes=100e9, io_bytes=PAGE), None) == pytest.approx(expected)


def test_a_dump_never_ends_beside_a_load_that_takes_all() -> None:
    empty = profile_limits("ebs-gp2", size="50GiB").starting_at(0.0)
    assert duration_s(empty, DumpLoad(bytes=3.6e9, io_bytes=PAGE), load(150)) is None
    assert duration_s(empty, DumpLoad(bytes=3.6e9, io_bytes=PAGE), load(3000)) is None


def test_a_dump_with_one_read_in_flight_is_bound_by_latency() -> None:
    volume = resolve("ebs-gp2", {"size": "50GiB"})
    latency_s = read_latency_s(volume, PAGE)
    dump = DumpLoad(bytes=1e9, io_bytes=PAGE, rate_max_per_s=1 / latency_s)
    assert 0.0008 < latency_s < 0.002
    assert duration_s(limits_of(volume), dump, None) == pytest.approx(1e9 / PAGE * latency_s)


def test_time_scale_makes_buckets_smaller_and_nothing_else() -> None:
    total, scaled = (
        profile_limits("ebs-gp2", size="50GiB"),
        profile_limits("ebs-gp2", size="50GiB", time_scale="60"),
    )
    ratio = (forecast(total, load(3000)).exhausted_after_s or 0) / (
        forecast(scaled, load(3000)).exhausted_after_s or 1
    )
    assert ratio == pytest.approx(60)
    assert forecast(total, load(3000)).after == forecast(scaled, load(3000)).after


RATES = st.lists(st.floats(0, 20_000), min_size=1, max_size=60)
SHARES = st.floats(0, 1)
SIZES = st.integers(1, 1500)


@given(rates=RATES, share=SHARES, gib=SIZES, instance=st.sampled_from(["none", "t3.medium", "m5.large"]))
def test_a_balance_stays_within_its_bucket(rates: list[float], share: float, gib: int, instance: str) -> None:
    limits = profile_limits("ebs-gp2", size=f"{gib}GiB", instance=instance).starting_at(share)
    work = points(rates, interval_s=3600.0)
    result = replay(limits, work)
    for column, bucket in enumerate(limits.buckets):
        capacity = bucket.capacity or 0.0
        assert (result.balances[:, column] >= -1e-9 * capacity).all()
        assert (result.balances[:, column] <= capacity * (1 + 1e-9)).all()
    assert ((result.served >= 0) & (result.served <= 1)).all()
    assert (result.throttled_s <= work.interval_s + 1e-6).all()


@given(rates=RATES, share=SHARES, gib=SIZES)
def test_twice_the_load_never_delays_exhaustion(rates: list[float], share: float, gib: int) -> None:
    limits = profile_limits("ebs-gp2", size=f"{gib}GiB").starting_at(share)
    once = forecast(limits, points(rates, interval_s=600.0)).exhausted_after_s
    twice = forecast(limits, points([2 * rate for rate in rates], interval_s=600.0)).exhausted_after_s
    if once is not None:
        assert twice is not None
        assert twice <= once + 1e-6


@given(rates=RATES, factor=st.floats(0.1, 100))
def test_a_history_scaled_in_time_with_its_bucket_ends_scaled(rates: list[float], factor: float) -> None:
    """A bucket n times smaller under a history n times shorter runs dry n times sooner: what time_scale is for.

    One that runs dry at the history's very end may do so in one of the two only: the last digit decides.
    """
    total = forecast(profile_limits("ebs-gp2", size="50GiB"), points(rates, interval_s=600.0))
    small = forecast(
        profile_limits("ebs-gp2", size="50GiB", time_scale=f"{factor:.17f}"),
        points(rates, interval_s=600.0 / factor),
    )
    end_s = 600.0 * len(rates)
    large_s = end_s if total.exhausted_after_s is None else total.exhausted_after_s
    small_s = end_s / factor if small.exhausted_after_s is None else small.exhausted_after_s
    assert small_s == pytest.approx(large_s / factor, rel=1e-6, abs=1e-6)


@given(rates=RATES, cuts=st.integers(2, 5), gib=SIZES)
def test_cutting_intervals_changes_nothing(rates: list[float], cuts: int, gib: int) -> None:
    limits = profile_limits("ebs-gp2", size=f"{gib}GiB", instance="t3.medium")
    coarse = replay(limits, points(rates, interval_s=1200.0))
    fine = replay(limits, points([rate for rate in rates for _ in range(cuts)], interval_s=1200.0 / cuts))
    assert fine.balances[cuts - 1 :: cuts] == pytest.approx(coarse.balances, rel=1e-6, abs=1e-3)
    assert fine.throttled_s.sum() == pytest.approx(coarse.throttled_s.sum(), rel=1e-6, abs=1e-3)


@given(rates=st.lists(st.one_of(st.floats(0, 5000), st.just(float("nan"))), min_size=2, max_size=40), share=SHARES)
def test_idle_gaps_never_leave_less_than_gaps_at_the_baseline(rates: list[float], share: float) -> None:
    if np.isnan(rates).all():
        rates[0] = 1.0
    limits = profile_limits("ebs-gp2", size="50GiB").starting_at(share)
    work = points(rates, interval_s=600.0)
    idle, at_baseline = replay(limits, work, gaps="idle"), replay(limits, work, gaps="baseline")
    assert (idle.balances >= at_baseline.balances - 1e-3).all()


@given(rates=RATES, share=SHARES, first=st.floats(10, 5000), second=st.floats(10, 5000))
def test_two_buckets_that_both_run_dry_serve_the_smaller_rate(
    rates: list[float], share: float, first: float, second: float
) -> None:
    """In series: what is served never exceeds either bucket's rate once both are empty."""
    charge = Charge(unit="io")
    buckets = tuple(
        VolumeLimit(
            name=name,
            scope="volume",
            resource="iops",
            rate_per_s=rate,
            charge=charge,
            capacity=1e5,
            start=1e5 * share,
        )
        for name, rate in (("a", first), ("b", second))
    )
    work = points(rates)
    result = replay(Limits(caps=(), buckets=buckets), work)
    served = work.iops * result.served
    for column, bucket in enumerate(buckets):
        spent = (served * work.interval_s).sum()
        earned = bucket.rate_per_s * work.interval_s.sum() + bucket.start
        assert spent <= earned * (1 + 1e-9) + 1e-6
        assert (result.balances[:, column] <= 1e5 + 1e-6).all()


def test_a_load_endures_only_if_it_may_be_repeated() -> None:
    """Ten minutes at 3,000 IOPS do not empty 50 GiB's bucket, but repeating them does."""
    limits = profile_limits("ebs-gp2", size="50GiB")
    assert forecast(limits, points([3000.0] * 10)).exhausted_after_s is None
    assert not is_sustainable(limits, points([3000.0] * 10))
    assert is_sustainable(limits, points([3000.0] * 10 + [0.0] * 200))
    assert is_sustainable(limits, load(150))
    assert not is_sustainable(limits, load(151))


def test_a_bucket_with_no_load_stays_full() -> None:
    limits = profile_limits("ebs-gp2", size="50GiB")
    result = forecast(limits, points([0.0] * 5))
    assert result.final_balances == (limits.buckets[0].capacity,)
    assert replace(limits.buckets[0], rate_per_s=0.0).refill_s is None


def test_a_cluster_s_disks_add_up_and_a_write_goes_to_every_copy() -> None:
    """12 OSDs of 3,000 IOPS with 3 copies: 36,000 reads or 12,000 writes a second."""
    limits = profile_limits("ceph-rbd", osds="12", osd="ebs-gp2?size=1000GiB", replicas="3", write_ios="1")
    for reads, served in ((1.0, 36_000), (0.0, 12_000)):
        result = forecast(limits, load(50_000, io_bytes=4096, reads=reads))
        assert result.before.iops == pytest.approx(served)


def test_three_large_and_twelve_small_disks_differ_in_their_burst_alone() -> None:
    """3 x 1,800 = 12 x 450 IOPS of baseline; 12 disks have four times the credits and the burst."""
    few, many = (
        profile_limits("ceph-rbd", osds=str(osds), osd=f"ebs-gp2?size={size}")
        for osds, size in ((3, "600GiB"), (12, "150GiB"))
    )
    for limits, burst, bucket in ((few, 9000, 3 * 5.4e6), (many, 36_000, 12 * 5.4e6)):
        assert limits.buckets[0].capacity == pytest.approx(bucket)
        assert limits.buckets[0].rate_per_s == 5400
        assert next(cap for cap in limits.caps if cap.resource == "iops").rate_per_s == burst


def test_a_history_that_goes_on_runs_out_when_its_mean_load_says() -> None:
    """Of a gp2 of 100 GiB, 300 a second come back; the interval grows with how much the load varied."""
    left = profile_limits("ebs-gp2", size="100GiB").starting_at(0.5)
    steady, varying = (ahead(left, points(load * 15)) for load in ([1300.0, 1300.0], [1000.0, 1600.0]))
    assert steady is not None
    assert (steady.after_s, steady.earliest_s, steady.latest_s) == pytest.approx((2700, 2670, 2730))
    assert varying is not None
    assert varying.after_s == pytest.approx(2700)
    assert varying.latest_s is not None
    assert varying.earliest_s < 2670
    assert varying.latest_s > 2730


@pytest.mark.parametrize("size", [20, 80, 300])
def test_the_interval_holds_the_load_that_comes(size: int) -> None:
    """Of 200 histories with chance in them, and the time that their true mean gives: at least 95 of a hundred."""
    left, retained = profile_limits("ebs-gp2", size="100GiB").starting_at(0.5), 0
    for seed in range(200):
        rates = np.random.default_rng(seed).normal(1300, 300, size).clip(0)
        result = ahead(left, points(rates.tolist(), interval_s=1.0))
        assert result is not None
        retained += result.earliest_s <= 2700 and (result.latest_s is None or result.latest_s >= 2700)
    assert retained >= 190


def test_what_is_nearer_than_a_sample_is_not_told_to_the_second() -> None:
    nearly = profile_limits("ebs-gp2", size="100GiB").starting_at(0.005)
    result = ahead(nearly, points([3000.0] * 10))
    assert result is not None
    assert result.after_s is None
    assert result.earliest_s == 0.0


def test_a_load_that_the_baseline_carries_never_runs_out() -> None:
    assert ahead(profile_limits("ebs-gp2", size="100GiB").starting_at(0.5), points([200.0] * 10)) is None
    assert ahead(profile_limits("ebs-gp2", size="100GiB").starting_at(0.5), points([3000.0] * 3)) is None
