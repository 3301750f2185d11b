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
    /// Writes under way of which a part is on the disk, and a part is not.
    pub torn: u64,
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
        self.perform_after(None, request, work, reply);
    }

    /// As `perform`, where the caller is to wait for another operation first.
    pub fn perform_after<T: Send + 'static>(
        self: &Arc<Self>,
        first: Option<Op>,
        request: &Request,
        work: impl FnOnce() -> Result<T, Errno>,
        reply: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let later = first.map_or(0, |op| self.pass(op));
        self.carry_out(request, later, None, |_, _| work(), |_| None, reply);
    }

    /// Counts an operation without work as if it had been done; returns what it takes.
    fn pass(&self, op: Op) -> Nanos {
        let arrived = self.clock.now();
        let Admission { due, waited, .. } = self.admit(arrived, &Request::metadata(op));
        self.counters.begin(op, waited);
        let done = Finished { op, bytes: 0, failed: false, arrived, due, worked: arrived, completed: due };
        self.counters.finish(&done, self.tolerance);
        due - arrived
    }

    /// As `perform`, for a transfer. `work` may only begin it, by the `Transfers` that it is given when there is time; it
    /// is told when its caller will have the answer.
    pub fn transfer(
        self: &Arc<Self>,
        request: &Request,
        work: impl FnOnce(Option<&Transfers>, Nanos) -> Result<Arc<Transfer>, Errno>,
        reply: impl FnOnce(Result<Arc<Transfer>, Errno>) + Send + 'static,
    ) {
        self.carry_out(request, 0, self.queue.transfers(), work, |transfer| Some(Arc::clone(transfer)), reply);
    }

    fn carry_out<T: Send + 'static>(
        self: &Arc<Self>,
        request: &Request,
        later: Nanos,
        transfers: Option<&Transfers>,
        work: impl FnOnce(Option<&Transfers>, Nanos) -> Result<T, Errno>,
        transfer_of: impl FnOnce(&T) -> Option<Arc<Transfer>>,
        reply: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let Some(mut admitted) = self.begin(request) else { return reply(Err(Errno::IO)) };
        admitted.due += later;
        let transfers = transfers.filter(|_| admitted.due - admitted.arrived >= LEISURE);
        let result = if admitted.fails { Err(Errno::IO) } else { self.work(|| work(transfers, admitted.due)) };
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
mod tests;
