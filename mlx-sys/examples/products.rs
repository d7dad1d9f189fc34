//! Speed of f32 products `[m, k] · [n, k]ᵀ` as the model layers use them.

use std::time::Instant;

use mlx_sys::{Array, Dtype, Result};

fn main() -> Result<()> {
    println!("{} threads, MLX {}", mlx_sys::cpu_threads(), mlx_sys::version());
    for (n, k) in [(1536, 576), (576, 1536), (49152, 576)] {
        let weight = ramp(&[n, k])?.transpose(&[1, 0])?;
        for m in [1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 512] {
            if m > 64 && n > 4096 {
                continue;
            }
            let seconds = seconds_of(&ramp(&[m, k])?, &weight)?;
            let (flops, bytes) = (2.0 * f64::from(m) * f64::from(n * k), 4.0 * f64::from(n * k));
            println!(
                "{m:4} x {k} x {n}: {:8.1} us {:7.1} GFLOP/s {:6.1} GB/s of weights",
                seconds * 1e6,
                flops / seconds / 1e9,
                bytes / seconds / 1e9
            );
        }
    }
    Ok(())
}

fn ramp(shape: &[i32]) -> Result<Array> {
    let size = f64::from(shape.iter().product::<i32>());
    let ramp = Array::arange(0.0, size, 1.0, Dtype::F32)?.sin()?.reshape(shape)?;
    mlx_sys::eval(&[&ramp])?;
    Ok(ramp)
}

fn seconds_of(x: &Array, weight: &Array) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..12 {
        let start = Instant::now();
        let products = [x.matmul(weight)?, x.matmul(weight)?, x.matmul(weight)?, x.matmul(weight)?];
        mlx_sys::eval(&products.each_ref())?;
        best = best.min(start.elapsed().as_secs_f64() / 4.0);
    }
    Ok(best)
}
