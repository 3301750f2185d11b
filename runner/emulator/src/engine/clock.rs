//! The daemon's one clock.

use std::time::{Duration, Instant};

use crate::model::request::Nanos;

/// Nanoseconds since the daemon started, monotonic.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: Instant,
}

impl Clock {
    pub fn start() -> Self {
        Clock { zero: Instant::now() }
    }

    pub fn now(&self) -> Nanos {
        self.zero.elapsed().as_nanos() as Nanos
    }

    pub fn until(&self, due: Nanos) -> Duration {
        Duration::from_nanos(due.saturating_sub(self.now()))
    }
}
