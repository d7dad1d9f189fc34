//! Single behaviours, one a test.

use troupe_protocol::{
    EngineLimits, Fault, FinishReason, NewSequence, RejectReason, SamplingParams, SequenceId, TenantId,
};

use super::fake_gpu::{FakeGpu, token_at};
use crate::{Config, Effect, Event, Scheduler, Timestamp};

const LIMITS: EngineLimits = EngineLimits {
    max_model_len: 64,
    max_num_seqs: 4,
    max_num_batched_tokens: 16,
    block_size: 4,
    num_blocks: 32,
    vocab_size: 1000,
};

pub(super) fn sequence(id: u64, prompt: u32, max_tokens: u32) -> NewSequence {
    NewSequence {
        id: SequenceId(id),
        tenant: TenantId::ANONYMOUS,
        prompt: (0..prompt).map(|position| token_at(SequenceId(id), position)).collect(),
        sampling: SamplingParams::greedy(),
        max_tokens,
        stop_tokens: vec![],
        credit: 1000,
    }
}

struct World {
    scheduler: Scheduler,
    gpu: FakeGpu,
    effects: Vec<Effect>,
}

impl World {
    fn new(limits: EngineLimits, max_queued: u32) -> Self {
        let scheduler = Scheduler::new(Config { max_queued }, limits);
        Self { scheduler, gpu: FakeGpu::new(limits), effects: Vec::new() }
    }

    fn apply(&mut self, event: Event) {
        self.scheduler.apply(Timestamp(0), event, &mut self.effects);
        self.scheduler.check_invariants().unwrap();
    }

    fn submit(&mut self) -> bool {
        let plan = self.scheduler.plan(Timestamp(0), &mut self.effects);
        self.scheduler.check_invariants().unwrap();
        plan.map(|plan| self.gpu.submit(plan)).is_some()
    }

    fn finish(&mut self) {
        let outcome = self.gpu.in_flight.pop_front().expect("a step is in flight");
        self.apply(Event::StepDone(outcome));
    }

    /// Runs until nothing more can be done.
    fn run(&mut self) {
        for _ in 0..10_000 {
            while self.submit() {}
            if self.gpu.in_flight.is_empty() {
                return;
            }
            self.finish();
        }
        panic!("does not come to an end");
    }

    fn tokens(&self, id: u64) -> Vec<u32> {
        let tokens = self.effects.iter().filter_map(|effect| match effect {
            Effect::Deliver { sequence, token } if sequence.0 == id => Some(token.id),
            _ => None,
        });
        tokens.collect()
    }

    fn ends(&self, id: u64) -> Vec<&Effect> {
        let ends = self.effects.iter().filter(|effect| match effect {
            Effect::Finish { sequence, .. }
            | Effect::Reject { sequence, .. }
            | Effect::Fail { sequence, .. } => sequence.0 == id,
            _ => false,
        });
        ends.collect()
    }

    fn assert_complete(&self, id: u64, prompt: u32, max_tokens: u32) {
        let expected: Vec<_> = (prompt..prompt + max_tokens).map(|p| token_at(SequenceId(id), p)).collect();
        assert_eq!(self.tokens(id), expected);
        let [Effect::Finish { reason: FinishReason::Length, usage, .. }] = self.ends(id)[..] else {
            panic!("{:?}", self.ends(id))
        };
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (prompt, max_tokens));
    }
}

#[test]
fn a_second_step_is_submitted_before_the_first_is_read_and_no_third() {
    let mut world = World::new(LIMITS, 8);
    world.apply(Event::Arrived(sequence(1, 5, 10)));
    assert!(world.submit() && world.submit());
    assert!(!world.submit());
    world.finish();
    assert!(world.submit());
}

#[test]
fn c056_exactly_max_tokens_are_generated() {
    for (prompt, max_tokens) in [(1, 1), (5, 1), (5, 2), (5, 3), (16, 7), (40, 24)] {
        let mut world = World::new(LIMITS, 8);
        world.apply(Event::Arrived(sequence(1, prompt, max_tokens)));
        world.run();
        world.assert_complete(1, prompt, max_tokens);
        assert!(world.scheduler.is_idle());
    }
}

#[test]
fn c063_a_batch_outlives_a_member_that_ends_after_one_token() {
    let mut world = World::new(LIMITS, 8);
    let mut short = sequence(1, 3, 20);
    short.stop_tokens = vec![token_at(SequenceId(1), 3)];
    world.apply(Event::Arrived(short));
    world.apply(Event::Arrived(sequence(2, 3, 20)));
    world.run();
    assert_eq!(world.tokens(1), [token_at(SequenceId(1), 3)]);
    assert!(matches!(world.ends(1)[..], [Effect::Finish { reason: FinishReason::Stop, .. }]));
    world.assert_complete(2, 3, 20);
}

#[test]
fn c121_a_long_prompt_advances_beside_decoding_rows_and_never_stops_them() {
    let mut world = World::new(LIMITS, 8);
    for id in 1..=3 {
        world.apply(Event::Arrived(sequence(id, 2, 30)));
    }
    world.submit();
    world.finish();
    world.apply(Event::Arrived(sequence(4, 40, 5)));
    // 13 tokens of the budget are left for the prompt: four steps.
    for _ in 0..4 {
        world.submit();
        assert_eq!(world.gpu.in_flight.back().unwrap().rows.iter().filter(|r| r.sequence.0 < 4).count(), 3);
        world.finish();
    }
    assert_eq!(world.tokens(4).len(), 1);
    world.run();
    (1..=3).for_each(|id| world.assert_complete(id, 2, 30));
    world.assert_complete(4, 40, 5);
}

#[test]
fn a_short_prompt_does_not_wait_behind_long_ones() {
    let roomy = EngineLimits { num_blocks: 64, ..LIMITS };
    let mut world = World::new(roomy, 8);
    (1..=3).for_each(|id| world.apply(Event::Arrived(sequence(id, 50, 5))));
    world.submit();
    world.finish();
    world.apply(Event::Arrived(sequence(4, 6, 5)));
    world.submit();
    world.finish();
    assert_eq!(world.tokens(4).len(), 1);
    assert!((1..=3).all(|id| world.tokens(id).is_empty()));
    world.run();
    (1..=3).for_each(|id| world.assert_complete(id, 50, 5));
    world.assert_complete(4, 6, 5);
}

#[test]
fn c101_beyond_the_queue_requests_are_rejected_at_once() {
    let mut world = World::new(LIMITS, 2);
    // Four of a burst find a free slot, two wait.
    (1..=7).for_each(|id| world.apply(Event::Arrived(sequence(id, 3, 3))));
    let full = RejectReason::QueueFull { limit: 2 };
    assert_eq!(world.effects, [Effect::Reject { sequence: SequenceId(7), reason: full.clone() }]);
    world.submit();
    world.apply(Event::Arrived(sequence(8, 3, 3)));
    assert!(matches!(world.ends(8)[..], [Effect::Reject { .. }]));
    world.run();
    (1..=6).for_each(|id| world.assert_complete(id, 3, 3));
}

#[test]
fn requests_that_can_never_fit_are_rejected() {
    let mut world = World::new(LIMITS, 8);
    world.apply(Event::Arrived(sequence(1, 60, 5)));
    world.apply(Event::Arrived(sequence(2, 0, 5)));
    let reasons = world.effects.iter().filter_map(|e| match e {
        Effect::Reject { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    let too_long = RejectReason::TooLong { prompt_tokens: 60, max_tokens: 5, max_model_len: 64 };
    assert_eq!(reasons.collect::<Vec<_>>(), [too_long, RejectReason::EmptyPrompt]);
}

#[test]
fn c113_a_cancelled_sequence_frees_its_blocks_when_the_steps_in_flight_are_done() {
    let mut world = World::new(LIMITS, 8);
    world.apply(Event::Arrived(sequence(1, 9, 40)));
    world.submit();
    world.submit();
    world.apply(Event::Cancelled(SequenceId(1)));
    let counts = world.scheduler.counts();
    assert_eq!((counts.running, counts.blocks_free), (0, 29));
    assert_eq!(counts.blocks_quarantined, 3);
    world.finish();
    world.finish();
    assert_eq!(world.scheduler.counts().blocks_free, 32);
    assert!(!world.submit() && world.tokens(1).is_empty());
}

#[test]
fn a_sequence_without_credit_waits_and_goes_on_when_it_is_granted() {
    let mut world = World::new(LIMITS, 8);
    let mut slow = sequence(1, 3, 10);
    slow.credit = 4;
    world.apply(Event::Arrived(slow));
    world.run();
    assert_eq!(world.tokens(1).len(), 4);
    world.apply(Event::CreditGranted { sequence: SequenceId(1), tokens: 6 });
    world.run();
    world.assert_complete(1, 3, 10);
}

#[test]
fn clients_that_do_not_read_cannot_hold_every_slot() {
    let mut world = World::new(LIMITS, 8);
    for id in 1..=4 {
        let mut slow = sequence(id, 3, 10);
        slow.credit = 2;
        world.apply(Event::Arrived(slow));
    }
    world.run();
    world.apply(Event::Arrived(sequence(5, 3, 10)));
    world.run();
    world.assert_complete(5, 3, 10);
    for id in 1..=4 {
        world.apply(Event::CreditGranted { sequence: SequenceId(id), tokens: 8 });
    }
    world.run();
    (1..=4).for_each(|id| world.assert_complete(id, 3, 10));
}

#[test]
fn sequences_that_outgrow_the_blocks_are_replayed_with_the_same_text() {
    let tight = EngineLimits { num_blocks: 10, max_model_len: 40, ..LIMITS };
    let mut world = World::new(tight, 8);
    for id in 1..=4 {
        world.apply(Event::Arrived(sequence(id, 8, 30)));
    }
    world.run();
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::Preempted { .. })));
    (1..=4).for_each(|id| world.assert_complete(id, 8, 30));
}

#[test]
fn a_failed_step_is_replayed_and_a_step_that_always_fails_fails_its_rows() {
    let mut world = World::new(LIMITS, 8);
    world.apply(Event::Arrived(sequence(1, 5, 10)));
    let fault = |step| Fault::Step { step, message: "out of memory".into() };
    for failure in 0..=crate::MAX_REPLAYS {
        assert!(world.ends(1).is_empty(), "failed after {failure} failures");
        while world.submit() {}
        for step in std::mem::take(&mut world.gpu.in_flight) {
            world.apply(Event::StepFailed { step: step.step, fault: fault(step.step) });
        }
        world.gpu.lose_all();
        if failure == 0 {
            world.apply(Event::Arrived(sequence(2, 5, 10)));
        }
    }
    assert!(matches!(world.ends(1)[..], [Effect::Fail { .. }]));
    world.run();
    world.assert_complete(2, 5, 10);
}

#[test]
fn a_lost_executor_costs_no_token() {
    let mut world = World::new(LIMITS, 8);
    for id in 1..=3 {
        world.apply(Event::Arrived(sequence(id, 6, 20)));
    }
    for _ in 0..4 {
        while world.submit() {}
        world.finish();
    }
    world.gpu.lose_all();
    world.apply(Event::ExecutorLost);
    assert!(!world.submit());
    world.apply(Event::ExecutorReady(LIMITS));
    world.run();
    (1..=3).for_each(|id| world.assert_complete(id, 6, 20));
}

#[test]
fn c278_draining_refuses_what_is_new_and_finishes_what_was_taken() {
    let mut world = World::new(LIMITS, 8);
    (1..=6).for_each(|id| world.apply(Event::Arrived(sequence(id, 3, 5))));
    world.submit();
    world.apply(Event::DrainStarted);
    world.apply(Event::Arrived(sequence(7, 3, 5)));
    world.run();
    assert!(matches!(world.ends(7)[..], [Effect::Reject { reason: RejectReason::Draining, .. }]));
    (1..=6).for_each(|id| world.assert_complete(id, 3, 5));
    assert!(world.scheduler.is_idle());
}
