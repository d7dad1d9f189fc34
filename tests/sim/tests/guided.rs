//! Guided sequences: each token is read, and a mask given for the next, before that is sampled.

use troupe_protocol::{EngineLimits, Fault, NewSequence, SequenceId, TokenMask};
use troupe_scheduler::{Effect, Event, MASK_PATIENCE, Timestamp};
use troupe_sim::guide::guided;
use troupe_sim::world::{LIMITS, World, sequence};

fn guided_sequence(id: u64, prompt_tokens: u32, max_tokens: u32) -> NewSequence {
    guided(sequence(id, prompt_tokens, max_tokens), 0)
}

/// Rows that the step submitted last samples.
fn last_rows(world: &World) -> Vec<u64> {
    let step = world.gpu.in_flight.back().expect("a step is in flight");
    step.rows.iter().map(|row| row.sequence.0).collect()
}

#[test]
fn a_guided_sequence_sits_out_the_lookahead_and_others_do_not() {
    let mut world = World::with_queue(LIMITS, 8);
    world.arrive(guided_sequence(1, 3, 10));
    world.arrive(sequence(2, 3, 10));
    assert!(world.submit() && last_rows(&world) == [1, 2]);
    assert!(world.submit() && last_rows(&world) == [2]);
    world.finish();
    world.give_mask(1);
    assert!(world.submit() && last_rows(&world).contains(&1));
    world.run();
    (1..=2).for_each(|id| world.assert_complete(id));
}

#[test]
fn those_who_were_in_one_step_stay_together() {
    let mut world = World::with_queue(LIMITS, 8);
    (1..=3).for_each(|id| world.arrive(guided_sequence(id, 3, 10)));
    world.step();
    for id in 1..=3 {
        assert!(!world.submit(), "a step without {id}");
        world.give_mask(id);
    }
    assert!(world.submit() && last_rows(&world) == [1, 2, 3]);
}

#[test]
fn a_slow_session_is_waited_for_so_long_and_no_longer() {
    let mut world = World::with_queue(LIMITS, 8);
    (1..=2).for_each(|id| world.arrive(guided_sequence(id, 3, 10)));
    world.step();
    world.give_mask(1);
    assert!(!world.submit());
    assert_eq!(world.scheduler.next_deadline(), Some(Timestamp(MASK_PATIENCE)));
    world.now = MASK_PATIENCE;
    assert!(world.submit() && last_rows(&world) == [1]);
    assert_eq!(world.scheduler.next_deadline(), None);
    world.run();
    (1..=2).for_each(|id| world.assert_complete(id));
}

#[test]
fn a_client_that_does_not_read_is_not_waited_for() {
    let mut world = World::with_queue(LIMITS, 8);
    world.arrive(NewSequence { credit: 1, ..guided_sequence(1, 3, 10) });
    world.arrive(guided_sequence(2, 3, 10));
    world.step();
    world.give_mask(2);
    assert!(world.submit() && last_rows(&world) == [2]);
}

#[test]
fn a_mask_for_another_token_is_not_taken() {
    let mut world = World::with_queue(LIMITS, 8);
    world.arrive(guided_sequence(1, 3, 10));
    world.step();
    for generated in [0, 2] {
        let mask = TokenMask::all(LIMITS.vocab_size);
        world.apply(Event::MaskGiven { sequence: SequenceId(1), generated, mask });
        assert!(!world.submit(), "a mask after {generated} tokens was taken");
    }
    world.give_mask(1);
    world.run();
    world.assert_complete(1);
}

#[test]
fn a_failed_step_and_a_lost_executor_are_replayed_within_the_same_masks() {
    let mut world = World::with_queue(LIMITS, 8);
    (1..=3).for_each(|id| world.arrive(guided_sequence(id, 6, 20)));
    for _ in 0..3 {
        world.step();
        world.give_masks();
    }
    world.submit();
    let step = world.gpu.in_flight[0].step;
    world.gpu.lose_all();
    world.apply(Event::StepFailed { step, fault: Fault::Step { step, message: "planted".into() } });
    world.submit();
    world.gpu.lose_all();
    world.apply(Event::ExecutorLost);
    world.apply(Event::ExecutorReady { limits: LIMITS, stored: vec![] });
    world.run();
    (1..=3).for_each(|id| world.assert_complete(id));
}

#[test]
fn guided_sequences_that_outgrow_the_blocks_go_on_with_the_same_text() {
    let tight = EngineLimits { num_blocks: 10, max_model_len: 40, ..LIMITS };
    let mut world = World::with_queue(tight, 8);
    (1..=4).for_each(|id| world.arrive(guided_sequence(id, 8, 30)));
    world.run();
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::Preempted { .. })));
    (1..=4).for_each(|id| world.assert_complete(id));
}
