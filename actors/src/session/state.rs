//! A session without its actor: events in, parts of the answer out.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use troupe_protocol::{FinishReason, SampledToken, SequenceEvent, TokenId, TokenLogprobs, Usage};

use super::{Alternative, End, Part, Piece, ScoredToken, SessionRequest};
use crate::tokenizer::{Detokenizer, SpecialText, StopMatcher, Tokenizer};

/// The least log-probability that is reported: minus infinity has no place in JSON.
const LEAST_LOGPROB: f32 = -9999.0;

/// Detokenises, looks for stop strings, and keeps each token's log-probability with its text.
///
/// Holds back an unfinished character and what may become a stop string, no more.
#[derive(Debug)]
pub struct SessionState {
    tokenizer: Arc<Tokenizer>,
    stop_tokens: Vec<TokenId>,
    usage: Usage,
    text: Text,
    /// Tokens whose text has not gone out.
    held: VecDeque<ScoredToken>,
    /// Characters of all tokens so far, held ones included.
    seen: usize,
    /// Characters given out.
    sent: usize,
}

/// Where the text is made, for as long as there is more to come.
#[derive(Debug)]
enum Text {
    Open(Box<(Detokenizer, StopMatcher)>),
    Over,
}

impl SessionState {
    /// Before the first event.
    pub fn new(request: &SessionRequest, tokenizer: &Arc<Tokenizer>) -> Self {
        let detokenizer = Detokenizer::new(Arc::clone(tokenizer), SpecialText::Skip);
        let stops = StopMatcher::new(request.stop.iter().map(String::as_str));
        Self {
            tokenizer: Arc::clone(tokenizer),
            stop_tokens: request.stop_tokens.clone(),
            usage: Usage { prompt_tokens: request.prompt.len() as u32, ..Usage::default() },
            text: Text::Open(Box::new((detokenizer, stops))),
            held: VecDeque::new(),
            seen: 0,
            sent: 0,
        }
    }

    /// Whether the end was given out. Later events change nothing.
    pub fn is_over(&self) -> bool {
        matches!(self.text, Text::Over)
    }

    /// Takes an event; gives what it makes final, in order.
    pub fn push(&mut self, event: SequenceEvent) -> Vec<Part> {
        if self.is_over() {
            return Vec::new();
        }
        match event {
            SequenceEvent::Accepted(rates) => vec![Part::Accepted(rates)],
            SequenceEvent::Started { cached_tokens } => {
                self.usage.cached_tokens = cached_tokens;
                Vec::new()
            }
            SequenceEvent::Token(token) => self.push_token(token),
            SequenceEvent::Finished { reason, usage } => self.finish(reason, usage),
            SequenceEvent::Rejected(reason) => self.end(None, End::Rejected(reason)),
            SequenceEvent::Failed(fault) => self.end(None, End::Failed(fault)),
        }
    }

    fn push_token(&mut self, token: SampledToken) -> Vec<Part> {
        self.usage.completion_tokens += 1;
        if self.stop_tokens.contains(&token.id) {
            // It has no text, and `Finished` is next.
            return Vec::new();
        }
        if let Some(logprobs) = &token.logprobs {
            let scored = self.score(token.id, logprobs);
            self.held.push_back(scored);
        }
        let Text::Open(open) = &mut self.text else {
            return Vec::new();
        };
        let (detokenizer, stops) = &mut **open;
        let text = detokenizer.push(token.id);
        self.seen += text.chars().count();
        let outcome = stops.push(&text);
        let piece = self.release(outcome.emit);
        match outcome.stopped {
            Some(_) => self.end(piece, End::Finished { reason: FinishReason::Stop, usage: self.usage }),
            None => piece.map(Part::Text).into_iter().collect(),
        }
    }

    fn finish(&mut self, reason: FinishReason, usage: Usage) -> Vec<Part> {
        let Text::Open(open) = mem::replace(&mut self.text, Text::Over) else {
            return Vec::new();
        };
        let (detokenizer, mut stops) = *open;
        let outcome = stops.push(&detokenizer.finish());
        if outcome.stopped.is_some() {
            let piece = self.release(outcome.emit);
            return self.end(piece, End::Finished { reason: FinishReason::Stop, usage });
        }
        let mut piece = self.release(outcome.emit + &stops.finish()).unwrap_or_default();
        // Tokens without text at the very end belong to the answer too.
        piece.tokens.extend(self.held.drain(..));
        self.end(Some(piece).filter(|piece| *piece != Piece::default()), End::Finished { reason, usage })
    }

    fn end(&mut self, last: Option<Piece>, end: End) -> Vec<Part> {
        self.text = Text::Over;
        last.map(Part::Text).into_iter().chain([Part::End(end)]).collect()
    }

    /// Text that is final, with the tokens that begin in it.
    fn release(&mut self, text: String) -> Option<Piece> {
        self.sent += text.chars().count();
        let begun = self.held.iter().take_while(|token| token.offset < self.sent).count();
        let tokens: Vec<_> = self.held.drain(..begun).collect();
        (!text.is_empty() || !tokens.is_empty()).then_some(Piece { text, tokens })
    }

    fn score(&self, id: TokenId, logprobs: &TokenLogprobs) -> ScoredToken {
        let alternative = |id, logprob: f32| Alternative {
            bytes: self.tokenizer.token_bytes(id).unwrap_or_default().to_vec(),
            logprob: logprob.max(LEAST_LOGPROB),
        };
        ScoredToken {
            chosen: alternative(id, logprobs.chosen),
            top: logprobs.top.iter().map(|&(id, logprob)| alternative(id, logprob)).collect(),
            offset: self.seen,
        }
    }
}

#[cfg(test)]
mod tests;
