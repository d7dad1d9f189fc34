//! The pure core of the scheduler: which tokens of which sequences run in the next step.
//!
//! [`Scheduler::apply`] books a fact, [`Scheduler::plan`] decides a step. Neither reads a clock, does IO,
//! draws a random number or depends on hash order: the same events give the same plans. Time is an
//! argument. The core names KV blocks and slots; their memory belongs to the executor.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod admit;
mod apply;
mod blocks;
mod cache;
mod event;
mod invariants;
mod masks;
mod pace;
mod plan;
mod rate;
mod sequence;
mod sequences;
mod status;
mod store;
mod tenants;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use troupe_protocol::{
    BlockId, BlockName, EngineLimits, NewSequence, RowOutput, SequenceId, SlotId, StepId, StoredBlock,
    TenantId,
};

use blocks::BlockPool;
use pace::Pace;
use sequence::Sequence;
use sequences::{Key, Sequences};
use tenants::{End, Tenants};

pub use blocks::BlockCounts;
pub use event::{Effect, Effects, Event, Timestamp};
pub use status::{PhaseStatus, SequenceStatus, Status, TenantStatus};
pub use store::StoreCounts;
pub use tenants::TenantTotals;

/// Steps submitted beyond the one whose outcome is awaited, at most. With one, the device never waits for the host.
pub const MAX_LOOKAHEAD: usize = 1;

/// Times a sequence is replayed after failed steps before it fails itself.
pub const MAX_REPLAYS: u8 = 2;

/// Microseconds that masks are waited for after the last token was read: a mask takes less than a millisecond, a step of its
/// own several. For as long no step is planned, and no row of the step in flight is sampled if one waits for its mask. Half
/// the time of that step is waited in any case: it would not be done before.
pub const MASK_PATIENCE: u64 = 2_000;

/// See [`Config::step_growth`].
pub const DEFAULT_STEP_GROWTH: u32 = 75;

/// See [`Config::long_prompt_share`]. A long prompt takes some 1.4 times what it takes alone.
pub const DEFAULT_LONG_PROMPT_SHARE: u32 = 71;

/// What the scheduler is told beside the engine's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The most sequences that wait for a slot, of all tenants; at the bound, a new one is rejected.
    pub max_queued: u32,
    /// Steps submitted beyond the one whose outcome is awaited: up to [`MAX_LOOKAHEAD`].
    pub lookahead: usize,
    /// Who may use the keys and values that another computed.
    pub cache: CacheShare,
    /// Key of the names of block contents. To be kept from clients.
    pub cache_key: u128,
    /// Whether a tenant that has less than its share takes the place of one that has more.
    pub preemption: Preemption,
    /// Percent by which prompts may lengthen a step that streams wait for.
    pub step_growth: u32,
    /// Percent of the time that long prompts get beside streams, in steps of their own for which streams pause; 0 means
    /// that prompts only lengthen steps, however long they are. Below 100.
    pub long_prompt_share: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_queued: 256,
            lookahead: MAX_LOOKAHEAD,
            cache: CacheShare::Tenant,
            cache_key: 0,
            preemption: Preemption::ForShares,
            step_growth: DEFAULT_STEP_GROWTH,
            long_prompt_share: DEFAULT_LONG_PROMPT_SHARE,
        }
    }
}

/// Who may use the keys and values that another sequence computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheShare {
    /// Nobody.
    Off,
    /// Sequences of the same tenant: what others ask cannot be told from how fast an answer comes.
    Tenant,
    /// Everybody.
    Server,
}

/// When a running sequence loses its place to one that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// Only when memory runs out.
    ForMemory,
    /// Also when its tenant has more than its share, and the other's less.
    ForShares,
}

/// The state of all sequences, blocks and steps in flight.
///
/// Sequences are in exactly one of two places: a queue of their tenant (a preempted one at its front) or `running`
/// (oldest start first). `in_flight` holds at most `lookahead + 1` steps.
#[derive(Debug)]
pub struct Scheduler {
    config: Config,
    limits: EngineLimits,
    executor: Executor,
    admission: Admission,
    sequences: Sequences,
    tenants: Tenants,
    running: Vec<Key>,
    blocks: BlockPool,
    free_slots: Vec<SlotId>,
    in_flight: VecDeque<InFlight>,
    /// Outcomes of steps before this one are discarded: they build on one that was wrong.
    trusted_from: StepId,
    deadlines: BTreeSet<(Timestamp, SequenceId)>,
    next_step: StepId,
    pace: Pace,
    /// Until when the next step waits for masks.
    mask_wait: Option<Timestamp>,
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
    rows: Vec<InFlightRow>,
    /// Names of what it computes in blocks that their sequence has given up since.
    left: Vec<(BlockId, BlockName)>,
}

#[derive(Clone, Copy, Debug)]
struct InFlightRow {
    sequence: Key,
    tenant: TenantId,
    output: RowOutput,
    targets: Targets,
    /// Tokens of the sequence that are computed once the step is done.
    end: u32,
    /// Whether it computes a token that its tenant was charged for as generated.
    decodes: bool,
}

/// The tokens of its prompt that a row scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Targets {
    start: u32,
    count: u32,
}

/// The scheduler's state in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sequences in queues.
    pub waiting: u32,
    /// Sequences that hold a slot.
    pub running: u32,
    /// Blocks by state.
    pub blocks: BlockCounts,
    /// Blocks in all.
    pub blocks_total: u32,
    /// The block store.
    pub store: StoreCounts,
    /// Steps in flight.
    pub in_flight: u32,
}

impl Scheduler {
    /// A scheduler over an executor that is ready with `limits`, and whose block store holds `stored` already, least
    /// recently written first.
    pub fn new(config: Config, limits: EngineLimits, stored: &[StoredBlock]) -> Self {
        Self {
            config,
            limits,
            executor: Executor::Up,
            admission: Admission::Open,
            sequences: Sequences::default(),
            tenants: Tenants::new(),
            running: Vec::new(),
            blocks: BlockPool::new(limits.num_blocks, limits.num_stored_blocks, stored),
            free_slots: (0..limits.max_num_seqs).rev().map(SlotId).collect(),
            in_flight: VecDeque::new(),
            trusted_from: StepId(0),
            deadlines: BTreeSet::new(),
            next_step: StepId(0),
            pace: Pace::new(&config, limits.max_num_batched_tokens),
            mask_wait: None,
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

    /// When [`Event::TimePassed`] is due.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        deadline.into_iter().chain(self.mask_wait).min()
    }

    /// Numbers for gauges and status pages.
    pub fn counts(&self) -> Counts {
        Counts {
            waiting: self.tenants.num_waiting() as u32,
            running: self.running.len() as u32,
            blocks: self.blocks.counts(),
            blocks_total: self.limits.num_blocks,
            store: self.blocks.store_counts(),
            in_flight: self.in_flight.len() as u32,
        }
    }

    /// Where the names of a sequence's blocks begin.
    fn root_of(&self, request: &NewSequence) -> BlockName {
        let [shared, namespace] = match self.config.cache {
            CacheShare::Server => [1, 0],
            CacheShare::Off | CacheShare::Tenant => [0, self.tenants.namespace(request.tenant)],
        };
        let class = u64::from(self.limits.length_classes.class_of(request.max_len()));
        cache::root(self.config.cache_key, [shared, namespace, request.cache_salt, class])
    }

    /// Takes slot and blocks from a running sequence and puts it in front of its queue. What it generated stays: it will
    /// be replayed and go on with the same text.
    fn preempt(&mut self, key: Key, effects: &mut Effects) {
        self.vacate(key);
        let Some(sequence) = self.sequences.get_mut(key) else { return };
        sequence.extend_chain(self.limits.block_size);
        let ticket = sequence.ticket();
        self.tenants.enqueue(key.id, ticket, End::Front);
        if let Some(tenant) = self.tenants.get_mut(ticket.tenant) {
            tenant.totals.preemptions += 1;
        }
        effects.push(Effect::Preempted { sequence: key.id });
    }

    /// What steps in flight compute for a running sequence that gives up its blocks stays: they are named when the steps are
    /// done, as far as they are full by then and their tokens are known.
    fn leave_names(&mut self, key: Key) {
        let block_size = self.limits.block_size;
        let Some(sequence) = self.sequences.get_mut(key).filter(|_| self.config.cache != CacheShare::Off)
        else {
            return;
        };
        sequence.extend_chain(block_size);
        let Some(residence) = sequence.residence() else { return };
        let mut named = residence.num_named;
        for InFlight { step, rows, left } in &mut self.in_flight {
            let is_own = |row: &&InFlightRow| {
                row.sequence == key && residence.first_step.is_some_and(|first| first <= *step)
            };
            let Some(row) = rows.iter().find(is_own) else { continue };
            let full = ((row.end / block_size) as usize).min(sequence.names().len()).max(named);
            let blocks = residence.blocks[named..full].iter().copied();
            left.extend(blocks.zip(sequence.names()[named..full].iter().copied()));
            named = full;
        }
    }

    /// Takes slot and blocks from a sequence, which leaves `running`.
    fn vacate(&mut self, key: Key) {
        self.leave_names(key);
        let Some(sequence) = self.sequences.get_mut(key) else { return };
        let tenant = sequence.request.tenant;
        let Some(residence) = sequence.leave() else { return };
        self.running.retain(|&other| other != key);
        if let Some(tenant) = self.tenants.get_mut(tenant) {
            tenant.num_running -= 1;
        }
        self.free_slots.push(residence.slot);
        let oldest = self.in_flight.front().map(|step| step.step);
        let until = residence.last_step.filter(|&last| oldest.is_some_and(|oldest| last >= oldest));
        self.blocks.release(residence.blocks, until);
    }

    /// Forgets a sequence wherever it is.
    fn remove(&mut self, key: Key) -> Option<Sequence> {
        let is_waiting = self.sequences.get(key)?.residence().is_none();
        self.vacate(key);
        let sequence = self.sequences.remove(key)?;
        if is_waiting {
            self.tenants.dequeue(key.id, sequence.request.tenant);
        }
        if let Some(deadline) = sequence.deadline() {
            self.deadlines.remove(&(deadline, key.id));
        }
        Some(sequence)
    }
}
