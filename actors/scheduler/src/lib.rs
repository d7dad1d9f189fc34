//! The pure core of the scheduler: which tokens of which sequences run in the next step.
//!
//! [`Scheduler::apply`] books a fact, [`Scheduler::plan`] decides a step. Neither reads a clock, does IO,
//! draws a random number or depends on hash order: the same events give the same plans. Time is an
//! argument. The core names KV blocks and slots; their memory belongs to the executor.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod apply;
mod blocks;
mod event;
mod invariants;
mod plan;
mod sequence;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use troupe_protocol::{EngineLimits, RowOutput, SequenceId, SlotId, StepId};

use blocks::BlockPool;
use sequence::Sequence;

pub use event::{Effect, Effects, Event, Timestamp};

/// Steps submitted beyond the one whose outcome is awaited. With one, the device never waits for the host.
pub const LOOKAHEAD: usize = 1;

/// Times a sequence is replayed after failed steps before it fails itself.
pub const MAX_REPLAYS: u8 = 2;

/// Bounds of the scheduler that are not the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The most sequences that wait for a slot; at the bound, a new one is rejected.
    pub max_queued: u32,
}

/// The state of all sequences, blocks and steps in flight.
///
/// Sequences are in exactly one of two places: `waiting` (first come, first served; a preempted one goes
/// to the front) or `running` (oldest start first). `in_flight` holds at most `LOOKAHEAD + 1` steps.
#[derive(Debug)]
pub struct Scheduler {
    config: Config,
    limits: EngineLimits,
    executor: Executor,
    admission: Admission,
    sequences: BTreeMap<SequenceId, Sequence>,
    waiting: VecDeque<SequenceId>,
    running: Vec<SequenceId>,
    blocks: BlockPool,
    free_slots: Vec<SlotId>,
    in_flight: VecDeque<InFlight>,
    next_step: StepId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Executor {
    Up,
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Open,
    Draining,
}

/// A step whose outcome has not been read.
#[derive(Debug)]
struct InFlight {
    step: StepId,
    rows: Vec<(SequenceId, RowOutput)>,
}

/// The scheduler's state in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sequences in the queue.
    pub waiting: u32,
    /// Sequences that hold a slot.
    pub running: u32,
    /// Blocks that nobody holds.
    pub blocks_free: u32,
    /// Blocks held until a step in flight is done.
    pub blocks_quarantined: u32,
    /// Blocks in all.
    pub blocks_total: u32,
    /// Steps in flight.
    pub in_flight: u32,
}

impl Scheduler {
    /// A scheduler over an executor that is ready with `limits`.
    pub fn new(config: Config, limits: EngineLimits) -> Self {
        Self {
            config,
            limits,
            executor: Executor::Up,
            admission: Admission::Open,
            sequences: BTreeMap::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            blocks: BlockPool::new(limits.num_blocks),
            free_slots: (0..limits.max_num_seqs).rev().map(SlotId).collect(),
            in_flight: VecDeque::new(),
            next_step: StepId(0),
        }
    }

    /// The engine's bounds.
    pub fn limits(&self) -> &EngineLimits {
        &self.limits
    }

    /// Whether nothing waits, runs or is in flight.
    pub fn is_idle(&self) -> bool {
        self.sequences.is_empty() && self.in_flight.is_empty()
    }

    /// Numbers for gauges and status pages.
    pub fn counts(&self) -> Counts {
        Counts {
            waiting: self.waiting.len() as u32,
            running: self.running.len() as u32,
            blocks_free: self.blocks.free(),
            blocks_quarantined: self.blocks.quarantined(),
            blocks_total: self.limits.num_blocks,
            in_flight: self.in_flight.len() as u32,
        }
    }

    /// Takes slot and blocks from a running sequence and puts it at the front of the queue. What it
    /// generated stays: it will be replayed and go on with the same text.
    fn preempt(&mut self, id: SequenceId) {
        self.vacate(id);
        self.waiting.push_front(id);
    }

    /// Takes slot and blocks from a sequence, which leaves `running`.
    fn vacate(&mut self, id: SequenceId) {
        self.running.retain(|&other| other != id);
        let Some(residence) = self.sequences.get_mut(&id).and_then(Sequence::leave) else { return };
        self.free_slots.push(residence.slot);
        let oldest = self.in_flight.front().map(|step| step.step);
        let until = residence.last_step.filter(|&last| oldest.is_some_and(|oldest| last >= oldest));
        self.blocks.release(residence.blocks, until);
    }

    /// Forgets a sequence wherever it is.
    fn remove(&mut self, id: SequenceId) -> Option<Sequence> {
        self.vacate(id);
        self.waiting.retain(|&other| other != id);
        self.sequences.remove(&id)
    }
}

#[cfg(test)]
mod tests;
