//! Runs operations: does the real work at once, lets the caller know when the model says so.

pub mod clock;
pub mod counters;
pub mod queue;
pub mod transfer;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use rustix::io::Errno;
use serde::Serialize;

use crate::model::request::{Nanos, Op, Request};
use crate::model::{Admission, Model, fault::Fault};
use clock::Clock;
use counters::{Counters, Finished};
use queue::DelayQueue;
use transfer::{Transfer, Transfers};

/// Whether the volume can be reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Health {
    Attached,
    Detached,
    PoweredOff,
}

/// What a power cut took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Lost {
    pub writes: u64,
    pub bytes: u64,
    /// Writes that it would have taken too, but that became durable before their time for lack of memory.
    pub early: u64,
}

/// The side that holds the bytes, and knows which of them are not durable.
pub trait Storage: Send + Sync {
    /// Takes back what was not made durable, but for the oldest `keep_share` of it.
    fn power_cut(&self, now: Nanos, keep_share: f64) -> Lost;

    /// Makes what was written until now durable, as time would.
    fn settle(&self);

    /// What a power cut would take away now.
    fn unsynced(&self, now: Nanos) -> Lost;
}

/// Time enough for most disks: an operation that is due later need not be waited for where it is read from FUSE.
pub const LEISURE: Nanos = 200_000;

/// An operation that the model has admitted.
#[derive(Clone, Copy, Debug)]
pub struct Admitted {
    op: Op,
    bytes: u64,
    pub arrived: Nanos,
    pub due: Nanos,
    /// It has to fail: its work is not to be done.
    pub fails: bool,
    /// How often the volume had gone away until then.
    losses: u64,
}

/// Called when everything that waits has to complete at once.
type Alarm = Box<dyn Fn() + Send + Sync>;

pub struct Engine {
    clock: Clock,
    model: Mutex<Model>,
    queue: Arc<DelayQueue>,
    alarm: OnceLock<Alarm>,
    counters: Counters,
    tolerance: Nanos,
    health: AtomicU8,
    losses: AtomicU64,
    hurried: AtomicBool,
    /// Held shared during real work, exclusively while power is cut: nobody writes into the past.
    gate: RwLock<()>,
}

impl Engine {
    pub fn start(clock: Clock, model: Model, tolerance: Nanos) -> Arc<Self> {
        Arc::new(Engine {
            clock,
            model: Mutex::new(model),
            queue: DelayQueue::start(clock),
            alarm: OnceLock::new(),
            counters: Counters::default(),
            tolerance,
            health: AtomicU8::new(Health::Attached as u8),
            losses: AtomicU64::new(0),
            hurried: AtomicBool::new(false),
            gate: RwLock::new(()),
        })
    }

    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// A moment on the kernel's CLOCK_MONOTONIC.
    pub fn monotonic(&self, due: Nanos) -> std::time::Duration {
        self.clock.monotonic(due)
    }

    pub fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub fn tolerance(&self) -> Nanos {
        self.tolerance
    }

    pub fn health(&self) -> Health {
        match self.health.load(SeqCst) {
            0 => Health::Attached,
            1 => Health::Detached,
            _ => Health::PoweredOff,
        }
    }

    fn set_health(&self, health: Health) {
        if health != Health::Attached {
            self.losses.fetch_add(1, SeqCst);
        }
        self.health.store(health as u8, SeqCst);
    }

    /// Does `work` now and gives its result to `reply` when the model says so, from whatever thread.
    ///
    /// Work that has to fail (an injected error, a detached volume) is not done at all. An operation whose
    /// volume goes away while it waits fails too: its caller must not believe that it happened.
    pub fn perform<T: Send + 'static>(
        self: &Arc<Self>,
        request: &Request,
        work: impl FnOnce() -> Result<T, Errno>,
        reply: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        self.carry_out(request, None, |_| work(), |_| None, reply);
    }

    /// As `perform`, for a transfer. `work` may only begin it, by the `Transfers` that it is given when there is time.
    pub fn transfer(
        self: &Arc<Self>,
        request: &Request,
        work: impl FnOnce(Option<&Transfers>) -> Result<Arc<Transfer>, Errno>,
        reply: impl FnOnce(Result<Arc<Transfer>, Errno>) + Send + 'static,
    ) {
        self.carry_out(request, self.queue.transfers(), work, |transfer| Some(Arc::clone(transfer)), reply);
    }

    fn carry_out<T: Send + 'static>(
        self: &Arc<Self>,
        request: &Request,
        transfers: Option<&Transfers>,
        work: impl FnOnce(Option<&Transfers>) -> Result<T, Errno>,
        transfer_of: impl FnOnce(&T) -> Option<Arc<Transfer>>,
        reply: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let Some(admitted) = self.begin(request) else { return reply(Err(Errno::IO)) };
        let transfers = transfers.filter(|_| admitted.due - admitted.arrived >= LEISURE);
        let result = if admitted.fails { Err(Errno::IO) } else { self.work(|| work(transfers)) };
        let worked = self.clock.now();
        let transfer = result.as_ref().ok().and_then(transfer_of);
        let waits = admitted.due > worked || transfer.as_ref().is_some_and(|transfer| !transfer.is_done());
        let (engine, moved) = (Arc::clone(self), transfer.clone());
        let complete = move || {
            let result = moved.as_ref().map_or(Ok(()), |moved| moved.result()).and(result);
            let worked = moved.map_or(worked, |moved| worked.max(moved.seen()));
            reply(engine.finish(&admitted, worked, result));
        };
        if !waits {
            complete();
        } else {
            self.queue.push(admitted.due, transfer, Box::new(complete));
            if self.is_rushed() {
                self.queue.drain(); // that changed between the admission and the push
            }
        }
    }

    /// Asks the model when an operation that arrives now is due; None when the volume is gone, and it fails at once.
    ///
    /// Whoever begins an operation finishes it, however it ends.
    pub fn begin(&self, request: &Request) -> Option<Admitted> {
        let (arrived, losses) = (self.clock.now(), self.losses.load(SeqCst));
        if self.health() != Health::Attached {
            return None;
        }
        let Admission { due, waited, fails } = self.admit(arrived, request);
        self.counters.begin(request.op, waited);
        let due = coalesced(due, waited);
        Some(Admitted { op: request.op, bytes: request.bytes, arrived, due, fails, losses })
    }

    /// Counts an operation whose time has come, and returns the result that its caller is given.
    ///
    /// `worked` is when its work was done. An operation fails if the volume has been away since it began, even if it is
    /// back. To be called before the caller has the answer: it may ask what was counted.
    pub fn finish<T>(&self, admitted: &Admitted, worked: Nanos, result: Result<T, Errno>) -> Result<T, Errno> {
        let stayed = self.health() == Health::Attached && self.losses.load(SeqCst) == admitted.losses;
        let result = if stayed { result } else { Err(Errno::IO) };
        let &Admitted { op, bytes, arrived, due, .. } = admitted;
        let (failed, completed) = (result.is_err(), self.clock.now());
        let done = Finished { op, bytes, failed, arrived, due, worked, completed };
        self.counters.finish(&done, self.tolerance);
        result
    }

    /// Whether nothing waits for its time any more: the volume is gone, or in a hurry.
    pub fn is_rushed(&self) -> bool {
        self.health() != Health::Attached || self.hurried.load(SeqCst)
    }

    /// Where reads and writes of the backing can go on meanwhile; None where the kernel has no such thing.
    pub fn transfers(&self) -> Option<&Transfers> {
        self.queue.transfers()
    }

    /// Names whom to call, beside the queue, when everything that waits has to complete at once.
    pub fn on_rush(&self, alarm: impl Fn() + Send + Sync + 'static) {
        let _first_only = self.alarm.set(Box::new(alarm));
    }

    fn drain(&self) {
        self.queue.drain();
        if let Some(alarm) = self.alarm.get() {
            alarm();
        }
    }

    fn admit(&self, arrived: Nanos, request: &Request) -> Admission {
        if self.hurried.load(SeqCst) {
            return Admission { due: arrived, waited: 0, fails: false };
        }
        self.model().admit(arrived, request)
    }

    /// Leaves the model out and completes everything at once, so that unmounting does not take hours to write back.
    pub fn hurry(&self, on: bool) {
        self.hurried.store(on, SeqCst);
        if on {
            self.drain();
        }
    }

    /// Does real work, unless the volume is gone meanwhile.
    pub fn work<T>(&self, work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let _shared = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        if self.health() == Health::Attached { work() } else { Err(Errno::IO) }
    }

    /// Brings a fault into force; what a power cut took away comes back.
    pub fn inject(&self, fault: &Fault, storage: &dyn Storage) -> Result<Lost, String> {
        let now = self.clock.now();
        self.model().inject(now, fault)?;
        let mut lost = Lost::default();
        match fault {
            Fault::Detach => self.set_health(Health::Detached),
            Fault::Attach if self.health() == Health::PoweredOff => return Err("power is off: use power_on".into()),
            Fault::Attach | Fault::PowerOn | Fault::Clear => self.set_health(Health::Attached),
            Fault::PowerCut { keep_share } => {
                let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
                self.set_health(Health::PoweredOff);
                lost = storage.power_cut(now, *keep_share);
            }
            _ => return Ok(lost),
        }
        // Whoever waits learns at once: nothing of a gone volume completes later, nor behind a lifted stall.
        self.drain();
        Ok(lost)
    }

    pub fn stop(&self) {
        self.queue.stop();
    }
}

/// Lets operations that a limit holds back complete together, as interrupts are coalesced: half the wake-ups.
///
/// Moves the due time by at most an eighth of the wait. Rates stay exact, since limits count arrivals; and so
/// does the mean latency of a closed loop, which is depth over rate. An operation that did not wait is not moved.
fn coalesced(due: Nanos, waited: Nanos) -> Nanos {
    match waited / 8 {
        0 => due,
        longest => due.next_multiple_of(1 << longest.ilog2()),
    }
}

#[cfg(test)]
mod tests {
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
            Lost { writes: 3, bytes: 12288, early: 0 }
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
        assert_eq!(lost, Lost { writes: 3, bytes: 12288, early: 0 });
        assert!(engine.inject(&Fault::Attach, &Nothing).is_err());
        assert_eq!(engine.health(), Health::PoweredOff);
        engine.inject(&Fault::PowerOn, &Nothing).unwrap();
        assert_eq!(ask(&engine).recv_timeout(PATIENCE), Ok(Ok(7)));
        engine.stop();
    }
}
