//! What is left of a bound on reasoning, and what an answer holds when it is reached.

use std::mem;

use troupe_protocol::TokenId;

use super::{Budget, SessionRequest};

/// A budget that is not used up.
#[derive(Debug)]
pub(super) struct Allowance {
    budget: Budget,
    /// The tokens of the answer.
    generated: Vec<TokenId>,
    max_tokens: u32,
    is_reached: bool,
}

impl Allowance {
    /// That of a request, if it has one.
    pub(super) fn of(request: &SessionRequest) -> Option<Self> {
        let budget = request.reading.as_ref()?.budget.clone()?;
        Some(Self { budget, generated: Vec::new(), max_tokens: request.max_tokens, is_reached: false })
    }

    /// Books a token.
    pub(super) fn book(&mut self, token: TokenId) {
        self.generated.push(token);
    }

    /// The tokens that close the section, if `reasoning_tokens` in it are all that it may hold. Not if the answer would
    /// have no room for anything after them: it ends by its own length then.
    pub(super) fn close(&mut self, reasoning_tokens: u32) -> Option<Vec<TokenId>> {
        let length = self.generated.len() + self.budget.end.len();
        if self.is_reached || reasoning_tokens < self.budget.tokens || length >= self.max_tokens as usize {
            return None;
        }
        self.is_reached = true;
        Some(self.budget.end.clone())
    }

    /// The tokens after which to go on, if the section was closed.
    pub(super) fn take_reached(&mut self) -> Option<Vec<TokenId>> {
        self.is_reached.then(|| mem::take(&mut self.generated))
    }
}
