//! Completions that wait for their time: a heap and one thread.
//!
//! An operation whose transfer is still on its way when it is due becomes *overdue*: it completes when the transfer
//! ends. Only then does the end of a transfer wake anybody.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::Timespec;

use crate::model::request::Nanos;

use super::clock::Clock;
use super::transfer::{Transfer, Transfers};

/// Runs when its time has come.
pub type Completion = Box<dyn FnOnce() + Send>;

struct Entry {
    due: Nanos,
    sequence: u64,
    transfer: Option<Arc<Transfer>>,
    complete: Completion,
}

impl Entry {
    fn is_done(&self) -> bool {
        self.transfer.as_ref().is_none_or(|transfer| transfer.is_done())
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The standard heap gives its greatest first, so the earliest due (then the oldest) is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.sequence).cmp(&(self.due, self.sequence))
    }
}

#[derive(Default)]
struct Waiting {
    heap: BinaryHeap<Entry>,
    overdue: Vec<Entry>,
    sequence: u64,
    stopping: bool,
}

impl Waiting {
    /// Takes out what is overdue and, in order, what is due now.
    fn take_due(&mut self, now: Nanos) -> Vec<Entry> {
        let mut due = std::mem::take(&mut self.overdue);
        while self.heap.peek().is_some_and(|first| first.due <= now) {
            due.extend(self.heap.pop());
        }
        due
    }
}

/// A queue shared by the threads that do the real work and the one that completes.
pub struct DelayQueue {
    clock: Clock,
    waiting: Mutex<Waiting>,
    /// Readable when there is something to do before the time that the thread sleeps for.
    changed: OwnedFd,
    /// Made when they are first asked for.
    transfers: OnceLock<Option<Transfers>>,
}

impl DelayQueue {
    /// Starts the timer thread; it ends with `stop`.
    pub fn start(clock: Clock) -> Arc<Self> {
        let queue = Arc::new(DelayQueue {
            clock,
            waiting: Mutex::new(Waiting::default()),
            changed: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("a descriptor can be made"),
            transfers: OnceLock::new(),
        });
        let timer = Arc::clone(&queue);
        std::thread::Builder::new()
            .name("completions".into())
            .spawn(move || timer.run())
            .expect("a thread can be started");
        queue
    }

    /// Where work can be begun that goes on until its operation is due; None where the kernel has no such thing.
    pub fn transfers(&self) -> Option<&Transfers> {
        let made = || {
            Transfers::new()
                .inspect_err(|error| eprintln!("no asynchronous I/O, operations take more of the processor: {error}"))
                .ok()
        };
        self.transfers.get_or_init(made).as_ref()
    }

    /// Completes when it is due and the transfer, if any, has ended.
    pub fn push(&self, due: Nanos, transfer: Option<Arc<Transfer>>, complete: Completion) {
        let mut waiting = self.lock();
        waiting.sequence += 1;
        let sequence = waiting.sequence;
        let earliest = waiting.heap.peek().is_none_or(|first| due < first.due);
        waiting.heap.push(Entry { due, sequence, transfer, complete });
        drop(waiting);
        if earliest {
            self.wake();
        }
    }

    /// Completes everything that waits, now; but not before its transfer has ended.
    pub fn drain(&self) {
        let entries = std::mem::take(&mut self.lock().heap);
        let (done, on_their_way): (Vec<_>, Vec<_>) =
            entries.into_sorted_vec().into_iter().rev().partition(Entry::is_done);
        self.lock().overdue.extend(on_their_way);
        self.wake();
        for entry in done {
            (entry.complete)();
        }
    }

    pub fn stop(&self) {
        self.drain();
        self.lock().stopping = true;
        self.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // A completion never runs under this lock, so a panic cannot leave the heap half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let _counted_already = rustix::io::write(&self.changed, &1u64.to_ne_bytes());
    }

    fn run(&self) {
        // The default slack of 50 us would make every completion that much too late.
        if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)) {
            eprintln!("timer slack stays at its default, completions come late: {error}");
        }
        loop {
            let now = self.clock.now();
            let (overdue, due) = {
                let mut waiting = self.lock();
                (!waiting.overdue.is_empty(), waiting.take_due(now))
            };
            if !due.is_empty() {
                // What has ended when it is looked at for the first time has ended in time.
                self.complete(due, if overdue { now } else { 0 });
            }
            let waiting = self.lock();
            if waiting.stopping && waiting.overdue.is_empty() {
                return;
            }
            let (next, overdue) = (waiting.heap.peek().map(|first| first.due), !waiting.overdue.is_empty());
            drop(waiting);
            self.sleep(next, overdue);
        }
    }

    fn complete(&self, due: Vec<Entry>, seen: Nanos) {
        if let (Some(Some(transfers)), false) = (self.transfers.get(), due.iter().all(Entry::is_done)) {
            transfers.rearm();
            transfers.reap(seen);
        }
        for entry in due {
            if entry.is_done() {
                (entry.complete)();
            } else {
                self.lock().overdue.push(entry);
            }
        }
    }

    /// Until the next is due, something changes, or, if any is overdue, a transfer ends.
    fn sleep(&self, next: Option<Nanos>, overdue: bool) {
        let pause = match next.map(|due| self.clock.until(due)) {
            Some(pause) if pause.is_zero() => return,
            pause => {
                pause.map(|pause| Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: i64::from(pause.subsec_nanos()) })
            }
        };
        let mut sources = vec![PollFd::new(&self.changed, PollFlags::IN)];
        if let (Some(Some(transfers)), true) = (self.transfers.get(), overdue) {
            sources.push(PollFd::from_borrowed_fd(transfers.ended(), PollFlags::IN));
        }
        let _interrupted = poll(&mut sources, pause.as_ref());
        if sources[0].revents().contains(PollFlags::IN) {
            let _nothing_new = rustix::io::read(&self.changed, &mut [0u8; 8]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn completions_come_in_order_of_due_time_and_never_early() {
        let clock = Clock::start();
        let queue = DelayQueue::start(clock);
        let (sender, receiver) = mpsc::channel();
        let now = clock.now();
        for delay_ms in [30u64, 10, 20] {
            let (due, sender) = (now + delay_ms * 1_000_000, sender.clone());
            queue.push(due, None, Box::new(move || sender.send((delay_ms, due, clock.now())).unwrap()));
        }
        let order: Vec<_> = (0..3).map(|_| receiver.recv_timeout(PATIENCE).unwrap()).collect();
        assert_eq!(order.iter().map(|done| done.0).collect::<Vec<_>>(), [10, 20, 30]);
        assert!(order.iter().all(|(_, due, at)| at >= due));
        queue.stop();
    }

    #[test]
    fn draining_completes_what_was_due_in_an_hour() {
        let clock = Clock::start();
        let queue = DelayQueue::start(clock);
        let (sender, receiver) = mpsc::channel();
        queue.push(clock.now() + 3_600_000_000_000, None, Box::new(move || sender.send(()).unwrap()));
        queue.drain();
        receiver.recv_timeout(PATIENCE).unwrap();
        queue.stop();
    }

    #[test]
    fn what_is_due_or_drained_completes_only_when_its_transfer_has_ended() {
        let clock = Clock::start();
        let queue = DelayQueue::start(clock);
        let (sender, receiver) = mpsc::channel();
        let (due_now, drained) = (Transfer::on_its_way(), Transfer::on_its_way());
        queue.transfers().unwrap();
        for (due, transfer) in [(clock.now(), &due_now), (clock.now() + 3_600_000_000_000, &drained)] {
            let (sender, ended) = (sender.clone(), Arc::clone(transfer));
            let complete = Box::new(move || sender.send((due, ended.is_done())).unwrap());
            queue.push(due, Some(Arc::clone(transfer)), complete);
        }
        queue.drain();
        assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
        for transfer in [due_now, drained] {
            transfer.end(0, clock.now());
            rustix::io::write(queue.transfers().unwrap().ended(), &1u64.to_ne_bytes()).unwrap();
            assert!(receiver.recv_timeout(PATIENCE).unwrap().1);
        }
        queue.stop();
    }
}
