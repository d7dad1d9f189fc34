//! Blocks whose contents were computed before are found again, and never change what is said.

use troupe_protocol::{EngineLimits, Fault, LengthClasses, SequenceId, TenantId, TokenId};
use troupe_scheduler::{CacheShare, Config, Effect, Event};
use troupe_sim::fake_gpu::continuation;
use troupe_sim::world::{LIMITS, World, prompt, sequence};

fn world() -> World {
    World::with_queue(LIMITS, 8)
}

/// `sequence(id, ..)` with this prompt.
fn asks(id: u64, prompt: &[TokenId], max_tokens: u32) -> troupe_protocol::NewSequence {
    troupe_protocol::NewSequence { prompt: prompt.to_vec(), ..sequence(id, 1, max_tokens) }
}

#[test]
fn c130_a_prompt_that_was_computed_is_found_but_for_its_last_block() {
    let mut world = world();
    world.arrive(sequence(1, 17, 3));
    world.run();
    for (id, length, cached) in [(2, 17, 16), (3, 16, 12), (4, 15, 12), (5, 4, 0), (6, 5, 4)] {
        world.arrive(asks(id, &prompt(1, length), 3));
        world.run();
        assert_eq!(world.cached(id), cached, "{length} tokens");
        world.assert_complete(id);
    }
    assert_eq!(world.scheduler.counts().blocks.owned, 0);
}

#[test]
fn a_chat_finds_its_history_with_the_answers() {
    let mut world = world();
    let mut history = prompt(1, 9);
    for turn in 1..=6 {
        world.arrive(asks(turn, &history, 4));
        world.run();
        world.assert_complete(turn);
        if turn > 1 {
            assert!(world.cached(turn) + LIMITS.block_size > history.len() as u32 - 2, "turn {turn}");
        }
        history.extend(continuation(&history, 4));
        history.extend(prompt(100 + turn, 2));
    }
}

#[test]
fn c133u_running_sequences_share_blocks_without_waiting_for_an_end() {
    let mut world = world();
    world.arrive(sequence(1, 12, 30));
    world.step();
    world.arrive(asks(2, &prompt(1, 16), 30));
    world.submit();
    assert_eq!(world.cached(2), 12);
    // 12 tokens of both lie in three blocks.
    assert_eq!(world.scheduler.counts().blocks.owned, 3 + 1 + 1);
    world.run();
    world.assert_complete(1);
    world.assert_complete(2);
}

#[test]
fn c116_a_cancelled_prompt_leaves_its_full_blocks() {
    let mut world = world();
    world.arrive(sequence(1, 50, 5));
    world.step();
    world.step();
    world.apply(Event::Cancelled(SequenceId(1)));
    assert_eq!(world.scheduler.counts().blocks.cached, 8);
    world.arrive(asks(2, &prompt(1, 50), 5));
    world.run();
    assert_eq!(world.cached(2), 32);
    world.assert_complete(2);
}

#[test]
fn c131u_the_ends_of_chains_are_forgotten_first() {
    let mut world = World::with_queue(EngineLimits { num_blocks: 16, ..LIMITS }, 8);
    world.arrive(sequence(1, 40, 1));
    world.run();
    // Nine more blocks than are free.
    world.arrive(sequence(2, 58, 1));
    world.run();
    for (id, length) in [(3, 5), (4, 9)] {
        world.arrive(asks(id, &prompt(1, length), 1));
        world.run();
    }
    assert_eq!((world.cached(3), world.cached(4)), (4, 4));
}

#[test]
fn c128_tenants_and_salts_do_not_see_each_others_blocks_unless_they_are_to() {
    for (cache, salts, cached) in [
        (CacheShare::Tenant, (0, 0), 0),
        (CacheShare::Server, (0, 0), 16),
        (CacheShare::Server, (1, 2), 0),
        (CacheShare::Server, (5, 5), 16),
        (CacheShare::Off, (0, 0), 0),
    ] {
        let mut world = World::new(LIMITS, Config { cache, ..Config::default() });
        for (id, tenant, cache_salt) in [(1, 1, salts.0), (2, 2, salts.1)] {
            world.arrive(troupe_protocol::NewSequence {
                tenant: TenantId(tenant),
                cache_salt,
                ..asks(id, &prompt(9, 20), 4)
            });
            world.run();
            world.assert_complete(id);
        }
        assert_eq!(world.cached(2), cached, "{cache:?} {salts:?}");
    }
}

#[test]
fn what_steps_in_flight_compute_for_one_that_left_is_found() {
    for (fails, cached) in [(false, 32), (true, 0)] {
        let mut world = world();
        world.arrive(sequence(1, 40, 4));
        while world.submit() {}
        assert_eq!(world.gpu.in_flight.len(), 2, "of sixteen tokens each");
        world.apply(Event::Cancelled(SequenceId(1)));
        if fails {
            let steps: Vec<_> = world.gpu.in_flight.iter().map(|outcome| outcome.step).collect();
            world.gpu.lose_all();
            for step in steps {
                world.apply(Event::StepFailed {
                    step,
                    fault: Fault::Step { step, message: "planted".into() },
                });
            }
        }
        world.run();
        world.arrive(asks(2, &prompt(1, 40), 4));
        world.run();
        world.assert_complete(2);
        assert_eq!(world.cached(2), cached);
    }
}

#[test]
fn what_the_executor_lost_is_not_found() {
    let mut world = world();
    world.arrive(sequence(1, 20, 4));
    world.run();
    world.arrive(sequence(2, 5, 30));
    world.submit();
    let step = world.gpu.in_flight[0].step;
    world.gpu.lose_all();
    world.apply(Event::StepFailed { step, fault: Fault::Step { step, message: "planted".into() } });
    world.arrive(asks(3, &prompt(1, 20), 4));
    world.run();
    assert_eq!(world.cached(3), 0);
    world.assert_complete(2);
    world.assert_complete(3);
    world.gpu.lose_all();
    world.apply(Event::ExecutorLost);
    world.apply(Event::ExecutorReady { limits: LIMITS, stored: vec![] });
    world.arrive(asks(4, &prompt(1, 20), 4));
    world.run();
    assert_eq!(world.cached(4), 0);
}

#[test]
fn a_sequence_that_lost_its_place_finds_what_it_had_computed() {
    let roomy = EngineLimits { num_blocks: 64, ..LIMITS };
    let computed = |cache| {
        let mut world = World::new(roomy, Config { cache, ..Config::default() });
        (1..=4).for_each(|id| world.arrive(sequence(id, 20, 30)));
        (0..20).for_each(|_| world.step());
        // Another tenant's take the places of two.
        for id in [5, 6] {
            world.arrive(troupe_protocol::NewSequence { tenant: TenantId(1), ..sequence(id, 20, 4) });
        }
        world.run();
        (1..=6).for_each(|id| world.assert_complete(id));
        world.gpu.tokens_computed
    };
    let (with, without) = (computed(CacheShare::Tenant), computed(CacheShare::Off));
    assert!(with + 30 < without, "{with} tokens with the cache, {without} without");
}

#[test]
fn sequences_whose_positions_are_encoded_otherwise_share_nothing() {
    for (length_classes, max_tokens, cached) in [
        (LengthClasses::One, 30, 16),
        (LengthClasses::SplitAt(40), 20, 16),
        (LengthClasses::SplitAt(40), 21, 0),
        (LengthClasses::EachBeyond(25), 4, 16),
        (LengthClasses::EachBeyond(25), 6, 0),
    ] {
        let mut world = World::with_queue(EngineLimits { length_classes, ..LIMITS }, 8);
        world.arrive(sequence(1, 20, 4));
        world.run();
        world.arrive(asks(2, &prompt(1, 20), max_tokens));
        world.run();
        assert_eq!(world.cached(2), cached, "{length_classes:?}, {max_tokens} tokens");
    }
}

#[test]
fn c060_cached_tokens_are_those_that_were_not_computed() {
    let mut world = world();
    for (id, of, length) in [(1, 1, 30), (2, 1, 30), (3, 1, 21), (4, 4, 21), (5, 1, 40)] {
        let before = world.gpu.tokens_computed;
        // The one token of the answer is not computed.
        world.arrive(asks(id, &prompt(of, length), 1));
        world.run();
        let computed = (world.gpu.tokens_computed - before) as u32;
        let [Effect::Finish { usage, .. }] = world.ends(id)[..] else { panic!("{:?}", world.ends(id)) };
        assert_eq!((usage.prompt_tokens, usage.cached_tokens), (length, length - computed), "request {id}");
        assert_eq!(usage.cached_tokens, world.cached(id), "request {id}");
    }
    assert!(world.cached(5) > 0 && world.cached(4) == 0);
}

#[test]
fn c115_a_conversation_goes_on_from_an_answer_that_was_broken_off() {
    let mut world = world();
    world.arrive(sequence(1, 9, 40));
    while world.tokens(1).len() < 13 {
        world.step();
    }
    world.apply(Event::Cancelled(SequenceId(1)));
    let mut history = prompt(1, 9);
    history.extend(world.tokens(1));
    let computed = history.len() as u32 - 1;
    history.extend(prompt(2, 6));
    world.arrive(asks(3, &history, 5));
    world.run();
    assert_eq!(world.cached(3), computed / LIMITS.block_size * LIMITS.block_size);
    world.assert_complete(3);
}

#[test]
fn c125u_tokens_that_agree_in_some_bytes_are_different() {
    for (one, other) in [(65, 321), (65, 65 + (1 << 16)), (65, 65 + (1 << 24)), (0, 1 << 31)] {
        let mut world = world();
        for (id, token) in [(1, one), (2, other), (3, one)] {
            world.arrive(asks(id, &[token; 13], 3));
            world.run();
            world.assert_complete(id);
        }
        assert_eq!((world.cached(2), world.cached(3)), (0, 12), "{one} and {other}");
    }
}

#[test]
fn c126_two_questions_after_one_system_prompt_have_their_own_answers() {
    let mut world = world();
    let system = prompt(9, 18);
    let question = |id| [system.clone(), prompt(id, 7)].concat();
    for id in 1..=3 {
        world.arrive(asks(id, &question(id), 6));
        world.run();
        world.assert_complete(id);
    }
    // And side by side, from the middle of a block on.
    (4..=6).for_each(|id| world.arrive(asks(id, &question(id), 6)));
    world.run();
    (4..=6).for_each(|id| world.assert_complete(id));
    (2..=6).for_each(|id| assert_eq!(world.cached(id), 16, "request {id}"));
}
