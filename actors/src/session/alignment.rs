//! Which tokens the text came from that a parser gives out.
//!
//! A parser drops what is syntax, holds back what may be, and tells no positions. But all text that it gives out is
//! text that went in, in order, and most of it comes out as soon as it goes in: so the text is looked for from the end
//! of what went in, backwards.

use std::collections::VecDeque;

use super::ScoredToken;

/// Text that went into a parser and did not come out yet, token by token. Empty where no log-probabilities are asked for.
#[derive(Debug, Default)]
pub(super) struct Alignment {
    raw: VecDeque<Raw>,
}

/// The text of a token, and of those before it that end within a character.
#[derive(Debug)]
struct Raw {
    text: Vec<char>,
    tokens: Vec<ScoredToken>,
}

/// Where in what went in a text lies.
struct Place {
    /// The tokens that it holds characters of, last token first, each with where in the text its first character is.
    begun: Vec<(usize, usize)>,
    /// The token that holds its last character.
    last: usize,
    /// Where in that token.
    end: usize,
}

impl Alignment {
    /// Text goes in with the token that completes it.
    pub(super) fn push(&mut self, text: &str, token: ScoredToken) {
        match self.raw.back_mut().filter(|last| last.text.is_empty()) {
            Some(last) => {
                last.text.extend(text.chars());
                last.tokens.push(token);
            }
            None => self.raw.push_back(Raw { text: text.chars().collect(), tokens: vec![token] }),
        }
    }

    /// Text comes out. Its tokens, with offsets that count from its beginning.
    pub(super) fn take(&mut self, text: &str) -> Vec<ScoredToken> {
        let mut tokens = Vec::new();
        let Some(Place { begun, last, end }) = self.find(text) else { return tokens };
        for (index, offset) in begun.into_iter().rev() {
            let its_own = std::mem::take(&mut self.raw[index].tokens);
            tokens.extend(its_own.into_iter().map(|token| ScoredToken { offset, ..token }));
        }
        self.raw.drain(..last);
        if let Some(rest) = self.raw.front_mut() {
            rest.text.drain(..=end);
            if rest.text.is_empty() && rest.tokens.is_empty() {
                self.raw.pop_front();
            }
        }
        tokens
    }

    /// What went in before the last token was syntax.
    pub(super) fn skip(&mut self) {
        let before = self.raw.len().saturating_sub(1);
        self.raw.drain(..before);
    }

    fn find(&self, text: &str) -> Option<Place> {
        let mut wanted: Vec<char> = text.chars().collect();
        let mut begun: Vec<(usize, usize)> = Vec::new();
        let mut end = None;
        for (index, raw) in self.raw.iter().enumerate().rev() {
            for (at, character) in raw.text.iter().enumerate().rev() {
                if wanted.last() != Some(character) {
                    continue;
                }
                wanted.pop();
                end.get_or_insert((index, at));
                match begun.last_mut().filter(|(last, _)| *last == index) {
                    Some((_, offset)) => *offset = wanted.len(),
                    None => begun.push((index, wanted.len())),
                }
            }
            if wanted.is_empty() {
                break;
            }
        }
        end.map(|(last, end)| Place { begun, last, end })
    }
}
