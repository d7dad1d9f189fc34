//! What our kernel is told of each row. See `mlx_sys::Drawing` for the limits and their order.

use std::num::NonZeroU32;

use mlx_sys::{Array, Choice, Drawing, Penalty, RowChoice};
use troupe_protocol::TokenMask;
use troupe_protocol::random::uniform;

use super::{Row, takes_best};
use crate::error::Result;

/// A token for each row of `logits` [S, vocabulary] f32: [S] u32.
pub(super) fn choose(logits: &Array, rows: &[Row<'_>]) -> Result<Array> {
    let rows: Vec<_> = rows.iter().map(row_choice).collect();
    Ok(logits.choose_tokens(&rows)?)
}

fn row_choice<'r>(row: &'r Row<'_>) -> RowChoice<'r> {
    let params = row.params;
    let choice = if takes_best(params) {
        Choice::Greedy
    } else {
        Choice::Draw(Drawing {
            temperature: params.temperature,
            top_k: NonZeroU32::new(params.top_k),
            top_p: params.top_p.min(1.0),
            min_p: params.min_p.max(0.0),
            uniform: uniform(params.seed, row.position),
        })
    };
    let penalty = row.counts.map(|counts| Penalty {
        prompt: &counts.in_prompt,
        generated: &counts.generated,
        repetition: params.repetition_penalty,
        presence: params.presence_penalty,
        frequency: params.frequency_penalty,
    });
    RowChoice { choice, biases: &row.biases, penalty, mask: row.mask.map(TokenMask::words) }
}
