//! What is told of a prompt: its tokens, and how likely they were.

use troupe_protocol::{TokenId, TokenLogprobs};

use super::{Alternative, PromptToken, ScoredToken};
use crate::tokenizer::Tokenizer;

/// The least log-probability that is reported: minus infinity has no place in JSON.
pub(super) const LEAST_LOGPROB: f32 = -9999.0;

/// The tokens of a prompt that were not told yet.
#[derive(Debug)]
pub(super) struct PromptReader {
    tokens: std::vec::IntoIter<TokenId>,
}

impl PromptReader {
    pub(super) fn new(prompt: Vec<TokenId>) -> Self {
        Self { tokens: prompt.into_iter() }
    }

    /// The first token, which nothing comes before.
    pub(super) fn first(&mut self, tokenizer: &Tokenizer) -> Option<PromptToken> {
        let bytes = tokenizer.token_bytes(self.tokens.next()?).unwrap_or_default().to_vec();
        Some(PromptToken { bytes, logprob: None, top: Vec::new() })
    }

    /// The tokens that these log-probabilities are of.
    pub(super) fn read(&mut self, logprobs: &[TokenLogprobs], tokenizer: &Tokenizer) -> Vec<PromptToken> {
        let read = |(logprobs, id): (&TokenLogprobs, TokenId)| {
            let ScoredToken { chosen, top, .. } = score(id, logprobs, tokenizer);
            PromptToken { bytes: chosen.bytes, logprob: Some(chosen.logprob), top }
        };
        // In this order, so that no token is taken beyond them.
        logprobs.iter().zip(self.tokens.by_ref()).map(read).collect()
    }
}

/// A token with what is known of it, at the beginning of a text.
pub(super) fn score(id: TokenId, logprobs: &TokenLogprobs, tokenizer: &Tokenizer) -> ScoredToken {
    let alternative = |id, logprob: f32| Alternative {
        bytes: tokenizer.token_bytes(id).unwrap_or_default().to_vec(),
        logprob: logprob.max(LEAST_LOGPROB),
    };
    ScoredToken {
        chosen: alternative(id, logprobs.chosen),
        top: logprobs.top.iter().map(|&(id, logprob)| alternative(id, logprob)).collect(),
        offset: 0,
    }
}
