//! Booking of facts.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use troupe_protocol::{
    EngineLimits, Fault, FinishReason, NewSequence, PromptLogprobs, RateStatuses, RejectReason, RequestPart,
    RowOutcome, RowOutput, SlotId, StepId, StepOutcome, StoredBlock,
};

use crate::blocks::BlockPool;
use crate::event::{Effect, Effects, Event, Timestamp};
use crate::pace::Pace;
use crate::sequence::Sequence;
use crate::sequences::Key;
use crate::tenants::{End, Price, Room};
use crate::{Admission, CacheShare, Executor, InFlightRow, MAX_REPLAYS, Scheduler, Targets};

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
                if let Some(sequence) = self.sequences.by_id_mut(sequence) {
                    sequence.credit = sequence.credit.saturating_add(tokens);
                }
            }
            Event::MaskGiven { sequence, generated, mask } => {
                if let Some(sequence) = self.sequences.by_id_mut(sequence) {
                    sequence.give_mask(generated, mask);
                }
            }
            Event::Cancelled(sequence) => {
                self.sequences.key(sequence).and_then(|key| self.remove(key));
            }
            Event::StepDone(outcome) => self.step_done(now, outcome, effects),
            Event::StepFailed { step, fault } => self.step_failed(step, &fault, effects),
            Event::ExecutorLost => self.executor_lost(effects),
            Event::ExecutorReady { limits, stored } => self.executor_ready(limits, &stored, effects),
            Event::DrainStarted => self.admission = Admission::Draining,
            Event::TenantsConfigured(policies) => self.tenants.configure(&policies, now),
            Event::TimePassed => self.expire(now, effects),
        }
    }

    fn arrive(&mut self, now: Timestamp, request: NewSequence, effects: &mut Effects) {
        let id = request.id;
        let reason = match self.refusal(&request) {
            Some(reason) => reason,
            None => match self.admit_to_tenant(now, &request) {
                Err(reason) => reason,
                Ok(rates) => {
                    effects.push(Effect::Accept { sequence: id, rates });
                    return self.take(now, request);
                }
            },
        };
        effects.push(Effect::Reject { sequence: id, reason });
    }

    fn admit_to_tenant(
        &mut self,
        now: Timestamp,
        request: &NewSequence,
    ) -> Result<RateStatuses, RejectReason> {
        let prompt_tokens = request.prompt.len() as u32;
        let tokens = match request.part {
            RequestPart::First => {
                let room =
                    Room { free_slots: self.free_slots.len() as u32, max_queued: self.config.max_queued };
                return self.tenants.admit(request.tenant, prompt_tokens, room, now);
            }
            RequestPart::Prompt => prompt_tokens,
            RequestPart::Choice => 0,
        };
        Ok(self.tenants.admit_further(request.tenant, tokens, now))
    }

    fn take(&mut self, now: Timestamp, request: NewSequence) {
        let id = request.id;
        let root = self.root_of(&request);
        let mut sequence = Sequence::new(request, now, root);
        sequence.extend_chain(self.limits.block_size);
        if let Some(deadline) = sequence.deadline() {
            self.deadlines.insert((deadline, id));
        }
        self.tenants.enqueue(id, sequence.ticket(), End::Back);
        self.sequences.insert(sequence);
    }

    /// Ends what nobody waits for any more.
    fn expire(&mut self, now: Timestamp, effects: &mut Effects) {
        while let Some(&(deadline, id)) = self.deadlines.first() {
            if deadline > now {
                return;
            }
            self.deadlines.pop_first();
            let Some(sequence) = self.sequences.key(id).and_then(|key| self.remove(key)) else { continue };
            let timeout = sequence.request.timeout.unwrap_or(0);
            effects.push(Effect::Fail { sequence: id, fault: Fault::DeadlineExceeded { timeout } });
        }
    }

    fn refusal(&self, request: &NewSequence) -> Option<RejectReason> {
        let prompt_tokens = request.prompt.len() as u32;
        if self.admission == Admission::Draining && request.part == RequestPart::First {
            return Some(RejectReason::Draining);
        }
        if prompt_tokens == 0 {
            return Some(RejectReason::EmptyPrompt);
        }
        let max_model_len = self.limits.max_model_len;
        (!fits(request, &self.limits)).then_some(RejectReason::TooLong {
            prompt_tokens,
            max_tokens: request.max_tokens,
            max_model_len,
        })
    }

    fn step_done(&mut self, now: Timestamp, outcome: StepOutcome, effects: &mut Effects) {
        self.pace.step_done(outcome.step, now);
        if let Some(message) = self.distrust(&outcome) {
            let fault = Fault::Step { step: outcome.step, message };
            effects.push(Effect::WrongOutcome { fault: fault.clone() });
            return self.step_failed(outcome.step, &fault, effects);
        }
        self.blocks.step_done(outcome.step, &outcome.unsaved);
        let left = self.in_flight.front_mut().map(|step| core::mem::take(&mut step.left));
        for (block, name) in left.into_iter().flatten() {
            self.blocks.name(block, name);
        }
        let rows = self.retire(outcome.step);
        for row in &rows {
            self.name_blocks(outcome.step, row);
        }
        let scored = rows.iter().filter(|row| row.targets.count > 0);
        for (row, prompt) in scored.zip(outcome.prompts) {
            let Some(sequence) = self.sequences.get_mut(row.sequence) else { continue };
            let logprobs = sequence.score(prompt.start, prompt.tokens);
            if !logprobs.is_empty() {
                effects.push(Effect::DeliverPrompt { sequence: prompt.sequence, logprobs });
            }
        }
        let sampled = rows.iter().filter(|row| row.output == RowOutput::Sample);
        for (row, outcome) in sampled.zip(outcome.rows) {
            self.token_sampled(now, row.sequence, outcome, effects);
        }
    }

    /// Why an outcome is no use. Steps in flight beside a wrong one read what it wrote, so theirs is none either.
    fn distrust(&mut self, outcome: &StepOutcome) -> Option<String> {
        if outcome.step < self.trusted_from {
            return Some("it builds on a step whose outcome was wrong".into());
        }
        let mismatch = self.mismatch(outcome)?;
        self.trusted_from = self.next_step;
        Some(mismatch)
    }

    /// What an outcome has beside a token for each row that samples and log-probabilities for each with targets, in their
    /// order.
    fn mismatch(&self, outcome: &StepOutcome) -> Option<String> {
        // That it is the oldest's, `retire` insists on.
        let rows = self.in_flight.front().map_or(&[][..], |step| &step.rows);
        let wanted = rows.iter().filter(|row| row.output == RowOutput::Sample).map(|row| row.sequence.id);
        let found = outcome.rows.iter().map(|row| row.sequence);
        let (wanted_count, found_count) = (wanted.clone().count(), found.len());
        if wanted_count != found_count {
            return Some(format!("{found_count} tokens came for {wanted_count} rows that sample"));
        }
        if let Some(at) = wanted.zip(found).position(|(wanted, found)| wanted != found) {
            return Some(format!("the token of row {at}, of those that sample, is another sequence's"));
        }
        let scored = rows.iter().filter(|row| row.targets.count > 0);
        let wanted = scored.map(|row| (row.sequence.id, row.targets));
        let found = outcome.prompts.iter().map(|PromptLogprobs { sequence, start, tokens }| {
            (*sequence, Targets { start: *start, count: tokens.len() as u32 })
        });
        (!wanted.eq(found)).then(|| "its log-probabilities are not those of the prompts it was given".into())
    }

    /// What a row computed can be found by others from now on, as far as blocks are full.
    fn name_blocks(&mut self, step: StepId, row: &InFlightRow) {
        if self.config.cache == CacheShare::Off {
            return;
        }
        let block_size = self.limits.block_size;
        let full = (row.end / block_size) as usize;
        let Some(sequence) = self.sequences.get_mut(row.sequence) else { return };
        let Some(residence) = sequence.residence_mut() else { return };
        // It may have lost its blocks and got others since the row was submitted.
        let is_older = residence.first_step.is_none_or(|first| first > step);
        if is_older || residence.num_named >= full {
            return;
        }
        let new = residence.num_named..full;
        residence.num_named = full;
        let blocks = residence.blocks[new.clone()].to_vec();
        sequence.extend_chain(block_size);
        for (block, name) in blocks.into_iter().zip(&sequence.names()[new]) {
            self.blocks.name(block, *name);
        }
    }

    /// Takes the oldest step out of flight and gives up the blocks that waited for it.
    fn retire(&mut self, step: StepId) -> Vec<InFlightRow> {
        let oldest = self.in_flight.pop_front();
        assert_eq!(oldest.as_ref().map(|s| s.step), Some(step), "steps complete in the order of submission");
        self.blocks.step_ended(step);
        let rows = oldest.map(|step| step.rows).unwrap_or_default();
        for row in &rows {
            match self.sequences.get_mut(row.sequence) {
                Some(sequence) if row.output.samples() => sequence.unread -= 1,
                Some(_) => {}
                None if row.decodes => self.tenants.refund(row.tenant, Price::Decode, 1),
                None => {}
            }
        }
        rows
    }

    /// Books a token. A sequence that ended meanwhile is gone, and its row is discarded.
    fn token_sampled(&mut self, now: Timestamp, key: Key, row: RowOutcome, effects: &mut Effects) {
        let Some(sequence) = self.sequences.get_mut(key) else { return };
        self.tenants.pay_for_answer(sequence.request.tenant, 1, now);
        let id = row.token.id;
        sequence.generate(id, now);
        sequence.mu = row.mu;
        effects.push(Effect::Deliver { sequence: row.sequence, token: row.token });
        let reason = if sequence.request.stop_tokens.contains(&id) {
            FinishReason::Stop
        } else if sequence.generated.len() as u32 == sequence.request.max_tokens {
            FinishReason::Length
        } else {
            return;
        };
        let usage = sequence.usage();
        self.remove(key);
        effects.push(Effect::Finish { sequence: row.sequence, reason, usage });
    }

    /// Sends everything that ran back to the queue; those who were in the failed step count it, but for one that the store
    /// failed: it loses what it holds, so that this does not come again.
    fn step_failed(&mut self, step: StepId, fault: &Fault, effects: &mut Effects) {
        self.pace.forget_submitted();
        let is_stores = matches!(fault, Fault::Store { .. });
        for row in self.retire(step) {
            let key = row.sequence;
            let Some(sequence) = self.sequences.get_mut(key) else { continue };
            // A later step in flight fails after this one. Its rows wait already, or have begun anew since, and are counted
            // once.
            let first_step = sequence.residence().and_then(|residence| residence.first_step);
            if first_step.is_none_or(|first| first > step) {
                continue;
            }
            sequence.replays += u8::from(!is_stores);
            if sequence.replays > MAX_REPLAYS {
                self.remove(key);
                effects.push(Effect::Fail { sequence: key.id, fault: fault.clone() });
            }
        }
        self.preempt_all(effects);
        self.blocks.step_failed(step);
        if is_stores {
            self.blocks.forget_stored();
        }
    }

    fn preempt_all(&mut self, effects: &mut Effects) {
        // Newest first, so that the oldest ends at the front of the queue.
        while let Some(&key) = self.running.last() {
            self.preempt(key, effects);
        }
    }

    fn executor_lost(&mut self, effects: &mut Effects) {
        self.executor = Executor::Lost;
        self.pace.forget_submitted();
        while let Some(step) = self.in_flight.front().map(|step| step.step) {
            self.retire(step);
        }
        self.preempt_all(effects);
    }

    fn executor_ready(&mut self, limits: EngineLimits, stored: &[StoredBlock], effects: &mut Effects) {
        debug_assert!(self.running.is_empty() && self.in_flight.is_empty());
        self.executor = Executor::Up;
        self.pace = Pace::new(&self.config, limits.max_num_batched_tokens);
        if limits.block_size != self.limits.block_size {
            for sequence in self.sequences.iter_mut() {
                sequence.reset_chain();
                sequence.extend_chain(limits.block_size);
            }
        }
        self.limits = limits;
        self.blocks = BlockPool::new(limits.num_blocks, limits.num_stored_blocks, stored);
        self.free_slots = (0..limits.max_num_seqs).rev().map(SlotId).collect();
        let unfit = self.sequences.iter().filter(|(_, sequence)| !fits(&sequence.request, &limits));
        for key in unfit.map(|(key, _)| key).collect::<Vec<_>>() {
            let Some(Sequence { request, .. }) = self.remove(key) else { continue };
            effects.push(Effect::Fail { sequence: key.id, fault: no_longer_fits(&request, &limits) });
        }
    }
}

/// Whether the whole of it can be held.
fn fits(request: &NewSequence, limits: &EngineLimits) -> bool {
    let total = (request.prompt.len() as u32).saturating_add(request.max_tokens);
    total <= limits.max_model_len && limits.blocks_for(total) <= limits.num_blocks
}

fn no_longer_fits(request: &NewSequence, limits: &EngineLimits) -> Fault {
    Fault::NoLongerFits {
        prompt_tokens: request.prompt.len() as u32,
        max_tokens: request.max_tokens,
        max_model_len: limits.max_model_len,
    }
}
