//! Time of one row through the chain: `cargo bench -p troupe-sampler`. Each figure is the best of its runs.

use std::time::{Duration, Instant};

use troupe_protocol::random::uniform;
use troupe_protocol::sampling::{Dry, DynamicTemperature, Mirostat, Xtc};
use troupe_protocol::{History, SamplingParams, TokenId};
use troupe_sampler::{Sampler, Scratch};

/// How long a figure is measured.
const BUDGET: Duration = Duration::from_millis(400);

/// Tokens of the history.
const CONTEXT: u32 = 4096;

fn main() {
    let plain = SamplingParams { temperature: 0.8, ..SamplingParams::greedy() };
    let dry = Some(Dry { multiplier: 0.8, ..Dry::DEFAULT });
    let ways = [
        ("temperature", plain.clone()),
        (
            "repetition, last 64",
            SamplingParams { repetition_penalty: 1.1, repeat_last_n: Some(64), ..plain.clone() },
        ),
        ("dry", SamplingParams { dry: dry.clone(), ..plain.clone() }),
        ("top_n_sigma 1", SamplingParams { top_n_sigma: 1.0, ..plain.clone() }),
        ("typical_p 0.9", SamplingParams { typical_p: 0.9, ..plain.clone() }),
        ("top_p 0.9", SamplingParams { top_p: 0.9, ..plain.clone() }),
        ("xtc", SamplingParams { xtc: Some(Xtc { probability: 1.0, threshold: 0.1 }), ..plain.clone() }),
        (
            "dynamic temperature",
            SamplingParams {
                dynamic_temperature: Some(DynamicTemperature { range: 0.5, exponent: 1.0 }),
                ..plain.clone()
            },
        ),
        ("mirostat", SamplingParams { mirostat: Some(Mirostat::DEFAULT), ..plain.clone() }),
        (
            "greedy, 20 logprobs",
            SamplingParams { logprobs: Some(20), dry: dry.clone(), ..SamplingParams::greedy() },
        ),
        (
            "all",
            SamplingParams {
                repetition_penalty: 1.1,
                repeat_last_n: Some(64),
                dry,
                top_n_sigma: 2.0,
                top_k: 40,
                typical_p: 0.95,
                top_p: 0.95,
                min_p: 0.05,
                xtc: Some(Xtc { probability: 0.5, threshold: 0.1 }),
                ..plain
            },
        ),
    ];
    println!("{:22} {:>8} {:>10} {:>10}", "chain", "tokens", "peaked", "flat");
    for vocabulary in [49_152, 151_936] {
        let rows = [logits(vocabulary, 9.0), logits(vocabulary, 0.0)];
        for (name, params) in &ways {
            let [peaked, flat] = rows.each_ref().map(|row| measure(row, params));
            println!("{name:22} {vocabulary:8} {peaked:7.0} us {flat:7.0} us");
        }
    }
}

/// About normal with a deviation of 2, and the logits of 40 tokens higher by up to `peak`.
fn logits(vocabulary: u32, peak: f32) -> Vec<f32> {
    let noise = |at: u32| 2.0 * ((0..12).map(|part| uniform(1, at * 12 + part)).sum::<f32>() - 6.0);
    let mut logits: Vec<f32> = (0..vocabulary).map(noise).collect();
    for at in 0..40 {
        logits[(uniform(2, at) * vocabulary as f32) as usize] += peak * uniform(3, at);
    }
    logits
}

/// Microseconds a row.
fn measure(logits: &[f32], params: &SamplingParams) -> f64 {
    let prompt: Vec<TokenId> = (0..CONTEXT).map(|at| (uniform(4, at) * 300.0) as TokenId).collect();
    let history = History { prompt, generated: Vec::new(), mu: None };
    let Ok(mut sampler) = Sampler::new(params.clone(), Some(&history), logits.len()) else { return f64::NAN };
    let mut scratch = Scratch::default();
    let (start, mut best) = (Instant::now(), f64::INFINITY);
    for position in CONTEXT.. {
        if start.elapsed() >= BUDGET {
            break;
        }
        let run = Instant::now();
        std::hint::black_box(sampler.sample(logits, position, None, &mut scratch));
        best = best.min(run.elapsed().as_secs_f64());
    }
    best * 1e6
}
