//! A sequence as sessions and the scheduler speak of it.

use alloc::vec::Vec;

use crate::{
    Fault, Priority, RateStatuses, RejectReason, SamplingParams, SequenceId, TenantId, TokenId, TokenMask,
};

/// A generation asked for by a session. Already validated against the model's limits.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSequence {
    /// Unique for the life of the process.
    pub id: SequenceId,
    /// Who is served.
    pub tenant: TenantId,
    /// Which part of its request it is.
    pub part: RequestPart,
    /// Token ids of the prompt; at least one.
    pub prompt: Vec<TokenId>,
    /// How tokens are chosen.
    pub sampling: SamplingParams,
    /// The most tokens to generate; at least one. Prompt and this fit the context together.
    pub max_tokens: u32,
    /// Tokens that end the sequence. The ending token is delivered too; the session does not print it.
    pub stop_tokens: Vec<TokenId>,
    /// Tokens that the session has room for before it grants more.
    pub credit: u32,
    /// How urgent it is among its tenant's.
    pub priority: Priority,
    /// Microseconds from its arrival after which nobody wants it any more.
    pub timeout: Option<u64>,
    /// Blocks are shared only between sequences of the same salt; zero is everybody's.
    pub cache_salt: u64,
    /// Present if the sequence is guided: what its first token may be. Its session gives a mask for each further token,
    /// and it samples none without.
    pub mask: Option<TokenMask>,
}

impl NewSequence {
    /// The most tokens that it may come to hold.
    pub fn max_len(&self) -> u32 {
        (self.prompt.len() as u32).saturating_add(self.max_tokens)
    }
}

/// A request is taken or refused as a whole: with the first of its sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPart {
    /// Its first sequence, which counts against the tenant's rates and queue and those of the server.
    First,
    /// Another prompt of a request that was taken, which counts as so many tokens.
    Prompt,
    /// Another choice of a prompt that was counted, or what goes on with one.
    Choice,
}

/// What the scheduler tells a session: `Rejected` alone, or `Accepted`, `Started`, `Prompt` as often as the prompt takes if it
/// is wanted, any number of `Token`, then `Finished`.
/// After `Accepted`, `Failed` may end it at any time.
#[derive(Clone, Debug, PartialEq)]
pub enum SequenceEvent {
    /// It was taken, and waits or runs.
    Accepted(RateStatuses),
    /// It left the queue for the first time.
    Started {
        /// Tokens of its prompt whose keys and values are found in the cache.
        cached_tokens: u32,
    },
    /// Log-probabilities of further tokens of its prompt, one after the other from the second on. All are told before the
    /// first token that is generated.
    Prompt(Vec<TokenLogprobs>),
    /// One more token was generated.
    Token(SampledToken),
    /// The sequence came to its end.
    Finished {
        /// Why.
        reason: FinishReason,
        /// What it took.
        usage: Usage,
    },
    /// It was not taken. First and alone: what was taken never is refused.
    Rejected(RejectReason),
    /// It was taken and could not be completed.
    Failed(Fault),
}

/// A generated token.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledToken {
    /// The token.
    pub id: TokenId,
    /// Present if [`SamplingParams::logprobs`] asked for it.
    pub logprobs: Option<TokenLogprobs>,
}

/// Natural-log probabilities at one position, of the model's own distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// Of the chosen token.
    pub chosen: f32,
    /// Of the most likely tokens, most likely first.
    pub top: Vec<(TokenId, f32)>,
}

/// Why a sequence ended by itself. Stop strings and calls are the session's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop token was generated.
    Stop,
    /// `max_tokens` were generated.
    Length,
}

/// Tokens that a sequence took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt, whether computed or found in the cache.
    pub prompt_tokens: u32,
    /// Of these, found in the cache.
    pub cached_tokens: u32,
    /// Tokens generated, the ending one included.
    pub completion_tokens: u32,
    /// Of these, in reasoning sections. A session counts them, since it alone reads the text; the scheduler says zero.
    pub reasoning_tokens: u32,
}
