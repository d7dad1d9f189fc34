//! Deciding a step.
//!
//! One token budget serves everybody: rows that decode come first (a token each), then prompts that are
//! under way, then sequences from the queue. So a long prompt never stops a stream, and streams, being at most
//! `max_num_seqs` tokens a step, never stop a prompt.

use alloc::vec::Vec;

use troupe_protocol::{Binding, Row, RowOutput, RowTokens, SequenceId, StepId, StepPlan};

use crate::event::{Effect, Effects, Timestamp};
use crate::sequence::{NextRow, Phase, Progress, Residence, RowSource, Sequence};
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
        let (decoding, prefilling) = self.running_by_kind();
        for id in decoding.into_iter().chain(prefilling) {
            self.add_row(id, &mut draft, effects);
        }
        while draft.budget > 0 && self.admit_next(now, &mut draft, effects) {}
        if draft.rows.is_empty() {
            return None;
        }
        self.next_step = StepId(draft.step.0 + 1);
        let rows = draft.rows.iter().map(|row| (row.sequence, row.output)).collect();
        self.in_flight.push_back(InFlight { step: draft.step, rows });
        Some(StepPlan { step: draft.step, bindings: draft.bindings, rows: draft.rows })
    }

    /// Running sequences that want one token computed, and those that want more, each oldest first.
    fn running_by_kind(&self) -> (Vec<SequenceId>, Vec<SequenceId>) {
        let rows = self.running.iter().filter_map(|id| Some((*id, self.sequences[id].next_row(u32::MAX)?)));
        let (decoding, prefilling): (Vec<_>, Vec<_>) = rows.partition(|(_, row)| row.count() == 1);
        let ids = |rows: Vec<(SequenceId, NextRow)>| rows.into_iter().map(|(id, _)| id).collect();
        (ids(decoding), ids(prefilling))
    }

    /// Adds the next row of a running sequence, if budget and blocks allow.
    fn add_row(&mut self, id: SequenceId, draft: &mut Draft, effects: &mut Effects) {
        if draft.budget == 0 {
            return;
        }
        // An earlier row of this draft may have preempted it.
        let Some(next) = self.sequences[&id].next_row(draft.budget) else { return };
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
        residence.last_step = Some(draft.step);
        draft.budget -= next.count();
        draft.rows.push(Row {
            sequence: id,
            slot: residence.slot,
            start: next.start,
            tokens,
            blocks: residence.blocks.clone(),
            output: next.output,
        });
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

    /// Moves the first sequence of the queue that can go on into `running`, with its first row. Nobody
    /// overtakes one that waits for blocks. Answers whether it did.
    fn admit_next(&mut self, now: Timestamp, draft: &mut Draft, effects: &mut Effects) -> bool {
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
        draft.bindings.push(sequence.binding(slot));
        self.add_row(id, draft, effects);
        true
    }

    /// Whether a slot and blocks for `tokens` and one more are free, taking them from sequences that wait for
    /// their clients if need be. Room for the whole sequence is wanted, so that a prompt is not
    /// admitted just to be preempted in the middle.
    fn make_place(&mut self, tokens: u32, draft: &Draft, effects: &mut Effects) -> bool {
        loop {
            if !self.free_slots.is_empty() && self.limits.blocks_for(tokens + 1) <= self.blocks.free() {
                return true;
            }
            let stalled = |id: &&SequenceId| self.sequences[id].is_stalled() && !draft.has(**id);
            let Some(&victim) = self.running.iter().rev().find(stalled) else { return false };
            self.preempt(victim);
            effects.push(Effect::Preempted { sequence: victim });
        }
    }
}
