//! The text of a choice on its way out: stop strings, and each token's log-probability with the text it begins in.

use std::collections::VecDeque;
use std::mem;

use super::{Piece, ScoredToken};
use crate::tokenizer::{StopMatcher, StopOutcome};

/// Looks for stop strings. Holds back what may become one, no more.
#[derive(Debug)]
pub(super) struct Content {
    stops: StopMatcher,
    /// Tokens whose text has not gone out.
    held: VecDeque<ScoredToken>,
    /// Characters of all text so far, held text included.
    seen: usize,
    /// Characters given out.
    sent: usize,
}

/// What came of more text.
#[derive(Debug)]
pub(super) struct Said {
    /// What may go out now.
    pub(super) piece: Option<Piece>,
    /// Which stop string was met, if one was; nothing after it counts.
    pub(super) matched_stop: Option<usize>,
}

impl Content {
    pub(super) fn new(stops: StopMatcher) -> Self {
        Self { stops, held: VecDeque::new(), seen: 0, sent: 0 }
    }

    /// Takes more text, in which stop strings are looked for if they count already, whose tokens' offsets count from its beginning.
    pub(super) fn push(&mut self, piece: Piece, may_stop: bool) -> Said {
        let Piece { text, tokens } = piece;
        let seen = self.seen;
        self.held
            .extend(tokens.into_iter().map(|token| ScoredToken { offset: seen + token.offset, ..token }));
        self.seen += text.chars().count();
        let outcome = match may_stop {
            true => self.stops.push(&text),
            false => StopOutcome { emit: text, stopped: None },
        };
        Said { piece: self.release(outcome.emit), matched_stop: outcome.stopped }
    }

    /// Something other than text follows: what was held is no stop string.
    pub(super) fn interrupt(&mut self) -> Option<Piece> {
        let text = self.stops.release();
        self.release(text)
    }

    /// Nothing follows.
    pub(super) fn finish(mut self) -> Option<Piece> {
        let text = self.stops.release();
        let mut piece = self.release(text).unwrap_or_default();
        // Tokens without text at the very end belong to the answer too.
        piece.tokens.extend(mem::take(&mut self.held));
        Some(piece).filter(|piece| *piece != Piece::default())
    }

    /// Text that is final, with the tokens that begin in it.
    fn release(&mut self, text: String) -> Option<Piece> {
        self.sent += text.chars().count();
        let begun = self.held.iter().take_while(|token| token.offset < self.sent).count();
        let tokens: Vec<_> = self.held.drain(..begun).collect();
        (!text.is_empty() || !tokens.is_empty()).then_some(Piece { text, tokens })
    }
}
