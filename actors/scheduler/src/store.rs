//! The second tier of the prefix cache: which contents the executor's block store holds, and where.
//!
//! Contents that lose their block in KV memory are saved, and loaded into another when a sequence wants them again. The
//! index decides where in the store they go; the copies travel with the next step.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use troupe_protocol::{BlockId, BlockName, BlockTransfer, StepId, StoreId, StoredBlock};

use crate::cache::ByName;

/// Places of the store are free or hold named contents, which are there once the step that saves them is done.
#[derive(Debug, Default)]
pub(crate) struct StoreIndex {
    places: Vec<Option<Place>>,
    free: Vec<StoreId>,
    index: ByName<StoreId>,
    /// Occupied places by the time of their last use, least recent first.
    by_use: BTreeMap<u64, StoreId>,
    uses: u64,
    /// Copies for the next step.
    saves: Vec<BlockTransfer>,
    loads: Vec<BlockTransfer>,
    /// Contents that a sequence was promised and the next step loads.
    promised: BTreeSet<StoreId>,
    /// Copies of the steps in flight, oldest first.
    in_flight: VecDeque<Transfers>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    name: BlockName,
    /// Its key in `by_use`.
    used: u64,
    saved: Saved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saved {
    /// In a step that is not done.
    Pending,
    Done,
}

#[derive(Debug)]
struct Transfers {
    step: StepId,
    saves: Vec<BlockTransfer>,
    loads: Vec<BlockTransfer>,
}

/// The store in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Places with contents.
    pub used: u32,
    /// Places in all.
    pub total: u32,
    /// Blocks saved since the start.
    pub saved: u64,
    /// Blocks loaded since the start.
    pub loaded: u64,
}

impl StoreIndex {
    /// An index of `num_places`, of which some hold what an earlier run saved, least recently written first.
    pub(crate) fn new(num_places: u32, stored: &[StoredBlock]) -> Self {
        let mut index = Self { places: alloc::vec![None; num_places as usize], ..Self::default() };
        index.index.reserve(num_places as usize);
        for &StoredBlock { at, name } in stored {
            let is_new = index.places.get(at.0 as usize).is_some_and(Option::is_none);
            if is_new && !index.index.contains_key(&name) {
                index.occupy(at, name, Saved::Done);
            }
        }
        let empty = |at: &StoreId| index.places[at.0 as usize].is_none();
        index.free = (0..num_places).rev().map(StoreId).filter(empty).collect();
        index
    }

    pub(crate) fn num_places(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn num_used(&self) -> u32 {
        self.index.len() as u32
    }

    /// Whether contents can be loaded.
    pub(crate) fn holds(&self, name: &BlockName) -> bool {
        let place = self.index.get(name).and_then(|at| self.places[at.0 as usize].as_ref());
        place.is_some_and(|place| place.saved == Saved::Done)
    }

    /// Keeps what the store holds of `name` until it is loaded in the next step.
    pub(crate) fn promise(&mut self, name: &BlockName) {
        if let Some(&at) = self.index.get(name) {
            self.touch(at);
            self.promised.insert(at);
        }
    }

    /// Has promised contents loaded into `block`.
    pub(crate) fn load(&mut self, name: BlockName, block: BlockId) {
        let Some(&stored) = self.index.get(&name) else { return };
        self.loads.push(BlockTransfer { block, stored, name });
    }

    /// `block` is given to another, and `name` with it. Has its contents saved, unless they are there already or every
    /// place is spoken for. Answers whether a copy was added to the next step.
    pub(crate) fn save(&mut self, name: BlockName, block: BlockId) -> bool {
        // Whatever was to be loaded into it is still in the store.
        self.loads.retain(|load| load.block != block);
        if let Some(&at) = self.index.get(&name) {
            self.touch(at);
            return false;
        }
        let Some(stored) = self.free.pop().or_else(|| self.evict()) else { return false };
        self.occupy(stored, name, Saved::Pending);
        self.saves.push(BlockTransfer { block, stored, name });
        true
    }

    /// Copies that `step` has to make.
    pub(crate) fn take_transfers(&mut self, step: StepId) -> (Vec<BlockTransfer>, Vec<BlockTransfer>) {
        let (saves, loads) = (core::mem::take(&mut self.saves), core::mem::take(&mut self.loads));
        self.promised.clear();
        if !saves.is_empty() || !loads.is_empty() {
            self.in_flight.push_back(Transfers { step, saves: saves.clone(), loads: loads.clone() });
        }
        (saves, loads)
    }

    pub(crate) fn has_transfers(&self) -> bool {
        !self.saves.is_empty() || !self.loads.is_empty()
    }

    /// What a step saved is there from now on.
    pub(crate) fn step_done(&mut self, step: StepId) {
        while let Some(done) = self.in_flight.pop_front_if(|transfers| transfers.step <= step) {
            for BlockTransfer { stored, .. } in done.saves {
                if let Some(place) = &mut self.places[stored.0 as usize] {
                    place.saved = Saved::Done;
                }
            }
        }
    }

    /// A step failed: what it was to save is lost, and what it was to load may be the reason. Nothing is left to be
    /// copied to or from KV memory.
    pub(crate) fn step_failed(&mut self, step: StepId) {
        while let Some(failed) = self.in_flight.pop_front_if(|transfers| transfers.step <= step) {
            for transfer in failed.saves.iter().chain(&failed.loads) {
                self.forget(transfer.name);
            }
        }
        self.drop_planned();
    }

    /// Gives up the copies that no step has made.
    fn drop_planned(&mut self) {
        for save in core::mem::take(&mut self.saves) {
            self.forget(save.name);
        }
        self.loads.clear();
        self.promised.clear();
    }

    fn occupy(&mut self, at: StoreId, name: BlockName, saved: Saved) {
        self.uses += 1;
        self.places[at.0 as usize] = Some(Place { name, used: self.uses, saved });
        self.index.insert(name, at);
        self.by_use.insert(self.uses, at);
    }

    fn touch(&mut self, at: StoreId) {
        let Some(place) = &mut self.places[at.0 as usize] else { return };
        self.by_use.remove(&place.used);
        self.uses += 1;
        place.used = self.uses;
        self.by_use.insert(self.uses, at);
    }

    /// Empties the place that was used least recently, of those that no copy is made to or from.
    fn evict(&mut self) -> Option<StoreId> {
        let is_at_rest = |at: &StoreId| {
            let saved = self.places[at.0 as usize].is_some_and(|place| place.saved == Saved::Done);
            saved && !self.promised.contains(at)
        };
        let at = self.by_use.values().copied().find(is_at_rest)?;
        self.clear(at);
        Some(at)
    }

    /// Forgets all that is there.
    pub(crate) fn forget_saved(&mut self) {
        let saved =
            |place: &Option<Place>| place.filter(|place| place.saved == Saved::Done).map(|place| place.name);
        let names: Vec<BlockName> = self.places.iter().filter_map(saved).collect();
        names.into_iter().for_each(|name| self.forget(name));
    }

    pub(crate) fn forget(&mut self, name: BlockName) {
        if let Some(&at) = self.index.get(&name) {
            self.clear(at);
            self.free.push(at);
        }
    }

    fn clear(&mut self, at: StoreId) {
        if let Some(place) = self.places[at.0 as usize].take() {
            self.index.remove(&place.name);
            self.by_use.remove(&place.used);
        }
    }

    /// A mistake, for the test of the check.
    #[cfg(test)]
    pub(crate) fn lose_a_free_one(&mut self) {
        self.free.pop();
    }

    /// Another mistake, for the test of the check.
    #[cfg(test)]
    pub(crate) fn lose_a_save(&mut self) {
        self.saves.pop();
    }

    /// Another mistake, for the test of the check.
    #[cfg(test)]
    pub(crate) fn forget_an_order(&mut self) {
        self.by_use.clear();
    }

    /// Checks the index against itself.
    ///
    /// # Errors
    /// The first violated invariant, in words.
    pub(crate) fn check(&self) -> Result<(), alloc::string::String> {
        let used = self.places.iter().flatten().count();
        if used + self.free.len() != self.places.len() {
            return Err(alloc::format!("{used} places are used and {} free, not all", self.free.len()));
        }
        if used != self.index.len() || used != self.by_use.len() {
            return Err("the store's index and order are not those of its places".into());
        }
        for (at, place) in self.places.iter().enumerate() {
            let (at, Some(place)) = (StoreId(at as u32), place) else { continue };
            if self.index.get(&place.name) != Some(&at) || self.by_use.get(&place.used) != Some(&at) {
                return Err(alloc::format!("{at} is not where the index leads: {place:?}"));
            }
            let copies = self.saves.iter().chain(self.in_flight.iter().flat_map(|step| &step.saves));
            let pending = copies.filter(|save| save.stored == at && save.name == place.name).count();
            if pending != usize::from(place.saved == Saved::Pending) {
                return Err(alloc::format!("{pending} steps save to {at}: {place:?}"));
            }
        }
        Ok(())
    }
}
