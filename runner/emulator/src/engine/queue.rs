//! Completions that wait for their time: a heap, a condition variable, one thread.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::model::request::Nanos;

use super::clock::Clock;

/// Runs when its time has come.
pub type Completion = Box<dyn FnOnce() + Send>;

struct Entry {
    due: Nanos,
    sequence: u64,
    complete: Completion,
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
    sequence: u64,
    stopping: bool,
}

/// A queue shared by the threads that do the real work and the one that completes.
pub struct DelayQueue {
    clock: Clock,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl DelayQueue {
    /// Starts the timer thread; it ends with `stop`.
    pub fn start(clock: Clock) -> Arc<Self> {
        let queue = Arc::new(DelayQueue { clock, waiting: Mutex::new(Waiting::default()), changed: Condvar::new() });
        let timer = Arc::clone(&queue);
        std::thread::Builder::new()
            .name("completions".into())
            .spawn(move || timer.run())
            .expect("a thread can be started");
        queue
    }

    pub fn push(&self, due: Nanos, complete: Completion) {
        let mut waiting = self.lock();
        waiting.sequence += 1;
        let sequence = waiting.sequence;
        let earliest = waiting.heap.peek().is_none_or(|first| due < first.due);
        waiting.heap.push(Entry { due, sequence, complete });
        drop(waiting);
        if earliest {
            self.changed.notify_one();
        }
    }

    /// Completes everything that waits, now.
    pub fn drain(&self) {
        let entries = std::mem::take(&mut self.lock().heap);
        for entry in entries.into_sorted_vec().into_iter().rev() {
            (entry.complete)();
        }
    }

    pub fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_one();
        self.drain();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // A completion never runs under this lock, so a panic cannot leave the heap half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        // The default slack of 50 us would make every completion that much too late.
        if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)) {
            eprintln!("timer slack stays at its default, completions come late: {error}");
        }
        let mut waiting = self.lock();
        while !waiting.stopping {
            let due = waiting.heap.peek().map(|first| first.due);
            waiting = match due {
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(due) if due > self.clock.now() => {
                    let pause = self.clock.until(due);
                    self.changed.wait_timeout(waiting, pause).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let entry = waiting.heap.pop().expect("it was just seen");
                    drop(waiting);
                    (entry.complete)();
                    self.lock()
                }
            };
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
            queue.push(due, Box::new(move || sender.send((delay_ms, due, clock.now())).unwrap()));
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
        queue.push(clock.now() + 3_600_000_000_000, Box::new(move || sender.send(()).unwrap()));
        queue.drain();
        receiver.recv_timeout(PATIENCE).unwrap();
        queue.stop();
    }
}
