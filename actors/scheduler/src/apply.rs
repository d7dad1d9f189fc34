//! Booking of facts.

use alloc::vec::Vec;

use troupe_protocol::{
    EngineLimits, Fault, FinishReason, NewSequence, RejectReason, RowOutcome, RowOutput, SequenceId, SlotId,
    StepId, StepOutcome,
};

use crate::blocks::BlockPool;
use crate::event::{Effect, Effects, Event, Timestamp};
use crate::sequence::{Phase, Sequence};
use crate::{Admission, Executor, InFlight, MAX_REPLAYS, Scheduler};

impl Scheduler {
    /// Books a fact. What the shell has to do about it is appended to `effects`.
    ///
    /// # Panics
    /// If a step completes that is not the oldest in flight: executor and scheduler disagree about what
    /// was computed, and nothing they hold can be trusted.
    pub fn apply(&mut self, now: Timestamp, event: Event, effects: &mut Effects) {
        match event {
            Event::Arrived(request) => self.arrive(now, request, effects),
            Event::CreditGranted { sequence, tokens } => {
                if let Some(sequence) = self.sequences.get_mut(&sequence) {
                    sequence.credit = sequence.credit.saturating_add(tokens);
                }
            }
            Event::Cancelled(sequence) => {
                self.remove(sequence);
            }
            Event::StepDone(outcome) => self.step_done(outcome, effects),
            Event::StepFailed { step, fault } => self.step_failed(step, &fault, effects),
            Event::ExecutorLost => self.executor_lost(effects),
            Event::ExecutorReady(limits) => self.executor_ready(limits, effects),
            Event::DrainStarted => self.admission = Admission::Draining,
        }
    }

    fn arrive(&mut self, now: Timestamp, request: NewSequence, effects: &mut Effects) {
        match self.refusal(&request) {
            Some(reason) => effects.push(Effect::Reject { sequence: request.id, reason }),
            None => {
                let id = request.id;
                self.sequences.insert(id, Sequence::new(request, now));
                self.waiting.push_back(id);
            }
        }
    }

    fn refusal(&self, request: &NewSequence) -> Option<RejectReason> {
        let prompt_tokens = request.prompt.len() as u32;
        if self.admission == Admission::Draining {
            return Some(RejectReason::Draining);
        }
        if prompt_tokens == 0 {
            return Some(RejectReason::EmptyPrompt);
        }
        // Those who will find a free slot in the next step do not queue.
        if self.waiting.len() >= self.config.max_queued as usize + self.free_slots.len() {
            return Some(RejectReason::QueueFull { limit: self.config.max_queued });
        }
        too_long(request, &self.limits)
    }

    fn step_done(&mut self, outcome: StepOutcome, effects: &mut Effects) {
        self.retire(outcome.step);
        for row in outcome.rows {
            self.token_sampled(row, effects);
        }
    }

    /// Takes the oldest step out of flight and frees the blocks that waited for it.
    fn retire(&mut self, step: StepId) -> Vec<SequenceId> {
        let oldest = self.in_flight.pop_front();
        assert_eq!(oldest.as_ref().map(|s| s.step), Some(step), "steps complete in the order of submission");
        self.blocks.step_done(step);
        let InFlight { rows, .. } = oldest.unwrap_or(InFlight { step, rows: Vec::new() });
        for (id, output) in &rows {
            if let (RowOutput::Sample, Some(sequence)) = (output, self.sequences.get_mut(id)) {
                sequence.unread -= 1;
            }
        }
        rows.into_iter().map(|(id, _)| id).collect()
    }

    /// Books a token. A sequence that ended meanwhile is gone, and its row is discarded.
    fn token_sampled(&mut self, row: RowOutcome, effects: &mut Effects) {
        let Some(sequence) = self.sequences.get_mut(&row.sequence) else { return };
        let id = row.token.id;
        sequence.generated.push(id);
        sequence.credit = sequence.credit.saturating_sub(1);
        effects.push(Effect::Deliver { sequence: row.sequence, token: row.token });
        let reason = if sequence.request.stop_tokens.contains(&id) {
            FinishReason::Stop
        } else if sequence.generated.len() as u32 == sequence.request.max_tokens {
            FinishReason::Length
        } else {
            return;
        };
        let usage = sequence.usage();
        self.remove(row.sequence);
        effects.push(Effect::Finish { sequence: row.sequence, reason, usage });
    }

    /// Sends everything that ran back to the queue; those who were in the failed step count it.
    fn step_failed(&mut self, step: StepId, fault: &Fault, effects: &mut Effects) {
        for id in self.retire(step) {
            let Some(sequence) = self.sequences.get_mut(&id) else { continue };
            // A later step in flight fails after this one; its rows wait already and are counted once.
            if matches!(sequence.phase, Phase::Waiting) {
                continue;
            }
            sequence.replays += 1;
            if sequence.replays > MAX_REPLAYS {
                self.remove(id);
                effects.push(Effect::Fail { sequence: id, fault: fault.clone() });
            }
        }
        self.preempt_all(effects);
    }

    fn preempt_all(&mut self, effects: &mut Effects) {
        // Newest first, so that the oldest ends at the front of the queue.
        while let Some(&id) = self.running.last() {
            self.preempt(id);
            effects.push(Effect::Preempted { sequence: id });
        }
    }

    fn executor_lost(&mut self, effects: &mut Effects) {
        self.executor = Executor::Lost;
        while let Some(step) = self.in_flight.front().map(|step| step.step) {
            self.retire(step);
        }
        self.preempt_all(effects);
    }

    fn executor_ready(&mut self, limits: EngineLimits, effects: &mut Effects) {
        debug_assert!(self.running.is_empty() && self.in_flight.is_empty());
        self.executor = Executor::Up;
        self.limits = limits;
        self.blocks = BlockPool::new(limits.num_blocks);
        self.free_slots = (0..limits.max_num_seqs).rev().map(SlotId).collect();
        let unfit: Vec<_> = self
            .sequences
            .values()
            .filter_map(|s| Some((s.request.id, too_long(&s.request, &limits)?)))
            .collect();
        for (id, reason) in unfit {
            self.remove(id);
            effects.push(Effect::Reject { sequence: id, reason });
        }
    }
}

fn too_long(request: &NewSequence, limits: &EngineLimits) -> Option<RejectReason> {
    let prompt_tokens = request.prompt.len() as u32;
    let total = prompt_tokens.saturating_add(request.max_tokens);
    let fits = total <= limits.max_model_len && limits.blocks_for(total) <= limits.num_blocks;
    (!fits).then_some(RejectReason::TooLong {
        prompt_tokens,
        max_tokens: request.max_tokens,
        max_model_len: limits.max_model_len,
    })
}
