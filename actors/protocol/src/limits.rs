//! The bounds that scheduler, executor and HTTP surface agree on.

/// Bounds of one loaded model. Announced by the executor, obeyed by the scheduler, advertised to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineLimits {
    /// The most tokens (prompt and generated) of one sequence. Never more than the KV memory can hold.
    pub max_model_len: u32,
    /// The most sequences that run at once; also the number of slots.
    pub max_num_seqs: u32,
    /// The most tokens of one step, over all its rows.
    pub max_num_batched_tokens: u32,
    /// The most tokens of prompts whose log-probabilities one step works out: each takes as many logits as the vocabulary
    /// has tokens. At least one.
    pub max_num_prompt_logprobs: u32,
    /// Tokens of one KV block.
    pub block_size: u32,
    /// KV blocks in all.
    pub num_blocks: u32,
    /// Blocks that the block store holds; zero without one.
    pub num_stored_blocks: u32,
    /// Tokens in the vocabulary, as wide as the logits.
    pub vocab_size: u32,
    /// Which sequences can share keys and values.
    pub length_classes: LengthClasses,
}

/// Which sequences have their positions encoded alike, by the most tokens that they may come to hold. Only those of one
/// class can share keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LengthClasses {
    /// All.
    #[default]
    One,
    /// Those up to this length, and those beyond it (LongRoPE).
    SplitAt(u32),
    /// Those up to this length; beyond it, only those of the same (dynamic NTK).
    EachBeyond(u32),
}

impl LengthClasses {
    /// The class of a sequence that may come to hold `max_len` tokens.
    pub fn class_of(self, max_len: u32) -> u32 {
        match self {
            Self::One => 0,
            Self::SplitAt(length) => u32::from(max_len > length),
            Self::EachBeyond(length) => max_len.max(length),
        }
    }
}

/// Bounds of a step where nobody sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepDefaults {
    /// See [`EngineLimits::max_num_seqs`].
    pub max_num_seqs: u32,
    /// See [`EngineLimits::max_num_batched_tokens`].
    pub max_num_batched_tokens: u32,
}

impl StepDefaults {
    /// Arithmetic is what is scarce: a step should not take much longer than a person waits for a word.
    pub const CPU: Self = Self { max_num_seqs: 8, max_num_batched_tokens: 256 };
    /// Wide steps are what a GPU is fast at.
    pub const GPU: Self = Self { max_num_seqs: 64, max_num_batched_tokens: 4096 };
}

impl EngineLimits {
    /// Blocks that hold `tokens` tokens.
    pub fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_size)
    }
}
