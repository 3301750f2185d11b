use super::*;
use crate::model::Parameters;
use crate::model::latency::{LatencyParameters, Part};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
const READ: Request = Request { op: Op::Read, stream: 0, offset: 0, bytes: 4096 };

struct Nothing;

impl Storage for Nothing {
    fn power_cut(&self, _: Nanos, _: f64) -> Lost {
        Lost { writes: 3, bytes: 12288, early: 0, torn: 0 }
    }

    fn settle(&self) {}

    fn unsynced(&self, _: Nanos) -> Lost {
        Lost::default()
    }
}

fn engine(read_us: f64) -> Arc<Engine> {
    let part = Part { median_us: read_us, sigma: 0.0, max_of: 1, random_only: false };
    let latency = LatencyParameters { parts: vec![part], stream_bytes_per_s: None };
    let parameters = Parameters { latency: [(Op::Read, latency)].into(), ..Parameters::default() };
    Engine::start(Clock::start(), Model::new(parameters, 0).unwrap(), 300_000)
}

fn ask(engine: &Arc<Engine>) -> mpsc::Receiver<Result<u8, Errno>> {
    let (sender, receiver) = mpsc::channel();
    engine.perform(&READ, || Ok(7), move |result| sender.send(result).unwrap());
    receiver
}

#[test]
fn a_reply_comes_no_earlier_than_due_and_after_it_was_counted() {
    for read_us in [0.0, 20_000.0] {
        let engine = engine(read_us);
        let asked = engine.now();
        let (sender, receiver) = mpsc::channel();
        let counting = Arc::clone(&engine);
        engine.perform(
            &READ,
            || Ok(7),
            move |result| {
                let read = counting.counters().op(Op::Read);
                sender.send((result, read.count, read.errors, read.bytes)).unwrap();
            },
        );
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok((Ok(7), 1, 0, 4096)));
        assert!(engine.now() - asked >= (read_us * 1e3) as Nanos);
        engine.stop();
    }
}

#[test]
fn an_operation_after_another_takes_the_time_of_both() {
    let engine = engine(20_000.0);
    let asked = engine.now();
    let (sender, receiver) = mpsc::channel();
    engine.perform_after(Some(Op::Read), &READ, || Ok(7), move |result| sender.send(result).unwrap());
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Ok(7)));
    assert!(engine.now() - asked >= 40_000_000);
    let read = engine.counters().op(Op::Read);
    assert_eq!((read.count, read.bytes), (2, 4096));
    assert!(read.time_us >= 60_000, "20 ms, and the 40 ms of the one that waited for it");
    engine.stop();
}

#[test]
fn only_those_who_waited_complete_together_and_hardly_later() {
    assert_eq!(coalesced(1_234_567, 0), 1_234_567);
    let (one, other) = (coalesced(20_000_001, 2_000_000), coalesced(20_040_000, 2_050_000));
    assert_eq!(one, other);
    for (due, waited) in [(20_000_001, 2_000_000), (999_999_937, 10_000_000), (12_345, 17)] {
        let moved = coalesced(due, waited);
        assert!(moved >= due && moved - due <= waited / 8);
    }
}

#[test]
fn detaching_fails_those_who_wait_and_those_who_come() {
    let engine = engine(3_600_000_000.0);
    let waiting = ask(&engine);
    engine.inject(&Fault::Detach, &Nothing).unwrap();
    assert_eq!(waiting.recv_timeout(PATIENCE), Ok(Err(Errno::IO)));
    assert_eq!(ask(&engine).recv_timeout(PATIENCE), Ok(Err(Errno::IO)));
    engine.inject(&Fault::Attach, &Nothing).unwrap();
    assert_eq!(engine.health(), Health::Attached);
    engine.stop();
}

#[test]
fn a_hurried_volume_forgets_its_delays_until_it_is_not() {
    let engine = engine(3_600_000_000.0);
    let waiting = ask(&engine);
    engine.hurry(true);
    assert_eq!(waiting.recv_timeout(PATIENCE), Ok(Ok(7)));
    assert_eq!(ask(&engine).recv_timeout(PATIENCE), Ok(Ok(7)));
    engine.hurry(false);
    let delayed = ask(&engine);
    assert!(delayed.recv_timeout(Duration::from_millis(50)).is_err());
    engine.inject(&Fault::Clear, &Nothing).unwrap();
    assert_eq!(delayed.recv_timeout(PATIENCE), Ok(Ok(7)));
    engine.stop();
}

#[test]
fn an_injected_error_does_not_touch_the_backing() {
    let engine = engine(0.0);
    engine.inject(&Fault::Error { every: 1, ops: vec![] }, &Nothing).unwrap();
    let (sender, receiver) = mpsc::channel();
    let touched = AtomicBool::new(false);
    engine.perform(
        &READ,
        || {
            touched.store(true, Ordering::SeqCst);
            Ok(())
        },
        move |result| sender.send(result).unwrap(),
    );
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Err(Errno::IO)));
    assert!(!touched.load(Ordering::SeqCst));
    engine.stop();
}

#[test]
fn a_power_cut_reports_the_loss_and_only_power_brings_the_volume_back() {
    let engine = engine(0.0);
    let lost = engine.inject(&Fault::PowerCut { keep_share: 0.0 }, &Nothing).unwrap();
    assert_eq!(lost, Lost { writes: 3, bytes: 12288, early: 0, torn: 0 });
    assert!(engine.inject(&Fault::Attach, &Nothing).is_err());
    assert_eq!(engine.health(), Health::PoweredOff);
    engine.inject(&Fault::PowerOn, &Nothing).unwrap();
    assert_eq!(ask(&engine).recv_timeout(PATIENCE), Ok(Ok(7)));
    engine.stop();
}
