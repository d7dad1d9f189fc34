//! Names of block contents: a chained hash over everything that a block's keys and values depend on.

use alloc::vec::Vec;

use troupe_protocol::TokenId;

/// Names what a full block holds: its tokens, all tokens before them, and who may share it.
///
/// 128 bits, mixed with a key that clients do not know: equal names mean equal contents, and nobody can look for two
/// contents of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub u128);

impl ContentHash {
    /// Where the chain of a namespace begins.
    pub(crate) fn root(key: u128, namespace: [u64; 2]) -> Self {
        namespace.into_iter().fold(Self(key), Self::mixed)
    }

    /// The name of the block with these tokens after `self`.
    pub(crate) fn then(self, tokens: &[TokenId]) -> Self {
        tokens.iter().fold(self, |hash, &token| hash.mixed(u64::from(token)))
    }

    /// Two lanes of multiply and fold, each fed with what the other was. Odd constants from the fractional parts of
    /// square roots.
    fn mixed(self, word: u64) -> Self {
        let (high, low) = ((self.0 >> 64) as u64, self.0 as u64);
        let a = fold(high ^ word, 0x6a09_e667_f3bc_c909 ^ low);
        let b = fold(low.wrapping_add(word).rotate_left(29), 0xbb67_ae85_84ca_a73b ^ high);
        Self(u128::from(a) << 64 | u128::from(b ^ a.rotate_left(17)))
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x3c6e_f372_fe94_f82b) * u128::from(b | 1);
    (product >> 64) as u64 ^ product as u64
}

/// The names of a sequence's full blocks, as far as its tokens are known.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    hashes: Vec<ContentHash>,
}

impl Chain {
    /// Names the full blocks of `tokens`, of which those named before have not changed.
    pub(crate) fn extend<'a>(
        &mut self,
        root: ContentHash,
        block_size: usize,
        tokens: impl Iterator<Item = &'a TokenId>,
    ) {
        let mut last = self.hashes.last().copied().unwrap_or(root);
        let mut block = Vec::with_capacity(block_size);
        for token in tokens.skip(self.hashes.len() * block_size) {
            block.push(*token);
            if block.len() == block_size {
                last = last.then(&block);
                self.hashes.push(last);
                block.clear();
            }
        }
    }

    /// The names so far, first block first.
    pub(crate) fn hashes(&self) -> &[ContentHash] {
        &self.hashes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_depend_on_tokens_order_history_and_namespace() {
        let root = ContentHash::root(7, [0, 0]);
        let mut seen = BTreeSet::new();
        for (root, blocks) in [
            (root, vec![vec![1, 2]]),
            (root, vec![vec![2, 1]]),
            (root, vec![vec![1, 2], vec![1, 2]]),
            (root, vec![vec![2, 1], vec![1, 2]]),
            (ContentHash::root(8, [0, 0]), vec![vec![1, 2]]),
            (ContentHash::root(7, [1, 0]), vec![vec![1, 2]]),
            (ContentHash::root(7, [0, 1]), vec![vec![1, 2]]),
        ] {
            let name = blocks.iter().fold(root, |hash, block| hash.then(block));
            assert!(seen.insert(name), "{blocks:?}");
        }
    }

    #[test]
    fn a_chain_grows_as_if_it_were_made_at_once() {
        let root = ContentHash::root(1, [2, 3]);
        let tokens: Vec<TokenId> = (0..50).collect();
        let mut whole = Chain::default();
        whole.extend(root, 4, tokens.iter());
        assert_eq!(whole.hashes().len(), 12);
        let mut grown = Chain::default();
        for end in 0..=50 {
            grown.extend(root, 4, tokens[..end].iter());
            assert_eq!(grown.hashes(), &whole.hashes()[..end / 4]);
        }
    }
}
