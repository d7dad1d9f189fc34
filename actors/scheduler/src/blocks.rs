//! Ownership of KV blocks. The pool knows ids only; their memory is the executor's.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::hash::BuildHasherDefault;

use troupe_protocol::{BlockId, BlockName, BlockTransfer, StepId, StoredBlock};

use crate::cache::ByName;
use crate::store::{StoreCounts, StoreIndex};

/// Blocks are owned by one or more sequences, in quarantine (given up while a step in flight still names them),
/// cached (given up, with contents that a later sequence may want), or free. The four always sum to the total.
///
/// Only full blocks whose contents are computed have a name, and nobody writes to them again, so sequences share them
/// without copying. What cached blocks lose goes to the store, if there is one, and comes back from there.
#[derive(Debug)]
pub(crate) struct BlockPool {
    blocks: Vec<Block>,
    free: Vec<BlockId>,
    /// Cached blocks by the time of their last use, least recent first.
    cached: BTreeMap<u64, BlockId>,
    /// Where contents are, whoever owns the block.
    index: ByName<BlockId>,
    /// In order of the step that must be done first.
    quarantine: VecDeque<(StepId, Vec<BlockId>)>,
    /// Blocks without owner that have a place there.
    num_quarantined: u32,
    uses: u64,
    store: StoreIndex,
    num_saved: u64,
    num_loaded: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    owners: u32,
    name: Option<BlockName>,
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
    /// A pool without contents, beside a store of `num_stored` places of which some have.
    pub(crate) fn new(num_blocks: u32, num_stored: u32, stored: &[StoredBlock]) -> Self {
        Self {
            blocks: alloc::vec![Block::default(); num_blocks as usize],
            free: (0..num_blocks).rev().map(BlockId).collect(),
            cached: BTreeMap::new(),
            index: ByName::with_capacity_and_hasher(num_blocks as usize, BuildHasherDefault::default()),
            quarantine: VecDeque::new(),
            num_quarantined: 0,
            uses: 0,
            store: StoreIndex::new(num_stored, stored),
            num_saved: 0,
            num_loaded: 0,
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

    pub(crate) fn store_counts(&self) -> StoreCounts {
        StoreCounts {
            used: self.store.num_used(),
            total: self.store.num_places() as u32,
            saved: self.num_saved,
            loaded: self.num_loaded,
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

    /// Takes a block from the contents that were used least recently. The last blocks of a sequence are given up before
    /// its first, so that what is forgotten is always the end of a chain.
    fn evict(&mut self) -> Option<BlockId> {
        let (_, id) = self.cached.pop_first()?;
        let block = &mut self.blocks[id.0 as usize];
        block.cached_since = None;
        if let Some(name) = block.name.take() {
            self.index.remove(&name);
            self.num_saved += u64::from(self.store.save(name, id));
        }
        Some(id)
    }

    /// What is there of these contents, in order from the first.
    pub(crate) fn find(&self, names: &[BlockName]) -> Found {
        let mut found = Found::default();
        for name in names {
            match self.index.get(name) {
                Some(id) => found.unowned += u32::from(self.blocks[id.0 as usize].cached_since.is_some()),
                None if self.store.holds(name) => found.stored += 1,
                None => break,
            }
            found.total += 1;
        }
        found
    }

    /// Makes blocks with these contents, all of which are there, the table of one more owner. Those in the store get
    /// blocks, which are loaded in the next step.
    ///
    /// # Errors
    /// If there are not enough blocks for those in the store; nothing is changed then.
    pub(crate) fn share(&mut self, names: &[BlockName]) -> Result<Vec<BlockId>, OutOfBlocks> {
        let found = self.find(names);
        if found.taken() > self.available() {
            return Err(OutOfBlocks);
        }
        let resident: Vec<Option<BlockId>> = names.iter().map(|name| self.index.get(name).copied()).collect();
        // Blocks are taken for those in the store when neither the others nor the store's copies can be evicted any more.
        for (name, id) in names.iter().zip(&resident) {
            match id {
                Some(id) => self.share_one(*id),
                None => self.store.promise(name),
            }
        }
        let mut new = Vec::with_capacity(found.stored as usize);
        self.take(found.stored, &mut new)?;
        let mut new = new.into_iter();
        let table = names.iter().zip(resident).filter_map(|(name, id)| match id {
            Some(id) => Some(id),
            None => new.next().inspect(|&id| self.load(*name, id)),
        });
        Ok(table.collect())
    }

    fn share_one(&mut self, id: BlockId) {
        self.change(id, |block| block.owners += 1);
        if let Some(since) = self.blocks[id.0 as usize].cached_since.take() {
            self.cached.remove(&since);
        }
    }

    fn load(&mut self, name: BlockName, id: BlockId) {
        self.store.load(name, id);
        self.num_loaded += 1;
        self.name(id, name);
    }

    /// Copies between blocks and store that `step` has to make: saves, then loads.
    pub(crate) fn take_transfers(&mut self, step: StepId) -> (Vec<BlockTransfer>, Vec<BlockTransfer>) {
        self.store.take_transfers(step)
    }

    /// Has contents saved that are only in KV memory, at most `count`, as many as the store has room for; those that were
    /// used last are the last to be saved. Answers whether there is anything to copy.
    pub(crate) fn save_cached(&mut self, count: usize) -> bool {
        let skipped = self.cached.len().saturating_sub(self.store.num_places());
        let mut added = 0;
        for id in self.cached.values().skip(skipped) {
            let Some(name) = self.blocks[id.0 as usize].name else { continue };
            added += usize::from(self.store.save(name, *id));
            if added == count {
                break;
            }
        }
        self.num_saved += added as u64;
        self.store.has_transfers()
    }

    /// Names the contents of a block that is owned or in quarantine, full and computed. If another block holds the same, that one stays
    /// the one to be found.
    pub(crate) fn name(&mut self, id: BlockId, name: BlockName) {
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
    pub(crate) fn step_ended(&mut self, step: StepId) {
        while let Some((_, table)) = self.quarantine.pop_front_if(|(until, _)| *until <= step) {
            for id in table.into_iter().rev() {
                self.change(id, |block| block.quarantined -= 1);
                self.give_up(id);
            }
        }
    }

    /// The store has what was saved by `step`, but for `unsaved`.
    pub(crate) fn step_done(&mut self, step: StepId, unsaved: &[BlockName]) {
        self.store.step_done(step);
        unsaved.iter().for_each(|name| self.store.forget(*name));
    }

    /// Forgets all contents of KV memory, since `step` failed and the executor lost them.
    pub(crate) fn step_failed(&mut self, step: StepId) {
        self.store.step_failed(step);
        self.index.clear();
        for block in &mut self.blocks {
            block.name = None;
            block.cached_since = None;
        }
        let cached = core::mem::take(&mut self.cached);
        self.free.extend(cached.into_values().rev());
    }

    /// The store is not to be trusted with what it holds.
    pub(crate) fn forget_stored(&mut self) {
        self.store.forget_saved();
    }

    /// For mistakes in it.
    #[cfg(test)]
    pub(crate) fn store(&mut self) -> &mut StoreIndex {
        &mut self.store
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
        self.store.check()
    }
}

/// What is there of a sequence's contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Blocks, wherever they are.
    pub(crate) total: u32,
    /// Of these, blocks in KV memory that nobody owns.
    pub(crate) unowned: u32,
    /// Of these, blocks that are only in the store.
    pub(crate) stored: u32,
}

impl Found {
    /// Blocks that are no longer available once all of them are taken.
    pub(crate) fn taken(self) -> u32 {
        self.unowned + self.stored
    }
}

/// Fewer blocks are available than were asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutOfBlocks;
