//! Attention over keys and values kept in blocks, with everything between the projections and it: one graph node
//! rotates queries and keys, writes keys and values into their slots, and attends.

use std::num::NonZeroU32;

use crate::array::{Array, list};
use crate::bridge::ffi;
use crate::{Dtype, Error, Result};

/// Some neighbouring columns of an f32 array `[tokens, width]`, of any strides.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// The array.
    pub array: &'a Array,
    /// The first column. How many there are follows from the heads.
    pub first: i32,
}

/// The projections of a step's tokens, not rotated. They may be columns of one array.
#[derive(Debug, Clone, Copy)]
pub struct Projected<'a> {
    /// Queries: `heads · dim` columns.
    pub q: Columns<'a>,
    /// Keys: `kv_heads · dim` columns.
    pub k: Columns<'a>,
    /// Values: `kv_heads · dim` columns.
    pub v: Columns<'a>,
    /// Heads of queries: a multiple of the slabs' heads.
    pub heads: i32,
    /// How queries and keys are rotated; `None`: not at all.
    pub angles: Option<TokenAngles<'a>>,
}

/// Cosines and sines of each token, `[tokens, half]` f32 with `half <= dim / 2`. Element i of a head is paired with
/// element i + half; elements from 2 · half on are left as they are.
#[derive(Debug, Clone, Copy)]
pub struct TokenAngles<'a> {
    /// Cosines.
    pub cos: &'a Array,
    /// Sines.
    pub sin: &'a Array,
}

/// The sizes of one layer's memory for keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvLayout {
    /// Blocks in all.
    pub num_blocks: i32,
    /// Tokens of a block; multiples of 16 are read where they lie, others are gathered first.
    pub block_size: i32,
    /// Heads of keys and of values.
    pub kv_heads: i32,
    /// Dimensions of a head.
    pub dim: i32,
}

/// One layer's memory for keys and values: evaluated arrays of one type, f32, f16, bf16 or i8.
#[derive(Debug, Clone)]
pub struct KvSlabs {
    /// Keys, `[num_blocks, kv_heads, dim, block_size]`.
    pub keys: Array,
    /// Values, `[num_blocks, kv_heads, block_size, dim]`.
    pub values: Array,
    /// What an i8 stands for, and absent for other types.
    pub scales: Option<KvScales>,
}

/// Factors of i8 keys and values, f32 `[num_blocks, kv_heads, block_size]`: a head's numbers of one token share one,
/// which is their largest magnitude over 127.
#[derive(Debug, Clone)]
pub struct KvScales {
    /// Of keys.
    pub keys: Array,
    /// Of values.
    pub values: Array,
}

impl KvSlabs {
    /// Memory that nothing was written to yet; pages that never are stay virtual.
    ///
    /// # Errors
    /// When MLX cannot allocate it.
    pub fn new(layout: KvLayout, dtype: Dtype) -> Result<Self> {
        let KvLayout { num_blocks, block_size, kv_heads, dim } = layout;
        let scales = || Array::uninit(&[num_blocks, kv_heads, block_size], Dtype::F32);
        Ok(Self {
            keys: Array::uninit(&[num_blocks, kv_heads, dim, block_size], dtype)?,
            values: Array::uninit(&[num_blocks, kv_heads, block_size, dim], dtype)?,
            scales: match dtype {
                Dtype::I8 => Some(KvScales { keys: scales()?, values: scales()? }),
                _ => None,
            },
        })
    }

    /// Bytes that they take.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        let scales = self.scales.as_ref().map_or(0, |scales| scales.keys.nbytes() + scales.values.nbytes());
        self.keys.nbytes() + self.values.nbytes() + scales
    }

    /// Keys, values and, for i8, their scales: the order of [`Self::read_blocks`].
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        let scales = self.scales.iter().flat_map(|scales| [&scales.keys, &scales.values]);
        [&self.keys, &self.values].into_iter().chain(scales)
    }

    /// Copies of blocks as they are when the copies are evaluated, which is in the order of evaluation among the steps:
    /// of each array `[ids.len(), ...]`. CPU only.
    ///
    /// # Errors
    /// For a block that is not there.
    pub fn read_blocks(&self, ids: &[i32]) -> Result<Vec<Array>> {
        self.arrays().map(|slab| Array::wrap(ffi::read_blocks(slab.raw(), ids))).collect()
    }

    /// Overwrites blocks with `contents`, shaped as [`Self::read_blocks`] gives them. It is done in place when the
    /// answer's arrays are evaluated, in the order of evaluation among the steps. CPU only.
    ///
    /// # Errors
    /// For a block that is not there, or contents of another number, shape or type.
    pub fn write_blocks(&self, ids: &[i32], contents: &[Array]) -> Result<Vec<Array>> {
        let wanted = self.arrays().count();
        if contents.len() != wanted {
            return Err(Error::Size { found: contents.len(), wanted });
        }
        let pairs = self.arrays().zip(contents);
        pairs.map(|(slab, new)| Array::wrap(ffi::write_blocks(slab.raw(), ids, new.raw()))).collect()
    }
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

/// Which tokens of its own row a token sees. It sees all that came before the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// Those up to itself.
    Causal,
    /// All.
    Bidirectional,
}

/// How scores are made from dot products, and which are made.
#[derive(Debug, Clone, Copy)]
pub struct ScoreOptions<'a> {
    /// Factor of each dot product.
    pub scale: f32,
    /// Scores become `cap · tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// A token sees only those less than this away; `None`: all.
    pub window: Option<NonZeroU32>,
    /// What it sees of its row.
    pub visibility: Visibility,
    /// `[heads]` f32: scores that join the softmax's sum with no value (attention sinks).
    pub sinks: Option<&'a Array>,
}

impl ScoreOptions<'_> {
    /// Causal, and nothing else.
    #[must_use]
    pub fn causal(scale: f32) -> Self {
        Self { scale, softcap: None, window: None, visibility: Visibility::Causal, sinks: None }
    }
}

/// Rotates queries and keys, writes keys and values into their slots, then lets every token attend to what it sees.
/// Returns `[tokens, heads · dim]`.
///
/// **The slabs are written in place** when the result is evaluated. Steps must be evaluated in the order in which they
/// are built, on one thread; nobody else may use the slabs meanwhile.
///
/// A token's result depends on its own keys alone, bit for bit: not on its neighbours, on how a prompt was cut into
/// steps, or on the number of threads. A number that is not finite, in a key or a value, shows in the results of the
/// tokens and heads that see it, and changes no other. CPU only.
///
/// # Errors
/// At once for wrong shapes and types; on evaluation for a slot or block outside the slabs (nothing is written then).
pub fn paged_attention(
    projected: Projected<'_>,
    slabs: &KvSlabs,
    batch: &RaggedBatch,
    scores: ScoreOptions<'_>,
) -> Result<Array> {
    let Projected { q, k, v, heads, angles } = projected;
    let mut inputs = vec![
        q.array,
        k.array,
        v.array,
        &slabs.keys,
        &slabs.values,
        &batch.row_offsets,
        &batch.context_lens,
        &batch.slot_mapping,
        &batch.block_tables,
    ];
    inputs.extend(slabs.scales.iter().flat_map(|scales| [&scales.keys, &scales.values]));
    inputs.extend(angles.iter().flat_map(|angles| [angles.cos, angles.sin]));
    inputs.extend(scores.sinks);
    let options = ffi::AttentionOptions {
        heads,
        q_first: q.first,
        k_first: k.first,
        v_first: v.first,
        scale: scores.scale,
        softcap: scores.softcap.unwrap_or(0.0),
        window: scores.window.map_or(0, |window| i32::try_from(window.get()).unwrap_or(i32::MAX)),
        bidirectional: scores.visibility == Visibility::Bidirectional,
        scaled: slabs.scales.is_some(),
        rotated: angles.is_some(),
        sinks: scores.sinks.is_some(),
    };
    Array::wrap(ffi::paged_attention(&list(&inputs), &options))
}
