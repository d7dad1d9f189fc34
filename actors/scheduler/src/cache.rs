//! Names of block contents: a chained hash over everything that a block's keys and values depend on.

use alloc::vec::Vec;
use core::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;
use troupe_protocol::{BlockName, TokenId};

/// A map from names. Nobody asks for its order, which is that of hashes.
pub(crate) type ByName<T> = HashMap<BlockName, T, BuildHasherDefault<NameHasher>>;

/// Names are hashes, and of a key that is kept from clients: half of one is as good as another hash.
#[derive(Default)]
pub(crate) struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, name: u128) {
        self.0 = name as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Where the chain of a namespace begins.
pub(crate) fn root(key: u128, namespace: [u64; 4]) -> BlockName {
    namespace.into_iter().fold(BlockName(key), mixed)
}

/// The name of the block with these tokens after the one called `before`.
fn then(before: BlockName, tokens: &[TokenId]) -> BlockName {
    tokens.iter().fold(before, |name, &token| mixed(name, u64::from(token)))
}

/// Two lanes of multiply and fold, each fed with what the other was. Odd constants from the fractional parts of
/// square roots.
fn mixed(BlockName(name): BlockName, word: u64) -> BlockName {
    let (high, low) = ((name >> 64) as u64, name as u64);
    let a = fold(high ^ word, 0x6a09_e667_f3bc_c909 ^ low);
    let b = fold(low.wrapping_add(word).rotate_left(29), 0xbb67_ae85_84ca_a73b ^ high);
    BlockName(u128::from(a) << 64 | u128::from(b ^ a.rotate_left(17)))
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x3c6e_f372_fe94_f82b) * u128::from(b | 1);
    (product >> 64) as u64 ^ product as u64
}

/// The names of a sequence's full blocks, as far as its tokens are known.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    names: Vec<BlockName>,
}

impl Chain {
    /// Names the full blocks of `tokens`, of which those named before have not changed.
    pub(crate) fn extend<'a>(
        &mut self,
        root: BlockName,
        block_size: usize,
        tokens: impl Iterator<Item = &'a TokenId>,
    ) {
        let mut last = self.names.last().copied().unwrap_or(root);
        let mut block = Vec::with_capacity(block_size);
        for token in tokens.skip(self.names.len() * block_size) {
            block.push(*token);
            if block.len() == block_size {
                last = then(last, &block);
                self.names.push(last);
                block.clear();
            }
        }
    }

    /// The names so far, first block first.
    pub(crate) fn names(&self) -> &[BlockName] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_depend_on_tokens_order_history_and_namespace() {
        let start = root(7, [0, 0, 0, 0]);
        let mut seen = BTreeSet::new();
        for (start, blocks) in [
            (start, vec![vec![1, 2]]),
            (start, vec![vec![2, 1]]),
            (start, vec![vec![1, 2], vec![1, 2]]),
            (start, vec![vec![2, 1], vec![1, 2]]),
            (root(8, [0, 0, 0, 0]), vec![vec![1, 2]]),
            (root(7, [0, 1, 0, 0]), vec![vec![1, 2]]),
            (root(7, [0, 0, 1, 0]), vec![vec![1, 2]]),
            (root(7, [0, 0, 0, 1]), vec![vec![1, 2]]),
        ] {
            let name = blocks.iter().fold(start, |name, block| then(name, block));
            assert!(seen.insert(name), "{blocks:?}");
        }
    }

    #[test]
    fn a_chain_grows_as_if_it_were_made_at_once() {
        let start = root(1, [0, 2, 3, 0]);
        let tokens: Vec<TokenId> = (0..50).collect();
        let mut whole = Chain::default();
        whole.extend(start, 4, tokens.iter());
        assert_eq!(whole.names().len(), 12);
        let mut grown = Chain::default();
        for end in 0..=50 {
            grown.extend(start, 4, tokens[..end].iter());
            assert_eq!(grown.names(), &whole.names()[..end / 4]);
        }
    }
}
