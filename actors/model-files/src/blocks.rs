//! The numbers in stored tensors: as f32, or as the packed form that MLX's quantised products take.
//!
//! Both are exact. `to_f32` does the multiplication and addition that the format defines, each rounded once to f32;
//! `to_affine` moves bits, and its biases are the scales times a power of two.

use half::{bf16, f16};

use crate::error::{ModelFileError, Result};
use crate::format::{BLOCK_ELEMENTS, BlockFormat, Dtype, TensorFormat};
use crate::quantization::AffineSpec;
use crate::tensor::TensorView;

/// Bytes of the 32 nibbles of a block.
const NIBBLE_BYTES: usize = BLOCK_ELEMENTS / 2;

/// A matrix in MLX's affine form: element = `scale * q + bias`, with one scale and bias for each group of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct AffineQuantized {
    /// Unsigned `q`s, `32 / bits` a word, the first in the lowest bits: `[rows, columns * bits / 32]`.
    pub packed: Vec<u32>,
    /// `[rows, columns / group_size]`.
    pub scales: Vec<f16>,
    /// `[rows, columns / group_size]`.
    pub biases: Vec<f16>,
    /// Bits of a `q` and elements of a group.
    pub spec: AffineSpec,
}

/// Turns a tensor of GGUF blocks into MLX's affine form, rows in Hugging Face order.
///
/// # Errors
/// Refuses a dense tensor, and a block whose numbers are not finite in f16: either a scale that is none, or a bias
/// that overflows (`Q8_0` scales over 511, which no real weight has).
pub fn to_affine(view: &TensorView<'_>) -> Result<AffineQuantized> {
    let TensorFormat::Blocks(format) = view.format() else {
        return Err(refuse(view, format!("{} is not a block format", view.format())));
    };
    let spec = match format {
        BlockFormat::Q4_0 | BlockFormat::Q4_1 => AffineSpec::GGUF_4_BIT,
        BlockFormat::Q8_0 => AffineSpec::GGUF_8_BIT,
    };
    let num_blocks = view.num_elements() / BLOCK_ELEMENTS;
    let mut out = AffineQuantized {
        packed: Vec::with_capacity(num_blocks * spec.bits() as usize),
        scales: Vec::with_capacity(num_blocks),
        biases: Vec::with_capacity(num_blocks),
        spec,
    };
    for run in view.runs() {
        match format {
            BlockFormat::Q4_0 => each(run, |block: &[u8; BlockFormat::Q4_0.block_size()]| {
                let scale = read_f16(block, 0);
                out.scales.push(scale);
                out.biases.push(f16::from_f32(-8.0 * scale.to_f32()));
                pack_nibbles(nibbles(block), &mut out.packed);
            }),
            BlockFormat::Q4_1 => each(run, |block: &[u8; BlockFormat::Q4_1.block_size()]| {
                out.scales.push(read_f16(block, 0));
                out.biases.push(read_f16(block, 2));
                pack_nibbles(nibbles(block), &mut out.packed);
            }),
            BlockFormat::Q8_0 => each(run, |block: &[u8; BlockFormat::Q8_0.block_size()]| {
                let scale = read_f16(block, 0);
                out.scales.push(scale);
                out.biases.push(f16::from_f32(-128.0 * scale.to_f32()));
                // Flipping the top bit of a signed byte adds 128 and makes it unsigned.
                let words = block[2..].as_chunks::<4>().0;
                out.packed.extend(words.iter().map(|word| u32::from_le_bytes(*word) ^ 0x8080_8080));
            }),
        }
    }
    if out.scales.iter().chain(&out.biases).any(|number| !number.is_finite()) {
        return Err(refuse(view, "a block's scale or bias is not a finite 16-bit number".into()));
    }
    Ok(out)
}

/// Every element as f32, row-major, rows in Hugging Face order.
///
/// # Errors
/// Refuses a dense tensor of integers or of 64-bit floats.
pub fn to_f32(view: &TensorView<'_>) -> Result<Vec<f32>> {
    let mut values = vec![0.0; view.num_elements()];
    write_f32(view, &mut values)?;
    Ok(values)
}

/// As [`to_f32`], into memory that the caller owns.
///
/// # Errors
/// As [`to_f32`], and when `out` does not have one place for each element.
pub fn write_f32(view: &TensorView<'_>, out: &mut [f32]) -> Result<()> {
    if out.len() != view.num_elements() {
        return Err(refuse(view, format!("{} elements do not fit in {}", view.num_elements(), out.len())));
    }
    let decode = decoder(view)?;
    let run_elements = out.len() / view.num_runs();
    let mut rest = out;
    for run in view.runs() {
        let (head, tail) = rest.split_at_mut(run_elements);
        decode(run, head);
        rest = tail;
    }
    Ok(())
}

type Decode = fn(&[u8], &mut [f32]);

fn decoder(view: &TensorView<'_>) -> Result<Decode> {
    Ok(match view.format() {
        TensorFormat::Blocks(BlockFormat::Q4_0) => decode_q4_0,
        TensorFormat::Blocks(BlockFormat::Q4_1) => decode_q4_1,
        TensorFormat::Blocks(BlockFormat::Q8_0) => decode_q8_0,
        TensorFormat::Dense(Dtype::F32) => |run, out| dense(run, out, f32::from_le_bytes),
        TensorFormat::Dense(Dtype::F16) => {
            |run, out| dense(run, out, |bytes| f16::from_le_bytes(bytes).to_f32())
        }
        TensorFormat::Dense(Dtype::BF16) => {
            |run, out| dense(run, out, |bytes| bf16::from_le_bytes(bytes).to_f32())
        }
        TensorFormat::Dense(other) => return Err(refuse(view, format!("{other:?} is not read as f32"))),
    })
}

fn dense<const N: usize>(run: &[u8], out: &mut [f32], read: impl Fn([u8; N]) -> f32) {
    for (value, bytes) in out.iter_mut().zip(run.as_chunks::<N>().0) {
        *value = read(*bytes);
    }
}

fn decode_q4_0(run: &[u8], out: &mut [f32]) {
    each_into(run, out, |block: &[u8; BlockFormat::Q4_0.block_size()], values| {
        let scale = read_f16(block, 0).to_f32();
        expand_nibbles(nibbles(block), values, |q| (q - 8.0) * scale);
    });
}

fn decode_q4_1(run: &[u8], out: &mut [f32]) {
    each_into(run, out, |block: &[u8; BlockFormat::Q4_1.block_size()], values| {
        let (scale, minimum) = (read_f16(block, 0).to_f32(), read_f16(block, 2).to_f32());
        expand_nibbles(nibbles(block), values, |q| q * scale + minimum);
    });
}

fn decode_q8_0(run: &[u8], out: &mut [f32]) {
    each_into(run, out, |block: &[u8; BlockFormat::Q8_0.block_size()], values| {
        let scale = read_f16(block, 0).to_f32();
        for (value, &q) in values.iter_mut().zip(&block[2..]) {
            *value = f32::from(q as i8) * scale;
        }
    });
}

/// Calls `read` with each block of a run.
fn each<const SIZE: usize>(run: &[u8], read: impl FnMut(&[u8; SIZE])) {
    run.as_chunks::<SIZE>().0.iter().for_each(read);
}

/// Calls `read` with each block of a run and the place of its values.
fn each_into<const SIZE: usize>(
    run: &[u8],
    out: &mut [f32],
    read: impl Fn(&[u8; SIZE], &mut [f32; BLOCK_ELEMENTS]),
) {
    let blocks = run.as_chunks::<SIZE>().0;
    for (block, values) in blocks.iter().zip(out.as_chunks_mut::<BLOCK_ELEMENTS>().0) {
        read(block, values);
    }
}

fn read_f16<const SIZE: usize>(block: &[u8; SIZE], at: usize) -> f16 {
    f16::from_le_bytes([block[at], block[at + 1]])
}

/// The nibbles of a block, which come last. Byte `j` holds element `j` low and element `j + 16` high.
fn nibbles<const SIZE: usize>(block: &[u8; SIZE]) -> &[u8; NIBBLE_BYTES] {
    const { assert!(SIZE >= NIBBLE_BYTES) };
    block.last_chunk().unwrap_or(&[0; NIBBLE_BYTES])
}

fn expand_nibbles(bytes: &[u8; NIBBLE_BYTES], values: &mut [f32; BLOCK_ELEMENTS], read: impl Fn(f32) -> f32) {
    let (low, high) = values.split_at_mut(NIBBLE_BYTES);
    for ((byte, low), high) in bytes.iter().zip(low).zip(high) {
        *low = read(f32::from(byte & 0xf));
        *high = read(f32::from(byte >> 4));
    }
}

/// Packs a block's nibbles in order of elements, eight a word.
fn pack_nibbles(bytes: &[u8; NIBBLE_BYTES], packed: &mut Vec<u32>) {
    let halves = bytes.as_chunks::<8>().0;
    for shift in [0, 4] {
        packed.extend(
            halves.iter().map(|half| squeeze((u64::from_le_bytes(*half) >> shift) & 0x0f0f_0f0f_0f0f_0f0f)),
        );
    }
}

/// Eight nibbles, one a byte, moved next to each other.
fn squeeze(spread: u64) -> u32 {
    let pairs = (spread | spread >> 4) & 0x00ff_00ff_00ff_00ff;
    let quads = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    (quads | quads >> 16) as u32
}

fn refuse(view: &TensorView<'_>, problem: String) -> ModelFileError {
    ModelFileError::Tensor { path: view.path().into(), tensor: view.name().into(), problem }
}
