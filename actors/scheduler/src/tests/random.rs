//! Random workloads: everything that may happen, in random order, and then an end to it.

use std::collections::{BTreeMap, BTreeSet};

use troupe_protocol::{EngineLimits, Fault, SequenceId};

use super::fake_gpu::{FakeGpu, token_at};
use super::scenarios::sequence;
use crate::{Config, Effect, Effects, Event, Scheduler, Timestamp};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) % u64::from(n)) as u32
    }
}

/// Checks the effects as a set of sessions would: tokens in order, one end each, nothing after it.
#[derive(Default)]
struct Sessions {
    prompt_len: BTreeMap<SequenceId, u32>,
    received: BTreeMap<SequenceId, u32>,
    ended: BTreeSet<SequenceId>,
}

impl Sessions {
    fn observe(&mut self, effects: &mut Effects) {
        for effect in effects.drain(..) {
            match effect {
                Effect::Deliver { sequence, token } => {
                    assert!(!self.ended.contains(&sequence));
                    let received = self.received.entry(sequence).or_default();
                    let position = self.prompt_len[&sequence] + *received;
                    assert_eq!(token.id, token_at(sequence, position), "{sequence} at {position}");
                    *received += 1;
                }
                Effect::Finish { sequence, .. }
                | Effect::Reject { sequence, .. }
                | Effect::Fail { sequence, .. } => assert!(self.ended.insert(sequence)),
                Effect::Started { .. } | Effect::Preempted { .. } => {}
            }
        }
    }
}

fn run(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let block_size = 1 << random.below(4);
    let max_num_seqs = 1 + random.below(6);
    let num_blocks = 4 + random.below(40);
    let limits = EngineLimits {
        max_model_len: (num_blocks * block_size).min(80),
        max_num_seqs,
        max_num_batched_tokens: max_num_seqs + random.below(24),
        block_size,
        num_blocks,
        vocab_size: 1000,
    };
    let mut scheduler = Scheduler::new(Config { max_queued: 1 + random.below(12) }, limits);
    let mut gpu = FakeGpu::new(limits);
    let mut sessions = Sessions::default();
    let mut effects = Effects::new();
    let mut ids = 0;
    for step in 0..600_u64 {
        let now = Timestamp(step);
        let event = match random.below(100) {
            0..15 => {
                ids += 1;
                let mut new = sequence(ids, 1 + random.below(50), 1 + random.below(30));
                new.credit = 1 + random.below(8);
                new.stop_tokens = vec![random.below(1000), random.below(1000)];
                sessions.prompt_len.insert(new.id, new.prompt.len() as u32);
                Some(Event::Arrived(new))
            }
            15..30 if ids > 0 => Some(Event::CreditGranted {
                sequence: SequenceId(1 + u64::from(random.below(ids as u32))),
                tokens: random.below(20),
            }),
            30..34 if ids > 0 => {
                let id = SequenceId(1 + u64::from(random.below(ids as u32)));
                sessions.ended.insert(id);
                Some(Event::Cancelled(id))
            }
            34 if !gpu.in_flight.is_empty() => {
                for outcome in std::mem::take(&mut gpu.in_flight) {
                    let fault = Fault::Step { step: outcome.step, message: "planted".into() };
                    scheduler.apply(now, Event::StepFailed { step: outcome.step, fault }, &mut effects);
                }
                gpu.lose_all();
                None
            }
            35 => {
                gpu.lose_all();
                scheduler.apply(now, Event::ExecutorLost, &mut effects);
                Some(Event::ExecutorReady(limits))
            }
            36..66 => {
                if let Some(plan) = scheduler.plan(now, &mut effects) {
                    gpu.submit(plan);
                }
                None
            }
            _ => gpu.in_flight.pop_front().map(Event::StepDone),
        };
        if let Some(event) = event {
            scheduler.apply(now, event, &mut effects);
        }
        scheduler.check_invariants().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        sessions.observe(&mut effects);
    }
    // Faults are over and all clients read: everything that was taken must come to its end.
    for id in 1..=ids {
        let grant = Event::CreditGranted { sequence: SequenceId(id), tokens: 100 };
        scheduler.apply(Timestamp(600), grant, &mut effects);
    }
    for _ in 0..20_000 {
        while let Some(plan) = scheduler.plan(Timestamp(600), &mut effects) {
            gpu.submit(plan);
        }
        let Some(outcome) = gpu.in_flight.pop_front() else { break };
        scheduler.apply(Timestamp(600), Event::StepDone(outcome), &mut effects);
        sessions.observe(&mut effects);
        scheduler.check_invariants().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
    assert!(scheduler.is_idle(), "seed {seed}: {:?}", scheduler.counts());
    assert_eq!(scheduler.counts().blocks_free, num_blocks, "seed {seed}: blocks leak");
    assert_eq!(sessions.ended.len() as u64, ids, "seed {seed}: a session never heard its end");
}

#[test]
fn c118u_random_workloads_keep_the_invariants_and_come_to_an_end() {
    (0..500).for_each(run);
}
