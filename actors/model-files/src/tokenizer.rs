//! The raw material of a tokenizer. Building one from it is the tokenizer worker's business.

use std::path::PathBuf;

/// Where a model's tokenizer comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenizerSource {
    /// A `tokenizer.json` beside the weights.
    HuggingFace(HuggingFaceTokenizer),
    /// Lists in the metadata of a GGUF file.
    Gguf(Box<GgufTokenizer>),
}

/// A Hugging Face tokenizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HuggingFaceTokenizer {
    /// The file, which exists; nothing of it has been read.
    pub tokenizer_json: PathBuf,
    /// `add_bos_token` of tokenizer_config.json.
    pub add_bos: Option<bool>,
    /// `add_eos_token` of tokenizer_config.json.
    pub add_eos: Option<bool>,
}

/// A tokenizer in GGUF's terms. Every id is below `tokens.len()`; `token_types` and `scores` are as long as `tokens`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GgufTokenizer {
    /// The algorithm: `gpt2` (byte-level BPE), `llama` (SentencePiece), …
    pub model: String,
    /// The name of the pre-tokeniser, for `gpt2`.
    pub pre: Option<String>,
    /// Token texts by id, in the alphabet of the algorithm.
    pub tokens: Vec<String>,
    /// 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    pub token_types: Option<Vec<i32>>,
    /// Pairs with a space between, best first.
    pub merges: Vec<String>,
    /// SentencePiece scores.
    pub scores: Option<Vec<f32>>,
    /// Starts a text.
    pub bos_token_id: Option<u32>,
    /// Ends a text.
    pub eos_token_id: Option<u32>,
    /// Ends a turn.
    pub eot_token_id: Option<u32>,
    /// Ends a message that goes on with a tool's answer.
    pub eom_token_id: Option<u32>,
    /// Stands for what cannot be encoded.
    pub unk_token_id: Option<u32>,
    /// Fills a batch.
    pub pad_token_id: Option<u32>,
    /// Whether encoding puts `bos` first.
    pub add_bos: Option<bool>,
    /// Whether encoding puts `eos` last.
    pub add_eos: Option<bool>,
    /// Whether encoding puts a space first.
    pub add_space_prefix: Option<bool>,
}
