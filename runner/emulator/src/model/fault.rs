//! Troubles that can be injected while a volume is in use.

use serde::{Deserialize, Serialize};

use super::limit::Scope;
use super::request::{Nanos, Op, SECOND_NS};

/// No injected trouble may last longer: a forgotten fault must not look like a dead machine.
const STALL_SECONDS_MAX: f64 = 3600.0;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// Nothing completes for this long.
    Stall {
        seconds: f64,
    },
    /// Every n-th operation of the given kinds (reads and writes when empty) fails with an I/O error.
    Error {
        every: u64,
        #[serde(default)]
        ops: Vec<Op>,
    },
    /// The volume is gone: everything fails at once, waiting operations too.
    Detach,
    Attach,
    /// Power is lost: what was not made durable is dropped, but for the oldest `keep_share` of it.
    PowerCut {
        #[serde(default)]
        keep_share: f64,
    },
    PowerOn,
    /// Latency grows to `factor` times itself over `ramp_s` and stays there; limits are untouched.
    SlowDown {
        factor: f64,
        #[serde(default)]
        ramp_s: f64,
    },
    /// Somebody else uses the limits of a scope (all when absent), and may make latency longer.
    NoisyNeighbour {
        #[serde(default)]
        iops: f64,
        #[serde(default)]
        bytes_per_s: f64,
        #[serde(default)]
        scope: Option<Scope>,
        #[serde(default = "unchanged")]
        latency_factor: f64,
    },
    /// Every block is again as on a volume just made from a snapshot.
    FirstTouch,
    /// How full the credit buckets are, 0..1.
    Credits {
        fill: f64,
    },
    /// Everything that can be taken back is taken back.
    Clear,
}

fn unchanged() -> f64 {
    1.0
}

impl Fault {
    pub fn validate(&self) -> Result<(), String> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let share = |value: f64| (0.0..=1.0).contains(&value);
        let fine = match self {
            Fault::Stall { seconds } => positive(*seconds) && *seconds <= STALL_SECONDS_MAX,
            Fault::Error { every, .. } => *every > 0,
            Fault::PowerCut { keep_share } => share(*keep_share),
            Fault::SlowDown { factor, ramp_s } => positive(*factor) && ramp_s.is_finite() && *ramp_s >= 0.0,
            Fault::NoisyNeighbour { iops, bytes_per_s, latency_factor, .. } => {
                iops.is_finite()
                    && *iops >= 0.0
                    && bytes_per_s.is_finite()
                    && *bytes_per_s >= 0.0
                    && positive(*latency_factor)
            }
            Fault::Credits { fill } => share(*fill),
            Fault::Detach | Fault::Attach | Fault::PowerOn | Fault::FirstTouch | Fault::Clear => true,
        };
        if fine { Ok(()) } else { Err(format!("fault out of range: {self:?}")) }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct SlowDown {
    pub factor: f64,
    pub ramp_s: f64,
    pub from: Nanos,
}

impl SlowDown {
    fn factor_at(&self, now: Nanos) -> f64 {
        let elapsed_s = now.saturating_sub(self.from) as f64 / SECOND_NS;
        let progress = if self.ramp_s > 0.0 { (elapsed_s / self.ramp_s).min(1.0) } else { 1.0 };
        1.0 + (self.factor - 1.0) * progress
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    pub iops: f64,
    pub bytes_per_s: f64,
    pub scope: Option<Scope>,
    pub latency_factor: f64,
}

/// The troubles in force that shape times and outcomes.
#[derive(Clone, Debug, Default)]
pub struct Troubles {
    pub stalled_until: Nanos,
    pub error: Option<(u64, Vec<Op>)>,
    pub slow_down: Option<SlowDown>,
    pub neighbour: Option<Neighbour>,
    counted: u64,
}

impl Troubles {
    pub fn latency_factor(&self, now: Nanos) -> f64 {
        let slow = self.slow_down.as_ref().map_or(1.0, |slow| slow.factor_at(now));
        slow * self.neighbour.as_ref().map_or(1.0, |neighbour| neighbour.latency_factor)
    }

    /// Whether this operation is the n-th one that has to fail.
    pub fn strikes(&mut self, op: Op) -> bool {
        let Some((every, ops)) = &self.error else { return false };
        let concerned = if ops.is_empty() { op.is_data() } else { ops.contains(&op) };
        if concerned {
            self.counted += 1;
        }
        concerned && self.counted % every == 0
    }

    /// Names of the troubles in force, for the counters.
    pub fn in_force(&self, now: Nanos) -> Vec<&'static str> {
        let mut names = Vec::new();
        if self.stalled_until > now {
            names.push("stall");
        }
        if self.error.is_some() {
            names.push("error");
        }
        if self.slow_down.is_some() {
            names.push("slow_down");
        }
        if self.neighbour.is_some() {
            names.push("noisy_neighbour");
        }
        names
    }
}
