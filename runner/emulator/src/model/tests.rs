//! The model against the vendors' arithmetic, without FUSE and without waiting.

use proptest::prelude::*;

use super::limit::{Spread, Weights, primary_of};
use super::*;

const S: Nanos = 1_000_000_000;
const GP2_CREDITS: f64 = 5.4e6;

fn limit(name: &str, unit: Unit, rate_per_s: f64, burst: f64) -> LimitParameters {
    LimitParameters {
        name: name.into(),
        scope: Scope::Volume,
        resource: if unit == Unit::Io { Resource::Iops } else { Resource::Throughput },
        unit,
        rate_per_s,
        burst,
        credits: false,
        fill: 1.0,
        max_io_bytes: 256 << 10,
        merge_from_bytes: None,
        min_bytes: 0,
        weights: Weights::default(),
        spread: None,
        published: None,
    }
}

fn gp2(baseline: f64) -> Vec<LimitParameters> {
    vec![
        limit("cap", Unit::Io, 3000.0, 30.0),
        LimitParameters { credits: true, ..limit("credits", Unit::Io, baseline, GP2_CREDITS) },
    ]
}

fn model_of(limits: Vec<LimitParameters>) -> Model {
    Model::new(Parameters { limits, ..Parameters::default() }, 0).unwrap()
}

fn read(offset: u64, bytes: u64) -> Request {
    Request { op: Op::Read, stream: 0, offset, bytes }
}

/// Runs a closed loop of `depth` random reads until `until`; returns completions as times.
fn closed_loop(model: &mut Model, depth: usize, bytes: u64, from: Nanos, until: Nanos) -> Vec<Nanos> {
    let mut due: std::collections::BinaryHeap<_> = (0..depth).map(|_| std::cmp::Reverse(from)).collect();
    let (mut done, mut n) = (Vec::new(), 0u64);
    while let Some(std::cmp::Reverse(now)) = due.pop() {
        if now >= until {
            break;
        }
        n += 1;
        let admission = model.admit(now, &read(n * 7919 * 4096 % (1 << 40), bytes));
        done.push(admission.due);
        due.push(std::cmp::Reverse(admission.due));
    }
    done
}

/// Seconds for which a closed loop holds the burst rate, found where a second completes fewer than half as many.
fn burst_seconds(baseline: f64, time_scale: f64) -> f64 {
    let parameters = Parameters { limits: gp2(baseline), time_scale, ..Parameters::default() };
    let mut model = Model::new(parameters, 0).unwrap();
    let done = closed_loop(&mut model, 32, 4096, 0, (8000.0 / time_scale) as Nanos * S);
    // At the end of the burst the gap between completions jumps from 1/3000 s to 1/baseline s.
    let gap = |pair: &[Nanos]| (pair[1] - pair[0]) as f64 / 1e9;
    let middle = (1.0 / 3000.0 + 1.0 / baseline) / 2.0;
    let cliff = done.windows(2).position(|pair| gap(pair) > middle).expect("the burst ends");
    done[cliff] as f64 / 1e9 * time_scale
}

#[test]
fn gp2_bursts_as_long_as_the_table_says() {
    // GiB, baseline, burst seconds at 3,000 IOPS, refill seconds.
    for (gib, baseline, burst_s, refill_s) in [
        (33.33, 100.0, 1862.0, 54_000.0),
        (50.0, 150.0, 1895.0, 36_000.0),
        (100.0, 300.0, 2000.0, 18_000.0),
        (334.0, 1002.0, 2703.0, 5389.0),
        (750.0, 2250.0, 7200.0, 2400.0),
    ] {
        assert_eq!((3.0f64 * gib).clamp(100.0, 16_000.0).round(), baseline);
        let measured = burst_seconds(baseline, 1.0);
        assert!((measured - burst_s).abs() < 1.0, "{gib} GiB: {measured} s, not {burst_s} s");

        let mut empty = model_of(gp2(baseline));
        empty.inject(0, &Fault::Credits { fill: 0.0 }).unwrap();
        let refill = |at_s: f64| empty.limits[1].fill((at_s * 1e9) as Nanos);
        assert!(refill(refill_s - 1.0) < 1.0, "{gib} GiB refills too early");
        assert!((refill(refill_s + 1.0) - 1.0).abs() < 1e-12, "{gib} GiB refills too late");
    }
}

#[test]
fn gp2_of_1000_gib_never_leaves_3000() {
    let mut model = model_of(gp2(3000.0));
    let done = closed_loop(&mut model, 32, 4096, 0, 10 * S);
    assert!((done.len() as f64 / 10.0 / 3000.0 - 1.0).abs() < 0.005);
    assert_eq!(model.balances(10 * S)[0].percent.round(), 100.0);
}

#[test]
fn gp2_falls_to_its_baseline_when_the_credits_are_gone() {
    let mut model = model_of(gp2(150.0));
    model.inject(0, &Fault::Credits { fill: 0.0 }).unwrap();
    let done = closed_loop(&mut model, 8, 16384, 0, 100 * S);
    assert!((done.len() as f64 / 100.0 / 150.0 - 1.0).abs() < 0.005);
    assert!(model.exceeded(100 * S).volume_iops_us > 99_000_000);
}

#[test]
fn time_scale_shortens_the_burst_and_leaves_the_vendors_units_alone() {
    assert!((burst_seconds(150.0, 100.0) / 1894.7 - 1.0).abs() < 0.01);
    let parameters = Parameters { limits: gp2(150.0), time_scale: 100.0, ..Parameters::default() };
    let balance = &Model::new(parameters, 0).unwrap().balances(0)[0];
    assert_eq!((balance.percent, balance.units), (100.0, GP2_CREDITS));
}

#[test]
fn a_closed_loop_at_a_limit_sees_depth_over_rate() {
    let mut model = model_of(vec![limit("iops", Unit::Io, 3000.0, 30.0)]);
    let done = closed_loop(&mut model, 32, 4096, 0, 10 * S);
    let mut probe = model.admit(10 * S, &read(1 << 30, 4096));
    assert!((done.len() as f64 / 30_000.0 - 1.0).abs() < 0.005);
    probe.due -= 10 * S;
    assert!((probe.due as f64 / 1e6 - 32.0 / 3.0).abs() < 0.5, "{} ns", probe.due);
}

#[test]
fn large_requests_count_as_several_ios() {
    let mut model = model_of(vec![limit("iops", Unit::Io, 1000.0, 10.0)]);
    let done = closed_loop(&mut model, 8, 1 << 20, 0, 10 * S);
    assert!((done.len() as f64 / 2500.0 - 1.0).abs() < 0.01);
}

#[test]
fn sequential_requests_merge_from_their_size_on_and_random_ones_never() {
    let merging = LimitParameters { merge_from_bytes: Some(32 << 10), ..limit("iops", Unit::Io, 100.0, 1.0) };
    let time_of = |bytes: u64, step: u64| {
        let mut model = model_of(vec![merging.clone()]);
        (0..80).map(|i| model.admit(0, &read(i * step, bytes)).due).max().unwrap()
    };
    let ios = |ns: Nanos| (ns as f64 / 1e7).round() as u64 + 1;
    assert_eq!(ios(time_of(32 << 10, 32 << 10)), 10); // 80 x 32 KiB = 10 x 256 KiB
    assert_eq!(ios(time_of(16 << 10, 16 << 10)), 80); // too small to merge
    assert_eq!(ios(time_of(32 << 10, 1 << 20)), 80); // random
}

#[test]
fn a_byte_limit_has_a_least_charge_and_weights() {
    let metered = LimitParameters {
        min_bytes: 4096,
        weights: Weights { read: 1.0 / 3.0, write: 1.0, flush: 0.0, metadata: 1.0, change: 0.0 },
        ..limit("metered", Unit::Byte, 4096.0, 0.0)
    };
    let mut model = model_of(vec![metered.clone()]);
    let wait_s = |model: &mut Model, request: &Request| model.admit(0, request).due as f64 / 1e9;
    assert!((wait_s(&mut model, &read(0, 512)) - 1.0 / 3.0).abs() < 1e-6);
    let mut model = model_of(vec![metered.clone()]);
    assert!((wait_s(&mut model, &Request { op: Op::Write, ..read(0, 8192) }) - 2.0).abs() < 1e-6);
    let mut model = model_of(vec![metered]);
    assert!((wait_s(&mut model, &Request::metadata(Op::Open)) - 1.0).abs() < 1e-6);
    assert_eq!(model.admit(0, &Request::metadata(Op::Flush)).due, 0);
}

#[test]
fn the_smaller_of_volume_and_instance_decides_and_only_it_is_blamed() {
    let instance = LimitParameters { scope: Scope::Instance, ..limit("instance", Unit::Io, 2000.0, 20.0) };
    let mut model = model_of(vec![limit("volume", Unit::Io, 3000.0, 30.0), instance]);
    let done = closed_loop(&mut model, 64, 4096, 0, 10 * S);
    assert!((done.len() as f64 / 20_000.0 - 1.0).abs() < 0.01);
    let exceeded = model.exceeded(10 * S);
    assert!(exceeded.instance_iops_us > 9_900_000);
    assert!(exceeded.volume_iops_us < 100_000, "{exceeded:?}");
}

#[test]
fn a_cluster_writes_at_the_sum_of_its_disks_over_the_replicas() {
    let spread = Spread { over: 12, object_bytes: 4 << 20, read_copies: 1, write_copies: 3 };
    let osd = LimitParameters { spread: Some(spread), ..limit("osd", Unit::Io, 500.0, 5.0) };
    let measure = |op: Op| {
        let mut model = model_of(vec![osd.clone()]);
        let mut due = Vec::new();
        for n in 0..60_000u64 {
            due.push(model.admit(0, &Request { op, ..read(n * (4 << 20), 4096) }).due);
        }
        60_000.0 / (*due.iter().max().unwrap() as f64 / 1e9)
    };
    assert!((measure(Op::Read) / 6000.0 - 1.0).abs() < 0.1);
    assert!((measure(Op::Write) / 2000.0 - 1.0).abs() < 0.1);
    assert!((0..12).all(|disk| (0..1000).any(|object| primary_of(0, object, 12) == disk)));
}

#[test]
fn first_touch_costs_once_until_it_is_forgotten() {
    let mut model = Model::new(
        Parameters {
            first_touch: Some(FirstTouchParameters {
                chunk_bytes: 512 << 10,
                extent_bytes: 64 << 20,
                latency: LatencyParameters {
                    parts: vec![latency::Part { median_us: 5000.0, sigma: 0.0, max_of: 1, random_only: false }],
                    stream_bytes_per_s: None,
                },
                limit: None,
            }),
            ..Parameters::default()
        },
        0,
    )
    .unwrap();
    let mut due = |offset: u64| model.admit(0, &read(offset, 4096)).due;
    assert_eq!((due(0), due(4096), due(512 << 10)), (5_000_000, 0, 5_000_000));
    assert_eq!(due(64 << 20), 0, "beyond the extent nothing was ever written");
    model.inject(0, &Fault::FirstTouch).unwrap();
    assert_eq!(model.admit(0, &read(0, 4096)).due, 5_000_000);
    assert_eq!(model.touched_share(), Some(1.0 / 128.0));
}

#[test]
fn stalls_errors_slow_downs_and_neighbours_do_what_they_say() {
    let mut model = model_of(vec![limit("iops", Unit::Io, 1000.0, 10.0)]);
    model.inject(0, &Fault::Stall { seconds: 2.0 }).unwrap();
    assert_eq!(model.admit(S, &Request::metadata(Op::Open)).due, 2 * S);
    model.inject(S, &Fault::Clear).unwrap();
    assert_eq!(model.admit(S, &Request::metadata(Op::Open)).due, S);

    model.inject(S, &Fault::Error { every: 3, ops: vec![] }).unwrap();
    let fails: Vec<bool> = (0..6).map(|_| model.admit(S, &read(0, 512)).fails).collect();
    assert_eq!(fails, [false, false, true, false, false, true]);
    assert!(!model.admit(S, &Request::metadata(Op::Open)).fails);

    let mut model = model_of(vec![limit("iops", Unit::Io, 1000.0, 10.0)]);
    let neighbour = Fault::NoisyNeighbour { iops: 600.0, bytes_per_s: 0.0, scope: None, latency_factor: 1.0 };
    model.inject(0, &neighbour).unwrap();
    let done = closed_loop(&mut model, 8, 4096, 0, 10 * S);
    assert!((done.len() as f64 / 4000.0 - 1.0).abs() < 0.01, "{}", done.len());
}

#[test]
fn a_slow_down_ramps_latency_and_leaves_limits_alone() {
    let part = latency::Part { median_us: 1000.0, sigma: 0.0, max_of: 1, random_only: false };
    let latency = LatencyParameters { parts: vec![part], stream_bytes_per_s: None };
    let parameters = Parameters { latency: [(Op::Read, latency)].into(), ..Parameters::default() };
    let mut model = Model::new(parameters, 0).unwrap();
    model.inject(0, &Fault::SlowDown { factor: 5.0, ramp_s: 10.0 }).unwrap();
    let at = |model: &mut Model, now: Nanos| model.admit(now, &read(0, 512)).due - now;
    assert_eq!(at(&mut model, 0), 1_000_000);
    assert_eq!(at(&mut model, 5 * S), 3_000_000);
    assert_eq!(at(&mut model, 20 * S), 5_000_000);
}

#[test]
fn a_volume_modified_in_use_keeps_how_full_its_bucket_is() {
    let mut model = model_of(gp2(150.0));
    model.inject(0, &Fault::Credits { fill: 0.5 }).unwrap();
    let bigger = Parameters { limits: gp2(300.0), ..Parameters::default() };
    model.modify(bigger, 0).unwrap();
    assert!((model.balances(0)[0].percent - 50.0).abs() < 1e-6);
}

#[test]
fn the_calibrated_overhead_is_taken_off_but_never_below_zero() {
    let part = latency::Part { median_us: 100.0, sigma: 0.0, max_of: 1, random_only: false };
    let latency = LatencyParameters { parts: vec![part], stream_bytes_per_s: None };
    let with = |overhead_us: f64| {
        let latency = [(Op::Read, latency.clone())].into();
        Model::new(Parameters { latency, overhead_us, ..Parameters::default() }, 0).unwrap().admit(7, &read(0, 1)).due
    };
    assert_eq!((with(55.0), with(300.0)), (7 + 45_000, 7));
}

#[test]
fn nonsense_is_refused_with_the_name_of_the_limit() {
    let refused =
        |limit: LimitParameters| Parameters { limits: vec![limit], ..Parameters::default() }.validate().unwrap_err();
    assert!(refused(limit("x", Unit::Io, 0.0, 1.0)).contains("limit x: rate_per_s"));
    assert!(refused(LimitParameters { fill: 1.5, ..limit("x", Unit::Io, 1.0, 1.0) }).contains("fill"));
    let twice = vec![limit("x", Unit::Io, 1.0, 1.0), limit("x", Unit::Io, 1.0, 1.0)];
    assert!(Parameters { limits: twice, ..Parameters::default() }.validate().is_err());
}

proptest! {
    #[test]
    fn never_more_than_burst_plus_rate_passes(
        rate in 50.0f64..20_000.0,
        burst in 0.0f64..500.0,
        gaps in prop::collection::vec(0u64..5_000_000, 50..400),
    ) {
        let mut model = model_of(vec![limit("iops", Unit::Io, rate, burst)]);
        let mut now = 0;
        let mut due: Vec<Nanos> = gaps.iter().map(|gap| { now += gap; model.admit(now, &read(1 << 30, 4096)).due }).collect();
        due.sort_unstable();
        // In any window that starts with the first admission at most burst + rate x time may have started.
        for (passed, at) in due.iter().enumerate() {
            let allowed = burst + rate * *at as f64 / 1e9;
            prop_assert!((passed + 1) as f64 <= allowed + 1.0 + 1e-3, "{} of {allowed} at {at}", passed + 1);
        }
    }

    #[test]
    fn completion_never_precedes_arrival_and_the_same_seed_repeats(
        seed in any::<u64>(),
        sizes in prop::collection::vec(512u64..2_000_000, 1..200),
    ) {
        let part = latency::Part { median_us: 700.0, sigma: 0.4, max_of: 1, random_only: false };
        let latency = LatencyParameters { parts: vec![part], stream_bytes_per_s: None };
        let run = || {
            let parameters = Parameters {
                seed,
                limits: gp2(150.0),
                latency: [(Op::Read, latency.clone())].into(),
                overhead_us: 55.0,
                ..Parameters::default()
            };
            let mut model = Model::new(parameters, 0).unwrap();
            sizes.iter().enumerate().map(|(i, size)| model.admit(i as u64 * 1000, &read(0, *size))).collect::<Vec<_>>()
        };
        let first = run();
        prop_assert_eq!(&first, &run());
        for (i, admission) in first.iter().enumerate() {
            prop_assert!(admission.due >= i as u64 * 1000);
            prop_assert!(admission.due >= i as u64 * 1000 + admission.waited);
        }
    }

    #[test]
    fn a_balance_stays_between_empty_and_full(
        fill in 0.0f64..1.0,
        steps in prop::collection::vec((0u64..3_000_000_000, 0usize..400), 1..60),
    ) {
        let mut model = model_of(gp2(150.0));
        model.inject(0, &Fault::Credits { fill }).unwrap();
        let mut now = 0;
        for (gap, requests) in steps {
            now += gap;
            for _ in 0..requests { model.admit(now, &read(1 << 33, 4096)); }
            let percent = model.balances(now)[0].percent;
            prop_assert!((0.0..=100.0).contains(&percent));
        }
    }
}

#[test]
fn each_disk_of_a_cluster_counts_what_it_did() {
    let spread = Spread { over: 3, object_bytes: 4 << 20, read_copies: 1, write_copies: 2 };
    let cap = LimitParameters { spread: Some(spread), ..limit("cap", Unit::Io, 3000.0, 30.0) };
    let credits = LimitParameters { spread: Some(spread), credits: true, ..limit("credits", Unit::Io, 300.0, 50.0) };
    let bytes = LimitParameters { spread: Some(spread), ..limit("bytes", Unit::Byte, 1e8, 1e6) };
    let mut model = model_of(vec![bytes, cap, credits]);
    assert!(model.disks(0).iter().all(|disk| disk.limit_per_s == 3000.0 && disk.reads == 0.0));
    for object in 0..90 {
        let place = object * (4 << 20);
        model.admit(0, &Request { op: Op::Write, ..read(place, 4096) });
        model.admit(0, &read(place, 4096));
    }
    let disks = model.disks(0);
    let sum = |of: fn(&super::limit::Disk) -> f64| disks.iter().map(of).sum::<f64>();
    assert_eq!((disks.len(), sum(|disk| disk.reads), sum(|disk| disk.writes)), (3, 90.0, 180.0));
    assert!(disks.iter().all(|disk| disk.limit_per_s == 300.0), "90 operations each spent 50 credits");
    assert!(model_of(gp2(300.0)).disks(0).is_empty(), "one volume is no cluster");
}

/// Parameters with one limit of that rate.
fn limited(rate: f64) -> Parameters {
    Parameters { limits: vec![limit("cap", Unit::Io, rate, 1.0)], ..Parameters::default() }
}

fn rate_of(model: &Model) -> f64 {
    model.parameters().limits[0].rate_per_s
}

#[test]
fn a_change_for_a_limited_time_is_taken_back_by_the_volume_itself() {
    let mut model = Model::new(limited(1000.0), 0).unwrap();
    model.modify_until(limited(100.0), 0, 3 * S).unwrap();
    model.modify_until(limited(200.0), 2 * S, 5 * S).unwrap();
    model.admit(4 * S, &read(0, 4096));
    assert_eq!(rate_of(&model), 200.0, "the second change prolongs the first");
    model.admit(5 * S, &read(4096, 4096));
    assert_eq!(rate_of(&model), 1000.0, "what was before the first change");
}

#[test]
fn a_lasting_change_ends_one_for_a_limited_time() {
    let mut model = Model::new(limited(1000.0), 0).unwrap();
    model.modify_until(limited(100.0), 0, 3 * S).unwrap();
    model.modify(limited(500.0), S).unwrap();
    model.admit(9 * S, &read(0, 4096));
    assert_eq!(rate_of(&model), 500.0);
}

#[test]
fn a_refused_change_for_a_limited_time_leaves_the_volume_as_it_was() {
    let mut model = Model::new(limited(1000.0), 0).unwrap();
    model.modify_until(limited(100.0), 0, 3 * S).unwrap();
    assert!(model.modify_until(limited(-1.0), S, 5 * S).is_err());
    assert_eq!(rate_of(&model), 1000.0);
}
