//! What was done, how long it took, and how true the emulation was.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use crate::model::request::{Nanos, Op};

/// Four bins an octave from 1 us: the last one begins at 2^27.75 us, some 226 s.
const BINS: usize = 112;
const BINS_PER_OCTAVE: f64 = 4.0;

/// Lower edge of a bin in microseconds; bin 0 begins at 0.
fn lower_us(bin: usize) -> f64 {
    if bin == 0 { 0.0 } else { (bin as f64 / BINS_PER_OCTAVE).exp2() }
}

fn bin_of(duration: Nanos) -> usize {
    let micros = duration as f64 / 1e3;
    if micros < 1.0 { 0 } else { ((micros.log2() * BINS_PER_OCTAVE) as usize).min(BINS - 1) }
}

/// A histogram of durations that many threads may count into.
pub struct Histogram {
    bins: [AtomicU64; BINS],
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { bins: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

/// One bin that holds something; `upper_us` is absent for the last one, which has no upper edge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bin {
    pub lower_us: f64,
    pub upper_us: Option<f64>,
    pub count: u64,
}

impl Histogram {
    pub fn count(&self, duration: Nanos) {
        self.bins[bin_of(duration)].fetch_add(1, Relaxed);
    }

    pub fn snapshot(&self) -> Vec<Bin> {
        let filled = self.bins.iter().map(|bin| bin.load(Relaxed)).enumerate().filter(|(_, count)| *count > 0);
        filled
            .map(|(bin, count)| Bin {
                lower_us: lower_us(bin),
                upper_us: (bin + 1 < BINS).then(|| lower_us(bin + 1)),
                count,
            })
            .collect()
    }
}

#[derive(Default)]
struct OpCounters {
    count: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
    histogram: Histogram,
    lateness: Histogram,
}

/// Counters of one kind of operation since the daemon started.
#[derive(Clone, Debug, Serialize)]
pub struct OpSnapshot {
    pub count: u64,
    pub errors: u64,
    pub bytes: u64,
    pub time_us: u64,
    pub histogram: Vec<Bin>,
    /// By how much they completed later than due.
    pub lateness: Vec<Bin>,
}

/// How far completions were from their due times.
///
/// An operation is late when it completes later than due by more than the tolerance, and by more than a tenth
/// of its modelled time. `late_backing` of them were late because the real work took longer than the model's.
#[derive(Clone, Debug, Serialize)]
pub struct Fidelity {
    pub operations: u64,
    pub late: u64,
    pub late_backing: u64,
    pub late_share: f64,
    pub tolerance_us: f64,
    pub lateness_us_mean: f64,
    pub lateness_us_max: f64,
    pub lateness: Vec<Bin>,
}

#[derive(Default)]
pub struct Counters {
    ops: [OpCounters; Op::ALL.len()],
    in_flight: AtomicU64,
    in_flight_max: AtomicU64,
    waited_ns: AtomicU64,
    judged: AtomicU64,
    late: AtomicU64,
    late_backing: AtomicU64,
    lateness_ns: AtomicU64,
    lateness_ns_max: AtomicU64,
    lateness: Histogram,
}

/// One finished operation, as the counters see it.
pub struct Finished {
    pub op: Op,
    pub bytes: u64,
    pub failed: bool,
    pub arrived: Nanos,
    pub due: Nanos,
    /// When the real work was done.
    pub worked: Nanos,
    pub completed: Nanos,
}

impl Counters {
    pub fn begin(&self, op: Op, waited: Nanos) {
        self.waited_ns.fetch_add(waited, Relaxed);
        if op.is_data() {
            let depth = self.in_flight.fetch_add(1, Relaxed) + 1;
            self.in_flight_max.fetch_max(depth, Relaxed);
        }
    }

    pub fn finish(&self, done: &Finished, tolerance: Nanos) {
        let counters = &self.ops[done.op as usize];
        let took = done.completed.saturating_sub(done.arrived);
        counters.count.fetch_add(1, Relaxed);
        counters.nanos.fetch_add(took, Relaxed);
        counters.histogram.count(took);
        if done.failed {
            counters.errors.fetch_add(1, Relaxed);
        } else {
            counters.bytes.fetch_add(done.bytes, Relaxed);
        }
        if done.op.is_data() {
            self.in_flight.fetch_sub(1, Relaxed);
        }
        self.judge(done, tolerance);
    }

    fn judge(&self, done: &Finished, tolerance: Nanos) {
        let lateness = done.completed.saturating_sub(done.due);
        let allowed = tolerance.max(done.due.saturating_sub(done.arrived) / 10);
        self.judged.fetch_add(1, Relaxed);
        self.lateness_ns.fetch_add(lateness, Relaxed);
        self.lateness_ns_max.fetch_max(lateness, Relaxed);
        self.lateness.count(lateness);
        self.ops[done.op as usize].lateness.count(lateness);
        if lateness > allowed {
            self.late.fetch_add(1, Relaxed);
            if done.worked.saturating_sub(done.due) > allowed {
                self.late_backing.fetch_add(1, Relaxed);
            }
        }
    }

    pub fn op(&self, op: Op) -> OpSnapshot {
        let counters = &self.ops[op as usize];
        OpSnapshot {
            count: counters.count.load(Relaxed),
            errors: counters.errors.load(Relaxed),
            bytes: counters.bytes.load(Relaxed),
            time_us: counters.nanos.load(Relaxed) / 1000,
            histogram: counters.histogram.snapshot(),
            lateness: counters.lateness.snapshot(),
        }
    }

    pub fn queue_length(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    pub fn queue_length_max(&self) -> u64 {
        self.in_flight_max.load(Relaxed)
    }

    pub fn waited_us(&self) -> u64 {
        self.waited_ns.load(Relaxed) / 1000
    }

    pub fn fidelity(&self, tolerance: Nanos) -> Fidelity {
        let (operations, late) = (self.judged.load(Relaxed), self.late.load(Relaxed));
        let mean_of = |sum: u64| if operations == 0 { 0.0 } else { sum as f64 / operations as f64 };
        Fidelity {
            operations,
            late,
            late_backing: self.late_backing.load(Relaxed),
            late_share: mean_of(late),
            tolerance_us: tolerance as f64 / 1e3,
            lateness_us_mean: mean_of(self.lateness_ns.load(Relaxed)) / 1e3,
            lateness_us_max: self.lateness_ns_max.load(Relaxed) as f64 / 1e3,
            lateness: self.lateness.snapshot(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(due: Nanos, worked: Nanos, completed: Nanos) -> Finished {
        Finished { op: Op::Read, bytes: 4096, failed: false, arrived: 0, due, worked, completed }
    }

    #[test]
    fn every_duration_falls_into_the_bin_whose_edges_enclose_it() {
        for duration in [0, 999, 1000, 1_500, 12_345, 700_000, 10_680_000, 5_000_000_000, u64::MAX / 2] {
            let bin = bin_of(duration);
            assert!(lower_us(bin) * 1e3 <= duration as f64 * (1.0 + 1e-9));
            assert!(bin + 1 == BINS || (duration as f64) < lower_us(bin + 1) * 1e3 * (1.0 + 1e-9));
        }
    }

    #[test]
    fn lateness_beyond_tolerance_is_counted_and_blamed() {
        let counters = Counters::default();
        let tolerance = 100_000;
        for done in [
            finished(1_000_000, 20_000, 1_050_000),   // within the tolerance
            finished(1_000_000, 20_000, 1_300_000),   // the timer was late
            finished(50_000, 900_000, 900_000),       // the real work took longer
            finished(10_000_000, 20_000, 10_900_000), // within a tenth of 10 ms
        ] {
            counters.begin(Op::Read, 0);
            counters.finish(&done, tolerance);
        }
        let fidelity = counters.fidelity(tolerance);
        assert_eq!((fidelity.operations, fidelity.late, fidelity.late_backing), (4, 2, 1));
        assert_eq!(fidelity.late_share, 0.5);
        assert_eq!(fidelity.lateness_us_max, 900.0);
        assert_eq!(counters.op(Op::Read).lateness, fidelity.lateness);
        assert!(counters.op(Op::Write).lateness.is_empty());
        assert_eq!((counters.queue_length(), counters.queue_length_max()), (0, 1));
    }
}
