//! Choosing tokens by MLX's own operations: for devices without our kernel, and the kernel's oracle.

use mlx_sys::{Array, Axis};
use troupe_protocol::SamplingParams;
use troupe_protocol::random::uniform;

use super::{Row, draw, indices, penalties, takes_best};
use crate::batch::{column, vector};
use crate::error::Result;

/// A token for each row of `logits` [S, vocabulary] f32: [S] u32.
pub(super) fn choose(logits: &Array, rows: &[Row<'_>]) -> Result<Array> {
    let logits = add_biases(penalties::apply(logits, rows)?, rows)?;
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

/// Adds the rows' `logit_bias`.
fn add_biases(logits: Array, rows: &[Row<'_>]) -> Result<Array> {
    let width = logits.dim(-1);
    let mut places = Vec::new();
    let mut values = Vec::new();
    for (at, row) in (0_i32..).zip(rows) {
        for &(token, bias) in &row.params.logit_bias {
            places.push(at * width + token as i32);
            values.push(bias);
        }
    }
    if places.is_empty() {
        return Ok(logits);
    }
    let flat = logits.flatten(0, -1)?.add_rows(&vector(&places)?, &vector(&values)?)?;
    Ok(flat.reshape(&[-1, width])?)
}
