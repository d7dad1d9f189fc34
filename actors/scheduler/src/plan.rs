//! Deciding a step.
//!
//! One token budget serves everybody. Rows that decode come first, a token each. What is left is for prompts: half of it
//! for the oldest, so that none is starved, half for the shortest, so that none waits behind a long one.
//! A long prompt never stops a stream, and streams, being at most `max_num_seqs` tokens a step, never stop a prompt.

use alloc::vec;
use alloc::vec::Vec;

use troupe_protocol::{Binding, Row, RowOutput, RowTokens, SequenceId, StepId, StepPlan};

use crate::event::{Effect, Effects, Timestamp};
use crate::sequence::{Phase, Progress, Residence, RowSource, Sequence};
use crate::{Executor, InFlight, LOOKAHEAD, Scheduler};

/// A step in the making.
struct Draft {
    step: StepId,
    budget: u32,
    bindings: Vec<Binding>,
    rows: Vec<Row>,
}

impl Draft {
    fn has(&self, id: SequenceId) -> bool {
        self.rows.iter().any(|row| row.sequence == id)
    }
}

impl Scheduler {
    /// The next step to submit, or nothing if none is due: too many are in flight, or no sequence can go on.
    pub fn plan(&mut self, now: Timestamp, effects: &mut Effects) -> Option<StepPlan> {
        if self.executor == Executor::Lost || self.in_flight.len() > LOOKAHEAD {
            return None;
        }
        let budget = self.limits.max_num_batched_tokens;
        let mut draft = Draft { step: self.next_step, budget, bindings: Vec::new(), rows: Vec::new() };
        for id in self.running.clone() {
            if self.wanted_tokens(id) == 1 {
                self.add_row(id, 1, &mut draft, effects);
            }
        }
        while self.admit_next(now, &draft, effects) {}
        self.add_prompts(&mut draft, effects);
        if draft.rows.is_empty() {
            return None;
        }
        self.next_step = StepId(draft.step.0 + 1);
        let rows = draft.rows.iter().map(|row| (row.sequence, row.output)).collect();
        self.in_flight.push_back(InFlight { step: draft.step, rows });
        Some(StepPlan { step: draft.step, bindings: draft.bindings, rows: draft.rows })
    }

    /// Tokens that a running sequence could have computed, were there no budget.
    fn wanted_tokens(&self, id: SequenceId) -> u32 {
        self.sequences[&id].next_row(u32::MAX).map_or(0, |row| row.count())
    }

    /// Divides what is left of the budget among the sequences that have no row yet, oldest first.
    fn add_prompts(&mut self, draft: &mut Draft, effects: &mut Effects) {
        let prompts: Vec<SequenceId> =
            self.running.iter().copied().filter(|&id| !draft.has(id) && self.wanted_tokens(id) > 0).collect();
        let wanted: Vec<u32> = prompts.iter().map(|&id| self.wanted_tokens(id)).collect();
        for (id, tokens) in prompts.into_iter().zip(divide(draft.budget, &wanted)) {
            self.add_row(id, tokens, draft, effects);
        }
    }

    /// Adds the next row of a running sequence, of at most `tokens` tokens, if blocks allow.
    fn add_row(&mut self, id: SequenceId, tokens: u32, draft: &mut Draft, effects: &mut Effects) {
        let tokens = tokens.min(draft.budget);
        if tokens == 0 {
            return;
        }
        // An earlier row of this draft may have preempted it.
        let Some(next) = self.sequences[&id].next_row(tokens) else { return };
        if !self.make_room(id, next.start + next.count(), draft, effects) {
            return;
        }
        let Some(sequence) = self.sequences.get_mut(&id) else { return };
        let tokens = match next.source {
            RowSource::Known(count) => sequence.known_tokens(next.start, count),
            RowSource::Sampled(step) => RowTokens::Sampled(step),
        };
        if next.output == RowOutput::Sample {
            sequence.unread += 1;
        }
        let Some(residence) = sequence.residence_mut() else { return };
        residence.num_scheduled_tokens = next.start + next.count();
        let is_first = residence.last_step.replace(draft.step).is_none();
        let (slot, blocks) = (residence.slot, residence.blocks.clone());
        if is_first {
            draft.bindings.push(sequence.binding(slot));
        }
        draft.budget -= next.count();
        draft.rows.push(Row { sequence: id, slot, start: next.start, tokens, blocks, output: next.output });
    }

    /// Grows the block table of `id` to hold `tokens`, preempting others or, as the newest, itself. Answers
    /// whether it does; if not, the sequence sits this step out.
    fn make_room(&mut self, id: SequenceId, tokens: u32, draft: &Draft, effects: &mut Effects) -> bool {
        loop {
            let Some(sequence) = self.sequences.get_mut(&id) else { return false };
            let Some(residence) = sequence.residence_mut() else { return false };
            let missing = self.limits.blocks_for(tokens).saturating_sub(residence.blocks.len() as u32);
            if self.blocks.take(missing, &mut residence.blocks).is_ok() {
                return true;
            }
            // Enough will come back when the steps in flight are done.
            if self.blocks.free() + self.blocks.quarantined() >= missing {
                return false;
            }
            let Some(victim) = self.victim(id, draft) else { return false };
            self.preempt(victim);
            effects.push(Effect::Preempted { sequence: victim });
        }
    }

    /// Who gives up blocks for `id`: one that waits for its client, else the newest that is not older than
    /// `id`. Never one that already has a row in this step.
    fn victim(&self, id: SequenceId, draft: &Draft) -> Option<SequenceId> {
        let newest_first = || self.running.iter().rev().copied().filter(|&other| !draft.has(other));
        let stalled = newest_first().find(|&other| other != id && self.sequences[&other].is_stalled());
        let at = self.running.iter().position(|&other| other == id)?;
        stalled.or_else(|| newest_first().find(|other| self.running[at..].contains(other)))
    }

    /// Moves the first sequence of the queue that can go on into `running`. Nobody overtakes one that waits for
    /// blocks. Answers whether it did.
    fn admit_next(&mut self, now: Timestamp, draft: &Draft, effects: &mut Effects) -> bool {
        // One that waits for its client, or for its last tokens to be read, is passed over.
        let can_go_on = |s: &Sequence| s.unread == 0 && s.may_sample();
        let Some(at) = self.waiting.iter().position(|id| can_go_on(&self.sequences[id])) else {
            return false;
        };
        let id = self.waiting[at];
        let tokens = self.sequences[&id].num_known_tokens();
        if !self.make_place(tokens, draft, effects) {
            return false;
        }
        let Some(slot) = self.free_slots.pop() else { return false };
        // Preemption may have put others in front.
        self.waiting.retain(|&other| other != id);
        self.running.push(id);
        let Some(sequence) = self.sequences.get_mut(&id) else { return false };
        sequence.phase =
            Phase::Running(Residence { slot, blocks: Vec::new(), num_scheduled_tokens: 0, last_step: None });
        if sequence.progress == Progress::New {
            sequence.progress = Progress::Started;
            let queue_time = now.0.saturating_sub(sequence.arrived.0);
            effects.push(Effect::Started { sequence: id, queue_time });
        }
        true
    }

    /// Whether a slot and blocks for `tokens` and one more are free, beside those that running prompts have yet to
    /// take. Sequences that wait for their clients give up theirs if need be. Room for the whole sequence is wanted, so
    /// that a prompt is not admitted just to be preempted in the middle.
    fn make_place(&mut self, tokens: u32, draft: &Draft, effects: &mut Effects) -> bool {
        loop {
            let wanted = self.limits.blocks_for(tokens + 1) + self.promised_blocks();
            if !self.free_slots.is_empty() && wanted <= self.blocks.free() {
                return true;
            }
            let stalled = |id: &&SequenceId| self.sequences[id].is_stalled() && !draft.has(**id);
            let Some(&victim) = self.running.iter().rev().find(stalled) else { return false };
            self.preempt(victim);
            effects.push(Effect::Preempted { sequence: victim });
        }
    }

    /// Blocks that running sequences need for tokens they have, and do not hold yet.
    fn promised_blocks(&self) -> u32 {
        let missing = |sequence: &Sequence| match &sequence.phase {
            Phase::Waiting => 0,
            Phase::Running(residence) => {
                let needed = self.limits.blocks_for(sequence.num_known_tokens() + 1);
                needed.saturating_sub(residence.blocks.len() as u32)
            }
        };
        self.running.iter().map(|id| missing(&self.sequences[id])).sum()
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
