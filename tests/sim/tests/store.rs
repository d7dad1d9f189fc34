//! The second tier: what KV memory has no room for comes back from the store, and never changes what is said.

use troupe_protocol::{EngineLimits, Fault, NewSequence, SequenceId, TokenId};
use troupe_scheduler::{Config, Effect, Event, MAX_REPLAYS};
use troupe_sim::world::{LIMITS, World, prompt, sequence};

/// Sixteen blocks in KV memory, so many in the store.
fn world(num_stored_blocks: u32) -> World {
    World::with_queue(EngineLimits { num_blocks: 16, num_stored_blocks, ..LIMITS }, 8)
}

fn ask(world: &mut World, id: u64, prompt: &[TokenId]) -> u32 {
    world.arrive(NewSequence { prompt: prompt.to_vec(), ..sequence(id, 1, 4) });
    world.run();
    world.assert_complete(id);
    world.cached(id)
}

/// The first prompt was computed, and its blocks are in the store.
fn flushed() -> World {
    let mut world = world(32);
    ask(&mut world, 1, &prompt(1, 40));
    world.flush();
    world
}

/// After a restart the second sequence has the same prompt; the step that loads its blocks is in flight.
fn loading() -> World {
    let mut world = flushed();
    world.restart(Config::default());
    world.arrive(NewSequence { prompt: prompt(1, 40), ..sequence(2, 1, 4) });
    assert!(world.submit());
    world
}

#[test]
fn what_was_evicted_comes_back() {
    let mut world = world(32);
    ask(&mut world, 1, &prompt(1, 40));
    // Fifteen blocks: more than those beside the first ten.
    ask(&mut world, 2, &prompt(2, 56));
    assert_eq!(world.gpu.blocks_loaded, 0);
    assert_eq!(ask(&mut world, 3, &prompt(1, 40)), 36);
    // The first block is given up last: it is still in KV memory.
    assert_eq!(world.gpu.blocks_loaded, 8);
    let counts = world.scheduler.counts();
    assert_eq!((counts.store.loaded, counts.store.total), (8, 32));
    assert_eq!(counts.store.used as u64, counts.store.saved);
}

#[test]
fn without_a_store_it_is_computed_again() {
    let mut world = world(0);
    ask(&mut world, 1, &prompt(1, 40));
    ask(&mut world, 2, &prompt(2, 56));
    assert_eq!(ask(&mut world, 3, &prompt(1, 40)), 4, "the first block is given up last");
}

#[test]
fn the_store_forgets_what_was_used_least_recently() {
    let mut world = world(12);
    for id in 1..=4 {
        ask(&mut world, id, &prompt(id, 56));
    }
    // Of the third, thirteen blocks were evicted or are to be; of the first, none is left.
    assert_eq!(ask(&mut world, 5, &prompt(1, 56)), 0);
    assert!(ask(&mut world, 6, &prompt(4, 56)) > 0);
    assert_eq!(world.scheduler.counts().store.used, 12);
}

#[test]
fn a_restart_finds_what_was_flushed() {
    let mut world = flushed();
    world.restart(Config::default());
    assert_eq!(ask(&mut world, 2, &prompt(1, 40)), 36);
    world.restart(Config { cache_key: 1, ..Config::default() });
    assert_eq!(ask(&mut world, 3, &prompt(1, 40)), 0, "under another key, names are others");
}

#[test]
fn a_flush_leaves_the_most_recent_to_a_small_store() {
    let mut world = world(5);
    ask(&mut world, 1, &prompt(1, 16));
    ask(&mut world, 2, &prompt(2, 20));
    world.flush();
    world.restart(Config::default());
    assert_eq!(ask(&mut world, 3, &prompt(1, 16)), 0);
    world.restart(Config::default());
    assert_eq!(ask(&mut world, 4, &prompt(2, 20)), 16);
}

#[test]
fn what_failed_to_load_is_not_asked_for_again() {
    let mut world = loading();
    let step = world.gpu.in_flight[0].step;
    world.gpu.lose_all();
    world.apply(Event::StepFailed { step, fault: Fault::Store { step, message: "damaged".into() } });
    assert_eq!(world.scheduler.counts().store.used, 0, "nor is anything else that it holds");
    world.run();
    world.assert_complete(2);
    assert_eq!(world.gpu.blocks_loaded, 9, "computed, not loaded again");
    let [Effect::Finish { usage, .. }] = world.ends(2)[..] else { panic!("{:?}", world.ends(2)) };
    assert_eq!((world.cached(2), usage.cached_tokens), (36, 0), "found, and lost again");
    assert_eq!(ask(&mut world, 3, &prompt(1, 40)), 36);
    assert_eq!(world.gpu.blocks_loaded, 9, "found in KV memory");
}

#[test]
fn what_the_store_fails_is_nobody_s_replay() {
    let mut world = world(32);
    world.arrive(sequence(1, 5, 30));
    for _ in 0..2 * MAX_REPLAYS {
        assert!(world.submit());
        let step = world.gpu.in_flight[0].step;
        world.gpu.lose_all();
        world.apply(Event::StepFailed { step, fault: Fault::Store { step, message: "damaged".into() } });
    }
    world.run();
    world.assert_complete(1);
}

#[test]
fn a_cancelled_load_leaves_its_blocks_as_cache() {
    let mut world = loading();
    world.apply(Event::Cancelled(SequenceId(2)));
    world.run();
    assert_eq!(ask(&mut world, 3, &prompt(1, 40)), 36);
    assert_eq!(world.gpu.blocks_loaded, 9);
}

#[test]
fn a_full_disk_costs_cached_blocks_and_nothing_else() {
    let mut world = world(32);
    world.gpu.full_disk = Some(1);
    ask(&mut world, 1, &prompt(1, 40));
    ask(&mut world, 2, &prompt(2, 56));
    assert!(world.gpu.blocks_saved > 0);
    assert_eq!(world.scheduler.counts().store.used, 0);
    assert!(ask(&mut world, 3, &prompt(1, 40)) <= 8, "what is left of it in KV memory");
}
