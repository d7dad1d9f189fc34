//! A step's rows, flattened: the one shape of input that every family computes.
//!
//! T tokens of R rows lie one after another, rows of a single token first. No padding.

use std::cell::OnceCell;

use mlx_sys::{Array, RaggedBatch};
use troupe_protocol::{EngineLimits, Row, RowOutput, RowTokens, StepPlan, TokenMask};

use crate::error::{GpuError, Result};
use crate::slots::Slots;

/// The ragged input of one forward.
#[derive(Debug)]
pub struct Batch {
    /// Token ids, [T] u32.
    pub tokens: Array,
    /// Positions within their sequences, [T] f32.
    pub positions: Array,
    /// For each row, the most tokens that its sequence may come to hold.
    pub max_lens: Vec<u32>,
    /// Rows in the order of the batch.
    pub spans: Vec<Span>,
    /// The rows as attention reads them.
    pub ragged: RaggedBatch,
    row_of_token: OnceCell<Array>,
}

/// A row of the batch.
#[derive(Clone, Debug)]
pub struct Span {
    /// Index of the row in the plan.
    pub row: usize,
    /// Its new tokens.
    pub num_tokens: usize,
    /// Tokens before them.
    pub context_len: usize,
    /// KV indices of all its tokens up to the last new one are derived from these.
    pub blocks: Vec<i32>,
    /// What is wanted of its last token.
    pub output: RowOutput,
}

impl Batch {
    /// Flattens a plan. Tokens that only the device knows are taken from `slots`.
    ///
    /// # Errors
    /// A plan that contradicts the slots or the limits, or an operation that MLX refuses.
    pub fn new(plan: &StepPlan, slots: &Slots, limits: &EngineLimits) -> Result<Self> {
        if plan.rows.is_empty() {
            return Err(GpuError::Step("it has no rows".to_owned()));
        }
        let targets: usize = plan.rows.iter().map(|row| row.targets.len()).sum();
        if targets > limits.max_num_prompt_logprobs as usize {
            let most = limits.max_num_prompt_logprobs;
            return Err(GpuError::Step(format!(
                "{targets} tokens of prompts are to be scored, at most {most}"
            )));
        }
        let mut order: Vec<usize> = (0..plan.rows.len()).collect();
        order.sort_by_key(|&row| plan.rows[row].tokens.count() > 1);
        let mut flat = Flat::default();
        for row in order {
            check(&plan.rows[row], limits)?;
            flat.push(row, &plan.rows[row], slots, limits.block_size as usize)?;
        }
        flat.into_batch(slots)
    }

    /// Tokens in all.
    pub fn num_tokens(&self) -> i32 {
        self.tokens.dim(0)
    }

    /// Row index of each token, [T] i32.
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn row_of_token(&self) -> Result<Array> {
        if let Some(rows) = self.row_of_token.get() {
            return Ok(rows.clone());
        }
        let rows: Vec<i32> = (0_i32..)
            .zip(&self.spans)
            .flat_map(|(row, span)| std::iter::repeat_n(row, span.num_tokens))
            .collect();
        let rows = Array::from_slice(&rows, &[rows.len() as i32])?;
        Ok(self.row_of_token.get_or_init(|| rows).clone())
    }

    /// Indices of the tokens whose logits are wanted, in the order of the batch.
    pub fn sampled_tokens(&self) -> Vec<i32> {
        let mut end = 0;
        let ends = self.spans.iter().map(|span| {
            end += span.num_tokens;
            (span.output, end as i32 - 1)
        });
        ends.filter(|(output, _)| output.samples()).map(|(_, last)| last).collect()
    }
}

/// Host-side columns of a batch in the making.
#[derive(Default)]
struct Flat {
    tokens: Vec<u32>,
    /// Places in `tokens`, and slots whose last token belongs there.
    sampled: (Vec<i32>, Vec<i32>),
    positions: Vec<f32>,
    slot_mapping: Vec<i32>,
    max_lens: Vec<u32>,
    spans: Vec<Span>,
}

impl Flat {
    fn push(&mut self, index: usize, row: &Row, slots: &Slots, block_size: usize) -> Result<()> {
        match &row.tokens {
            RowTokens::Prompt(ids) => self.tokens.extend(ids),
            RowTokens::Sampled(step) => {
                slots.check_last_step(row.slot, *step)?;
                self.sampled.0.push(self.tokens.len() as i32);
                self.sampled.1.push(row.slot.0 as i32);
                self.tokens.push(0);
            }
        }
        let (start, count) = (row.start as usize, row.tokens.count() as usize);
        for position in start..start + count {
            let block = row.blocks[position / block_size].0 as usize;
            self.slot_mapping.push((block * block_size + position % block_size) as i32);
            self.positions.push(position as f32);
        }
        self.max_lens.push(slots.max_len(row.slot)?);
        self.spans.push(Span {
            row: index,
            num_tokens: count,
            context_len: start,
            blocks: row.blocks.iter().map(|block| block.0 as i32).collect(),
            output: row.output,
        });
        Ok(())
    }

    fn into_batch(self, slots: &Slots) -> Result<Batch> {
        let num_rows = self.spans.len();
        let mut row_offsets = vec![0_i32];
        let mut context_lens = Vec::with_capacity(num_rows);
        let width = self.spans.iter().map(|span| span.blocks.len()).max().unwrap_or(0);
        let mut tables = Vec::with_capacity(num_rows * width);
        for span in &self.spans {
            row_offsets.push(row_offsets[row_offsets.len() - 1] + span.num_tokens as i32);
            context_lens.push(span.context_len as i32);
            tables.extend_from_slice(&span.blocks);
            tables.resize(context_lens.len() * width, 0);
        }
        Ok(Batch {
            tokens: self.input_tokens(slots)?,
            positions: vector(&self.positions)?,
            max_lens: self.max_lens,
            ragged: RaggedBatch {
                row_offsets: vector(&row_offsets)?,
                context_lens: vector(&context_lens)?,
                slot_mapping: vector(&self.slot_mapping)?,
                block_tables: Array::from_slice(&tables, &[num_rows as i32, width as i32])?,
            },
            spans: self.spans,
            row_of_token: OnceCell::new(),
        })
    }

    fn input_tokens(&self, slots: &Slots) -> Result<Array> {
        let (places, owners) = &self.sampled;
        if places.is_empty() {
            return vector(&self.tokens);
        }
        let last = slots.last_tokens().take(&vector(owners)?, 0)?;
        if places.len() == self.tokens.len() {
            return Ok(last);
        }
        Ok(vector(&self.tokens)?.set_rows(&vector(places)?, &last)?)
    }
}

/// Checks what would otherwise read or write memory of others: MLX does not look at indices.
fn check(row: &Row, limits: &EngineLimits) -> Result<()> {
    let refuse = |reason: String| Err(GpuError::Step(format!("{}: {reason}", row.sequence)));
    let (count, held) = (row.tokens.count(), row.blocks.len() as u64 * u64::from(limits.block_size));
    if count == 0 {
        return refuse("a row without tokens".to_owned());
    }
    if held < u64::from(row.start) + u64::from(count) {
        let (blocks, start) = (row.blocks.len(), row.start);
        return refuse(format!("{blocks} blocks do not hold {count} tokens from {start} on"));
    }
    if let Some(block) = row.blocks.iter().find(|block| block.0 >= limits.num_blocks) {
        return refuse(format!("{block} is not below the {} blocks", limits.num_blocks));
    }
    if row.targets.len() > count as usize {
        return refuse(format!("{} tokens are to be scored behind {count}", row.targets.len()));
    }
    if let Some(reason) = row.mask.as_ref().and_then(|mask| check_mask(mask, limits.vocab_size).err()) {
        return refuse(reason);
    }
    let ids = match &row.tokens {
        RowTokens::Prompt(ids) => &ids[..],
        RowTokens::Sampled(_) => &[],
    };
    if let Some(id) = ids.iter().chain(&row.targets).find(|id| **id >= limits.vocab_size) {
        return refuse(format!("token {id} is not below the vocabulary size of {}", limits.vocab_size));
    }
    Ok(())
}

/// Checks that a mask is as wide as the vocabulary, and not empty.
pub(crate) fn check_mask(mask: &TokenMask, vocab_size: u32) -> Result<(), String> {
    let (words, wanted) = (mask.words().len(), TokenMask::num_words(vocab_size));
    if words != wanted {
        return Err(format!("a mask of {words} words, and not {wanted}"));
    }
    if mask.is_empty() {
        return Err("a mask that allows nothing".to_owned());
    }
    Ok(())
}

/// A host slice as an array of one axis.
pub(crate) fn vector<T: mlx_sys::Element>(values: &[T]) -> Result<Array> {
    Ok(Array::from_slice(values, &[values.len() as i32])?)
}

/// A column [n, 1] of f32.
pub(crate) fn column(values: &[f32]) -> Result<Array> {
    Ok(Array::from_slice(values, &[values.len() as i32, 1])?)
}
