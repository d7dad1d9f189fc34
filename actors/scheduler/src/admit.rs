//! From the queues into the running list.

use troupe_protocol::SequenceId;

use crate::blocks::Found;
use crate::event::{Effect, Effects, Timestamp};
use crate::sequence::{Phase, Progress, Residence, Sequence};
use crate::tenants::{PRECISION, Price};
use crate::{CacheShare, Preemption, Scheduler};

impl Scheduler {
    /// Moves sequences into `running` while there is a place for the next. Nobody overtakes one that waits for blocks.
    pub(crate) fn admit(&mut self, now: Timestamp, effects: &mut Effects) {
        while self.tenants.num_waiting() > 0 && self.admit_next(now, effects) {}
    }

    /// Service that a tenant may be ahead of another for the sake of cached prefixes: a step of prompts.
    pub(crate) fn quantum(&self) -> u64 {
        u64::from(self.limits.max_num_batched_tokens) * Price::Prefill.units() * PRECISION
    }

    fn admit_next(&mut self, now: Timestamp, effects: &mut Effects) -> bool {
        // One that waits for its client, or for its last tokens to be read, is passed over.
        let can_go_on = |id: SequenceId| {
            let sequence = &self.sequences[&id];
            sequence.unread == 0 && sequence.may_sample()
        };
        let prefix = |id: SequenceId| self.cached(&self.sequences[&id]).total;
        let Some(next) = self.tenants.next(now, self.quantum(), can_go_on, prefix) else { return false };
        if !self.make_place(next.id, effects) {
            return false;
        }
        let found = self.cached(&self.sequences[&next.id]).total;
        let Some(slot) = self.free_slots.pop() else { return false };
        self.tenants.start(next);
        self.running.push(next.id);
        if let Some(tenant) = self.tenants.get_mut(next.tenant) {
            tenant.num_running += 1;
        }
        let Some(sequence) = self.sequences.get_mut(&next.id) else { return false };
        let found = found as usize;
        let names = &sequence.wanted_names(self.limits.block_size)[..found];
        // A place was made for them.
        let Ok(blocks) = self.blocks.share(names) else { return false };
        let cached_tokens = found as u32 * self.limits.block_size;
        sequence.phase = Phase::Running(Residence {
            slot,
            blocks,
            num_scheduled_tokens: cached_tokens,
            last_step: None,
            first_step: None,
            num_named: found,
        });
        if sequence.progress == Progress::New {
            sequence.progress = Progress::Started;
            sequence.cached_tokens = cached_tokens;
            sequence.charged_tokens = cached_tokens;
            let queue_time = now.0.saturating_sub(sequence.arrived.0);
            self.tenants.charge(next.tenant, Price::Cached, cached_tokens);
            effects.push(Effect::Started { sequence: next.id, queue_time, cached_tokens });
        }
        true
    }

    /// What a sequence would find in the cache.
    fn cached(&self, sequence: &Sequence) -> Found {
        match self.config.cache {
            CacheShare::Off => Found::default(),
            CacheShare::Tenant | CacheShare::Server => {
                self.blocks.find(sequence.wanted_names(self.limits.block_size))
            }
        }
    }

    /// Whether a slot and blocks for all known tokens of `id` and one more are there, beside those that running prompts
    /// have yet to take. Sequences that wait for their clients give up theirs if need be, and so do the newest of a tenant
    /// that has more than its share, if this one's has less. Room for the whole sequence is wanted, so that a prompt is
    /// not admitted just to be preempted in the middle.
    fn make_place(&mut self, id: SequenceId, effects: &mut Effects) -> bool {
        loop {
            let sequence = &self.sequences[&id];
            let found = self.cached(sequence);
            let own = self.limits.blocks_for(sequence.num_known_tokens() + 1) - found.total;
            // Cached blocks that it takes are no longer there for others.
            let wanted = own + found.taken() + self.promised_blocks();
            if !self.free_slots.is_empty() && wanted <= self.blocks.available() {
                return true;
            }
            // What is given up now comes back when the steps in flight are done.
            if !self.free_slots.is_empty() && wanted <= self.blocks.available() + self.blocks.quarantined() {
                return false;
            }
            let Some(victim) = self.stalled().or_else(|| self.over_its_share(id)) else { return false };
            self.preempt(victim, effects);
        }
    }

    /// The newest that waits for its client.
    fn stalled(&self) -> Option<SequenceId> {
        self.running.iter().rev().copied().find(|id| self.sequences[id].is_stalled())
    }

    /// The newest running sequence of the tenant that is furthest above its share of the slots, if the tenant of `id` is
    /// below its own.
    fn over_its_share(&self, id: SequenceId) -> Option<SequenceId> {
        if self.config.preemption == Preemption::ForMemory {
            return None;
        }
        let slots = self.limits.max_num_seqs;
        let tenant = self.sequences[&id].request.tenant;
        let running = self.tenants.get(tenant)?.num_running;
        if running >= self.tenants.fair_slots(tenant, slots) {
            return None;
        }
        let excess = |(id, running): (_, u32)| running.saturating_sub(self.tenants.fair_slots(id, slots));
        let others = self.tenants.iter().map(|(id, tenant)| (id, tenant.num_running));
        let (most, _) = others.filter(|&other| excess(other) > 0).max_by_key(|&other| excess(other))?;
        self.running.iter().rev().copied().find(|id| self.sequences[id].request.tenant == most)
    }

    /// Blocks that running sequences need for tokens they have, and do not hold yet.
    fn promised_blocks(&self) -> u32 {
        let missing = |sequence: &Sequence| {
            let Some(residence) = sequence.residence() else { return 0 };
            let needed = self.limits.blocks_for(sequence.num_known_tokens() + 1);
            needed.saturating_sub(residence.blocks.len() as u32)
        };
        self.running.iter().map(|id| missing(&self.sequences[id])).sum()
    }
}
