use super::core::Tokenizer;

/// The tokens of a model that fills in what is missing between two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillIn {
    /// Before the text ahead of the gap.
    pub prefix: u32,
    /// Before the text behind it.
    pub suffix: u32,
    /// At the end of the prompt; what fills the gap follows.
    pub middle: u32,
}

/// How vocabularies spell them.
const SPELLINGS: &[[&str; 3]] = &[
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
    ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
    ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
    ["\u{2581}<PRE>", "\u{2581}<SUF>", "\u{2581}<MID>"],
];

impl FillIn {
    /// The tokens of this vocabulary, if it has them.
    pub fn of(tokenizer: &Tokenizer) -> Option<Self> {
        SPELLINGS.iter().find_map(|[prefix, suffix, middle]| {
            Some(Self {
                prefix: tokenizer.token_id(prefix)?,
                suffix: tokenizer.token_id(suffix)?,
                middle: tokenizer.token_id(middle)?,
            })
        })
    }

    /// The prompt that asks for what is missing between two texts.
    pub fn prompt(&self, before: &[u32], after: &[u32]) -> Vec<u32> {
        [&[self.prefix], before, &[self.suffix], after, &[self.middle]].concat()
    }
}
