//! Logits of a step from which nothing is sampled yet: rows of it wait for masks, which are worked out while it is computed.

use mlx_sys::Array;
use troupe_protocol::{RowOutput, SequenceId, SlotId, StepMasks, StepPlan, TokenMask};

use crate::batch::{Batch, check_mask, vector};
use crate::error::{GpuError, Result};
use crate::sampling::SampleRow;

/// A row that samples.
#[derive(Debug)]
pub struct Wanted {
    /// Its index in the plan.
    pub index: usize,
    /// Whose it is.
    pub sequence: SequenceId,
    slot: SlotId,
    /// Position that the new token will take.
    position: u32,
    mask: Option<TokenMask>,
    waits: bool,
}

/// Logits and whose they are.
#[derive(Debug)]
pub struct Unsampled {
    /// [S, vocabulary].
    logits: Array,
    rows: Vec<Wanted>,
}

impl Wanted {
    /// The rows of a plan that sample, in the order of the batch.
    pub fn of(plan: &StepPlan, batch: &Batch) -> Vec<Self> {
        let sampling = batch.spans.iter().filter(|span| span.output.samples());
        let wanted = sampling.map(|span| {
            let row = &plan.rows[span.row];
            Self {
                index: span.row,
                sequence: row.sequence,
                slot: row.slot,
                position: (span.context_len + span.num_tokens) as u32,
                mask: row.mask.clone(),
                waits: span.output == RowOutput::SampleLater,
            }
        });
        wanted.collect()
    }

    /// What the sampler has to know of it.
    pub fn sample_row(&self) -> SampleRow<'_> {
        SampleRow { slot: self.slot, position: self.position, mask: self.mask.as_ref() }
    }
}

impl Unsampled {
    /// `logits` [S, vocabulary] are those of `rows`, in their order.
    pub fn new(logits: Array, rows: Vec<Wanted>) -> Self {
        Self { logits, rows }
    }

    /// Whether a row waits for its mask.
    pub fn waits(&self) -> bool {
        self.rows.iter().any(|row| row.waits)
    }

    /// The logits.
    pub fn logits(&self) -> &Array {
        &self.logits
    }

    /// The rows.
    pub fn rows(&self) -> &[Wanted] {
        &self.rows
    }

    /// What is sampled with these masks: rows that wait and get none are left out.
    ///
    /// # Errors
    /// A mask that no row waits for, that allows nothing or has another width than the vocabulary, or an operation that MLX
    /// refuses.
    pub fn masked(mut self, StepMasks { step, masks }: StepMasks, vocab_size: u32) -> Result<Self> {
        for (sequence, mask) in masks {
            let refuse = |reason: String| GpuError::Step(format!("{sequence} in {step}: {reason}"));
            check_mask(&mask, vocab_size).map_err(refuse)?;
            let row = self.rows.iter_mut().find(|row| row.waits && row.sequence == sequence);
            let row = row.ok_or_else(|| refuse("no row of it waits for a mask".to_owned()))?;
            (row.mask, row.waits) = (Some(mask), false);
        }
        if !self.waits() {
            return Ok(self);
        }
        let left: Vec<i32> =
            (0_i32..).zip(&self.rows).filter(|(_, row)| !row.waits).map(|(at, _)| at).collect();
        self.rows.retain(|row| !row.waits);
        if !left.is_empty() {
            self.logits = self.logits.take(&vector(&left)?, 0)?;
        }
        Ok(self)
    }
}
