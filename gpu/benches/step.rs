//! Where a step's time goes on the CPU: `cargo bench -p troupe-gpu --bench step [-- PATH]`, by default of the model that
//! `make models` fetches. For each kind of step the time of one, and the share of each kernel; what is left over is
//! MLX's own operations, the way from one node to the next, and waiting. Then what prompt tokens add to the steps of eight
//! streams, which is what the scheduler paces prompts by. `-- 8x128` measures the decoding of eight streams at a context of
//! 128 alone, and so for others.

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use mlx_sys::profile::{self, KernelTime};
use support::driver::{Driver, Feed, Sequence};
use troupe_protocol::{LoadRequest, SamplingParams};

const STEPS: u32 = 64;
const CHUNK: usize = 256;
/// Tokens of each stream that prompts are computed beside.
const STREAM_CONTEXT: usize = 512;

fn main() {
    let mut request = LoadRequest { max_num_seqs: Some(9), ..support::default_model() };
    if let Some(path) = std::env::args().skip(1).find(|argument| Path::new(argument).exists()) {
        request.path = path;
    }
    let mut driver = Driver::load(&request);
    println!("{}, {} threads", request.path, mlx_sys::cpu_threads());
    let shapes: Vec<_> = std::env::args().filter_map(|argument| shape(&argument)).collect();
    if !shapes.is_empty() {
        shapes.into_iter().for_each(|(streams, context)| decode(&mut driver, streams, context));
        return;
    }
    for context in [128, 1024, 4096] {
        decode(&mut driver, 1, context);
    }
    decode(&mut driver, 8, 128);
    prefill(&mut driver, 512);
    println!();
    for context in [0, 3072] {
        for chunk in [0, 8, 16, 32, 64, 128, 248] {
            mixed(&mut driver, 8, context, chunk);
        }
        mixed(&mut driver, 0, context, CHUNK);
    }
}

/// Streams and context, written with an `x` between.
fn shape(argument: &str) -> Option<(usize, usize)> {
    let (streams, context) = argument.split_once('x')?;
    Some((streams.parse().ok()?, context.parse().ok()?))
}

fn prompt(length: usize, seed: usize) -> Vec<u32> {
    (0..length).map(|at| (at * 7919 + seed * 104_729 + 11) as u32 % 40_000 + 100).collect()
}

/// Steps of one token a sequence, submitted one ahead, from `context` tokens on.
fn decode(driver: &mut Driver, streams: usize, context: usize) {
    let mut sequences: Vec<Sequence> = (0..streams)
        .map(|stream| {
            let length = (context + 2 * STEPS as usize) as u32;
            let mut sequence = driver.sequence(&prompt(context, stream), SamplingParams::greedy(), length);
            driver.generate(&mut sequence, CHUNK, 1);
            sequence
        })
        .collect();
    let mut steps = |driver: &mut Driver| {
        for step in 0..STEPS {
            let mut rows: Vec<_> = sequences.iter_mut().map(|sequence| (sequence, Feed::Sampled)).collect();
            driver.submit(&mut rows);
            if step > 0 {
                driver.finish();
            }
        }
        driver.finish();
    };
    let (time, kernels) = measure(|| steps(driver));
    let rate = f64::from(STEPS) * streams as f64 / time.as_secs_f64();
    println!("\ndecode, {streams} streams at context {context}: {rate:.1} tokens/s");
    report(time, STEPS, &kernels);
    sequences.into_iter().for_each(|sequence| driver.release(sequence));
}

/// A prompt in chunks, after the same was done to warm up.
fn prefill(driver: &mut Driver, length: usize) {
    let steps = length.div_ceil(CHUNK) as u32;
    let mut run = |seed: usize| {
        let mut sequence =
            driver.sequence(&prompt(length, seed), SamplingParams::greedy(), length as u32 + 1);
        driver.generate(&mut sequence, CHUNK, 1);
        driver.release(sequence);
    };
    run(0);
    let (time, kernels) = measure(|| run(1));
    println!(
        "\nprefill of {length} in chunks of {CHUNK}: {:.0} tokens/s",
        length as f64 / time.as_secs_f64()
    );
    report(time, steps, &kernels);
}

/// Steps of a token of each stream, and of `chunk` tokens of the 512 after the first `context` of a prompt.
fn mixed(driver: &mut Driver, streams: usize, context: usize, chunk: usize) {
    let steps = 512_usize.checked_div(chunk).unwrap_or(32);
    let mut sequences: Vec<Sequence> = (0..=streams)
        .map(|stream| {
            let (prompt_length, length) =
                if stream == 0 { (context + 512, context + 513) } else { (STREAM_CONTEXT, 1024) };
            driver.sequence(&prompt(prompt_length, stream), SamplingParams::greedy(), length as u32)
        })
        .collect();
    for sequence in &mut sequences[1..] {
        driver.generate(sequence, CHUNK, 1);
    }
    for _ in 0..context / CHUNK {
        driver.submit(&mut [(&mut sequences[0], Feed::Known(CHUNK))]);
        driver.finish();
    }
    let start = Instant::now();
    for step in 0..steps {
        let feed = |stream| if stream == 0 { Feed::Known(chunk) } else { Feed::Sampled };
        let first = usize::from(chunk == 0);
        let rows = sequences.iter_mut().enumerate().skip(first);
        let mut rows: Vec<_> = rows.map(|(stream, sequence)| (sequence, feed(stream))).collect();
        driver.submit(&mut rows);
        if step > 0 {
            driver.finish();
        }
    }
    driver.finish();
    let millis = start.elapsed().as_secs_f64() * 1e3 / steps as f64;
    println!(
        "{streams} streams at context {STREAM_CONTEXT}, {chunk:>3} tokens of a prompt from {context:>4} on: {millis:>6.1} ms a step"
    );
    sequences.into_iter().for_each(|sequence| driver.release(sequence));
}

/// Time and kernels of `run`, which is run twice: first without the profile, which gives the time.
fn measure(mut run: impl FnMut()) -> (Duration, Vec<KernelTime>) {
    let start = Instant::now();
    run();
    let time = start.elapsed();
    profile::start();
    run();
    (time, profile::stop())
}

fn report(time: Duration, steps: u32, kernels: &[KernelTime]) {
    let of_step = |time: Duration| time.as_secs_f64() * 1e3 / f64::from(steps);
    let mut kernels = kernels.to_vec();
    kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.time));
    println!("{:28} {:>12} {:>10} {:>7}", "", "calls/step", "ms/step", "share");
    let line = |name: &str, calls: String, time: Duration, all: Duration| {
        let share = 100.0 * time.as_secs_f64() / all.as_secs_f64();
        println!("{name:28} {calls:>12} {:>10.3} {share:>6.1}%", of_step(time));
    };
    for kernel in &kernels {
        let calls = format!("{:.0}", kernel.calls as f64 / f64::from(steps));
        line(&kernel.name, calls, kernel.time, time);
    }
    let inside: Duration = kernels.iter().map(|kernel| kernel.time).sum();
    line("between kernels", String::new(), time.saturating_sub(inside), time);
    line("step", String::new(), time, time);
}
