//! Latency of a healthy, unthrottled operation.

use rand_distr::{Distribution, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use super::request::{Nanos, Request, Run};

/// One leg of an operation: a lognormal time, or the longest of several that run side by side (replicas).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub median_us: f64,
    /// Spread of the logarithm: p99 = median x exp(2.326 x sigma).
    #[serde(default)]
    pub sigma: f64,
    #[serde(default = "one")]
    pub max_of: u32,
    /// Only for requests that do not continue a sequential run: a head that has to seek.
    #[serde(default)]
    pub random_only: bool,
}

fn one() -> u32 {
    1
}

/// Legs one after the other, then the bytes at the speed of one stream.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyParameters {
    #[serde(default)]
    pub parts: Vec<Part>,
    #[serde(default)]
    pub stream_bytes_per_s: Option<f64>,
}

impl LatencyParameters {
    pub fn validate(&self, name: &str) -> Result<(), String> {
        for part in &self.parts {
            let numbers = [part.median_us, part.sigma];
            if numbers.iter().any(|number| !number.is_finite() || *number < 0.0) || part.max_of == 0 {
                return Err(format!("latency of {name}: median_us and sigma must be >= 0, max_of >= 1"));
            }
        }
        match self.stream_bytes_per_s {
            Some(speed) if !(speed.is_finite() && speed > 0.0) => {
                Err(format!("latency of {name}: stream_bytes_per_s must be positive"))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Debug)]
struct Leg {
    part: Part,
    lognormal: LogNormal<f64>,
}

/// The latency of one operation type, ready to draw from.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    legs: Vec<Leg>,
    stream_bytes_per_s: Option<f64>,
}

impl Latency {
    pub fn new(parameters: &LatencyParameters) -> Self {
        let legs = parameters
            .parts
            .iter()
            .filter(|part| part.median_us > 0.0)
            .map(|part| Leg {
                part: *part,
                lognormal: LogNormal::new(part.median_us.ln(), part.sigma).expect("validated: finite, >= 0"),
            })
            .collect();
        Latency { legs, stream_bytes_per_s: parameters.stream_bytes_per_s }
    }

    pub fn draw(&self, request: &Request, run: Run, rng: &mut Xoshiro256PlusPlus) -> Nanos {
        let mut total_us = 0.0;
        for leg in &self.legs {
            if leg.part.random_only && run.before > 0 {
                continue;
            }
            total_us += if leg.part.sigma == 0.0 {
                leg.part.median_us
            } else {
                (0..leg.part.max_of).map(|_| leg.lognormal.sample(rng)).fold(0.0, f64::max)
            };
        }
        if let Some(speed) = self.stream_bytes_per_s {
            total_us += request.bytes as f64 / speed * 1e6;
        }
        (total_us * 1e3) as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::request::Op;
    use rand_xoshiro::rand_core::SeedableRng;

    const READ: Request = Request { op: Op::Read, stream: 0, offset: 0, bytes: 16384 };

    fn part(median_us: f64, sigma: f64) -> Part {
        Part { median_us, sigma, max_of: 1, random_only: false }
    }

    fn sorted(parts: Vec<Part>) -> Vec<f64> {
        let latency = Latency::new(&LatencyParameters { parts, stream_bytes_per_s: None });
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut drawn: Vec<f64> =
            (0..20_000).map(|_| latency.draw(&READ, Run::default(), &mut rng) as f64 / 1e3).collect();
        drawn.sort_by(f64::total_cmp);
        drawn
    }

    #[test]
    fn the_median_and_the_99th_percentile_are_those_of_the_lognormal() {
        let drawn = sorted(vec![part(700.0, 0.3)]);
        assert!((drawn[10_000] / 700.0 - 1.0).abs() < 0.01);
        assert!((drawn[19_800] / (700.0 * (2.3263f64 * 0.3).exp()) - 1.0).abs() < 0.03);
    }

    #[test]
    fn the_longest_of_three_replicas_has_the_cubic_median() {
        let one = sorted(vec![part(500.0, 0.3)]);
        let three = sorted(vec![Part { max_of: 3, ..part(500.0, 0.3) }]);
        // P(max <= x) = P(one <= x)^3, so the median of the maximum is the 0.5^(1/3) = 0.794 quantile of one.
        assert!((three[10_000] / one[15_874] - 1.0).abs() < 0.02);
    }

    #[test]
    fn bytes_take_their_time_and_seeks_only_count_for_random_requests() {
        let latency = Latency::new(&LatencyParameters {
            parts: vec![Part { random_only: true, ..part(8000.0, 0.0) }],
            stream_bytes_per_s: Some(16_384_000.0),
        });
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        assert_eq!(latency.draw(&READ, Run { before: 0 }, &mut rng), 9_000_000);
        assert_eq!(latency.draw(&READ, Run { before: 4096 }, &mut rng), 1_000_000);
    }
}
