//! Guided sequences: each token is read, and a mask given for the next, before that is sampled. That it is computed before
//! changes no answer.

use troupe_protocol::{EngineLimits, Fault, NewSequence, SequenceId, StepMasks, TokenMask};
use troupe_scheduler::{Config, Effect, Event, MASK_PATIENCE, Timestamp};
use troupe_sim::guide::guided;
use troupe_sim::world::{LIMITS, World, prompt, sequence};

fn guided_sequence(id: u64, prompt_tokens: u32, max_tokens: u32) -> NewSequence {
    guided(sequence(id, prompt_tokens, max_tokens), 0)
}

/// Rows that the step submitted last samples, as far as it has what it needs for that.
fn last_rows(world: &World) -> Vec<u64> {
    let step = world.gpu.in_flight.back().expect("a step is in flight");
    step.rows.iter().map(|row| row.sequence.0).collect()
}

/// Without lookahead, so that each step has its masks from the beginning.
fn one_by_one() -> World {
    World::new(LIMITS, Config { lookahead: 0, ..Config::default() })
}

/// Rows that got their masks after they were submitted, each time that masks were given.
fn late_masks(world: &World) -> Vec<Vec<u64>> {
    let given = world.effects.iter().filter_map(|effect| match effect {
        Effect::GiveMasks(StepMasks { masks, .. }) => Some(masks.iter().map(|(id, _)| id.0).collect()),
        _ => None,
    });
    given.collect()
}

/// Two guided sequences and a free one, of which two steps are in flight and the first is done.
fn in_lookahead() -> World {
    let mut world = World::with_queue(LIMITS, 8);
    (1..=2).for_each(|id| world.arrive(guided_sequence(id, 3, 10)));
    world.arrive(sequence(3, 3, 10));
    assert!(world.submit() && last_rows(&world) == [1, 2, 3]);
    assert!(world.submit() && last_rows(&world) == [0; 0], "nobody is sampled before the masks are there");
    world.finish();
    world
}

#[test]
fn a_row_is_computed_before_its_mask_is_known_and_sampled_when_it_is() {
    let mut world = in_lookahead();
    for id in 1..=2 {
        assert!(world.gpu.waits_for_masks() && !world.submit(), "a step without {id}");
        world.give_mask(id);
    }
    assert!(world.submit(), "the device goes on from what is sampled now");
    assert_eq!(late_masks(&world), [[1, 2]]);
    world.run();
    let steps = world.gpu.tokens_computed;
    assert_eq!(steps, 3 * (3 + 9), "nothing is computed twice, and nothing for nobody");
    (1..=3).for_each(|id| world.assert_complete(id));
}

#[test]
fn a_row_whose_mask_does_not_come_is_computed_again_and_others_go_on() {
    let mut world = in_lookahead();
    world.give_mask(1);
    assert!(!world.submit());
    assert_eq!(world.scheduler.next_deadline(), Some(Timestamp(MASK_PATIENCE)));
    world.now = MASK_PATIENCE;
    assert!(world.submit());
    assert_eq!((late_masks(&world), world.scheduler.next_deadline()), (vec![vec![1]], None));
    world.finish();
    let heard = |world: &World| [1, 2, 3].map(|id| world.tokens(id).len());
    assert_eq!(heard(&world), [2, 1, 2]);
    world.give_masks();
    world.run();
    (1..=3).for_each(|id| world.assert_complete(id));
    assert_eq!(world.gpu.tokens_computed, 3 * (3 + 9) + 1);
}

#[test]
fn masks_are_waited_for_as_long_as_their_step_is_computed_anyway() {
    const STEP: u64 = 20_000;
    let mut world = World::with_queue(LIMITS, 8);
    (1..=2).for_each(|id| world.arrive(guided_sequence(id, 3, 10)));
    // What a step takes is known when one was done that had no prompts.
    for (step, patience) in [(1, MASK_PATIENCE), (2, STEP / 2), (3, STEP / 2), (4, STEP / 2)] {
        while world.submit() {}
        world.now = step * STEP;
        world.finish();
        world.give_mask(1);
        assert!(!world.submit());
        assert_eq!(world.scheduler.next_deadline(), Some(Timestamp(world.now + patience)));
        world.now += patience - 1;
        assert!(!world.submit());
        world.give_mask(2);
    }
    assert!(world.submit());
    assert_eq!(late_masks(&world), [[1, 2]; 4]);
    world.run();
    (1..=2).for_each(|id| world.assert_complete(id));
}

#[test]
fn a_sequence_that_is_gone_gets_no_mask_and_is_not_waited_for() {
    let mut world = in_lookahead();
    world.give_mask(1);
    world.apply(Event::Cancelled(SequenceId(2)));
    assert!(world.submit());
    assert_eq!(late_masks(&world), [[1]]);
    world.run();
    world.assert_complete(1);
    world.assert_complete(3);
}

#[test]
fn the_block_of_a_row_that_is_computed_again_is_shared_only_then() {
    let mut world = World::with_queue(LIMITS, 8);
    // The row that is taken back fills the first block.
    world.arrive(guided_sequence(1, 3, 10));
    world.submit();
    world.submit();
    world.finish();
    world.now = MASK_PATIENCE;
    assert!(!world.submit() && late_masks(&world) == [[0; 0]]);
    world.finish();
    let cached = |world: &World| world.scheduler.counts().blocks.cached;
    let tokens: Vec<_> = world.tokens(1);
    let prompt: Vec<_> = prompt(1, 3).into_iter().chain(tokens).chain([0]).collect();
    world.arrive(NewSequence { prompt: prompt.clone(), ..sequence(2, 1, 1) });
    assert!(world.submit() && world.cached(2) == 0 && cached(&world) == 0);
    world.give_mask(1);
    world.run();
    world.arrive(NewSequence { prompt, ..sequence(3, 1, 1) });
    world.run();
    assert_eq!(world.cached(3), 4);
    world.assert_complete(1);
}

#[test]
fn a_step_that_fails_takes_those_with_it_that_wait_for_masks() {
    let mut world = in_lookahead();
    let step = world.gpu.in_flight[0].step;
    world.gpu.lose_all();
    world.give_mask(1);
    world.apply(Event::StepFailed { step, fault: Fault::Step { step, message: "planted".into() } });
    world.run();
    (1..=3).for_each(|id| world.assert_complete(id));
}

#[test]
fn those_who_were_in_one_step_stay_together() {
    let mut world = one_by_one();
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
    let mut world = one_by_one();
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
