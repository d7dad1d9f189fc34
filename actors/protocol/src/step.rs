//! A step: one ragged forward over rows of different sequences.
//!
//! The scheduler writes a [`StepPlan`], the executor answers with a [`StepOutcome`]. Step N+1 may be
//! submitted before the outcome of N is read: a row then names its input as [`RowTokens::Sampled`],
//! a token that only the device knows yet.

use alloc::vec::Vec;

use crate::{
    BlockId, BlockName, SampledToken, SamplingParams, SequenceId, SlotId, StepId, StoreId, TokenId,
    TokenLogprobs, TokenMask,
};

/// The rows of one forward. Executed in order of submission.
#[derive(Clone, Debug, PartialEq)]
pub struct StepPlan {
    /// This step.
    pub step: StepId,
    /// Blocks copied to the block store as they are before all else in the step. There when the step is done.
    pub saves: Vec<BlockTransfer>,
    /// Blocks copied from the block store after the saves and before the forward.
    pub loads: Vec<BlockTransfer>,
    /// Slots that get a new owner before the forward.
    pub bindings: Vec<Binding>,
    /// At most one row a sequence; tokens over all rows stay within `max_num_batched_tokens`. None in a step that only
    /// saves.
    pub rows: Vec<Row>,
}

/// A block's contents on their way between KV memory and the block store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTransfer {
    /// Where in KV memory.
    pub block: BlockId,
    /// Where in the store.
    pub stored: StoreId,
    /// What it holds.
    pub name: BlockName,
}

/// Gives a slot to a sequence. Whatever the slot held before is forgotten.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// The slot.
    pub slot: SlotId,
    /// How its tokens are chosen.
    pub sampling: SamplingParams,
    /// Present if [`SamplingParams::needs_history`].
    pub history: Option<History>,
    /// The most tokens that the sequence may come to hold. Fixed for its life, so that position
    /// encodings which depend on length stay the same in every chunk and after a replay.
    pub max_len: u32,
}

/// What is known of a sequence before the point at which it is (re)started.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The prompt.
    pub prompt: Vec<TokenId>,
    /// Tokens generated before a preemption.
    pub generated: Vec<TokenId>,
    /// What mirostat learned of them, as the last outcome told it; `None` at the start.
    pub mu: Option<f32>,
}

/// A run of new tokens of one sequence: a chunk of a prompt, or one token to decode from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whose tokens.
    pub sequence: SequenceId,
    /// Where its device state lives.
    pub slot: SlotId,
    /// Position of the first token; all earlier ones are in the KV blocks.
    pub start: u32,
    /// The tokens.
    pub tokens: RowTokens,
    /// Block table: covers positions zero to the row's last token.
    pub blocks: Vec<BlockId>,
    /// Of a sequence with [`SamplingParams::prompt_logprobs`]: the tokens of the prompt that stand behind the row's first ones,
    /// one behind each, whose log-probabilities are wanted. Over all rows within
    /// [`EngineLimits::max_num_prompt_logprobs`](crate::EngineLimits::max_num_prompt_logprobs).
    pub targets: Vec<TokenId>,
    /// What is wanted of the last token's logits.
    pub output: RowOutput,
    /// Of a guided sequence's row with [`RowOutput::Sample`]: the tokens that may be chosen, at least one.
    /// Log-probabilities are of all tokens nevertheless.
    pub mask: Option<TokenMask>,
}

/// Where a row's input comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowTokens {
    /// Known on the host: part of a prompt, or of a sequence that is replayed. Never empty.
    Prompt(Vec<TokenId>),
    /// The one token that this step samples for the row's slot, still on the device.
    Sampled(StepId),
}

impl RowTokens {
    /// Tokens of the row.
    pub fn count(&self) -> u32 {
        match self {
            Self::Prompt(ids) => ids.len() as u32,
            Self::Sampled(_) => 1,
        }
    }
}

/// What becomes of the logits of a row's last token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOutput {
    /// Nothing: more of the prompt follows.
    None,
    /// The next token is sampled from them.
    Sample,
    /// The next token is sampled from them within a mask that is not known yet and comes by [`StepMasks`].
    SampleLater,
}

impl RowOutput {
    /// Whether the next token is sampled, at once or later.
    pub fn samples(self) -> bool {
        match self {
            Self::None => false,
            Self::Sample | Self::SampleLater => true,
        }
    }
}

/// The masks of a step in flight that has rows with [`RowOutput::SampleLater`]. They come once, while the step is computed
/// and before the next one is submitted; until then no row of the step is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepMasks {
    /// The step.
    pub step: StepId,
    /// What rows may choose from, by their sequences, in row order; each mask allows a token at least. A row that waits
    /// and has none here gives no token: its sequence goes on as if the row had asked for nothing.
    pub masks: Vec<(SequenceId, TokenMask)>,
}

/// What a step sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOutcome {
    /// The step.
    pub step: StepId,
    /// One for each row that samples, in row order, those aside that waited for a mask and got none.
    pub rows: Vec<RowOutcome>,
    /// One for each row with targets, in row order.
    pub prompts: Vec<PromptLogprobs>,
    /// Blocks that the step was to save and the store did not take.
    pub unsaved: Vec<BlockName>,
}

/// Log-probabilities of tokens of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptLogprobs {
    /// Whose prompt.
    pub sequence: SequenceId,
    /// Position of the first of these tokens.
    pub start: u32,
    /// One after the other.
    pub tokens: Vec<TokenLogprobs>,
}

/// What a row sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct RowOutcome {
    /// Whose token.
    pub sequence: SequenceId,
    /// The token.
    pub token: SampledToken,
    /// What mirostat learned by it, if it is on.
    pub mu: Option<f32>,
}
