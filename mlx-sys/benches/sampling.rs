//! Time of choosing tokens and of reading log-probabilities, as our nodes and as graphs of MLX's own operations, in
//! turns: `cargo bench -p mlx-sys --bench sampling`. Each figure is the best of its runs.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use mlx_sys::{Array, Axis, Choice, Drawing, Result, RowChoice, Scan};

/// How long a pair of figures is measured.
const BUDGET: Duration = Duration::from_millis(600);

const PLAIN: Drawing = Drawing { temperature: 0.8, top_k: None, top_p: 1.0, min_p: 0.0, uniform: 0.6 };

/// What is asked of every row.
#[derive(Clone, Copy)]
enum Work {
    Choose(Choice),
    /// Every other token only.
    Masked(Choice),
    Logprobs(usize),
}

fn main() -> Result<()> {
    println!("MLX {}, {} threads", mlx_sys::version(), mlx_sys::cpu_threads());
    println!("{:28} {:>7} {:>5} {:>11} {:>9} {:>7}", "work", "tokens", "rows", "operations", "node", "ratio");
    let drawn = |how| Work::Choose(Choice::Draw(how));
    let works = [
        ("greedy", Work::Choose(Choice::Greedy)),
        ("temperature", drawn(PLAIN)),
        ("top_p 0.9", drawn(Drawing { top_p: 0.9, ..PLAIN })),
        ("top_k 40, top_p 0.95", drawn(Drawing { top_k: NonZeroU32::new(40), top_p: 0.95, ..PLAIN })),
        ("min_p 0.05", drawn(Drawing { min_p: 0.05, ..PLAIN })),
        ("top_p 0.9, masked", Work::Masked(Choice::Draw(Drawing { top_p: 0.9, ..PLAIN }))),
        ("logprobs 20", Work::Logprobs(20)),
    ];
    for vocabulary in [49152, 151_936] {
        for rows in [1, 8] {
            let model = logits(rows, vocabulary, 9.0)?;
            for (name, work) in works {
                measure(name, &model, work)?;
            }
            // A nucleus of half the vocabulary.
            measure("top_p 0.9, no peaks", &logits(rows, vocabulary, 0.0)?, works[2].1)?;
        }
    }
    Ok(())
}

/// About normal with a deviation of 2, and the logits of some tokens per row higher by up to `peak`.
fn logits(rows: i32, vocabulary: i32, peak: f32) -> Result<Array> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    let mut logits: Vec<f32> =
        (0..rows * vocabulary).map(|_| 2.0 * ((0..12).map(|_| next()).sum::<f32>() - 6.0)).collect();
    for row in logits.chunks_mut(vocabulary as usize) {
        for _ in 0..40 {
            row[(next() * vocabulary as f32) as usize] += peak * next();
        }
    }
    Array::from_vec(logits, &[rows, vocabulary])
}

fn measure(name: &str, logits: &Array, work: Work) -> Result<()> {
    let (mut stock, mut ours) = (f64::INFINITY, f64::INFINITY);
    let start = Instant::now();
    while start.elapsed() < BUDGET {
        stock = stock.min(time(|| operations(logits, work))?);
        for _ in 0..5 {
            ours = ours.min(time(|| node(logits, work))?);
        }
    }
    let (rows, vocabulary) = (logits.dim(0), logits.dim(1));
    println!(
        "{name:28} {vocabulary:7} {rows:5} {:8.0} us {:6.0} us {:6.0}x",
        stock * 1e6,
        ours * 1e6,
        stock / ours
    );
    Ok(())
}

fn time(run: impl FnOnce() -> Result<Array>) -> Result<f64> {
    let start = Instant::now();
    run()?.wait()?;
    Ok(start.elapsed().as_secs_f64())
}

fn node(logits: &Array, work: Work) -> Result<Array> {
    let rows = logits.dim(0);
    match work {
        Work::Choose(choice) => {
            let row = RowChoice { choice, penalty: None, biases: &[], mask: None };
            logits.choose_tokens(&vec![row; rows as usize])
        }
        Work::Masked(choice) => {
            let mask = vec![0x5555_5555; (logits.dim(1) as usize).div_ceil(32)];
            let row = RowChoice { choice, penalty: None, biases: &[], mask: Some(&mask) };
            logits.choose_tokens(&vec![row; rows as usize])
        }
        Work::Logprobs(count) => {
            let which: Vec<i32> = (0..rows).collect();
            let tokens = Array::from_vec(vec![0_u32; rows as usize], &[rows])?;
            Ok(logits.token_logprobs(&tokens, &which, count)?.values)
        }
    }
}

fn operations(logits: &Array, work: Work) -> Result<Array> {
    match work {
        Work::Choose(Choice::Greedy) => logits.argmax(-1, Axis::Drop),
        Work::Choose(Choice::Draw(how)) => draw(logits, how),
        Work::Masked(choice) => operations(&every_other(logits)?, Work::Choose(choice)),
        Work::Logprobs(count) => {
            let all = logits.subtract(&logits.logsumexp(-1, Axis::Keep)?)?;
            let best = all.negative()?.argpartition(count as i32 - 1, -1)?;
            let best = best.slice(&[0, 0], &[logits.dim(0), count as i32], &[1, 1])?;
            all.take_along_axis(&best, -1)
        }
    }
}

/// The tokens that the mask allows, the others impossible.
fn every_other(logits: &Array) -> Result<Array> {
    let allowed: Vec<f32> = (0..logits.dim(1)).map(|token| (1 - token % 2) as f32).collect();
    let allowed = Array::from_vec(allowed, &[1, logits.dim(1)])?.greater(&Array::scalar(0.0_f32)?)?;
    allowed.where_(logits, &Array::scalar(f32::NEG_INFINITY)?)
}

fn draw(logits: &Array, how: Drawing) -> Result<Array> {
    let nothing = Array::scalar(f32::NEG_INFINITY)?;
    let mut least = nothing.clone();
    if how.top_k.is_some() || how.top_p < 1.0 {
        let descending = logits.negative()?.sort(-1)?.negative()?;
        let last = how.top_k.map_or(logits.dim(1), |k| k.get() as i32) - 1;
        let kth = descending.take(&Array::from_slice(&[last], &[1])?, 1)?;
        let within = descending.greater_equal(&kth)?.where_(&descending, &nothing)?;
        let before = within.softmax(-1)?.cumsum(-1, Scan::Exclusive)?;
        let kept = before.less(&Array::scalar(how.top_p)?)?;
        least =
            kept.where_(&descending, &Array::scalar(f32::INFINITY)?)?.min(-1, Axis::Keep)?.maximum(&kth)?;
    }
    if how.min_p > 0.0 {
        least = logits.max(-1, Axis::Keep)?.add(&Array::scalar(how.min_p.ln())?)?.maximum(&least)?;
    }
    let kept = logits.greater_equal(&least)?.where_(logits, &nothing)?;
    let mass = kept.divide(&Array::scalar(how.temperature)?)?.softmax(-1)?.cumsum(-1, Scan::Inclusive)?;
    let total = mass.take(&Array::from_slice(&[mass.dim(1) - 1], &[1])?, 1)?;
    mass.greater(&total.multiply(&Array::scalar(how.uniform)?)?)?.argmax(-1, Axis::Drop)
}
