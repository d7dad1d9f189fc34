//! How likely the tokens of prompts were, by the model's own distribution.

use mlx_sys::{Array, Dtype};
use troupe_protocol::{PromptLogprobs, SequenceId, StepPlan};

use crate::batch::{Batch, vector};
use crate::error::Result;
use crate::sampling::Logprobs;
use crate::slots::Slots;

/// Tokens of prompts that a step scores.
#[derive(Debug)]
pub struct Targets {
    /// Rows with targets, in the order of the plan.
    spans: Vec<Span>,
    /// For each target, the token of the batch that predicts it.
    places: Vec<i32>,
    /// Token ids.
    tokens: Vec<u32>,
    /// For each target, how many alternatives are wanted.
    alternatives: Vec<usize>,
}

/// Their log-probabilities, still on the device.
#[derive(Debug)]
pub struct ScoredPrompts {
    spans: Vec<Span>,
    logprobs: Logprobs,
}

/// The targets of one row.
#[derive(Clone, Copy, Debug)]
struct Span {
    sequence: SequenceId,
    /// Position of the first.
    start: u32,
    count: usize,
}

impl Targets {
    /// Those of a plan.
    ///
    /// # Errors
    /// A slot without an owner.
    pub fn of(plan: &StepPlan, batch: &Batch, slots: &Slots) -> Result<Option<Self>> {
        if plan.rows.iter().all(|row| row.targets.is_empty()) {
            return Ok(None);
        }
        let mut first_token = vec![0; plan.rows.len()];
        let mut end = 0;
        for span in &batch.spans {
            first_token[span.row] = end;
            end += span.num_tokens as i32;
        }
        let mut targets =
            Self { spans: Vec::new(), places: Vec::new(), tokens: Vec::new(), alternatives: Vec::new() };
        for (row, first) in plan.rows.iter().zip(first_token).filter(|(row, _)| !row.targets.is_empty()) {
            let count = row.targets.len();
            let wanted = slots.get(row.slot)?.sampling.prompt_logprobs.unwrap_or(0);
            targets.spans.push(Span { sequence: row.sequence, start: row.start + 1, count });
            targets.places.extend(first..first + count as i32);
            targets.tokens.extend(&row.targets);
            targets.alternatives.extend(std::iter::repeat_n(usize::from(wanted), count));
        }
        Ok(Some(targets))
    }

    /// Scores them by `hidden` [T, hidden] states of the batch, of which `logits` makes [N, vocabulary].
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn score(
        self,
        hidden: &Array,
        logits: impl FnOnce(&Array) -> Result<Array>,
    ) -> Result<ScoredPrompts> {
        let Self { spans, places, tokens, alternatives } = self;
        let logits = logits(&hidden.take(&vector(&places)?, 0)?)?.astype(Dtype::F32)?;
        let rows = alternatives.into_iter().enumerate().collect();
        Ok(ScoredPrompts { spans, logprobs: Logprobs::of(&logits, &vector(&tokens)?, rows)? })
    }
}

impl ScoredPrompts {
    /// All arrays that have to be evaluated before [`Self::read`].
    pub fn outputs(&self) -> [&Array; 3] {
        self.logprobs.outputs()
    }

    /// Waits for them; in the order of the plan.
    ///
    /// # Errors
    /// If the evaluation failed.
    pub fn read(&self) -> Result<Vec<PromptLogprobs>> {
        let mut tokens = self.logprobs.read()?.into_iter().map(|(_, logprobs)| logprobs);
        let read = |&Span { sequence, start, count }: &Span| PromptLogprobs {
            sequence,
            start,
            tokens: tokens.by_ref().take(count).collect(),
        };
        Ok(self.spans.iter().map(read).collect())
    }
}
