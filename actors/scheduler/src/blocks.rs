//! Ownership of KV blocks. The pool knows ids only; their memory is the executor's.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use troupe_protocol::{BlockId, StepId};

use crate::cache::ContentHash;

/// Blocks are owned by one or more sequences, in quarantine (given up while a step in flight still names them),
/// cached (given up, with contents that a later sequence may want), or free. The four always sum to the total.
///
/// Only full blocks whose contents are computed have a name, and nobody writes to them again, so sequences share them
/// without copying.
#[derive(Debug)]
pub(crate) struct BlockPool {
    blocks: Vec<Block>,
    free: Vec<BlockId>,
    /// Cached blocks by the time of their last use, least recent first.
    cached: BTreeMap<u64, BlockId>,
    /// Where contents are, whoever owns the block.
    index: BTreeMap<ContentHash, BlockId>,
    /// In order of the step that must be done first.
    quarantine: VecDeque<(StepId, Vec<BlockId>)>,
    /// Blocks without owner that have a place there.
    num_quarantined: u32,
    uses: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    owners: u32,
    name: Option<ContentHash>,
    /// Its key in `cached`.
    cached_since: Option<u64>,
    /// Places that it has in `quarantine`.
    quarantined: u32,
}

impl Block {
    fn is_quarantined(&self) -> bool {
        self.owners == 0 && self.quarantined > 0
    }
}

/// The pool in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Blocks without owner and contents.
    pub free: u32,
    /// Blocks without owner whose contents are kept for those who may want them.
    pub cached: u32,
    /// Blocks given up while a step in flight still names them.
    pub quarantined: u32,
    /// Blocks that sequences own.
    pub owned: u32,
}

impl BlockPool {
    pub(crate) fn new(num_blocks: u32) -> Self {
        Self {
            blocks: alloc::vec![Block::default(); num_blocks as usize],
            free: (0..num_blocks).rev().map(BlockId).collect(),
            cached: BTreeMap::new(),
            index: BTreeMap::new(),
            quarantine: VecDeque::new(),
            num_quarantined: 0,
            uses: 0,
        }
    }

    /// Blocks that can be taken now, cached ones included.
    pub(crate) fn available(&self) -> u32 {
        (self.free.len() + self.cached.len()) as u32
    }

    /// Blocks that become available when the steps in flight are done.
    pub(crate) fn quarantined(&self) -> u32 {
        self.num_quarantined
    }

    pub(crate) fn counts(&self) -> BlockCounts {
        let (free, cached, quarantined) =
            (self.free.len() as u32, self.cached.len() as u32, self.quarantined());
        BlockCounts {
            free,
            cached,
            quarantined,
            owned: self.blocks.len() as u32 - free - cached - quarantined,
        }
    }

    /// Appends `count` blocks to `table`, or none if there are not enough. Free ones first, then those whose contents
    /// were used least recently.
    pub(crate) fn take(&mut self, count: u32, table: &mut Vec<BlockId>) -> Result<(), OutOfBlocks> {
        if count > self.available() {
            return Err(OutOfBlocks);
        }
        for _ in 0..count {
            let Some(id) = self.free.pop().or_else(|| self.evict()) else { return Err(OutOfBlocks) };
            self.blocks[id.0 as usize].owners = 1;
            table.push(id);
        }
        Ok(())
    }

    /// Forgets the contents that were used least recently. The last blocks of a sequence are given up before its first,
    /// so that what is forgotten is always the end of a chain.
    fn evict(&mut self) -> Option<BlockId> {
        let (_, id) = self.cached.pop_first()?;
        let block = &mut self.blocks[id.0 as usize];
        block.cached_since = None;
        if let Some(name) = block.name.take() {
            self.index.remove(&name);
        }
        Some(id)
    }

    /// How many of these contents, in order from the first, are there.
    pub(crate) fn num_cached(&self, names: &[ContentHash]) -> u32 {
        names.iter().take_while(|name| self.index.contains_key(name)).count() as u32
    }

    /// Of `num_cached(names)` blocks, those that are without owner: taking them makes so many fewer available.
    pub(crate) fn num_cached_unowned(&self, names: &[ContentHash]) -> u32 {
        let found = names.iter().map_while(|name| self.index.get(name));
        found.filter(|id| self.blocks[id.0 as usize].cached_since.is_some()).count() as u32
    }

    /// Makes the blocks with these contents, all of which are there, the table of one more owner.
    pub(crate) fn share(&mut self, names: &[ContentHash]) -> Vec<BlockId> {
        let table: Vec<BlockId> = names.iter().map_while(|name| self.index.get(name)).copied().collect();
        for id in &table {
            self.change(*id, |block| block.owners += 1);
            let block = &mut self.blocks[id.0 as usize];
            if let Some(since) = block.cached_since.take() {
                self.cached.remove(&since);
            }
        }
        table
    }

    /// Names the contents of an owned block, which is full and computed. If another block holds the same, that one stays
    /// the one to be found.
    pub(crate) fn name(&mut self, id: BlockId, name: ContentHash) {
        let block = &mut self.blocks[id.0 as usize];
        if block.name.is_none() && !self.index.contains_key(&name) {
            block.name = Some(name);
            self.index.insert(name, id);
        }
    }

    /// Gives up a table, at once or when the step `until` is done. Shared blocks lose an owner.
    pub(crate) fn release(&mut self, table: Vec<BlockId>, until: Option<StepId>) {
        for id in &table {
            self.change(*id, |block| block.owners -= 1);
        }
        match until {
            None => table.into_iter().rev().for_each(|id| self.give_up(id)),
            Some(step) => {
                for id in &table {
                    self.change(*id, |block| block.quarantined += 1);
                }
                let at = self.quarantine.partition_point(|&(other, _)| other <= step);
                self.quarantine.insert(at, (step, table));
            }
        }
    }

    /// Changes what a block counts.
    fn change(&mut self, id: BlockId, change: impl FnOnce(&mut Block)) {
        let block = &mut self.blocks[id.0 as usize];
        let before = block.is_quarantined();
        change(block);
        match (before, block.is_quarantined()) {
            (false, true) => self.num_quarantined += 1,
            (true, false) => self.num_quarantined -= 1,
            (false, false) | (true, true) => {}
        }
    }

    /// Puts a block without owner where it belongs.
    fn give_up(&mut self, id: BlockId) {
        let block = &mut self.blocks[id.0 as usize];
        if block.owners > 0 || block.quarantined > 0 || block.cached_since.is_some() {
            return;
        }
        if block.name.is_none() {
            return self.free.push(id);
        }
        self.uses += 1;
        block.cached_since = Some(self.uses);
        self.cached.insert(self.uses, id);
    }

    /// Gives up what waited for `step` or an earlier one.
    pub(crate) fn step_done(&mut self, step: StepId) {
        while let Some((_, table)) = self.quarantine.pop_front_if(|(until, _)| *until <= step) {
            for id in table.into_iter().rev() {
                self.change(id, |block| block.quarantined -= 1);
                self.give_up(id);
            }
        }
    }

    /// Forgets all contents: the executor lost them.
    pub(crate) fn forget_contents(&mut self) {
        self.index.clear();
        for block in &mut self.blocks {
            block.name = None;
            block.cached_since = None;
        }
        let cached = core::mem::take(&mut self.cached);
        self.free.extend(cached.into_values().rev());
    }

    /// A mistake, for the test of the check.
    #[cfg(test)]
    pub(crate) fn lose_a_free_one(&mut self) {
        self.free.truncate(self.free.len() - 1);
    }

    /// Another mistake, for the test of the check.
    #[cfg(test)]
    pub(crate) fn miscount_quarantine(&mut self) {
        self.num_quarantined += 1;
    }

    /// Checks the pool against the tables of all owners.
    ///
    /// # Errors
    /// The first violated invariant, in words.
    pub(crate) fn check<'a>(
        &self,
        tables: impl Iterator<Item = &'a [BlockId]>,
    ) -> Result<(), alloc::string::String> {
        // Owners and places of each block.
        let mut found = alloc::vec![(0_u32, 0_u32); self.blocks.len()];
        for id in tables.flatten() {
            found[id.0 as usize].0 += 1;
        }
        for id in self.free.iter().chain(self.cached.values()) {
            found[id.0 as usize].1 += 1;
        }
        for (at, (block, (owners, places))) in self.blocks.iter().zip(found).enumerate() {
            let id = BlockId(at as u32);
            let wanted = u32::from(block.owners == 0 && block.quarantined == 0);
            let violation = if block.owners != owners {
                "has other owners than it counts"
            } else if places != wanted {
                "is in no place or in several"
            } else if block.name.is_some_and(|name| self.index.get(&name) != Some(&id)) {
                "has a name that leads elsewhere"
            } else if block.owners > 1 && block.name.is_none() {
                "is shared without a name"
            } else {
                continue;
            };
            return Err(alloc::format!("{id} {violation}: {block:?}"));
        }
        let quarantined = self.blocks.iter().filter(|block| block.is_quarantined()).count();
        if quarantined != self.num_quarantined as usize {
            return Err(alloc::format!("{quarantined} blocks are in quarantine: {:?}", self.counts()));
        }
        let named = self.blocks.iter().filter(|block| block.name.is_some()).count();
        if named != self.index.len() {
            return Err("the index leads to blocks without a name".into());
        }
        Ok(())
    }
}

/// Fewer blocks are available than were asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutOfBlocks;
