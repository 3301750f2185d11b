//! One limit of a volume: a generic cell rate algorithm in units of I/Os or bytes.

use serde::{Deserialize, Serialize};

use super::request::{Class, Nanos, Op, Request, Run, SECOND_NS};

/// A background load may take at most this share of a limit, or the foreground would never run.
const BACKGROUND_SHARE_MAX: f64 = 0.95;

#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Volume,
    Cluster,
    Instance,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    Iops,
    Throughput,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Io,
    Byte,
}

/// How often an operation's cost is charged, by class; a class without weight is free.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    #[serde(default)]
    pub read: f64,
    #[serde(default)]
    pub write: f64,
    #[serde(default)]
    pub flush: f64,
    #[serde(default)]
    pub metadata: f64,
    #[serde(default)]
    pub change: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Weights { read: 1.0, write: 1.0, flush: 0.0, metadata: 0.0, change: 0.0 }
    }
}

/// The limit exists `over` times (once per disk of a cluster); objects are spread by a hash of their number.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    pub over: usize,
    pub object_bytes: u64,
    pub read_copies: usize,
    pub write_copies: usize,
}

/// What a credit bucket is called by the vendor, and whether the vendor shows per cent or units.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub metric: String,
    pub percent: bool,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LimitParameters {
    pub name: String,
    pub scope: Scope,
    pub resource: Resource,
    pub unit: Unit,
    /// Units per second that the limit grants for ever.
    pub rate_per_s: f64,
    /// Units that may pass at once after a rest: the bucket's depth.
    pub burst: f64,
    /// A credit bucket (minutes to hours deep), as against the tolerance of a rate limit. `time_scale` shrinks only these.
    #[serde(default)]
    pub credits: bool,
    /// How full the bucket is at first, 0..1.
    #[serde(default = "full")]
    pub fill: f64,
    /// A larger request counts as several I/Os.
    #[serde(default = "whole")]
    pub max_io_bytes: u64,
    /// Sequential requests of at least this size are merged before they are counted; absent: never.
    #[serde(default)]
    pub merge_from_bytes: Option<u64>,
    /// A byte limit counts a request (or a merged run) as at least this much.
    #[serde(default)]
    pub min_bytes: u64,
    #[serde(default)]
    pub weights: Weights,
    #[serde(default)]
    pub spread: Option<Spread>,
    #[serde(default)]
    pub published: Option<Published>,
}

fn full() -> f64 {
    1.0
}

fn whole() -> u64 {
    u64::MAX
}

impl LimitParameters {
    pub fn validate(&self) -> Result<(), String> {
        let bad = |what: &str| Err(format!("limit {}: {what}", self.name));
        if !(self.rate_per_s.is_finite() && self.rate_per_s > 0.0) {
            return bad("rate_per_s must be a positive number");
        }
        if !(self.burst.is_finite() && self.burst >= 0.0) {
            return bad("burst must be a number >= 0");
        }
        if !(0.0..=1.0).contains(&self.fill) {
            return bad("fill must be between 0 and 1");
        }
        if self.max_io_bytes == 0 {
            return bad("max_io_bytes must be positive");
        }
        let Weights { read, write, flush, metadata, change } = self.weights;
        let weights = [read, write, flush, metadata, change];
        if weights.iter().any(|weight| !weight.is_finite() || *weight < 0.0) {
            return bad("weights must be numbers >= 0");
        }
        match self.spread {
            Some(spread)
                if spread.object_bytes == 0
                    || spread.read_copies > spread.over
                    || spread.write_copies > spread.over
                    || spread.over == 0 =>
            {
                bad("spread needs over >= copies, over > 0 and object_bytes > 0")
            }
            _ => Ok(()),
        }
    }

    /// Units that a request costs, before spreading.
    fn cost(&self, request: &Request, run: Run) -> f64 {
        let weight = match request.op.class() {
            Class::Read => self.weights.read,
            Class::Write => self.weights.write,
            Class::Flush => self.weights.flush,
            Class::Metadata => self.weights.metadata,
            Class::Change => self.weights.change,
        };
        if weight == 0.0 {
            return 0.0;
        }
        let merges = request.op.is_data() && self.merge_from_bytes.is_some_and(|from| request.bytes >= from);
        let before = if merges { run.before } else { 0 };
        let counted = |bytes: u64| match self.unit {
            Unit::Io if request.op.is_data() => bytes.div_ceil(self.max_io_bytes),
            Unit::Io => 1,
            Unit::Byte => bytes.max(self.min_bytes),
        };
        let already = if before == 0 { 0 } else { counted(before) };
        weight * (counted(before + request.bytes) - already) as f64
    }
}

/// A bucket that may go into debt: the debt is the time that the request has to wait.
#[derive(Clone, Debug)]
struct Bucket {
    level: f64,
    at: Nanos,
    /// Units taken by reads, and by everything else.
    reads: f64,
    writes: f64,
}

/// What one disk of a cluster did since the daemon started, and what it may do now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Disk {
    pub disk: usize,
    pub reads: f64,
    pub writes: f64,
    pub limit_per_s: f64,
}

impl Bucket {
    fn filled(level: f64, at: Nanos) -> Self {
        Bucket { level, at, reads: 0.0, writes: 0.0 }
    }

    fn refill(&mut self, now: Nanos, rate_per_s: f64, depth: f64) {
        // Readers of the clock race for the model's lock, so `now` may lie a little before `at`.
        let elapsed_s = now.saturating_sub(self.at) as f64 / SECOND_NS;
        self.level = (self.level + elapsed_s * rate_per_s).min(depth);
        self.at = self.at.max(now);
    }

    fn take(&mut self, now: Nanos, cost: f64, rate_per_s: f64, depth: f64) -> Nanos {
        self.refill(now, rate_per_s, depth);
        self.level -= cost;
        if self.level >= 0.0 { now } else { now + (-self.level / rate_per_s * SECOND_NS) as Nanos }
    }
}

/// A limit at work.
#[derive(Clone, Debug)]
pub struct Limit {
    parameters: LimitParameters,
    depth: f64,
    buckets: Vec<Bucket>,
    background_at: Nanos,
}

impl Limit {
    pub fn new(parameters: LimitParameters, time_scale: f64, now: Nanos) -> Self {
        let depth = if parameters.credits { parameters.burst / time_scale } else { parameters.burst };
        let count = parameters.spread.map_or(1, |spread| spread.over);
        let bucket = Bucket::filled(depth * parameters.fill, now);
        Limit { parameters, depth, buckets: vec![bucket; count], background_at: now }
    }

    /// The same limit with other parameters: a bucket keeps how full it is, and debt stays debt.
    pub fn modified(&self, parameters: LimitParameters, time_scale: f64, now: Nanos) -> Self {
        let mut changed = Limit::new(parameters, time_scale, now);
        let old_depth = self.depth;
        for (new, old) in changed.buckets.iter_mut().zip(&self.buckets) {
            let mut old = old.clone();
            (new.reads, new.writes) = (old.reads, old.writes);
            old.refill(now, self.parameters.rate_per_s, old_depth);
            new.level = if old.level > 0.0 && old_depth > 0.0 {
                old.level / old_depth * changed.depth
            } else {
                old.level.min(0.0)
            };
        }
        changed
    }

    pub fn parameters(&self) -> &LimitParameters {
        &self.parameters
    }

    /// Charges a request and returns when this limit lets it start.
    pub fn admit(&mut self, now: Nanos, request: &Request, run: Run) -> Nanos {
        let cost = self.parameters.cost(request, run);
        if cost == 0.0 {
            return now;
        }
        let (rate, depth) = (self.parameters.rate_per_s, self.depth);
        match self.parameters.spread {
            None => self.buckets[0].take(now, cost, rate, depth),
            Some(spread) => {
                let copies = if request.op == Op::Read { spread.read_copies } else { spread.write_copies };
                let primary = primary_of(request.stream, request.offset / spread.object_bytes, spread.over);
                (primary..primary + copies)
                    .map(|place| {
                        let bucket = &mut self.buckets[place % spread.over];
                        *(if request.op == Op::Read { &mut bucket.reads } else { &mut bucket.writes }) += cost;
                        bucket.take(now, cost, rate, depth)
                    })
                    .fold(now, Nanos::max)
            }
        }
    }

    /// Charges what a neighbour used since it was last charged, at `units_per_s`.
    pub fn background(&mut self, now: Nanos, units_per_s: f64) {
        let rate = self.parameters.rate_per_s;
        let elapsed_s = now.saturating_sub(self.background_at) as f64 / SECOND_NS;
        self.background_at = self.background_at.max(now);
        let share = units_per_s / self.buckets.len() as f64;
        let used = share.min(rate * BACKGROUND_SHARE_MAX) * elapsed_s;
        for bucket in &mut self.buckets {
            bucket.refill(now, rate, self.depth);
            bucket.level -= used;
        }
    }

    /// From now on a neighbour's use counts, not what it would have used before.
    pub fn background_from(&mut self, now: Nanos) {
        self.background_at = now;
    }

    /// How full the bucket is, 0..1; of several buckets the emptiest. A limit without depth is always full.
    pub fn fill(&self, now: Nanos) -> f64 {
        if self.depth <= 0.0 {
            return 1.0;
        }
        let level = |bucket: &Bucket| {
            let mut bucket = bucket.clone();
            bucket.refill(now, self.parameters.rate_per_s, self.depth);
            bucket.level
        };
        let lowest = self.buckets.iter().map(level).fold(f64::INFINITY, f64::min);
        (lowest / self.depth).clamp(0.0, 1.0)
    }

    /// The disks that a limit on I/Os exists for; none without a cluster. Spent credits leave a disk its baseline.
    pub fn disks(&self, now: Nanos) -> Vec<Disk> {
        if self.parameters.spread.is_none() || self.parameters.unit != Unit::Io {
            return Vec::new();
        }
        let rate = self.parameters.rate_per_s;
        let limit_per_s = |bucket: &Bucket| {
            let mut bucket = bucket.clone();
            bucket.refill(now, rate, self.depth);
            if self.parameters.credits && bucket.level > 0.0 { f64::INFINITY } else { rate }
        };
        self.buckets
            .iter()
            .enumerate()
            .map(|(disk, bucket)| Disk {
                disk,
                reads: bucket.reads,
                writes: bucket.writes,
                limit_per_s: limit_per_s(bucket),
            })
            .collect()
    }

    pub fn set_fill(&mut self, now: Nanos, fill: f64) {
        for bucket in &mut self.buckets {
            (bucket.level, bucket.at) = (self.depth * fill, now);
        }
    }
}

/// The disk that holds an object's first copy: a 64-bit finaliser spreads neighbours evenly.
pub fn primary_of(stream: u64, object: u64, over: usize) -> usize {
    let mut hash = object ^ stream.rotate_left(32) ^ 0x9E37_79B9_7F4A_7C15;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((hash ^ (hash >> 31)) % over as u64) as usize
}
