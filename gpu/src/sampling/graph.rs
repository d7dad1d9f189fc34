//! Choosing tokens by MLX's own operations: for devices without our kernel, and the kernel's oracle.

use mlx_sys::{Array, Axis};
use troupe_protocol::SamplingParams;
use troupe_protocol::random::uniform;

use super::{Row, draw, indices, penalties, takes_best};
use crate::batch::{column, vector};
use crate::error::Result;

/// A token for each row of `logits` [S, vocabulary] f32: [S] u32.
pub(super) fn choose(logits: &Array, rows: &[Row<'_>]) -> Result<Array> {
    let logits = penalties::apply(&add_biases(logits, rows)?, rows)?;
    let logits = keep_allowed(logits, rows)?;
    let drawing: Vec<usize> = (0..rows.len()).filter(|&row| !takes_best(rows[row].params)).collect();
    if drawing.is_empty() {
        return Ok(logits.argmax(-1, Axis::Drop)?);
    }
    let own: Vec<&SamplingParams> = drawing.iter().map(|&row| rows[row].params).collect();
    let uniforms: Vec<f32> =
        drawing.iter().map(|&row| uniform(rows[row].params.seed, rows[row].position)).collect();
    if drawing.len() == rows.len() {
        return draw::draw(&logits, &own, &column(&uniforms)?);
    }
    let places = indices(&drawing)?;
    let drawn = draw::draw(&logits.take(&places, 0)?, &own, &column(&uniforms)?)?;
    Ok(logits.argmax(-1, Axis::Drop)?.set_rows(&places, &drawn)?)
}

/// Makes the tokens that a row's mask does not allow impossible.
fn keep_allowed(logits: Array, rows: &[Row<'_>]) -> Result<Array> {
    let masked: Vec<usize> = (0..rows.len()).filter(|&row| rows[row].mask.is_some()).collect();
    if masked.is_empty() {
        return Ok(logits);
    }
    let words: Vec<u32> =
        rows.iter().filter_map(|row| row.mask).flat_map(|mask| mask.words().iter().copied()).collect();
    let shape = [masked.len() as i32, (words.len() / masked.len()) as i32, 1];
    // The bits of a word, the least significant first, become 32 places in a row.
    let shifts = vector(&(0..u32::BITS).collect::<Vec<_>>())?;
    let bits =
        Array::from_slice(&words, &shape)?.right_shift(&shifts)?.bitwise_and(&Array::scalar(1_u32)?)?;
    let width = logits.dim(-1);
    let bits = bits.reshape(&[shape[0], -1])?.slice(&[0, 0], &[shape[0], width], &[1, 1])?;
    let places = indices(&masked)?;
    let impossible = Array::scalar(f32::NEG_INFINITY)?;
    let allowed = bits.greater(&Array::scalar(0_u32)?)?.where_(&logits.take(&places, 0)?, &impossible)?;
    Ok(logits.set_rows(&places, &allowed)?)
}

/// Adds the rows' biases.
fn add_biases(logits: &Array, rows: &[Row<'_>]) -> Result<Array> {
    let width = logits.dim(-1);
    let mut places = Vec::new();
    let mut values = Vec::new();
    for (at, row) in (0_i32..).zip(rows) {
        for &(token, bias) in row.biases.iter() {
            places.push(at * width + token as i32);
            values.push(bias);
        }
    }
    if places.is_empty() {
        return Ok(logits.clone());
    }
    let flat = logits.flatten(0, -1)?.add_rows(&vector(&places)?, &vector(&values)?)?;
    Ok(flat.reshape(&[-1, width])?)
}
