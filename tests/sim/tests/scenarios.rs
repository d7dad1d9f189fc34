//! Single behaviours, one a test.

use troupe_protocol::sampling::Mirostat;
use troupe_protocol::{
    EngineLimits, Fault, FinishReason, NewSequence, RateStatuses, RejectReason, SamplingParams, SequenceId,
};
use troupe_scheduler::{Effect, Event, MAX_REPLAYS};
use troupe_sim::fake_gpu::continuation;
use troupe_sim::workload::Garbling;
use troupe_sim::world::{LIMITS, World, prompt, sequence};

#[test]
fn a_second_step_is_submitted_before_the_first_is_read_and_no_third() {
    let mut world = World::with_queue(LIMITS, 8);
    world.arrive(sequence(1, 5, 10));
    assert!(world.submit() && world.submit());
    assert!(!world.submit());
    world.finish();
    assert!(world.submit());
}

/// A sequence whose tokens the host chooses, by what it learned of the earlier ones.
fn on_host(id: u64, prompt_tokens: u32, max_tokens: u32) -> NewSequence {
    let mirostat = Some(Mirostat::DEFAULT);
    let sampling = SamplingParams { temperature: 1.0, mirostat, ..SamplingParams::greedy() };
    NewSequence { sampling, ..sequence(id, prompt_tokens, max_tokens) }
}

#[test]
fn what_the_host_chooses_waits_for_its_last_token_and_stops_nobody() {
    let mut world = World::with_queue(LIMITS, 8);
    world.arrive(on_host(1, 5, 10));
    assert!(world.submit() && !world.submit());
    world.finish();
    assert!(world.submit() && !world.submit());
    world.arrive(sequence(2, 3, 10));
    world.arrive(on_host(3, 3, 10));
    assert!(world.submit());
    world.run();
    (1..=3).for_each(|id| world.assert_complete(id));
}

#[test]
fn what_mirostat_learned_survives_preemption_and_failed_steps() {
    // Four of 6 + 24 tokens do not fit 20 blocks of four at once.
    let mut world = World::with_queue(EngineLimits { num_blocks: 20, ..LIMITS }, 8);
    (1..=4).for_each(|id| world.arrive(on_host(id, 6, 24)));
    for _ in 0..9 {
        world.step();
    }
    assert!(world.submit());
    let step = world.gpu.in_flight[0].step;
    world.gpu.lose_all();
    world.apply(Event::StepFailed { step, fault: Fault::Step { step, message: "the device".into() } });
    world.run();
    (1..=4).for_each(|id| world.assert_complete(id));
}

#[test]
fn c056_exactly_max_tokens_are_generated() {
    for (prompt, max_tokens) in [(1, 1), (5, 1), (5, 2), (5, 3), (16, 7), (40, 24)] {
        let mut world = World::with_queue(LIMITS, 8);
        world.arrive(sequence(1, prompt, max_tokens));
        world.run();
        world.assert_complete(1);
        assert!(world.scheduler.is_idle());
    }
}

#[test]
fn c063_a_batch_outlives_a_member_that_ends_after_one_token() {
    let mut world = World::with_queue(LIMITS, 8);
    let mut short = sequence(1, 3, 20);
    short.stop_tokens = vec![continuation(&prompt(1, 3), 1)[0]];
    world.arrive(short);
    world.arrive(sequence(2, 3, 20));
    world.run();
    assert_eq!(world.tokens(1), [continuation(&prompt(1, 3), 1)[0]]);
    assert!(matches!(world.ends(1)[..], [Effect::Finish { reason: FinishReason::Stop, .. }]));
    world.assert_complete(2);
}

#[test]
fn c121_a_long_prompt_advances_beside_decoding_rows_and_never_stops_them() {
    let mut world = World::with_queue(LIMITS, 8);
    for id in 1..=3 {
        world.arrive(sequence(id, 2, 30));
    }
    world.submit();
    world.finish();
    world.arrive(sequence(4, 40, 5));
    // 13 tokens of the budget are left for the prompt: four steps, and one without it, so that it is known what such take.
    for _ in 0..5 {
        world.submit();
        assert_eq!(world.gpu.in_flight.back().unwrap().rows.iter().filter(|r| r.sequence.0 < 4).count(), 3);
        world.finish();
    }
    assert_eq!(world.tokens(4).len(), 1);
    world.run();
    (1..=3).for_each(|id| world.assert_complete(id));
    world.assert_complete(4);
}

#[test]
fn a_short_prompt_does_not_wait_behind_long_ones() {
    let roomy = EngineLimits { num_blocks: 64, ..LIMITS };
    let mut world = World::with_queue(roomy, 8);
    (1..=3).for_each(|id| world.arrive(sequence(id, 50, 5)));
    world.submit();
    world.finish();
    world.arrive(sequence(4, 6, 5));
    world.submit();
    world.finish();
    assert_eq!(world.tokens(4).len(), 1);
    assert!((1..=3).all(|id| world.tokens(id).is_empty()));
    world.run();
    (1..=3).for_each(|id| world.assert_complete(id));
    world.assert_complete(4);
}

#[test]
fn c101_beyond_the_queue_requests_are_rejected_at_once() {
    let mut world = World::with_queue(LIMITS, 2);
    // Four of a burst find a free slot, two wait.
    (1..=7).for_each(|id| world.arrive(sequence(id, 3, 3)));
    let full = RejectReason::QueueFull { limit: 2, rates: RateStatuses::default() };
    assert_eq!(world.ends(7), [&Effect::Reject { sequence: SequenceId(7), reason: full }]);
    (1..=6).for_each(|id| assert!(world.ends(id).is_empty()));
    world.submit();
    world.arrive(sequence(8, 3, 3));
    assert!(matches!(world.ends(8)[..], [Effect::Reject { .. }]));
    world.run();
    (1..=6).for_each(|id| world.assert_complete(id));
}

#[test]
fn requests_that_can_never_fit_are_rejected() {
    let mut world = World::with_queue(LIMITS, 8);
    world.arrive(sequence(1, 60, 5));
    world.arrive(sequence(2, 0, 5));
    let reasons = world.effects.iter().filter_map(|e| match e {
        Effect::Reject { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    let too_long = RejectReason::TooLong { prompt_tokens: 60, max_tokens: 5, max_model_len: 64 };
    assert_eq!(reasons.collect::<Vec<_>>(), [too_long, RejectReason::EmptyPrompt]);
}

#[test]
fn c113_a_cancelled_sequence_frees_its_blocks_when_the_steps_in_flight_are_done() {
    let mut world = World::with_queue(LIMITS, 8);
    world.arrive(sequence(1, 9, 40));
    world.submit();
    world.submit();
    world.apply(Event::Cancelled(SequenceId(1)));
    let counts = world.scheduler.counts();
    assert_eq!((counts.running, counts.blocks.free), (0, 29));
    assert_eq!(counts.blocks.quarantined, 3);
    world.finish();
    world.finish();
    // Nobody owns them; two full ones stay as cache.
    let counts = world.scheduler.counts();
    assert_eq!((counts.blocks.free, counts.blocks.cached), (30, 2));
    assert!(!world.submit() && world.tokens(1).is_empty());
}

#[test]
fn a_sequence_without_credit_waits_and_goes_on_when_it_is_granted() {
    let mut world = World::with_queue(LIMITS, 8);
    let mut slow = sequence(1, 3, 10);
    slow.credit = 4;
    world.arrive(slow);
    world.run();
    assert_eq!(world.tokens(1).len(), 4);
    world.apply(Event::CreditGranted { sequence: SequenceId(1), tokens: 6 });
    world.run();
    world.assert_complete(1);
}

#[test]
fn clients_that_do_not_read_cannot_hold_every_slot() {
    let mut world = World::with_queue(LIMITS, 8);
    for id in 1..=4 {
        let mut slow = sequence(id, 3, 10);
        slow.credit = 2;
        world.arrive(slow);
    }
    world.run();
    world.arrive(sequence(5, 3, 10));
    world.run();
    world.assert_complete(5);
    for id in 1..=4 {
        world.apply(Event::CreditGranted { sequence: SequenceId(id), tokens: 8 });
    }
    world.run();
    (1..=4).for_each(|id| world.assert_complete(id));
}

#[test]
fn sequences_that_outgrow_the_blocks_are_replayed_with_the_same_text() {
    let tight = EngineLimits { num_blocks: 10, max_model_len: 40, ..LIMITS };
    let mut world = World::with_queue(tight, 8);
    for id in 1..=4 {
        world.arrive(sequence(id, 8, 30));
    }
    world.run();
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::Preempted { .. })));
    (1..=4).for_each(|id| world.assert_complete(id));
}

#[test]
fn a_failed_step_is_replayed_and_a_step_that_always_fails_fails_its_rows() {
    let mut world = World::with_queue(LIMITS, 8);
    world.arrive(sequence(1, 5, 10));
    let fault = |step| Fault::Step { step, message: "out of memory".into() };
    for failure in 0..=MAX_REPLAYS {
        assert!(world.ends(1).is_empty(), "failed after {failure} failures");
        while world.submit() {}
        for step in std::mem::take(&mut world.gpu.in_flight) {
            world.apply(Event::StepFailed { step: step.step, fault: fault(step.step) });
        }
        world.gpu.lose_all();
        if failure == 0 {
            world.arrive(sequence(2, 5, 10));
        }
    }
    assert!(matches!(world.ends(1)[..], [Effect::Fail { .. }]));
    world.run();
    world.assert_complete(2);
}

#[test]
fn a_lost_executor_costs_no_token() {
    let mut world = World::with_queue(LIMITS, 8);
    for id in 1..=3 {
        world.arrive(sequence(id, 6, 20));
    }
    for _ in 0..4 {
        while world.submit() {}
        world.finish();
    }
    world.gpu.lose_all();
    world.apply(Event::ExecutorLost);
    assert!(!world.submit());
    world.apply(Event::ExecutorReady { limits: LIMITS, stored: vec![] });
    world.run();
    (1..=3).for_each(|id| world.assert_complete(id));
}

#[test]
fn c278_draining_refuses_what_is_new_and_finishes_what_was_taken() {
    let mut world = World::with_queue(LIMITS, 8);
    (1..=6).for_each(|id| world.arrive(sequence(id, 3, 5)));
    world.submit();
    world.apply(Event::DrainStarted);
    world.arrive(sequence(7, 3, 5));
    world.run();
    assert!(matches!(world.ends(7)[..], [Effect::Reject { reason: RejectReason::Draining, .. }]));
    (1..=6).for_each(|id| world.assert_complete(id));
    assert!(world.scheduler.is_idle());
}

#[test]
fn a_step_whose_outcome_does_not_fit_it_is_computed_again() {
    for garbling in Garbling::ALL {
        let mut world = World::with_queue(LIMITS, 8);
        (1..=3).for_each(|id| world.arrive(sequence(id, 6, 20)));
        for _ in 0..3 {
            world.submit();
            world.finish();
        }
        // The step behind it is in flight, and builds on it.
        while world.submit() {}
        let cached = world.scheduler.counts().blocks.cached;
        let delivered: Vec<_> = (1..=3).map(|id| world.tokens(id)).collect();
        for refused in 1..=2 {
            let garbled = world.gpu.in_flight.front_mut().expect("a step is in flight");
            assert!(refused > 1 || garbling.spoil(garbled), "{garbling:?}");
            world.finish();
            let wrong = |effect: &&Effect| matches!(effect, Effect::WrongOutcome { .. });
            assert_eq!(world.effects.iter().filter(wrong).count(), refused, "{garbling:?}");
            assert_eq!(world.scheduler.counts().blocks.cached, cached, "{garbling:?}: blocks have names");
        }
        assert_eq!((1..=3).map(|id| world.tokens(id)).collect::<Vec<_>>(), delivered, "{garbling:?}");
        world.run();
        (1..=3).for_each(|id| world.assert_complete(id));
        assert_eq!(world.scheduler.counts().blocks.owned, 0);
    }
}

#[test]
fn an_executor_that_never_answers_what_was_asked_fails_its_sequences() {
    let mut world = World::with_queue(LIMITS, 8);
    world.arrive(sequence(1, 5, 10));
    while world.submit() {
        world.gpu.in_flight[0].rows.clear();
        world.finish();
    }
    let [Effect::Fail { fault, .. }] = world.ends(1)[..] else { panic!("{:?}", world.ends(1)) };
    let words = "the engine failed in step-2: 0 tokens came for 1 rows that sample";
    assert_eq!(fault.to_string(), words);
    assert!(world.tokens(1).is_empty() && world.scheduler.is_idle());
}

#[test]
fn what_no_longer_fits_a_new_executor_fails_and_is_not_rejected() {
    let mut world = World::with_queue(LIMITS, 8);
    world.arrive(sequence(1, 30, 20));
    world.arrive(sequence(2, 30, 10));
    (0..3).for_each(|_| world.step());
    world.apply(Event::ExecutorLost);
    let smaller = EngineLimits { max_model_len: 40, num_blocks: 10, ..LIMITS };
    world.gpu.restart(smaller);
    world.apply(Event::ExecutorReady { limits: smaller, stored: vec![] });
    let fault = Fault::NoLongerFits { prompt_tokens: 30, max_tokens: 20, max_model_len: 40 };
    assert_eq!(world.ends(1), [&Effect::Fail { sequence: SequenceId(1), fault }]);
    world.run();
    world.assert_complete(2);
}
