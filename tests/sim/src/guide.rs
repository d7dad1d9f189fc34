//! Grammars without a language: what may follow is a function of everything before it, and what a guided sequence says is
//! one of what may follow. So a mask that is lost, late or another's changes what is said.

use troupe_protocol::{NewSequence, TokenId, TokenMask};

use crate::fake_gpu::{Content, content, start};

/// Tokens of the vocabulary.
const VOCAB_SIZE: u32 = 1000;

/// What may follow.
pub fn mask(now: Content) -> TokenMask {
    let mut mask = TokenMask::none(VOCAB_SIZE);
    let mut hash = now;
    for _ in 0..1 + now % 7 {
        hash = content(hash, 1);
        mask.allow((hash >> 33) as TokenId % VOCAB_SIZE);
    }
    mask
}

/// What is said after this, within a mask.
///
/// # Panics
/// If nothing may be said.
pub fn says_within(now: Content, mask: &TokenMask) -> TokenId {
    let allowed: Vec<TokenId> = (0..VOCAB_SIZE).filter(|&token| mask.allows(token)).collect();
    assert!(!allowed.is_empty(), "a mask allows nothing");
    allowed[(now >> 40) as usize % allowed.len()]
}

/// The same request, guided; `class` is that of its length.
pub fn guided(request: NewSequence, class: u32) -> NewSequence {
    let prompt = request.prompt.iter().fold(start(class), |before, &token| content(before, token));
    NewSequence { mask: Some(mask(prompt)), ..request }
}

/// The `count` tokens that follow a prompt in a guided sequence of class zero, whatever happens on the way.
pub fn guided_continuation(prompt: &[TokenId], count: usize) -> Vec<TokenId> {
    let mut now = prompt.iter().fold(start(0), |before, &token| content(before, token));
    let mut tokens = Vec::with_capacity(count);
    for _ in 0..count {
        let token = says_within(now, &mask(now));
        tokens.push(token);
        now = content(now, token);
    }
    tokens
}
