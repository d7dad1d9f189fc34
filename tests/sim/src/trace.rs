//! Requests of three tenants, one of which floods the machine for a minute. Shapes are those that published traces have:
//! arrivals in bursts (as in BurstGPT, Wang et al. 2024), lengths with heavy tails (as in the Azure LLM inference traces,
//! Patel et al. 2024). Lengths and rates are scaled to what a small model on two cores can serve.

use troupe_protocol::{NewSequence, SequenceId, TenantId};

use crate::random::Random;
use crate::world::sequence;

/// Microseconds of a second.
pub const SECOND: u64 = 1_000_000;

/// Requests arrive until then.
pub const END: u64 = 300 * SECOND;

/// When the flood begins and ends.
pub const FLOOD: (u64, u64) = (60 * SECOND, 120 * SECOND);

/// The tenant that floods.
pub const FLOODING: TenantId = TenantId(3);

/// A request on its way.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Microseconds from the start.
    pub at: u64,
    /// What is asked for.
    pub request: NewSequence,
}

/// What a tenant asks for.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Who asks.
    pub tenant: TenantId,
    /// As it is called in figures.
    pub name: &'static str,
    /// Between these times.
    pub during: (u64, u64),
    /// Requests a second, on average.
    pub rate: f64,
    /// Requests of one burst, on average.
    pub burst: f64,
    /// Tokens of prompts.
    pub prompt: LogNormal,
    /// Tokens of answers.
    pub answer: LogNormal,
}

/// Lengths of which the logarithm is normal.
#[derive(Clone, Copy, Debug)]
pub struct LogNormal {
    /// Half are shorter.
    pub median: f64,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    /// Longer ones are cut.
    pub most: u32,
}

/// All tenants, in order of their ids.
pub const STREAMS: [Stream; 3] = [
    Stream {
        tenant: TenantId(1),
        name: "chat",
        during: (0, END),
        rate: 1.0,
        burst: 2.0,
        prompt: LogNormal { median: 80.0, sigma: 0.8, most: 1000 },
        answer: LogNormal { median: 40.0, sigma: 0.7, most: 400 },
    },
    Stream {
        tenant: TenantId(2),
        name: "documents",
        during: (0, END),
        rate: 0.4,
        burst: 2.0,
        prompt: LogNormal { median: 400.0, sigma: 0.8, most: 1500 },
        answer: LogNormal { median: 30.0, sigma: 0.7, most: 200 },
    },
    Stream {
        tenant: FLOODING,
        name: "flood",
        during: FLOOD,
        rate: 10.0,
        burst: 20.0,
        prompt: LogNormal { median: 120.0, sigma: 0.8, most: 1000 },
        answer: LogNormal { median: 60.0, sigma: 0.7, most: 400 },
    },
];

/// What these tenants ask for, in order of time. What one asks for does not depend on who else asks.
pub fn trace(streams: &[Stream], seed: u64) -> Vec<Arrival> {
    let mut arrivals: Vec<Arrival> = streams.iter().flat_map(|stream| arrivals(stream, seed)).collect();
    arrivals.sort_by_key(|arrival| (arrival.at, arrival.request.id));
    arrivals
}

/// Bursts at random times, each of a random number of requests within a second.
fn arrivals(stream: &Stream, seed: u64) -> Vec<Arrival> {
    let tenant = u64::from(stream.tenant.0);
    let mut random = Random::new(seed * 1000 + tenant);
    let (from, to) = stream.during;
    let gap = stream.burst / stream.rate * SECOND as f64;
    let mut found = Vec::new();
    let mut burst = from as f64 + exponential(gap, &mut random);
    while (burst as u64) < to {
        let size = exponential(stream.burst - 0.5, &mut random).round().max(1.0) as u32;
        for _ in 0..size {
            let id = tenant * 1_000_000 + found.len() as u64;
            let at = (burst as u64 + u64::from(random.below(SECOND as u32))).min(to);
            let tokens = stream.prompt.draw(&mut random);
            let prompt = (0..tokens).map(|_| random.below(1000)).collect();
            let request = NewSequence {
                id: SequenceId(id),
                tenant: stream.tenant,
                prompt,
                ..sequence(id, 1, stream.answer.draw(&mut random))
            };
            found.push(Arrival { at, request });
        }
        burst += exponential(gap, &mut random);
    }
    found
}

/// Above zero, below one.
fn uniform(random: &mut Random) -> f64 {
    (f64::from(random.below(1 << 24)) + 0.5) / f64::from(1 << 24)
}

fn exponential(mean: f64, random: &mut Random) -> f64 {
    -mean * uniform(random).ln()
}

impl LogNormal {
    /// At least one token.
    fn draw(self, random: &mut Random) -> u32 {
        let radius = (-2.0 * uniform(random).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * uniform(random)).cos();
        let length = self.median * (self.sigma * normal).exp();
        (length.round() as u32).clamp(1, self.most)
    }
}
