//! Ownership of KV blocks. The pool knows ids only; their memory is the executor's.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use troupe_protocol::{BlockId, StepId};

/// Blocks are free, owned by a sequence, or in quarantine: released while a step in flight still names
/// them. The three always sum to the total.
#[derive(Debug)]
pub(crate) struct BlockPool {
    free: Vec<BlockId>,
    /// In order of the step that must be done first.
    quarantine: VecDeque<(StepId, Vec<BlockId>)>,
}

impl BlockPool {
    pub(crate) fn new(num_blocks: u32) -> Self {
        Self { free: (0..num_blocks).rev().map(BlockId).collect(), quarantine: VecDeque::new() }
    }

    /// Blocks that can be taken now.
    pub(crate) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Blocks that become free when the steps in flight are done.
    pub(crate) fn quarantined(&self) -> u32 {
        self.quarantine.iter().map(|(_, blocks)| blocks.len() as u32).sum()
    }

    /// Appends `count` blocks to `table`, or none if there are not enough.
    pub(crate) fn take(&mut self, count: u32, table: &mut Vec<BlockId>) -> Result<(), OutOfBlocks> {
        let Some(rest) = self.free.len().checked_sub(count as usize) else { return Err(OutOfBlocks) };
        table.extend(self.free.drain(rest..).rev());
        Ok(())
    }

    /// Gives blocks back, at once or when the step `until` is done.
    pub(crate) fn release(&mut self, blocks: Vec<BlockId>, until: Option<StepId>) {
        match until {
            None => self.free.extend(blocks.into_iter().rev()),
            Some(step) => {
                let at = self.quarantine.partition_point(|&(other, _)| other <= step);
                self.quarantine.insert(at, (step, blocks));
            }
        }
    }

    /// Frees what waited for `step` or an earlier one.
    pub(crate) fn step_done(&mut self, step: StepId) {
        while let Some((_, blocks)) = self.quarantine.pop_front_if(|(until, _)| *until <= step) {
            self.free.extend(blocks.into_iter().rev());
        }
    }

    /// All blocks that no sequence owns, for the invariant check.
    pub(crate) fn unowned(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.free.iter().chain(self.quarantine.iter().flat_map(|(_, blocks)| blocks)).copied()
    }
}

/// Fewer blocks are free than were asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutOfBlocks;
