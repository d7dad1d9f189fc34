//! Sequences that want to know how likely their prompts are.

use troupe_protocol::{EngineLimits, Fault, NewSequence, SamplingParams, TenantId, TokenLogprobs};
use troupe_scheduler::{Effect, Event};
use troupe_sim::fake_gpu::{content, likelihood, start};
use troupe_sim::world::{LIMITS, World, sequence};

fn world() -> World {
    World::with_queue(LIMITS, 8)
}

/// `sequence(id, ..)` that wants its prompt scored.
fn scored(id: u64, prompt_tokens: u32) -> NewSequence {
    let sampling = SamplingParams { prompt_logprobs: Some(0), ..SamplingParams::greedy() };
    NewSequence { sampling, ..sequence(id, prompt_tokens, 4) }
}

/// What was told of a prompt.
fn told(world: &World, id: u64) -> Vec<f32> {
    let told = world.effects.iter().filter_map(|effect| match effect {
        Effect::DeliverPrompt { sequence, logprobs } if sequence.0 == id => Some(logprobs),
        _ => None,
    });
    told.flatten().map(|TokenLogprobs { chosen, .. }| *chosen).collect()
}

/// What is to be told of it.
fn likelihoods(request: &NewSequence) -> Vec<f32> {
    let mut before = content(start(0), request.prompt[0]);
    let rest = request.prompt[1..].iter().map(|&token| {
        let likelihood = likelihood(before, token);
        before = content(before, token);
        likelihood
    });
    rest.collect()
}

#[test]
fn a_step_scores_no_more_than_it_may_and_leaves_room_for_others() {
    let mut world = world();
    let request = scored(1, 20);
    world.arrive(request.clone());
    world.arrive(sequence(2, 6, 1));
    let mut steps = 0;
    while world.tokens(1).is_empty() {
        world.step();
        steps += 1;
        assert_eq!(world.tokens(2).len(), 1, "it fits into the first step");
    }
    // Eight a step, of 19.
    assert_eq!(steps, 3);
    assert_eq!(told(&world, 1), likelihoods(&request));
    world.run();
    world.assert_complete(1);
    world.assert_complete(2);
}

#[test]
fn what_is_wanted_of_a_prompt_is_computed_though_the_cache_holds_it() {
    let mut world = world();
    world.arrive(sequence(1, 20, 4));
    world.run();
    let request = NewSequence { prompt: sequence(1, 20, 4).prompt, ..scored(2, 20) };
    world.arrive(request.clone());
    world.run();
    assert_eq!((world.cached(2), told(&world, 2)), (0, likelihoods(&request)));
    world.assert_complete(2);
    // What it computed is there for others.
    world.arrive(NewSequence { prompt: request.prompt, ..sequence(3, 1, 4) });
    world.run();
    assert_eq!(world.cached(3), 16);
}

#[test]
fn what_was_told_before_a_failure_is_not_told_again() {
    for failing in 1..=3 {
        let mut world = world();
        let request = scored(1, 20);
        world.arrive(request.clone());
        for _ in 0..failing - 1 {
            world.step();
        }
        world.submit();
        let step = world.gpu.in_flight[0].step;
        world.gpu.lose_all();
        world.apply(Event::StepFailed { step, fault: Fault::Step { step, message: String::new() } });
        world.run();
        assert_eq!(told(&world, 1), likelihoods(&request), "the step that fails is number {failing}");
        world.assert_complete(1);
    }
}

#[test]
fn a_sequence_that_lost_its_place_goes_on_where_it_was() {
    let mut world = World::with_queue(EngineLimits { max_num_seqs: 2, ..LIMITS }, 8);
    world.arrive(NewSequence { tenant: TenantId(1), ..sequence(1, 8, 20) });
    world.step();
    let request = NewSequence { tenant: TenantId(1), ..scored(2, 24) };
    world.arrive(request.clone());
    while told(&world, 2).len() < 12 {
        world.step();
    }
    world.arrive(NewSequence { tenant: TenantId(2), ..sequence(3, 4, 2) });
    world.run();
    let is_preempted = |effect: &Effect| matches!(effect, Effect::Preempted { sequence } if sequence.0 == 2);
    assert!(world.effects.iter().any(is_preempted));
    assert_eq!(told(&world, 2), likelihoods(&request));
    (1..=3).for_each(|id| world.assert_complete(id));
    // All but the last tokens, and no more than a block and the token before it again.
    let once = (8 + 20 - 1) + (24 + 4 - 1) + (4 + 2 - 1);
    assert!(world.gpu.tokens_computed <= once + u64::from(LIMITS.block_size) + 1);
}
