//! First touch: blocks of a volume made from a snapshot come from far away once.

use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use super::latency::{Latency, LatencyParameters};
use super::limit::{Limit, LimitParameters};
use super::request::{Nanos, Request, Run};

/// A bitmap of more chunks would not fit the memory that the daemon may use.
const CHUNKS_MAX: u64 = 128 << 20;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FirstTouchParameters {
    /// What is fetched at once.
    pub chunk_bytes: u64,
    /// Blocks beyond it were never written and cost nothing.
    pub extent_bytes: u64,
    /// Added to the operation that touches a chunk first.
    pub latency: LatencyParameters,
    /// How fast chunks arrive, all operations together.
    #[serde(default)]
    pub limit: Option<LimitParameters>,
}

impl FirstTouchParameters {
    pub fn validate(&self) -> Result<(), String> {
        if self.chunk_bytes == 0 || self.extent_bytes.div_ceil(self.chunk_bytes) > CHUNKS_MAX {
            return Err(format!("first_touch: chunk_bytes must be > 0 and give at most {CHUNKS_MAX} chunks"));
        }
        self.latency.validate("first_touch")?;
        self.limit.as_ref().map_or(Ok(()), LimitParameters::validate)
    }
}

#[derive(Clone, Debug)]
pub struct FirstTouch {
    parameters: FirstTouchParameters,
    latency: Latency,
    limit: Option<Limit>,
    seen: Vec<u64>,
    touched: u64,
}

impl FirstTouch {
    pub fn new(parameters: FirstTouchParameters, now: Nanos) -> Self {
        let chunks = parameters.extent_bytes.div_ceil(parameters.chunk_bytes);
        FirstTouch {
            latency: Latency::new(&parameters.latency),
            limit: parameters.limit.clone().map(|limit| Limit::new(limit, 1.0, now)),
            seen: vec![0; chunks.div_ceil(64) as usize],
            touched: 0,
            parameters,
        }
    }

    /// Marks what the request touches; returns when the fetch may start and how long it takes.
    pub fn touch(&mut self, now: Nanos, request: &Request, rng: &mut Xoshiro256PlusPlus) -> (Nanos, Nanos) {
        let chunk = self.parameters.chunk_bytes;
        let end = (request.offset + request.bytes).min(self.parameters.extent_bytes);
        if request.bytes == 0 || request.offset >= end {
            return (now, 0);
        }
        let mut fresh = 0;
        for index in request.offset / chunk..end.div_ceil(chunk) {
            let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
            fresh += u64::from(self.seen[word] & bit == 0);
            self.seen[word] |= bit;
        }
        if fresh == 0 {
            return (now, 0);
        }
        self.touched += fresh;
        let fetch = Request { bytes: fresh * chunk, ..*request };
        let start = self.limit.as_mut().map_or(now, |limit| limit.admit(now, &fetch, Run::default()));
        (start, self.latency.draw(&fetch, Run::default(), rng))
    }

    pub fn forget(&mut self) {
        self.seen.fill(0);
        self.touched = 0;
    }

    /// Share of the volume's chunks that are here, 0..1.
    pub fn share(&self) -> f64 {
        let chunks = self.parameters.extent_bytes.div_ceil(self.parameters.chunk_bytes);
        if chunks == 0 { 1.0 } else { self.touched as f64 / chunks as f64 }
    }
}
