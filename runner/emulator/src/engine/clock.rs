//! The daemon's one clock.

use std::time::{Duration, Instant};

use crate::model::request::Nanos;

/// Nanoseconds since the daemon started, monotonic.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: Instant,
    /// The same moment as the kernel's CLOCK_MONOTONIC has it.
    monotonic_zero: Duration,
}

impl Clock {
    pub fn start() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Clock { zero: Instant::now(), monotonic_zero: Duration::new(now.tv_sec as u64, now.tv_nsec as u32) }
    }

    pub fn now(&self) -> Nanos {
        self.zero.elapsed().as_nanos() as Nanos
    }

    /// A moment on the kernel's CLOCK_MONOTONIC.
    pub fn monotonic(&self, due: Nanos) -> Duration {
        self.monotonic_zero + Duration::from_nanos(due)
    }

    pub fn until(&self, due: Nanos) -> Duration {
        Duration::from_nanos(due.saturating_sub(self.now()))
    }
}
