//! Choosing tokens on the device.
//!
//! All rows of a step are sampled together. A row's choice is a function of its own logits, parameters,
//! seed and position: nothing here looks across rows. Greedy rows skip the work that drawing needs, and rows
//! without penalties, biases or log-probabilities pay for none.

mod choose;
mod draw;
mod graph;
mod logprobs;
mod penalties;
#[cfg(test)]
mod tests;

use mlx_sys::{Array, Dtype};
use troupe_protocol::{SampledToken, SamplingParams, SlotId};

use crate::batch::vector;
use crate::error::Result;
use crate::slots::Slots;
use logprobs::Logprobs;

pub use penalties::TokenCounts;

/// A row to be sampled.
#[derive(Clone, Copy, Debug)]
pub struct SampleRow {
    /// Whose parameters.
    pub slot: SlotId,
    /// Position that the new token will take; also the counter of the random draw.
    pub position: u32,
}

/// What was sampled, still on the device.
#[derive(Debug)]
pub struct Sampled {
    /// [S] u32.
    pub tokens: Array,
    logprobs: Option<Logprobs>,
}

/// A row with what its slot says.
#[derive(Clone, Copy)]
struct Row<'a> {
    position: u32,
    params: &'a SamplingParams,
    /// Present if penalties are on.
    counts: Option<&'a TokenCounts>,
}

/// Chooses a token for each row of `logits` [S, vocabulary] and books it in the rows' penalty counts.
///
/// # Errors
/// A slot without an owner, or an operation that MLX refuses.
pub fn sample(logits: &Array, rows: &[SampleRow], slots: &mut Slots) -> Result<Sampled> {
    let logits = logits.astype(Dtype::F32)?;
    let known = with_slots(rows, slots)?;
    let tokens = if logits.has_sampling_kernel() {
        choose::choose(&logits, &known)?
    } else {
        graph::choose(&logits, &known)?
    };
    let logprobs = Logprobs::new(&logits, &tokens, &known)?;
    penalties::book(&tokens, rows, slots)?;
    Ok(Sampled { tokens, logprobs })
}

fn with_slots<'a>(rows: &[SampleRow], slots: &'a Slots) -> Result<Vec<Row<'a>>> {
    let known = |row: &SampleRow| {
        let slot = slots.get(row.slot)?;
        Ok(Row { position: row.position, params: &slot.sampling, counts: slot.counts.as_ref() })
    };
    rows.iter().map(known).collect()
}

/// Whether the most likely token is taken. With so little mass or so few candidates kept, a draw could fall on it only.
fn takes_best(params: &SamplingParams) -> bool {
    params.is_greedy() || params.top_k == 1 || params.top_p <= 0.0
}

/// Host indices as an i32 array.
fn indices(rows: &[usize]) -> Result<Array> {
    vector(&rows.iter().map(|&row| row as i32).collect::<Vec<_>>())
}

impl Sampled {
    /// All arrays that have to be evaluated before [`Self::read`].
    pub fn outputs(&self) -> Vec<&Array> {
        let mut outputs = vec![&self.tokens];
        if let Some(logprobs) = &self.logprobs {
            outputs.extend(logprobs.outputs());
        }
        outputs
    }

    /// Waits for the device and reads the tokens, in the order of the rows.
    ///
    /// # Errors
    /// If the evaluation failed.
    pub fn read(&self) -> Result<Vec<SampledToken>> {
        let ids = self.tokens.to_vec::<u32>()?;
        let mut out: Vec<_> = ids.into_iter().map(|id| SampledToken { id, logprobs: None }).collect();
        if let Some(logprobs) = &self.logprobs {
            logprobs.read(&mut out)?;
        }
        Ok(out)
    }
}
