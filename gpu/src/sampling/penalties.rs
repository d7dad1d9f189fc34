//! Repetition, presence and frequency penalties. Counts live on the device, because a token that a step in
//! flight samples has to count in the next one before the host has seen it.

use mlx_sys::{Array, Dtype, stack};
use troupe_protocol::{History, SamplingParams};

use super::{Row, SampleRow, indices};
use crate::batch::{column, vector};
use crate::error::{GpuError, Result};
use crate::slots::Slots;

/// What penalties look at, for one slot.
#[derive(Debug)]
pub struct TokenCounts {
    /// One where a token is in the prompt, [vocabulary] f32.
    pub(super) in_prompt: Array,
    /// How often each token was generated, [vocabulary] f32.
    pub(super) generated: Array,
}

impl TokenCounts {
    /// Counts of a sequence that starts, or goes on after a replay.
    ///
    /// # Errors
    /// A token beyond the vocabulary, or an operation that MLX refuses.
    pub fn new(history: &History, vocab_size: usize) -> Result<Self> {
        let mut in_prompt = vec![0.0_f32; vocab_size];
        let mut generated = vec![0.0_f32; vocab_size];
        for (ids, counts, most) in
            [(&history.prompt, &mut in_prompt, 1.0), (&history.generated, &mut generated, f32::MAX)]
        {
            for &id in ids {
                let count = counts.get_mut(id as usize);
                let count =
                    count.ok_or_else(|| GpuError::Step(format!("token {id} is beyond the vocabulary")))?;
                *count = (*count + 1.0).min(most);
            }
        }
        Ok(Self { in_prompt: vector(&in_prompt)?, generated: vector(&generated)? })
    }
}

/// Applies the rows' penalties to `logits` [S, vocabulary] f32 by MLX's own operations.
pub(super) fn apply<'a>(logits: &Array, rows: &[Row<'a>]) -> Result<Array> {
    let with_counts = |(index, row): (usize, &Row<'a>)| Some((index, row.params, row.counts?));
    let penalised: Vec<_> = rows.iter().enumerate().filter_map(with_counts).collect();
    if penalised.is_empty() {
        return Ok(logits.clone());
    }
    let parameter = |read: fn(&SamplingParams) -> f32| {
        column(&penalised.iter().map(|(_, params, _)| read(params)).collect::<Vec<_>>())
    };
    let places = indices(&penalised.iter().map(|&(index, ..)| index).collect::<Vec<_>>())?;
    let in_prompt = stack(&penalised.iter().map(|(.., c)| &c.in_prompt).collect::<Vec<_>>(), 0)?;
    let generated = stack(&penalised.iter().map(|(.., c)| &c.generated).collect::<Vec<_>>(), 0)?;
    let zero = Array::scalar(0.0_f32)?;

    let own = logits.take(&places, 0)?;
    let seen = in_prompt.add(&generated)?.greater(&zero)?;
    let repetition = parameter(|p| p.repetition_penalty)?;
    let weakened = own.greater(&zero)?.where_(&own.divide(&repetition)?, &own.multiply(&repetition)?)?;
    let own = seen.where_(&weakened, &own)?;
    let presence =
        generated.greater(&zero)?.astype(Dtype::F32)?.multiply(&parameter(|p| p.presence_penalty)?)?;
    let frequency = generated.multiply(&parameter(|p| p.frequency_penalty)?)?;
    let own = own.subtract(&presence)?.subtract(&frequency)?;
    Ok(logits.set_rows(&places, &own)?)
}

/// Counts the new `tokens` [S] u32.
pub(super) fn book(tokens: &Array, rows: &[SampleRow<'_>], slots: &mut Slots) -> Result<()> {
    let one = vector(&[1.0_f32])?;
    for (index, row) in (0_i32..).zip(rows) {
        if let Some(counts) = &mut slots.get_mut(row.slot)?.counts {
            counts.generated = counts.generated.add_rows(&tokens.take(&vector(&[index])?, 0)?, &one)?;
        }
    }
    Ok(())
}
