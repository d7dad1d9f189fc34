//! Paged attention over a ragged batch.
//!
//! Two bodies give the same function: our own primitive, which writes the KV blocks in place, and a graph of stock MLX
//! operations, which serves where the primitive has no body yet and is its oracle in tests.

use mlx_sys::{
    Array, Columns, Mask, Projected, ScoreOptions, concatenate, paged_attention, scaled_dot_product_attention,
};

use crate::batch::{Batch, Span, vector};
use crate::error::Result;
use crate::kv::{CacheKind, KvBody, KvLayer};

/// Rotates queries and keys, writes the new keys and values into their blocks, then lets the queries attend to their
/// sequences up to themselves. [T, heads × head_dim].
///
/// # Errors
/// If MLX refuses an operation.
pub fn attend(projected: Projected<'_>, kv: &mut KvLayer, batch: &Batch) -> Result<Array> {
    let CacheKind::FullAttention { head_dim, .. } = kv.kind;
    let scale = (head_dim as f32).sqrt().recip();
    match kv.body {
        KvBody::Paged => {
            Ok(paged_attention(projected, &kv.slabs, &batch.ragged, ScoreOptions::causal(scale))?)
        }
        KvBody::Stock => stock(projected, kv, batch, scale),
    }
}

/// Rows of one token are padded to the longest and computed together; each longer row by itself.
fn stock(projected: Projected<'_>, kv: &mut KvLayer, batch: &Batch, scale: f32) -> Result<Array> {
    let Projected { q, k, v, heads, angles } = projected;
    let CacheKind::FullAttention { num_heads, head_dim } = kv.kind;
    let by_head = |columns, heads| by_head(columns, heads, head_dim as i32);
    let (mut q, mut k, v) =
        (by_head(q, heads)?, by_head(k, num_heads as i32)?, by_head(v, num_heads as i32)?);
    if let Some(angles) = angles {
        (q, k) = (q.rotate_half(angles.cos, angles.sin)?, k.rotate_half(angles.cos, angles.sin)?);
    }
    // The slab has no other handle, so MLX writes into the buffer it has.
    kv.slabs.keys = kv.slabs.keys.set_rows(&batch.ragged.slot_mapping, &k)?;
    kv.slabs.values = kv.slabs.values.set_rows(&batch.ragged.slot_mapping, &v)?;
    let single = batch.spans.iter().take_while(|span| span.num_tokens == 1).count();
    let (decoding, prefilling) = batch.spans.split_at(single);
    let mut outputs = Vec::new();
    if !decoding.is_empty() {
        outputs.push(attend_decoding(&rows(&q, 0, single)?, decoding, kv, scale)?);
    }
    let mut start = single;
    for span in prefilling {
        outputs.push(attend_prefilling(&rows(&q, start, span.num_tokens)?, span, kv, scale)?);
        start += span.num_tokens;
    }
    let attended = match &outputs[..] {
        [output] => output.clone(),
        _ => concatenate(&outputs.iter().collect::<Vec<_>>(), 0)?,
    };
    Ok(attended.flatten(1, 2)?)
}

/// Columns as [T, heads, head_dim].
fn by_head(columns: Columns<'_>, heads: i32, head_dim: i32) -> Result<Array> {
    let Columns { array, first } = columns;
    let (tokens, end) = (array.dim(0), first + heads * head_dim);
    Ok(array.slice(&[0, first], &[tokens, end], &[1, 1])?.reshape(&[tokens, heads, head_dim])?)
}

fn attend_decoding(q: &Array, spans: &[Span], kv: &KvLayer, scale: f32) -> Result<Array> {
    let most = spans.iter().map(|span| span.context_len + 1).max().unwrap_or(1);
    let mut places = Vec::with_capacity(spans.len() * most);
    let mut mask = Vec::with_capacity(spans.len() * most);
    for (row, span) in spans.iter().enumerate() {
        places.extend(kv_places(span, kv.block_size));
        places.resize((row + 1) * most, 0);
        mask.extend(std::iter::repeat_n(1_u8, span.context_len + 1));
        mask.resize((row + 1) * most, 0);
    }
    let (rows, most) = (spans.len() as i32, most as i32);
    let mask = Array::from_slice(&mask, &[rows, 1, 1, most])?.astype(mlx_sys::Dtype::Bool)?;
    let gather = |slab: &Array| -> Result<Array> {
        let flat = slab.take(&vector(&places)?, 0)?;
        Ok(flat.reshape(&[rows, most, flat.dim(1), flat.dim(2)])?.transpose(&[0, 2, 1, 3])?)
    };
    let out = scaled_dot_product_attention(
        &q.expand_dims(&[2])?,
        &gather(&kv.slabs.keys)?,
        &gather(&kv.slabs.values)?,
        scale,
        Mask::Array(&mask),
    )?;
    Ok(out.squeeze(&[2])?)
}

fn attend_prefilling(q: &Array, span: &Span, kv: &KvLayer, scale: f32) -> Result<Array> {
    let places = vector(&kv_places(span, kv.block_size).collect::<Vec<_>>())?;
    let heads_first = |x: &Array| -> Result<Array> { Ok(x.transpose(&[1, 0, 2])?.expand_dims(&[0])?) };
    let out = scaled_dot_product_attention(
        &heads_first(q)?,
        &heads_first(&kv.slabs.keys.take(&places, 0)?)?,
        &heads_first(&kv.slabs.values.take(&places, 0)?)?,
        scale,
        Mask::Causal,
    )?;
    Ok(out.squeeze(&[0])?.transpose(&[1, 0, 2])?)
}

/// KV indices of a row's tokens, from the sequence's first to the row's last.
fn kv_places(span: &Span, block_size: usize) -> impl Iterator<Item = i32> + '_ {
    let size = block_size as i32;
    (0..span.context_len + span.num_tokens)
        .map(move |position| span.blocks[position / block_size] * size + position as i32 % size)
}

/// `count` rows of `x` from `start` on.
fn rows(x: &Array, start: usize, count: usize) -> Result<Array> {
    let (start, stop) = (start as i32, (start + count) as i32);
    Ok(x.slice(&[start, 0, 0], &[stop, x.dim(1), x.dim(2)], &[1, 1, 1])?)
}
