//! Speed of paged attention: `cargo bench -p mlx-sys --bench attention`. A step is the attention of the default model's
//! 30 layers, each with blocks of its own, so that a long context comes from memory. Each figure is the best of its
//! runs, since other work on the machine only ever takes time away.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use mlx_sys::{
    Array, Columns, Dtype, KvLayout, KvSlabs, Projected, RaggedBatch, Result, ScoreOptions, TokenAngles,
    paged_attention, set_cpu_threads,
};

const LAYERS: usize = 30;
const HEADS: i32 = 9;
const KV_HEADS: i32 = 3;
const DIM: i32 = 64;
const BLOCK: i32 = 16;

/// How long a figure is measured, but for the last run.
const BUDGET: Duration = Duration::from_millis(600);

/// `rows` rows of `new` tokens, after `context` others each.
#[derive(Clone, Copy)]
struct Load {
    rows: i32,
    context: i32,
    new: i32,
}

const LOADS: [Load; 8] = [
    Load { rows: 1, context: 127, new: 1 },
    Load { rows: 1, context: 1023, new: 1 },
    Load { rows: 1, context: 4095, new: 1 },
    Load { rows: 8, context: 1023, new: 1 },
    Load { rows: 1, context: 0, new: 512 },
    Load { rows: 1, context: 3840, new: 16 },
    Load { rows: 1, context: 3840, new: 256 },
    Load { rows: 1, context: 0, new: 4096 },
];

fn main() -> Result<()> {
    let threads = mlx_sys::cpu_threads();
    for count in if threads > 1 { vec![1, threads] } else { vec![1] } {
        if let Some(count) = NonZeroUsize::new(count) {
            set_cpu_threads(count)?;
        }
        println!("\n{count} threads");
        println!(
            "{:5} {:>4} {:>8} {:>5} {:>12} {:>8} {:>9}",
            "type", "rows", "context", "new", "step", "GB/s", "GFLOP/s"
        );
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::I8] {
            LOADS.iter().try_for_each(|&load| measure(dtype, load))?;
        }
    }
    Ok(())
}

/// A line: bytes are those of all keys and values, read once.
fn measure(dtype: Dtype, load: Load) -> Result<()> {
    let Load { rows, context, new } = load;
    let blocks = (context + new + BLOCK - 1) / BLOCK;
    let layout = KvLayout { num_blocks: rows * blocks, block_size: BLOCK, kv_heads: KV_HEADS, dim: DIM };
    let layers = (0..LAYERS).map(|_| written(layout, dtype)).collect::<Result<Vec<_>>>()?;
    let step = Step::new(load)?;
    let seconds = best(|| layers.iter().try_for_each(|slabs| step.attend(slabs)))?;
    let bytes = layers.iter().map(KvSlabs::nbytes).sum::<usize>();
    let seen = f64::from(context) + f64::from(new + 1) / 2.0;
    let flops = 4.0 * LAYERS as f64 * f64::from(rows * new * HEADS * DIM) * seen;
    println!(
        "{:5} {rows:4} {context:8} {new:5} {:9.3} ms {:8.1} {:9.1}",
        dtype.to_string(),
        seconds * 1e3,
        bytes as f64 / seconds / 1e9,
        flops / seconds / 1e9
    );
    Ok(())
}

/// Slabs whose pages are there.
fn written(layout: KvLayout, dtype: Dtype) -> Result<KvSlabs> {
    let KvLayout { num_blocks, block_size, kv_heads, dim } = layout;
    let filled = |shape: &[i32], dtype| {
        let array = Array::full(shape, 1.0_f32)?.astype(dtype)?.copy()?;
        array.wait()?;
        Ok::<_, mlx_sys::Error>(array)
    };
    let scales = || filled(&[num_blocks, kv_heads, block_size], Dtype::F32);
    let mut slabs = KvSlabs::new(layout, dtype)?;
    slabs.keys = filled(&[num_blocks, kv_heads, dim, block_size], dtype)?;
    slabs.values = filled(&[num_blocks, kv_heads, block_size, dim], dtype)?;
    if let Some(of) = &mut slabs.scales {
        (of.keys, of.values) = (scales()?, scales()?);
    }
    Ok(slabs)
}

/// The arrays of one layer's call.
struct Step {
    qkv: Array,
    cos: Array,
    sin: Array,
    batch: RaggedBatch,
}

impl Step {
    fn new(Load { rows, context, new }: Load) -> Result<Self> {
        let blocks = (context + new + BLOCK - 1) / BLOCK;
        let slots: Vec<i32> =
            (0..rows).flat_map(|r| (0..new).map(move |i| r * blocks * BLOCK + context + i)).collect();
        let ones = |width| Array::full(&[rows * new, width], 0.5_f32)?.copy();
        let step = Self {
            qkv: ones((HEADS + 2 * KV_HEADS) * DIM)?,
            cos: ones(DIM / 2)?,
            sin: ones(DIM / 2)?,
            batch: RaggedBatch {
                row_offsets: Array::arange(0.0, f64::from(rows * new + 1), f64::from(new), Dtype::I32)?,
                context_lens: Array::full(&[rows], context)?.copy()?,
                slot_mapping: Array::from_slice(&slots, &[rows * new])?,
                block_tables: Array::arange(0.0, f64::from(rows * blocks), 1.0, Dtype::I32)?
                    .reshape(&[rows, blocks])?,
            },
        };
        mlx_sys::eval(&[&step.qkv, &step.cos, &step.sin, &step.batch.row_offsets])?;
        mlx_sys::eval(&[&step.batch.context_lens, &step.batch.slot_mapping, &step.batch.block_tables])?;
        Ok(step)
    }

    fn attend(&self, slabs: &KvSlabs) -> Result<()> {
        let from = |first| Columns { array: &self.qkv, first };
        let projected = Projected {
            q: from(0),
            k: from(HEADS * DIM),
            v: from((HEADS + KV_HEADS) * DIM),
            heads: HEADS,
            angles: Some(TokenAngles { cos: &self.cos, sin: &self.sin }),
        };
        paged_attention(projected, slabs, &self.batch, ScoreOptions::causal(0.125))?.wait()
    }
}

fn best(mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    for turn in 0.. {
        let before = Instant::now();
        run()?;
        best = best.min(before.elapsed().as_secs_f64());
        if turn >= 2 && start.elapsed() > BUDGET {
            break;
        }
    }
    Ok(best)
}
