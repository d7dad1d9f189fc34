//! What always holds between two calls. Checked in tests and by the simulator after every one.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use troupe_protocol::RowOutput;

use crate::Scheduler;
use crate::sequence::Phase;
use crate::sequences::Key;

impl Scheduler {
    /// Checks the state against itself.
    ///
    /// # Errors
    /// The first violated invariant, in words.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_blocks()?;
        self.check_places()?;
        require(self.in_flight.len() <= self.config.lookahead + 1, || "too many steps in flight".into())?;
        let before_last = self.in_flight.iter().rev().skip(1).flat_map(|step| &step.rows);
        let mut unmasked = before_last.filter(|row| row.output == RowOutput::SampleLater);
        require(unmasked.next().is_none(), || "a step is built on one that waits for masks".into())?;
        for (_, sequence) in self.sequences.iter() {
            let id = sequence.request.id;
            let rows =
                || self.in_flight.iter().flat_map(|step| &step.rows).filter(|row| row.sequence.id == id);
            let unread = rows().filter(|row| row.output.samples()).count();
            require(sequence.unread as usize == unread, || format!("{id}: unread tokens"))?;
            let read_first = !sequence.is_lockstep() || unread <= 1;
            require(read_first, || format!("{id}: sampled before its last token was read"))?;
            let within = rows().filter(|row| row.output == RowOutput::Sample).count();
            require(!sequence.is_guided() || within <= 1, || format!("{id}: two tokens within one mask"))?;
            let most = sequence.generated.len() as u32 + sequence.unread;
            require(most <= sequence.request.max_tokens, || format!("{id}: more than max_tokens"))?;
        }
        Ok(())
    }

    /// Every block is in the one place where it belongs, and tables cover what is scheduled.
    fn check_blocks(&self) -> Result<(), String> {
        let tables = self.sequences.iter().filter_map(|(_, s)| s.residence()).map(|r| r.blocks.as_slice());
        self.blocks.check(tables)?;
        for (_, sequence) in self.sequences.iter() {
            let (id, Some(residence)) = (sequence.request.id, sequence.residence()) else { continue };
            let needed = self.limits.blocks_for(residence.num_scheduled_tokens) as usize;
            require(needed <= residence.blocks.len(), || format!("{id}: table too short"))?;
            require(residence.num_named <= residence.blocks.len(), || {
                format!("{id}: names beyond its table")
            })?;
        }
        let counts = self.blocks.counts();
        let sum = counts.free + counts.cached + counts.quarantined + counts.owned;
        require(sum == self.limits.num_blocks, || format!("{counts:?} are not all blocks"))
    }

    /// Every sequence is in exactly one of queue and running list, in the phase that belongs there.
    fn check_places(&self) -> Result<(), String> {
        let mut places: Vec<_> =
            self.tenants.waiting().chain(self.running.iter().map(|key| key.id)).collect();
        places.sort_unstable();
        let twice = places.windows(2).find(|pair| pair[0] == pair[1]);
        require(twice.is_none(), || format!("{twice:?} is in two places"))?;
        require(places.len() == self.sequences.len(), || "a sequence is in no place".into())?;
        for (id, tenant) in self.tenants.iter() {
            let own = |key: &&Key| self.sequences[**key].request.tenant == id;
            let running = self.running.iter().filter(own).count();
            require(running == tenant.num_running as usize, || format!("{id}: {running} sequences run"))?;
        }
        let mut slots = self.free_slots.clone();
        for (key, sequence) in self.sequences.iter() {
            let runs = self.running.contains(&key);
            require(matches!(sequence.phase, Phase::Running(_)) == runs, || {
                format!("{}: wrong phase", key.id)
            })?;
            if let Phase::Running(residence) = &sequence.phase {
                slots.push(residence.slot);
            }
        }
        slots.sort_unstable();
        slots.dedup();
        let places = self.free_slots.len() + self.running.len();
        require(slots.len() == places, || "a slot has two owners".into())?;
        require(slots.len() == self.limits.max_num_seqs as usize, || "a slot is lost".into())
    }
}

fn require(holds: bool, violation: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(violation()) }
}

#[cfg(test)]
mod tests {
    use troupe_protocol::{
        BlockId, BlockName, EngineLimits, LengthClasses, NewSequence, Priority, RequestPart, RowOutput,
        SamplingParams, SequenceId, StepId, TenantId, TokenMask,
    };

    use crate::{Config, Event, InFlight, InFlightRow, Scheduler, Timestamp};

    const LIMITS: EngineLimits = EngineLimits {
        max_model_len: 64,
        max_num_seqs: 2,
        max_num_batched_tokens: 16,
        max_num_prompt_logprobs: 16,
        block_size: 4,
        num_blocks: 16,
        num_stored_blocks: 4,
        vocab_size: 10,
        length_classes: LengthClasses::One,
    };

    /// Two sequences that run with a step in flight, and one that waits.
    fn scheduler() -> Scheduler {
        let mut scheduler = Scheduler::new(Config::default(), LIMITS, &[]);
        let mut effects = vec![];
        for id in 1..=3 {
            let request = NewSequence {
                id: SequenceId(id),
                tenant: TenantId(0),
                part: RequestPart::First,
                prompt: vec![id as u32; 6],
                sampling: SamplingParams::greedy(),
                max_tokens: 8,
                stop_tokens: vec![],
                credit: 8,
                priority: Priority::Normal,
                timeout: None,
                cache_salt: 0,
                mask: (id == 2).then(|| TokenMask::all(LIMITS.vocab_size)),
            };
            scheduler.apply(Timestamp(0), Event::Arrived(request), &mut effects);
        }
        scheduler.plan(Timestamp(0), &mut effects).expect("a step is due");
        scheduler.blocks.store().save(BlockName(7), BlockId(15));
        scheduler
    }

    fn sequence(scheduler: &mut Scheduler, id: u64) -> &mut crate::sequence::Sequence {
        scheduler.sequences.by_id_mut(SequenceId(id)).expect("it is there")
    }

    fn residence(scheduler: &mut Scheduler, id: u64) -> &mut crate::sequence::Residence {
        sequence(scheduler, id).residence_mut().expect("it runs")
    }

    /// A step more, with a row of the guided sequence.
    fn ride_on(scheduler: &mut Scheduler, output: RowOutput) {
        let first = &scheduler.in_flight[0].rows;
        let row = first.iter().find(|row| row.sequence.id == SequenceId(2)).expect("it has a row");
        let rows = vec![InFlightRow { output, ..*row }];
        scheduler.in_flight.push_back(InFlight { step: StepId(1), rows, left: vec![] });
        sequence(scheduler, 2).unread += 1;
    }

    #[test]
    fn every_mistake_in_the_books_is_noticed() {
        type Mistake = fn(&mut Scheduler);
        let mistakes: [(&str, Mistake); 20] = [
            ("blocks are in quarantine", |s| s.blocks.miscount_quarantine()),
            ("has other owners than it counts", |s| residence(s, 1).blocks.truncate(1)),
            ("has other owners than it counts", |s| residence(s, 1).blocks[0] = BlockId(15)),
            ("is in no place or in several", |s| s.blocks.lose_a_free_one()),
            ("table too short", |s| residence(s, 1).num_scheduled_tokens = 40),
            ("names beyond its table", |s| residence(s, 1).num_named = 40),
            ("are not all blocks", |s| s.limits.num_blocks += 1),
            ("is in two places", |s| s.running.extend(s.sequences.key(SequenceId(3)))),
            ("a sequence is in no place", |s| s.running.truncate(1)),
            ("sequences run", |s| s.tenants.get_mut(TenantId(0)).expect("it is there").num_running += 1),
            ("a slot has two owners", |s| residence(s, 1).slot = residence(s, 2).slot),
            ("a slot is lost", |s| s.limits.max_num_seqs += 1),
            ("places are used", |s| s.blocks.store().lose_a_free_one()),
            ("steps save to", |s| s.blocks.store().lose_a_save()),
            ("the store's index and order", |s| s.blocks.store().forget_an_order()),
            ("unread tokens", |s| sequence(s, 1).unread = 2),
            ("sampled before its last token was read", |s| {
                sequence(s, 2).request.sampling.top_n_sigma = 1.0;
                ride_on(s, RowOutput::SampleLater);
            }),
            ("two tokens within one mask", |s| ride_on(s, RowOutput::Sample)),
            ("a step is built on one that waits for masks", |s| {
                s.in_flight[0].rows[1].output = RowOutput::SampleLater;
                ride_on(s, RowOutput::SampleLater);
            }),
            ("too many steps in flight", |s| {
                (1..3).for_each(|step| {
                    s.in_flight.push_back(InFlight { step: StepId(step), rows: vec![], left: vec![] })
                });
            }),
        ];
        assert_eq!(scheduler().check_invariants(), Ok(()));
        for (words, mistake) in mistakes {
            let mut scheduler = scheduler();
            mistake(&mut scheduler);
            let said = scheduler.check_invariants().expect_err(words);
            assert!(said.contains(words), "{said:?}, and not {words:?}");
        }
    }
}
