//! Which tokens may come next. A guided sequence samples within a mask, and each mask is good for one token.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::TokenId;

/// A set of tokens: bit `t % 32` of word `t / 32` says whether token `t` is in it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenMask(Vec<u32>);

impl TokenMask {
    /// The set that these words spell.
    pub fn new(words: Vec<u32>) -> Self {
        Self(words)
    }

    /// No token of a vocabulary.
    pub fn none(vocab_size: u32) -> Self {
        Self(vec![0; Self::num_words(vocab_size)])
    }

    /// Every token of a vocabulary.
    pub fn all(vocab_size: u32) -> Self {
        let mut words = vec![u32::MAX; Self::num_words(vocab_size)];
        if let Some(last) = words.last_mut()
            && !vocab_size.is_multiple_of(u32::BITS)
        {
            *last = (1 << (vocab_size % u32::BITS)) - 1;
        }
        Self(words)
    }

    /// Words of a mask over a vocabulary of this size.
    pub fn num_words(vocab_size: u32) -> usize {
        vocab_size.div_ceil(u32::BITS) as usize
    }

    /// The words.
    pub fn words(&self) -> &[u32] {
        &self.0
    }

    /// Whether a token is in the set. One beyond the words is not.
    pub fn allows(&self, token: TokenId) -> bool {
        self.0.get((token / u32::BITS) as usize).is_some_and(|word| word >> (token % u32::BITS) & 1 == 1)
    }

    /// Puts a token into the set. One beyond the words has no place in it.
    pub fn allow(&mut self, token: TokenId) {
        if let Some(word) = self.0.get_mut((token / u32::BITS) as usize) {
            *word |= 1 << (token % u32::BITS);
        }
    }

    /// Takes a token out of the set.
    pub fn forbid(&mut self, token: TokenId) {
        if let Some(word) = self.0.get_mut((token / u32::BITS) as usize) {
            *word &= !(1 << (token % u32::BITS));
        }
    }

    /// Tokens in the set.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether no token is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
}

impl fmt::Debug for TokenMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenMask({} tokens)", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::TokenMask;

    #[test]
    fn a_mask_is_a_set_of_tokens_below_the_vocabularys_size() {
        for vocab_size in [1, 31, 32, 33, 1000] {
            let (mut none, all) = (TokenMask::none(vocab_size), TokenMask::all(vocab_size));
            assert_eq!((none.count(), all.count()), (0, vocab_size));
            assert!(none.is_empty() && all.allows(vocab_size - 1) && !all.allows(vocab_size));
            none.allow(vocab_size - 1);
            assert!(none.allows(vocab_size - 1) && none.count() == 1);
            none.forbid(vocab_size - 1);
            assert!(none.is_empty());
        }
    }
}
