//! What always holds between two calls. Checked in tests and by the simulator after every one.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use crate::sequence::Phase;
use crate::{LOOKAHEAD, Scheduler};

impl Scheduler {
    /// Checks the state against itself.
    ///
    /// # Errors
    /// The first violated invariant, in words.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_blocks()?;
        self.check_places()?;
        require(self.in_flight.len() <= LOOKAHEAD + 1, || "too many steps in flight".into())?;
        for sequence in self.sequences.values() {
            let id = sequence.request.id;
            require(sequence.unread as usize <= self.in_flight.len(), || format!("{id}: unread tokens"))?;
            let most = sequence.generated.len() as u32 + sequence.unread;
            require(most <= sequence.request.max_tokens, || format!("{id}: more than max_tokens"))?;
        }
        Ok(())
    }

    /// Free, quarantined and owned blocks are disjoint and sum to the total; tables cover what is scheduled.
    fn check_blocks(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for block in self.blocks.unowned() {
            require(seen.insert(block), || format!("{block} is free twice"))?;
        }
        for sequence in self.sequences.values() {
            let Phase::Running(residence) = &sequence.phase else { continue };
            let id = sequence.request.id;
            for block in &residence.blocks {
                require(seen.insert(*block), || format!("{block} of {id} is not its own"))?;
            }
            let needed = self.limits.blocks_for(residence.num_scheduled_tokens) as usize;
            require(needed <= residence.blocks.len(), || format!("{id}: table too short"))?;
        }
        let total = self.limits.num_blocks as usize;
        require(seen.len() == total, || format!("{} of {total} blocks are accounted for", seen.len()))
    }

    /// Every sequence is in exactly one of queue and running list, in the phase that belongs there.
    fn check_places(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for id in self.waiting.iter().chain(&self.running) {
            require(seen.insert(*id), || format!("{id} is in two places"))?;
        }
        require(seen.len() == self.sequences.len(), || "a sequence is in no place".into())?;
        let mut slots: BTreeSet<_> = self.free_slots.iter().copied().collect();
        for (id, sequence) in &self.sequences {
            let runs = self.running.contains(id);
            require(matches!(sequence.phase, Phase::Running(_)) == runs, || format!("{id}: wrong phase"))?;
            if let Phase::Running(residence) = &sequence.phase {
                require(slots.insert(residence.slot), || format!("{} has two owners", residence.slot))?;
            }
        }
        require(slots.len() == self.limits.max_num_seqs as usize, || "a slot is lost".into())
    }
}

fn require(holds: bool, violation: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(violation()) }
}
