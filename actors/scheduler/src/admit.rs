//! From the queues into the running list.

use alloc::collections::BTreeMap;
use core::cell::RefCell;

use troupe_protocol::{SequenceId, TenantId};

use crate::blocks::Found;
use crate::event::{Effect, Effects, Timestamp};
use crate::sequence::{Phase, Progress, Residence, Sequence};
use crate::sequences::Key;
use crate::tenants::{PRECISION, Price, Tenant};
use crate::{CacheShare, Preemption, Scheduler};

impl Scheduler {
    /// Moves sequences into `running` while there is a place for the next. Nobody overtakes one that waits for blocks.
    pub(crate) fn admit(&mut self, now: Timestamp, effects: &mut Effects) {
        let mut survey = Survey::default();
        // Places change hands at most once each.
        for _ in 0..self.limits.max_num_seqs {
            let may_admit = self.tenants.num_waiting() > 0 && self.may_make_place();
            if !may_admit || !self.admit_next(now, &mut survey, effects) {
                return;
            }
        }
    }

    /// Whether a slot is free, or somebody could have to give one up: most steps end the admission here.
    fn may_make_place(&self) -> bool {
        let slots = self.limits.max_num_seqs;
        let below_its_share = |(id, tenant): (TenantId, &Tenant)| {
            tenant.num_waiting() > 0 && tenant.num_running < self.tenants.fair_slots(id, slots)
        };
        !self.free_slots.is_empty()
            || self.config.preemption == Preemption::ForShares && self.tenants.iter().any(below_its_share)
            || self.stalled().is_some()
    }

    /// Service that a tenant may be ahead of another for the sake of cached prefixes: a step of prompts.
    pub(crate) fn quantum(&self) -> u64 {
        u64::from(self.limits.max_num_batched_tokens) * Price::Prefill.units() * PRECISION
    }

    fn admit_next(&mut self, now: Timestamp, survey: &mut Survey, effects: &mut Effects) -> bool {
        // One that waits for its client, or for its last tokens to be read, is passed over.
        let can_go_on = |id: SequenceId| {
            let sequence = self.sequences.by_id(id);
            sequence.is_some_and(|sequence| sequence.unread == 0 && sequence.may_sample())
        };
        let prefix = |id: SequenceId| {
            let find = || self.sequences.by_id(id).map_or(0, |sequence| self.cached(sequence).total);
            *survey.prefixes.borrow_mut().entry(id).or_insert_with(find)
        };
        let Some(next) = self.tenants.next(now, self.quantum(), can_go_on, prefix) else { return false };
        let Some(key) = self.sequences.key(next.id) else { return false };
        let Some(found) = self.make_place(key, survey, effects) else { return false };
        let Some(slot) = self.free_slots.pop() else { return false };
        self.tenants.start(next);
        self.running.push(key);
        if let Some(tenant) = self.tenants.get_mut(next.tenant) {
            tenant.num_running += 1;
        }
        let Some(sequence) = self.sequences.get_mut(key) else { return false };
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
            in_pauses: false,
        });
        if sequence.progress == Progress::New {
            sequence.progress = Progress::Started;
            sequence.cached_tokens = cached_tokens;
            sequence.charged_tokens = cached_tokens;
            let queue_time = now.0.saturating_sub(sequence.arrived.0);
            self.tenants.charge(next.tenant, Price::Cached, cached_tokens);
            effects.push(Effect::Started { sequence: next.id, queue_time, cached_tokens });
        } else if sequence.generated.is_empty() {
            // What was found at first may have been lost before anything came of it.
            sequence.cached_tokens = sequence.cached_tokens.min(cached_tokens);
        }
        survey.promised_blocks = survey.promised_blocks.map(|sum| sum + self.missing_blocks(key));
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

    /// Sees that a slot and blocks for all known tokens of a sequence and one more are there, beside those that running prompts
    /// have yet to take, and answers how many of them the cache holds. Sequences that wait for their clients give up theirs if need be, and so do the newest of a tenant
    /// that has more than its share, if this one's has less. Room for the whole sequence is wanted, so that a prompt is
    /// not admitted just to be preempted in the middle.
    fn make_place(&mut self, key: Key, survey: &mut Survey, effects: &mut Effects) -> Option<u32> {
        loop {
            let promised = *survey.promised_blocks.get_or_insert_with(|| self.promised_blocks());
            let sequence = &self.sequences[key];
            let found = self.cached(sequence);
            let own = self.limits.blocks_for(sequence.num_known_tokens() + 1) - found.total;
            // Cached blocks that it takes are no longer there for others.
            let wanted = own + found.taken() + promised;
            if !self.free_slots.is_empty() && wanted <= self.blocks.available() {
                return Some(found.total);
            }
            // What is given up now comes back when the steps in flight are done.
            if !self.free_slots.is_empty() && wanted <= self.blocks.available() + self.blocks.quarantined() {
                return None;
            }
            let stalled = if survey.nobody_stalled { None } else { self.stalled() };
            survey.nobody_stalled = stalled.is_none();
            let is_short_of_memory = !self.free_slots.is_empty();
            let over_served = || if is_short_of_memory { self.over_served(key) } else { None };
            let victim = stalled.or_else(|| self.over_its_share(key)).or_else(over_served)?;
            survey.promised_blocks = Some(promised - self.missing_blocks(victim));
            self.preempt(victim, effects);
        }
    }

    /// The newest that waits for its client.
    fn stalled(&self) -> Option<Key> {
        self.running.iter().rev().copied().find(|&key| self.sequences[key].is_stalled())
    }

    /// The newest running sequence of the tenant that is furthest above its share of the slots, if that of `key` is
    /// below its own.
    fn over_its_share(&self, key: Key) -> Option<Key> {
        if self.config.preemption == Preemption::ForMemory {
            return None;
        }
        let slots = self.limits.max_num_seqs;
        let tenant = self.sequences[key].request.tenant;
        let running = self.tenants.get(tenant)?.num_running;
        if running >= self.tenants.fair_slots(tenant, slots) {
            return None;
        }
        let excess = |(id, running): (_, u32)| running.saturating_sub(self.tenants.fair_slots(id, slots));
        let others = self.tenants.iter().map(|(id, tenant)| (id, tenant.num_running));
        let (most, _) = others.filter(|&other| excess(other) > 0).max_by_key(|&other| excess(other))?;
        self.running.iter().rev().copied().find(|&key| self.sequences[key].request.tenant == most)
    }

    /// The newest running sequence of the tenant that was served most, if that is well ahead of the tenant of `key`: a
    /// tenant may hold the memory with no more than its share of the slots.
    fn over_served(&self, key: Key) -> Option<Key> {
        if self.config.preemption == Preemption::ForMemory {
            return None;
        }
        let tenant = self.sequences[key].request.tenant;
        let running = self.tenants.get(tenant)?.num_running;
        // With its share of the slots it would take back what it just gave up for the share of another.
        if running >= self.tenants.fair_slots(tenant, self.limits.max_num_seqs) {
            return None;
        }
        let service = |key: Key| self.tenants.service(self.sequences[key].request.tenant);
        let ahead = service(key).saturating_add(self.quantum());
        let most = self.running.iter().copied().map(service).max().filter(|&most| most > ahead)?;
        self.running.iter().rev().copied().find(|&other| service(other) == most)
    }

    /// Blocks that running sequences need for tokens they have, and do not hold yet.
    fn promised_blocks(&self) -> u32 {
        self.running.iter().map(|&key| self.missing_blocks(key)).sum()
    }

    fn missing_blocks(&self, key: Key) -> u32 {
        let sequence = &self.sequences[key];
        let Some(residence) = sequence.residence() else { return 0 };
        let needed = self.limits.blocks_for(sequence.num_known_tokens() + 1);
        needed.saturating_sub(residence.blocks.len() as u32)
    }
}

/// What was looked up for one step, so that it is not looked up for each that is admitted.
#[derive(Default)]
struct Survey {
    /// Cached blocks of those who could be next. Only who goes first depends on them.
    prefixes: RefCell<BTreeMap<SequenceId, u32>>,
    /// See [`Scheduler::promised_blocks`].
    promised_blocks: Option<u32>,
    nobody_stalled: bool,
}
