//! Deciding a step.
//!
//! One token budget serves everybody. Rows that decode come first, a token each. What is left is for prompts, as far as
//! [`crate::pace`] allows it beside streams: half of it for the oldest of the least served tenant, so that none is starved,
//! half for the shortest, so that none waits behind a long one. Streams, being at most `max_num_seqs` tokens a step, never
//! stop a prompt. A prompt so long that it would be in very many paced steps gets a part of the time instead, for which
//! streams pause: each paced step would read all keys and values before it again, for a few tokens.

use alloc::vec;
use alloc::vec::Vec;

use troupe_protocol::{Binding, EngineLimits, Row, RowOutput, RowTokens, StepId, StepPlan, TenantId};

use crate::event::{Effects, Timestamp};
use crate::pace::{Spared, Submitted};
use crate::sequence::RowSource;
use crate::sequences::Key;
use crate::tenants::Price;
use crate::{Executor, InFlight, InFlightRow, Scheduler, Targets};

/// Blocks that one step of [`Scheduler::flush`] saves.
const FLUSHED_BLOCKS: usize = 32;

/// A step in the making.
struct Draft {
    step: StepId,
    budget: u32,
    /// Tokens of prompts that may still be scored.
    targets: u32,
    bindings: Vec<Binding>,
    rows: Vec<Row>,
    in_flight: Vec<InFlightRow>,
    /// Rows of one token, which come before those of prompts.
    decode_rows: u32,
    /// Whether streams sit it out for prompts.
    is_pause: bool,
}

/// A running sequence with more than one token to compute.
#[derive(Clone, Copy)]
struct Prompt {
    key: Key,
    tenant: TenantId,
    wanted: u32,
    /// Whether streams paused for it before: its rest is not left to paced steps.
    in_pauses: bool,
}

impl Draft {
    fn new(step: StepId, budget: u32, num_running: usize, limits: &EngineLimits) -> Self {
        Self {
            step,
            budget,
            targets: limits.max_num_prompt_logprobs,
            bindings: Vec::new(),
            rows: Vec::with_capacity(num_running),
            in_flight: Vec::with_capacity(num_running),
            decode_rows: 0,
            is_pause: false,
        }
    }

    fn submitted(&self, at: Timestamp) -> Submitted {
        let prompts = self.rows.iter().skip(self.decode_rows as usize);
        let prompt_tokens = prompts.map(|row| row.tokens.count()).sum();
        let Self { step, decode_rows, is_pause, .. } = *self;
        Submitted { step, at, decode_rows, prompt_tokens, is_pause }
    }
}

impl Scheduler {
    /// The next step to submit, or nothing if none is due: too many are in flight, or no sequence can go on.
    pub fn plan(&mut self, now: Timestamp, effects: &mut Effects) -> Option<StepPlan> {
        self.mask_wait = None;
        if self.executor == Executor::Lost || self.in_flight.len() > self.config.lookahead {
            return None;
        }
        self.mask_wait = self.masks_awaited_until(now);
        if self.mask_wait.is_some() {
            return None;
        }
        self.give_masks(effects);
        self.admit(now, effects);
        let budget = self.limits.max_num_batched_tokens;
        let mut draft = Draft::new(self.next_step, budget, self.running.len(), &self.limits);
        let (streams, mut prompts) = self.wanted_rows();
        let pause = self.pause(&streams, &mut prompts);
        if let Some(tokens) = pause {
            draft.is_pause = true;
            draft.budget = tokens.min(budget);
            self.add_prompts(prompts.clone(), &mut draft, effects);
        }
        // Blocks may not have allowed what streams would have paused for.
        if draft.rows.is_empty() {
            draft.is_pause = false;
            draft.budget = budget;
            streams.into_iter().for_each(|key| self.add_row(key, 1, &mut draft, effects));
            draft.decode_rows = draft.rows.len() as u32;
            self.add_prompts(prompts, &mut draft, effects);
        }
        if draft.rows.is_empty() {
            return None;
        }
        self.pace.submitted(draft.submitted(now));
        Some(self.submit(draft))
    }

    /// A step that saves contents which are only in KV memory, or nothing if there are none or a step is in flight:
    /// called again and again when nothing runs any more, it leaves all that the store has room for to the next start.
    pub fn flush(&mut self) -> Option<StepPlan> {
        let may_submit = self.executor == Executor::Up && self.in_flight.is_empty();
        if !may_submit || !self.blocks.save_cached(FLUSHED_BLOCKS) {
            return None;
        }
        Some(self.submit(Draft::new(self.next_step, 0, 0, &self.limits)))
    }

    fn submit(&mut self, draft: Draft) -> StepPlan {
        let Draft { step, bindings, rows, in_flight, .. } = draft;
        let (saves, loads) = self.blocks.take_transfers(step);
        self.next_step = StepId(step.0 + 1);
        self.in_flight.push_back(InFlight { step, rows: in_flight, left: Vec::new() });
        StepPlan { step, saves, loads, bindings, rows }
    }

    /// Running sequences that could have a row of one token, and those that could have more, oldest start first.
    fn wanted_rows(&self) -> (Vec<Key>, Vec<Prompt>) {
        let (mut streams, mut prompts) = (Vec::with_capacity(self.running.len()), Vec::new());
        for &key in &self.running {
            let sequence = &self.sequences[key];
            match sequence.next_row(u32::MAX).map_or(0, |row| row.count()) {
                0 => {}
                1 => streams.push(key),
                wanted => {
                    let in_pauses = sequence.residence().is_some_and(|residence| residence.in_pauses);
                    prompts.push(Prompt { key, tenant: sequence.request.tenant, wanted, in_pauses });
                }
            }
        }
        (streams, prompts)
    }

    /// Tokens of prompts in a step for which streams pause, if it is time for one; long prompts have no part in other
    /// steps, and are removed from `prompts`.
    ///
    /// Their tenant is the least served of the streams'. One that was served less does not wait for the pace at all, and
    /// for one that was served more nobody pauses.
    fn pause(&self, streams: &[Key], prompts: &mut Vec<Prompt>) -> Option<u32> {
        let rows = streams.len() as u32;
        let is_long = |prompt: &Prompt| prompt.in_pauses || self.pace.is_long(prompt.wanted, rows);
        if !prompts.iter().any(is_long) {
            return None;
        }
        let service = |tenant: TenantId| self.tenants.service(tenant);
        let least = streams.iter().map(|&key| service(self.sequences[key].request.tenant)).min()?;
        let is_long = |prompt: &Prompt| service(prompt.tenant) == least && is_long(prompt);
        if !prompts.iter().any(is_long) {
            return None;
        }
        let Some(tokens) = self.pace.pause() else {
            prompts.retain(|prompt| !is_long(prompt));
            return None;
        };
        let wanted = prompts.iter().fold(0, |sum: u32, prompt| sum.saturating_add(prompt.wanted));
        // Up to twice as many bring them to their end.
        Some(if wanted / 2 < tokens { wanted } else { tokens })
    }

    /// Whether a sequence has a row in the step that is being made.
    fn is_in(&self, draft: &Draft, key: Key) -> bool {
        self.sequences[key].residence().is_some_and(|residence| residence.last_step == Some(draft.step))
    }

    /// Divides what is left of the budget among prompts: those of the least served tenant first, and of one tenant those
    /// that started first.
    ///
    /// Streams are spared by the pace, but not at the cost of a tenant that was served less than all of theirs; and most at
    /// the cost of those that were served more than one of theirs, so that what a tenant with less asks next waits for
    /// short steps.
    fn add_prompts(&mut self, mut prompts: Vec<Prompt>, draft: &mut Draft, effects: &mut Effects) {
        if prompts.is_empty() {
            return;
        }
        let service = |tenant: TenantId| self.tenants.service(tenant);
        prompts.sort_by_key(|prompt| service(prompt.tenant));
        let streams = draft.in_flight.iter().map(|row| service(row.tenant)).min();
        let had_less = |tenant: TenantId| streams.is_some_and(|streams| service(tenant) < streams);
        let had_more = |tenant: TenantId| streams.is_some_and(|streams| service(tenant) > streams);
        let num_first = prompts.partition_point(|prompt| had_less(prompt.tenant));
        let num_ahead = prompts.iter().filter(|prompt| had_more(prompt.tenant)).count();
        let (first, others) = prompts.split_at(num_first);
        let (equal, ahead) = others.split_at(others.len() - num_ahead);
        let (before, rows) = (draft.budget, draft.rows.len() as u32);
        self.share(draft.budget, first, draft, effects);
        for (prompts, spared) in [(equal, Spared::Usual), (ahead, Spared::Most)] {
            let paced = self.pace.prompt_tokens(rows, spared);
            let left = paced.saturating_sub(before - draft.budget);
            self.share(left.min(draft.budget), prompts, draft, effects);
        }
    }

    /// Divides `tokens` among prompts.
    fn share(&mut self, tokens: u32, prompts: &[Prompt], draft: &mut Draft, effects: &mut Effects) {
        let wanted: Vec<u32> = prompts.iter().map(|prompt| prompt.wanted).collect();
        for (prompt, tokens) in prompts.iter().zip(divide(tokens, &wanted)) {
            self.add_row(prompt.key, tokens, draft, effects);
        }
    }

    /// Adds the next row of a running sequence, of at most `tokens` tokens, if blocks allow.
    fn add_row(&mut self, key: Key, tokens: u32, draft: &mut Draft, effects: &mut Effects) {
        let sequence = &self.sequences[key];
        let mut tokens = tokens.min(draft.budget);
        if !sequence.is_scored() {
            tokens = tokens.min(draft.targets);
        }
        if tokens == 0 {
            return;
        }
        // An earlier row of this draft may have preempted it.
        let (Some(next), Some(residence)) = (sequence.next_row(tokens), sequence.residence()) else { return };
        let (start, end) = (next.start, next.start + next.count());
        let has_room = self.limits.blocks_for(end) as usize <= residence.blocks.len();
        if !has_room && !self.make_room(key, end, draft, effects) {
            return;
        }
        let Some(sequence) = self.sequences.get_mut(key) else { return };
        let tokens = match next.source {
            RowSource::Known(count) => sequence.known_tokens(start, count),
            RowSource::Sampled(step) => RowTokens::Sampled(step),
        };
        let mask = match next.output {
            RowOutput::None => None,
            RowOutput::Sample => sequence.mask(),
            RowOutput::SampleLater => None,
        };
        let targets = sequence.targets(start, end).to_vec();
        let scored = Targets { start: start + 1, count: targets.len() as u32 };
        sequence.unread += u32::from(next.output.samples());
        let tenant = sequence.request.tenant;
        let charges = sequence.charge(start, end);
        let Some(residence) = sequence.residence_mut() else { return };
        residence.num_scheduled_tokens = end;
        residence.last_step = Some(draft.step);
        residence.in_pauses |= draft.is_pause;
        let is_first = residence.first_step.is_none();
        residence.first_step.get_or_insert(draft.step);
        let (slot, blocks) = (residence.slot, residence.blocks.clone());
        if is_first {
            draft.bindings.push(sequence.binding(slot));
        }
        for (price, count) in charges.into_iter().filter(|&(_, count)| count > 0) {
            self.tenants.charge(tenant, price, count);
        }
        let decodes = charges.iter().any(|&(price, count)| price == Price::Decode && count > 0);
        draft.budget -= end - start;
        draft.targets -= scored.count;
        let output = next.output;
        draft.in_flight.push(InFlightRow { sequence: key, tenant, output, targets: scored, end, decodes });
        draft.rows.push(Row { sequence: key.id, slot, start, tokens, blocks, targets, output, mask });
    }

    /// Grows the block table of `key` to hold `tokens`, preempting others or, if it is the one to give way, itself.
    /// Answers whether it does; if not, the sequence sits this step out.
    fn make_room(&mut self, key: Key, tokens: u32, draft: &Draft, effects: &mut Effects) -> bool {
        loop {
            let Some(sequence) = self.sequences.get_mut(key) else { return false };
            let Some(residence) = sequence.residence_mut() else { return false };
            let missing = self.limits.blocks_for(tokens).saturating_sub(residence.blocks.len() as u32);
            if self.blocks.take(missing, &mut residence.blocks).is_ok() {
                return true;
            }
            // Enough will come back when the steps in flight are done.
            if self.blocks.available() + self.blocks.quarantined() >= missing {
                return false;
            }
            let Some(victim) = self.victim(key, draft) else { return false };
            self.preempt(victim, effects);
        }
    }

    /// Who gives up blocks for `key`: one that waits for its client, else the newest of the most served tenant, if it is
    /// well ahead of its own, else the newest that is not older than `key`. Never one that already has a row in
    /// this step.
    fn victim(&self, key: Key, draft: &Draft) -> Option<Key> {
        let newest_first = || self.running.iter().rev().copied().filter(|&other| !self.is_in(draft, other));
        let stalled = newest_first().find(|&other| other != key && self.sequences[other].is_stalled());
        let service = |key: Key| self.tenants.service(self.sequences[key].request.tenant);
        let ahead = service(key).saturating_add(self.quantum());
        let most = newest_first().map(service).max().filter(|&most| most > ahead);
        let over_served = || newest_first().find(|&other| Some(service(other)) == most);
        let at = self.running.iter().position(|&other| other == key)?;
        let newer = || newest_first().find(|other| self.running[at..].contains(other));
        stalled.or_else(over_served).or_else(newer)
    }
}

/// Divides `budget` among prompts that want `wanted` tokens each, oldest first: half of it in this order, the rest in that
/// of the shortest.
fn divide(budget: u32, wanted: &[u32]) -> Vec<u32> {
    let mut shares = vec![0; wanted.len()];
    let mut left = budget;
    let mut give = |order: &mut dyn Iterator<Item = usize>, mut most: u32| {
        for at in order {
            let tokens = (wanted[at] - shares[at]).min(most).min(left);
            shares[at] += tokens;
            most -= tokens;
            left -= tokens;
        }
    };
    give(&mut (0..wanted.len()), budget.div_ceil(2));
    let mut shortest: Vec<usize> = (0..wanted.len()).collect();
    shortest.sort_by_key(|&at| wanted[at]);
    give(&mut shortest.into_iter(), budget);
    shares
}

#[cfg(test)]
mod tests {
    use super::divide;

    #[test]
    fn half_a_budget_goes_to_the_oldest_and_half_to_the_shortest() {
        let table: [(u32, &[u32], &[u32]); 7] = [
            (100, &[], &[]),
            (100, &[30], &[30]),
            (100, &[900], &[100]),
            (100, &[900, 900], &[100, 0]),
            (100, &[900, 900, 30], &[70, 0, 30]),
            (100, &[20, 900, 10, 30], &[20, 40, 10, 30]),
            (1, &[5, 3], &[1, 0]),
        ];
        for (budget, wanted, shares) in table {
            assert_eq!(divide(budget, wanted), shares, "{budget} among {wanted:?}");
        }
    }
}
