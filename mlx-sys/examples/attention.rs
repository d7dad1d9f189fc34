//! Speed of paged attention: prefill of 512 tokens and decode over a long context; and what a graph node costs.

use std::time::Instant;

use mlx_sys::{Array, Dtype, KvSlabs, Projected, RaggedBatch, Result, ScoreOptions, paged_attention};

const HEADS: i32 = 9;
const KV_HEADS: i32 = 3;
const DIM: i32 = 64;
const BLOCK: i32 = 16;

fn main() -> Result<()> {
    for (rows, context, new) in [(1, 0, 512), (1, 1024, 512), (1, 1024, 1), (8, 1024, 1), (1, 0, 16)] {
        let seconds = attention(rows, context, new)?;
        let seen = f64::from(context) + f64::from(new + 1) / 2.0;
        let flops = 4.0 * f64::from(rows * new * HEADS * DIM) * seen;
        println!(
            "{rows} rows, {context} tokens before, {new} new: {:8.1} us {:6.1} GFLOP/s",
            seconds * 1e6,
            flops / seconds / 1e9
        );
    }
    let x = Array::full(&[1, 576], 1.0_f32)?;
    let chain = |op: fn(&Array) -> Result<Array>| {
        best(|| {
            let mut y = x.clone();
            for _ in 0..100 {
                y = op(&y)?;
            }
            y.wait()
        })
    };
    println!("add of [1, 576]:      {:.2} us a node", chain(|y| y.add(y))? * 1e4);
    println!("rms_norm of [1, 576]: {:.2} us a node", chain(|y| y.rms_norm(None, 1e-5))? * 1e4);
    println!("swiglu of [1, 576]:   {:.2} us a node", chain(|y| y.swiglu(y))? * 1e4);
    Ok(())
}

fn attention(rows: i32, context: i32, new: i32) -> Result<f64> {
    let blocks = (context + new + BLOCK - 1) / BLOCK;
    let slab = || Array::full(&[rows * blocks, BLOCK, KV_HEADS, DIM], 0.5_f32)?.copy();
    let slabs = KvSlabs { keys: slab()?, values: slab()? };
    let start_of = |row: i32| row * blocks * BLOCK;
    let slots: Vec<i32> = (0..rows).flat_map(|r| (0..new).map(move |i| start_of(r) + context + i)).collect();
    let batch = RaggedBatch {
        row_offsets: Array::arange(0.0, f64::from(rows * new + 1), f64::from(new), Dtype::I32)?,
        context_lens: Array::full(&[rows], context)?,
        slot_mapping: Array::from_slice(&slots, &[rows * new])?,
        block_tables: Array::arange(0.0, f64::from(rows * blocks), 1.0, Dtype::I32)?
            .reshape(&[rows, blocks])?,
    };
    let (q, k) = (
        Array::full(&[rows * new, HEADS, DIM], 0.5_f32)?,
        Array::full(&[rows * new, KV_HEADS, DIM], 0.5_f32)?,
    );
    mlx_sys::eval(&[&slabs.keys, &slabs.values, &q, &k, &batch.row_offsets, &batch.context_lens])?;
    mlx_sys::eval(&[&batch.block_tables])?;
    let options = ScoreOptions { scale: 0.125, window: None, softcap: None };
    best(|| paged_attention(Projected { q: &q, k: &k, v: &k }, &slabs, &batch, options)?.wait())
}

fn best(mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}
