//! The guide of a session: each token that comes is taken, and what the next may be is told the scheduler.

use troupe_protocol::{FinishReason, TokenId, TokenMask};

use crate::guide::{Guide, GuideError, Progress};

/// A guide and how far its sequence has come.
#[derive(Debug)]
pub(super) struct Guided {
    guide: Guide,
    generated: u32,
    max_tokens: u32,
}

/// What follows from a token.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// The token after so many is to be one of these.
    Mask(u32, TokenMask),
    /// The scheduler ends the sequence by itself.
    Nothing,
    /// The text is complete.
    Complete,
}

impl Guided {
    /// Before the first token of at most `max_tokens`.
    pub(super) fn new(guide: Guide, max_tokens: u32) -> Self {
        Self { guide, generated: 0, max_tokens }
    }

    /// What the first token may be.
    ///
    /// # Errors
    /// If that takes more work than it may.
    pub(super) fn first(&mut self) -> Result<TokenMask, GuideError> {
        self.guide.mask()
    }

    /// The same for a sequence of at most `max_tokens` that goes on where reasoning was closed.
    pub(super) fn after_reasoning(mut self, max_tokens: u32) -> Self {
        self.guide.begin();
        Self { generated: 0, max_tokens, ..self }
    }

    /// Takes a token that was generated; what comes after it is guided from there on if it ended the reasoning.
    ///
    /// # Errors
    /// If the next one cannot be guided.
    pub(super) fn take(&mut self, token: TokenId, reasoning_ended: bool) -> Result<Next, GuideError> {
        self.generated += 1;
        let progress = self.guide.advance(token)?;
        if reasoning_ended {
            self.guide.begin();
        }
        match progress {
            Progress::Complete => Ok(Next::Complete),
            Progress::Ended => Ok(Next::Nothing),
            Progress::Open if self.generated == self.max_tokens => Ok(Next::Nothing),
            Progress::Open => Ok(Next::Mask(self.generated, self.guide.mask()?)),
        }
    }

    /// What is said of a text that a stop string cuts.
    pub(super) fn reason_of_cut(guide: Option<&Guide>) -> FinishReason {
        guide.map_or(FinishReason::Stop, Guide::reason_of_cut)
    }
}
