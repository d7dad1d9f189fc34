//! Speed of the CPU's products beside what the machine can do: `cargo bench -p mlx-sys`. Each figure is the best of
//! its runs, since other work on the machine only ever takes time away.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use mlx_sys::{Activations, Array, Dtype, PackedMatrix, Packing, Quantized, Result, set_cpu_threads};

/// Outputs and inputs of the default model's layers (queries, keys and values together, the output projection, gate
/// and up together, down, the head), and of a layer of 8 billion parameters.
const SHAPES: [[i32; 2]; 6] = [[960, 576], [576, 576], [3072, 576], [576, 1536], [49152, 576], [14336, 4096]];

/// How long a figure is measured, but for the last run.
const BUDGET: Duration = Duration::from_millis(300);

fn main() -> Result<()> {
    let threads = mlx_sys::cpu_threads();
    println!("MLX {}, {threads} threads", mlx_sys::version());
    for count in [1, threads] {
        println!(
            "limits of {count} threads: {:.1} GB/s read, {:.0} GFLOP/s f32",
            read_limit(count),
            fma_limit(count)
        );
    }
    for count in if threads > 1 { vec![1, threads] } else { vec![1] } {
        if let Some(count) = NonZeroUsize::new(count) {
            set_cpu_threads(count)?;
        }
        println!(
            "\n{count} threads\n{:24} {:>14} {:>4} {:>11} {:>8} {:>9}",
            "kernel", "n x k", "m", "time", "GB/s", "GFLOP/s"
        );
        for shape in SHAPES {
            quantised(shape)?;
            dense(shape)?;
        }
    }
    Ok(())
}

fn quantised([n, k]: [i32; 2]) -> Result<()> {
    for bits in [4, 8] {
        let matrix = Quantized::quantize(&ramp(&[n, k], Dtype::F16)?, Packing { group_size: 32, bits })?;
        for activations in [Activations::Int8, Activations::Int16, Activations::F32] {
            let Some(packed) = PackedMatrix::from_affine(&matrix, activations)? else { continue };
            measure(&format!("{bits} bits, {activations:?}"), [n, k], packed.nbytes(), |x| packed.apply(x))?;
        }
    }
    Ok(())
}

fn dense([n, k]: [i32; 2]) -> Result<()> {
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
        let weight = ramp(&[n, k], dtype)?;
        measure(&format!("{dtype}"), [n, k], weight.nbytes(), |x| x.linear(&weight))?;
    }
    Ok(())
}

/// A line for each number of rows.
fn measure(
    name: &str,
    [n, k]: [i32; 2],
    bytes: usize,
    product: impl Fn(&Array) -> Result<Array>,
) -> Result<()> {
    for m in [1, 4, 16, 64, 512] {
        // Outputs of more than this are no layer's.
        if f64::from(m) * f64::from(n) > 8e6 {
            continue;
        }
        let x = ramp(&[m, k], Dtype::F32)?;
        let seconds = best(|| product(&x)?.wait())?;
        let flops = 2.0 * f64::from(m) * f64::from(n) * f64::from(k);
        println!(
            "{name:24} {:>14} {m:4} {:8.1} us {:8.1} {:9.1}",
            format!("{n} x {k}"),
            seconds * 1e6,
            bytes as f64 / seconds / 1e9,
            flops / seconds / 1e9
        );
    }
    Ok(())
}

fn best(mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        best = best.min(time(&mut run)?);
    }
    while start.elapsed() < BUDGET {
        best = best.min(time(&mut run)?);
    }
    Ok(best)
}

fn time(run: &mut impl FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed().as_secs_f64())
}

fn ramp(shape: &[i32], dtype: Dtype) -> Result<Array> {
    let size = f64::from(shape.iter().product::<i32>());
    let ramp = Array::arange(0.0, size, 1.0, Dtype::F32)?.sin()?.reshape(shape)?.astype(dtype)?;
    mlx_sys::eval(&[&ramp])?;
    Ok(ramp)
}

/// GB/s of `threads` that read memory of their own, larger than the caches, and add it up.
fn read_limit(threads: usize) -> f64 {
    const WORDS: usize = 16 << 20;
    let data = vec![1_u64; WORDS * threads];
    let run = || {
        let parts = data
            .chunks(WORDS)
            .map(|part| move || part.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
        let start = Instant::now();
        let total = all(parts);
        assert_eq!(total, data.len() as u64);
        start.elapsed().as_secs_f64()
    };
    let seconds = (0..8).map(|_| run()).fold(f64::INFINITY, f64::min);
    (data.len() * 8) as f64 / seconds / 1e9
}

/// GFLOP/s of the f32 product that reads its weights from the nearest cache.
fn fma_limit(threads: usize) -> f64 {
    let Some(count) = NonZeroUsize::new(threads) else { return 0.0 };
    let run = || -> Result<f64> {
        set_cpu_threads(count)?;
        let (m, n, k) = (96, 512, 256);
        let (x, w) = (ramp(&[m, k], Dtype::F32)?, ramp(&[n, k], Dtype::F32)?);
        let seconds = best(|| x.linear(&w)?.wait())?;
        Ok(2.0 * f64::from(m) * f64::from(n) * f64::from(k) / seconds / 1e9)
    };
    run().unwrap_or(0.0)
}

/// The sum of what `parts` give, each on a thread of its own.
fn all(parts: impl Iterator<Item = impl FnOnce() -> u64 + Send>) -> u64 {
    std::thread::scope(|scope| {
        let running: Vec<_> = parts.map(|part| scope.spawn(part)).collect();
        running.into_iter().filter_map(|part| part.join().ok()).sum()
    })
}
