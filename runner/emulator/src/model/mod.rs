//! What a volume would do: a pure model. Time comes in as an argument; nothing here reads a clock or a file.
//!
//! An operation starts when every limit lets it (the latest one decides), then takes its latency. Queueing is
//! not modelled: it follows, since a closed loop of N at a limit of R sees N / R per operation.

pub mod fault;
pub mod latency;
pub mod limit;
pub mod request;
pub mod touch;

use std::collections::BTreeMap;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use fault::{Fault, Neighbour, SlowDown, Troubles};
use latency::{Latency, LatencyParameters};
use limit::{Disk, Limit, LimitParameters, Resource, Scope, Unit};
use request::{Nanos, Op, Request, Run, Runs};
use touch::{FirstTouch, FirstTouchParameters};

/// Everything that makes one volume differ from another.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    #[serde(default)]
    pub seed: u64,
    /// Credit buckets are this many times smaller, so that hours pass in minutes. For tests; always reported.
    #[serde(default = "real_time")]
    pub time_scale: f64,
    /// What the emulation itself costs an operation; taken off the latency, never below zero.
    #[serde(default)]
    pub overhead_us: f64,
    #[serde(default)]
    pub limits: Vec<LimitParameters>,
    #[serde(default)]
    pub latency: BTreeMap<Op, LatencyParameters>,
    #[serde(default)]
    pub first_touch: Option<FirstTouchParameters>,
}

fn real_time() -> f64 {
    1.0
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            seed: 0,
            time_scale: 1.0,
            overhead_us: 0.0,
            limits: Vec::new(),
            latency: BTreeMap::new(),
            first_touch: None,
        }
    }
}

impl Parameters {
    pub fn validate(&self) -> Result<(), String> {
        if !(self.time_scale.is_finite() && self.time_scale > 0.0) {
            return Err("time_scale must be a positive number".into());
        }
        if !(self.overhead_us.is_finite() && self.overhead_us >= 0.0) {
            return Err("overhead_us must be a number >= 0".into());
        }
        for (index, limit) in self.limits.iter().enumerate() {
            limit.validate()?;
            if self.limits[..index].iter().any(|other| other.name == limit.name) {
                return Err(format!("two limits are called {}", limit.name));
            }
        }
        for (op, latency) in &self.latency {
            latency.validate(op.name())?;
        }
        self.first_touch.as_ref().map_or(Ok(()), FirstTouchParameters::validate)
    }
}

/// The model's answer to one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Admission {
    /// When the operation completes, unless the real work takes longer.
    pub due: Nanos,
    /// How long limits and stalls held it back.
    pub waited: Nanos,
    /// An injected error: the operation fails at its due time.
    pub fails: bool,
}

/// How full a credit bucket is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Balance {
    pub limit: String,
    /// What the vendor calls it, and whether it is shown as per cent or in units.
    pub metric: Option<String>,
    pub as_percent: bool,
    pub percent: f64,
    /// In the vendor's units, that is with `time_scale` taken out.
    pub units: f64,
}

/// Microseconds during which demand exceeded a limit, as in the NVMe log page of EBS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Exceeded {
    pub volume_iops_us: u64,
    pub volume_throughput_us: u64,
    pub instance_iops_us: u64,
    pub instance_throughput_us: u64,
}

/// The union of the intervals in which somebody waited.
#[derive(Clone, Copy, Debug, Default)]
struct WaitingTime {
    until: Nanos,
    total: Nanos,
}

impl WaitingTime {
    fn add(&mut self, from: Nanos, until: Nanos) {
        let from = from.max(self.until);
        if until > from {
            self.total += until - from;
            self.until = until;
        }
    }

    fn micros_at(&self, now: Nanos) -> u64 {
        (self.total - self.until.saturating_sub(now).min(self.total)) / 1000
    }
}

/// A volume at work.
#[derive(Debug)]
pub struct Model {
    parameters: Parameters,
    limits: Vec<Limit>,
    latency: Vec<Latency>,
    first_touch: Option<FirstTouch>,
    rng: Xoshiro256PlusPlus,
    runs: Runs,
    troubles: Troubles,
    waiting: [[WaitingTime; 2]; 2], // [instance?][throughput?]
    /// What a change for a limited time goes back to, and when.
    lasting: Option<(Nanos, Parameters)>,
}

impl Model {
    pub fn new(parameters: Parameters, now: Nanos) -> Result<Self, String> {
        parameters.validate()?;
        let scale = parameters.time_scale;
        Ok(Model {
            limits: parameters.limits.iter().map(|limit| Limit::new(limit.clone(), scale, now)).collect(),
            latency: latencies(&parameters),
            first_touch: parameters.first_touch.clone().map(|touch| FirstTouch::new(touch, now)),
            rng: Xoshiro256PlusPlus::seed_from_u64(parameters.seed),
            runs: Runs::default(),
            troubles: Troubles::default(),
            waiting: Default::default(),
            lasting: None,
            parameters,
        })
    }

    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Changes limits and latencies until `until`; then the volume goes back by itself to what it was before the
    /// first of such changes. Who modulates a volume and dies leaves nothing behind.
    pub fn modify_until(&mut self, parameters: Parameters, now: Nanos, until: Nanos) -> Result<(), String> {
        self.go_back(now);
        let lasting = match self.lasting.take() {
            Some((_, before)) => before,
            None => self.parameters.clone(),
        };
        let changed = self.replace(parameters, now);
        self.lasting = Some((if changed.is_ok() { until } else { now }, lasting));
        self.go_back(now);
        changed
    }

    /// Takes back a change for a limited time that is over.
    pub fn go_back(&mut self, now: Nanos) {
        if self.lasting.as_ref().is_some_and(|(until, _)| now >= *until) {
            let (_, before) = self.lasting.take().expect("asked just now");
            self.replace(before, now).expect("these parameters were valid before");
        }
    }

    /// Changes limits and latencies while in use; buckets of the same name keep how full they are.
    pub fn modify(&mut self, parameters: Parameters, now: Nanos) -> Result<(), String> {
        self.lasting = None;
        self.replace(parameters, now)
    }

    fn replace(&mut self, parameters: Parameters, now: Nanos) -> Result<(), String> {
        parameters.validate()?;
        let scale = parameters.time_scale;
        self.limits = parameters
            .limits
            .iter()
            .map(|new| match self.limits.iter().find(|old| old.parameters().name == new.name) {
                Some(old) => old.modified(new.clone(), scale, now),
                None => Limit::new(new.clone(), scale, now),
            })
            .collect();
        self.latency = latencies(&parameters);
        if parameters.first_touch != self.parameters.first_touch {
            self.first_touch = parameters.first_touch.clone().map(|touch| FirstTouch::new(touch, now));
        }
        self.parameters = parameters;
        Ok(())
    }

    /// Charges the request to every limit and says when it is due.
    pub fn admit(&mut self, now: Nanos, request: &Request) -> Admission {
        self.go_back(now);
        let run = if request.op.is_data() { self.runs.follow(request) } else { Run::default() };
        self.charge_neighbour(now);
        let mut start = now.max(self.troubles.stalled_until);
        for limit in &mut self.limits {
            let granted = limit.admit(now, request, run);
            let place = limit.parameters();
            self.waiting[usize::from(place.scope == Scope::Instance)]
                [usize::from(place.resource == Resource::Throughput)]
            .add(now, granted);
            start = start.max(granted);
        }
        let mut latency = self.latency[request.op as usize].draw(request, run, &mut self.rng);
        if let (Some(first_touch), true) = (&mut self.first_touch, request.op.is_data()) {
            let (fetch_start, fetch) = first_touch.touch(now, request, &mut self.rng);
            start = start.max(fetch_start);
            latency += fetch;
        }
        let latency = (latency as f64 * self.troubles.latency_factor(now)) as Nanos;
        let latency = latency.saturating_sub((self.parameters.overhead_us * 1e3) as Nanos);
        Admission { due: start + latency, waited: start - now, fails: self.troubles.strikes(request.op) }
    }

    fn charge_neighbour(&mut self, now: Nanos) {
        let Some(neighbour) = &self.troubles.neighbour else { return };
        for limit in &mut self.limits {
            let place = limit.parameters();
            if neighbour.scope.is_none_or(|scope| scope == place.scope) {
                let load = if place.unit == Unit::Io { neighbour.iops } else { neighbour.bytes_per_s };
                limit.background(now, load);
            }
        }
    }

    /// Brings a trouble into force. Detaching and power are the engine's business.
    pub fn inject(&mut self, now: Nanos, fault: &Fault) -> Result<(), String> {
        fault.validate()?;
        match fault {
            Fault::Stall { seconds } => self.troubles.stalled_until = now + (seconds * 1e9) as Nanos,
            Fault::Error { every, ops } => self.troubles.error = Some((*every, ops.clone())),
            Fault::SlowDown { factor, ramp_s } => {
                self.troubles.slow_down = Some(SlowDown { factor: *factor, ramp_s: *ramp_s, from: now });
            }
            Fault::NoisyNeighbour { iops, bytes_per_s, scope, latency_factor } => {
                self.limits.iter_mut().for_each(|limit| limit.background_from(now));
                self.troubles.neighbour = Some(Neighbour {
                    iops: *iops,
                    bytes_per_s: *bytes_per_s,
                    scope: *scope,
                    latency_factor: *latency_factor,
                });
            }
            Fault::FirstTouch => match &mut self.first_touch {
                Some(first_touch) => first_touch.forget(),
                None => return Err("this volume has no first_touch parameters".into()),
            },
            Fault::Credits { fill } => {
                self.limits
                    .iter_mut()
                    .filter(|limit| limit.parameters().credits)
                    .for_each(|limit| limit.set_fill(now, *fill));
            }
            Fault::Clear => self.troubles = Troubles::default(),
            Fault::Detach | Fault::Attach | Fault::PowerCut { .. } | Fault::PowerOn => {}
        }
        Ok(())
    }

    pub fn troubles(&self, now: Nanos) -> Vec<&'static str> {
        self.troubles.in_force(now)
    }

    pub fn balances(&mut self, now: Nanos) -> Vec<Balance> {
        self.charge_neighbour(now);
        self.limits
            .iter()
            .filter(|limit| limit.parameters().credits)
            .map(|limit| {
                let (fill, parameters) = (limit.fill(now), limit.parameters());
                let metric = parameters.published.as_ref();
                Balance {
                    limit: parameters.name.clone(),
                    metric: metric.map(|metric| metric.metric.clone()),
                    as_percent: metric.is_some_and(|metric| metric.percent),
                    percent: fill * 100.0,
                    units: fill * parameters.burst,
                }
            })
            .collect()
    }

    /// The disks of a cluster: what each did, and the lowest of the limits on its I/Os; empty for one disk.
    pub fn disks(&self, now: Nanos) -> Vec<Disk> {
        let by_limit: Vec<Vec<Disk>> =
            self.limits.iter().map(|limit| limit.disks(now)).filter(|disks| !disks.is_empty()).collect();
        let Some(first) = by_limit.first() else { return Vec::new() };
        first
            .iter()
            .map(|disk| {
                let limits = by_limit.iter().map(|disks| disks[disk.disk].limit_per_s);
                Disk { limit_per_s: limits.fold(f64::INFINITY, f64::min), ..*disk }
            })
            .collect()
    }

    pub fn exceeded(&self, now: Nanos) -> Exceeded {
        let micros = |instance: usize, throughput: usize| self.waiting[instance][throughput].micros_at(now);
        Exceeded {
            volume_iops_us: micros(0, 0),
            volume_throughput_us: micros(0, 1),
            instance_iops_us: micros(1, 0),
            instance_throughput_us: micros(1, 1),
        }
    }

    /// Share of the volume that has been touched, where first touch matters.
    pub fn touched_share(&self) -> Option<f64> {
        self.first_touch.as_ref().map(FirstTouch::share)
    }
}

fn latencies(parameters: &Parameters) -> Vec<Latency> {
    Op::ALL.iter().map(|op| parameters.latency.get(op).map_or_else(Latency::default, Latency::new)).collect()
}

#[cfg(test)]
mod tests;
