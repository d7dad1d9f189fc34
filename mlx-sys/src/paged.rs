//! Attention over keys and values kept in blocks: our first primitive.

use crate::Result;
use crate::array::{Array, list};
use crate::bridge::ffi;

/// Queries, keys and values of the step's tokens, f32: `q` `[tokens, heads, dim]`, `k` and `v`
/// `[tokens, kv_heads, dim]`, where `heads` is a multiple of `kv_heads`. Any strides.
#[derive(Debug, Clone, Copy)]
pub struct Projected<'a> {
    /// Queries, rotated.
    pub q: &'a Array,
    /// Keys, rotated.
    pub k: &'a Array,
    /// Values.
    pub v: &'a Array,
}

/// One layer's memory for keys and for values: `[num_blocks, block_size, kv_heads, dim]` f32 each, evaluated.
#[derive(Debug, Clone)]
pub struct KvSlabs {
    /// Keys.
    pub keys: Array,
    /// Values.
    pub values: Array,
}

/// Which tokens of the flat step belong together, and where their keys and values live. All i32.
#[derive(Debug, Clone)]
pub struct RaggedBatch {
    /// `[rows + 1]`: row r is the tokens from `row_offsets[r]` to `row_offsets[r + 1]`.
    pub row_offsets: Array,
    /// `[rows]`: how many tokens of the sequence come before the row's first.
    pub context_lens: Array,
    /// `[tokens]`: the slot of each token, `block * block_size + offset`.
    pub slot_mapping: Array,
    /// `[rows, max_blocks]`: the blocks of each sequence in the order of positions; entries past its end are not read.
    pub block_tables: Array,
}

/// How scores are made from dot products.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreOptions {
    /// Factor of each dot product.
    pub scale: f32,
    /// A token sees itself and this many less one before it; `None`: all.
    pub window: Option<std::num::NonZeroU32>,
    /// Scores become `cap · tanh(score / cap)`.
    pub softcap: Option<f32>,
}

/// Writes `k` and `v` into their slots, then lets every token attend to the tokens of its row up to itself and to all
/// that came before the row. Returns `[tokens, heads, dim]`.
///
/// **The slabs are written in place** when the result is evaluated. Steps must be evaluated in the order in which they
/// are built, on one thread; nobody else may use the slabs meanwhile.
///
/// A token's result depends on its own keys alone, bit for bit: not on its neighbours, on how a prompt was cut into
/// steps, or on the number of threads. CPU only.
///
/// # Errors
/// At once for wrong shapes and types; on evaluation for a slot or block outside the slabs (nothing is written then).
pub fn paged_attention(
    projected: Projected<'_>,
    slabs: &KvSlabs,
    batch: &RaggedBatch,
    options: ScoreOptions,
) -> Result<Array> {
    let inputs = [
        projected.q,
        projected.k,
        projected.v,
        &slabs.keys,
        &slabs.values,
        &batch.row_offsets,
        &batch.context_lens,
        &batch.slot_mapping,
        &batch.block_tables,
    ];
    let options = ffi::AttentionOptions {
        scale: options.scale,
        window: options.window.map_or(0, |window| i32::try_from(window.get()).unwrap_or(i32::MAX)),
        softcap: options.softcap.unwrap_or(0.0),
    };
    Array::wrap(ffi::paged_attention(&list(&inputs), &options))
}
