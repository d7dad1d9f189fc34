//! Speed of the CPU's products beside what the machine can do:
//!
//!     cargo bench -p mlx-sys --bench kernels -- [--isa SET[,SET]…|all] [WORD]…
//!
//! For the instruction sets named, or for the best; of the kernels whose names contain one of the words, or of all. Each
//! figure is the best of its runs, since other work on the machine only ever takes time away. Shares are of what the same
//! threads and the same instruction set read or multiply at most. Byte dot products do more than one f32 operation at a
//! time, and weights that stay in a cache are read faster than memory: both may be above 100 %.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use mlx_sys::{Activations, Array, Dtype, PackedMatrix, Packing, Quantized, Result, limits, set_cpu_threads};

/// Outputs and inputs of the default model's layers (queries, keys and values together, the output projection, gate
/// and up together, down, the head), and of a layer of 8 billion parameters.
const SHAPES: [[i32; 2]; 6] = [[960, 576], [576, 576], [3072, 576], [576, 1536], [49152, 576], [14336, 4096]];

/// Rows of activations.
const ROWS: [i32; 5] = [1, 4, 16, 64, 512];

/// How long a figure is measured, but for the last run.
const BUDGET: Duration = Duration::from_millis(300);

/// More than the caches hold.
const MEMORY_BYTES: usize = 512 << 20;

fn main() -> Result<()> {
    let options = Options::from_arguments(std::env::args().skip(1));
    let most = mlx_sys::cpu_threads();
    println!("MLX {}, {most} threads", mlx_sys::version());
    for set in &options.sets {
        mlx_sys::use_instruction_set(set)?;
        for threads in if most > 1 { vec![1, most] } else { vec![1] } {
            set_cpu_threads(NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN))?;
            let bench = Bench { words: &options.words, limits: Limits::measure()? };
            bench.title(set, threads);
            for shape in SHAPES {
                bench.quantised(shape)?;
                bench.dense(shape)?;
            }
        }
    }
    Ok(())
}

struct Options {
    sets: Vec<String>,
    words: Vec<String>,
}

impl Options {
    fn from_arguments(arguments: impl Iterator<Item = String>) -> Self {
        let mut options = Self { sets: vec![mlx_sys::instruction_set()], words: Vec::new() };
        // Cargo adds one of its own.
        let mut arguments = arguments.filter(|argument| argument != "--bench");
        while let Some(argument) = arguments.next() {
            if argument != "--isa" {
                options.words.push(argument);
                continue;
            }
            let sets = arguments.next().unwrap_or_default();
            options.sets = match sets.as_str() {
                "all" => mlx_sys::instruction_sets(),
                sets => sets.split(',').map(str::to_owned).collect(),
            };
        }
        options
    }
}

/// What the threads and the instruction set in use do at most, a second.
struct Limits {
    bytes: f64,
    operations: f64,
}

impl Limits {
    fn measure() -> Result<Self> {
        const ROUNDS: u32 = 1 << 20;
        let memory = vec![1_u8; MEMORY_BYTES];
        let mut operations = 0;
        let read = best(|| {
            std::hint::black_box(limits::read_once(&memory));
            Ok(())
        })?;
        let multiply = best(|| {
            operations = limits::multiply_and_add(ROUNDS);
            Ok(())
        })?;
        Ok(Self { bytes: MEMORY_BYTES as f64 / read, operations: operations as f64 / multiply })
    }
}

struct Bench<'a> {
    words: &'a [String],
    limits: Limits,
}

impl Bench<'_> {
    fn title(&self, set: &str, threads: usize) {
        let (read, multiply) = (self.limits.bytes / 1e9, self.limits.operations / 1e9);
        println!("\n{set}, {threads} threads: at most {read:.1} GB/s read, {multiply:.0} GFLOP/s f32");
        println!(
            "{:14} {:>12} {:>4} {:>12} {:>8} {:>6} {:>9} {:>6}",
            "kernel", "n x k", "m", "time", "GB/s", "share", "GFLOP/s", "share"
        );
    }

    fn wants(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }

    fn quantised(&self, [n, k]: [i32; 2]) -> Result<()> {
        for bits in [4, 8] {
            for activations in [Activations::Int8, Activations::Int16, Activations::F32] {
                let name = format!("{bits} bits, {activations:?}");
                if !self.wants(&name) {
                    continue;
                }
                let matrix =
                    Quantized::quantize(&ramp(&[n, k], Dtype::F16)?, Packing { group_size: 32, bits })?;
                let Some(packed) = PackedMatrix::from_affine(&matrix, activations)? else { continue };
                self.rows(&name, [n, k], packed.nbytes(), |x| packed.apply(x))?;
            }
        }
        Ok(())
    }

    fn dense(&self, [n, k]: [i32; 2]) -> Result<()> {
        for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
            let name = dtype.to_string();
            if self.wants(&name) {
                let weight = ramp(&[n, k], dtype)?;
                self.rows(&name, [n, k], weight.nbytes(), |x| x.linear(&weight))?;
            }
        }
        Ok(())
    }

    /// A line for each number of rows.
    fn rows(
        &self,
        name: &str,
        [n, k]: [i32; 2],
        bytes: usize,
        product: impl Fn(&Array) -> Result<Array>,
    ) -> Result<()> {
        for m in ROWS {
            // Outputs of more than this are no layer's.
            if f64::from(m) * f64::from(n) > 8e6 {
                continue;
            }
            let x = ramp(&[m, k], Dtype::F32)?;
            let seconds = best(|| product(&x)?.wait())?;
            let (read, done) = (bytes as f64, 2.0 * f64::from(m) * f64::from(n) * f64::from(k));
            println!(
                "{name:14} {:>12} {m:4} {:9.1} us {:8.1} {:5.0}% {:9.1} {:5.0}%",
                format!("{n} x {k}"),
                seconds * 1e6,
                read / seconds / 1e9,
                100.0 * read / seconds / self.limits.bytes,
                done / seconds / 1e9,
                100.0 * done / seconds / self.limits.operations,
            );
        }
        Ok(())
    }
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
