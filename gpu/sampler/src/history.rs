//! What the chain remembers of a sequence.

use thiserror::Error;
use troupe_protocol::{History, SamplingParams, TokenId};

/// A token of a history that the model does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("token {0} is beyond the vocabulary")]
pub struct BeyondVocabulary(pub TokenId);

/// The tokens of a sequence, and how often each is among them if penalties are on.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) counts: Option<Counts>,
    /// Tokens that the repetition penalty looks back.
    last_n: usize,
}

/// How often each token was met.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// Among the last tokens that the repetition penalty looks at.
    pub(crate) recent: Vec<u32>,
    /// In the output.
    pub(crate) generated: Vec<u32>,
}

impl Memory {
    pub(crate) fn new(
        params: &SamplingParams,
        history: Option<&History>,
        vocab_size: usize,
    ) -> Result<Self, BeyondVocabulary> {
        let none = || Counts { recent: vec![0; vocab_size], generated: vec![0; vocab_size] };
        let mut memory = Self {
            tokens: Vec::new(),
            counts: params.has_penalties().then(none),
            last_n: params.repeat_last_n.map_or(usize::MAX, |last| last as usize),
        };
        let Some(History { prompt, generated, .. }) = history else { return Ok(memory) };
        if let Some(&token) = prompt.iter().chain(generated).find(|token| **token as usize >= vocab_size) {
            return Err(BeyondVocabulary(token));
        }
        prompt.iter().for_each(|&token| memory.push(token));
        generated.iter().for_each(|&token| memory.push_generated(token));
        Ok(memory)
    }

    /// Books a token of the output.
    pub(crate) fn push_generated(&mut self, token: TokenId) {
        self.push(token);
        if let Some(counts) = &mut self.counts {
            counts.generated[token as usize] += 1;
        }
    }

    fn push(&mut self, token: TokenId) {
        self.tokens.push(token);
        let Some(counts) = &mut self.counts else { return };
        counts.recent[token as usize] += 1;
        if let Some(gone) = self.tokens.len().checked_sub(1 + self.last_n.min(self.tokens.len())) {
            counts.recent[self.tokens[gone] as usize] -= 1;
        }
    }
}
