//! Who is served, when several want to be.

use std::num::NonZeroU32;

use troupe_protocol::{
    EngineLimits, Fault, NewSequence, Priority, Rate, RateStatuses, RejectReason, RequestPart, SequenceId,
    TenantId, TenantPolicy,
};
use troupe_scheduler::{Config, Effect, Event, Preemption, Timestamp};
use troupe_sim::world::{LIMITS, World, sequence};

const ROOMY: EngineLimits = EngineLimits { num_blocks: 256, ..LIMITS };

fn number(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("not zero")
}

fn of(tenant: u32, request: NewSequence) -> NewSequence {
    NewSequence { tenant: TenantId(tenant), ..request }
}

fn world(policies: &[TenantPolicy]) -> World {
    let mut world = World::new(ROOMY, Config { max_queued: 10_000, ..Config::default() });
    world.apply(Event::TenantsConfigured(policies.to_vec()));
    world
}

fn policy(tenant: u32) -> TenantPolicy {
    TenantPolicy::unlimited(TenantId(tenant))
}

fn reason(world: &World, id: u64) -> RejectReason {
    let [Effect::Reject { reason, .. }] = world.ends(id)[..] else { panic!("{:?}", world.ends(id)) };
    reason.clone()
}

/// Service of two tenants that always want more, after so many steps.
fn backlogged(weights: (u32, u32), steps: usize) -> [u64; 2] {
    let policies = [(1, weights.0), (2, weights.1)]
        .map(|(id, weight)| TenantPolicy { weight: number(weight), ..policy(id) });
    let mut world = world(&policies);
    // One asks for much at once, the other for little and often.
    (1..=400).for_each(|id| world.arrive(of(1, sequence(id, 40, 20))));
    (401..=2000).for_each(|id| world.arrive(of(2, sequence(id, 5, 8))));
    (0..steps).for_each(|_| world.step());
    let status = world.scheduler.status(Timestamp(world.now));
    [0, 1].map(|at| status.tenants[at].service)
}

#[test]
fn the_service_gap_of_two_backlogged_tenants_stays_bounded() {
    // By the scheme: what a tenant may be given between two decisions in which it is not the least served. Here at most
    // its share of slots, each with a whole sequence of 60 tokens, of which a decoded one costs 16.
    let bound =
        u64::from(LIMITS.max_num_seqs) * (40 * 8 + 20 * 16) + u64::from(LIMITS.max_num_batched_tokens) * 8;
    for steps in [50, 200, 600] {
        let [first, second] = backlogged((1, 1), steps);
        assert!(first.abs_diff(second) <= bound, "{first} and {second} after {steps} steps");
        assert!(first.min(second) > bound || steps < 200, "too little happened to tell");
    }
}

#[test]
fn weights_divide_what_is_given() {
    let policies =
        [1, 2].map(|id| TenantPolicy { weight: number(if id == 1 { 3 } else { 1 }), ..policy(id) });
    let mut world = world(&policies);
    for id in 1..=1200 {
        world.arrive(of(1 + (id % 2) as u32, sequence(id, 12, 12)));
    }
    (0..600).for_each(|_| world.step());
    let totals: Vec<u64> = world
        .scheduler
        .status(Timestamp(0))
        .tenants
        .iter()
        .map(|tenant| tenant.totals.prefill_tokens * 8 + tenant.totals.decode_tokens * 16)
        .collect();
    let ratio = totals[0] as f64 / totals[1] as f64;
    assert!((2.5..3.5).contains(&ratio), "{totals:?}");
}

#[test]
fn a_newcomer_does_not_wait_for_a_flood_to_pass() {
    for (preemption, soon) in [(Preemption::ForShares, true), (Preemption::ForMemory, false)] {
        let mut world = World::new(ROOMY, Config { max_queued: 10_000, preemption, ..Config::default() });
        (1..=200).for_each(|id| world.arrive(of(1, sequence(id, 8, 40))));
        (0..10).for_each(|_| world.step());
        world.arrive(of(2, sequence(1000, 8, 4)));
        (0..2).for_each(|_| world.step());
        assert_eq!(!world.tokens(1000).is_empty(), soon, "{preemption:?}");
        world.run();
        (1..=200).for_each(|id| world.assert_complete(id));
        world.assert_complete(1000);
    }
}

#[test]
fn a_tenant_that_was_away_has_saved_nothing_up() {
    let mut world = world(&[]);
    (1..=50).for_each(|id| world.arrive(of(1, sequence(id, 8, 8))));
    (0..100).for_each(|_| world.step());
    world.arrive(of(2, sequence(1000, 8, 8)));
    let status = world.scheduler.status(Timestamp(0));
    assert_eq!(status.tenants[0].service, status.tenants[1].service);
}

#[test]
fn who_was_served_alone_owes_nothing_when_the_machine_was_idle_since() {
    let mut world = world(&[]);
    (1..=50).for_each(|id| world.arrive(of(1, sequence(id, 8, 8))));
    world.run();
    // Another begins on the idle machine, and the first comes back.
    world.arrive(of(2, sequence(1000, 8, 8)));
    world.arrive(of(1, sequence(1001, 8, 8)));
    let status = world.scheduler.status(Timestamp(0));
    assert_eq!(status.tenants[0].service, status.tenants[1].service);
}

#[test]
fn urgent_requests_of_a_tenant_go_first_and_old_ones_are_not_forgotten() {
    let with = |id, priority| NewSequence { priority, ..sequence(id, 8, 2) };
    let order = |world: &World| {
        let started = world.effects.iter().filter_map(|effect| match effect {
            Effect::Started { sequence, .. } => Some(sequence.0),
            _ => None,
        });
        started.skip(4).collect::<Vec<_>>()
    };
    for (wait, wanted) in [(0, [7, 6, 5]), (100_000_000, [5, 7, 6])] {
        let mut world = world(&[]);
        (1..=4).for_each(|id| world.arrive(sequence(id, 8, 2)));
        world.submit();
        world.arrive(with(5, Priority::Batch));
        world.now += wait;
        world.arrive(with(6, Priority::Normal));
        world.arrive(with(7, Priority::Interactive));
        world.run();
        assert_eq!(order(&world), wanted, "after {wait} us");
    }
    // A ceiling holds whatever is asked for.
    let mut world = world(&[TenantPolicy { max_priority: Priority::Batch, ..policy(0) }]);
    (1..=4).for_each(|id| world.arrive(sequence(id, 8, 2)));
    world.submit();
    world.arrive(with(5, Priority::Batch));
    world.arrive(with(6, Priority::Interactive));
    world.run();
    assert_eq!(order(&world), [5, 6]);
}

#[test]
fn limits_of_a_tenant_are_its_own() {
    let limited = TenantPolicy { max_running: Some(number(1)), max_queued: Some(2), ..policy(1) };
    let mut world = world(&[limited]);
    (1..=4).for_each(|id| world.arrive(of(1, sequence(id, 4, 20))));
    let rates = RateStatuses::default();
    assert_eq!(reason(&world, 4), RejectReason::TenantQueueFull { limit: 2, retry_after: 0, rates });
    world.submit();
    assert_eq!(world.scheduler.counts().running, 1);
    world.arrive(of(2, sequence(5, 4, 20)));
    world.submit();
    assert_eq!(world.scheduler.counts().running, 2);
    world.run();
    [1, 2, 3, 5].into_iter().for_each(|id| world.assert_complete(id));
}

#[test]
fn a_full_queue_is_refused_with_what_the_rates_would_make_of_the_same_request() {
    let limited = TenantPolicy {
        max_running: Some(number(1)),
        max_queued: Some(1),
        requests_per_minute: Some(number(3)),
        tokens_per_minute: Some(number(60)),
        ..policy(1)
    };
    let mut world = world(&[limited]);
    // One will run, one waits.
    (1..=2).for_each(|id| world.arrive(of(1, sequence(id, 20, 4))));
    for (id, prompt, wanted) in [(3, 20, 0), (4, 30, 10_000_000)] {
        world.arrive(of(1, sequence(id, prompt, 4)));
        let RejectReason::TenantQueueFull { limit: 1, retry_after, rates } = reason(&world, id) else {
            panic!("{:?}", reason(&world, id))
        };
        let left = [rates.requests, rates.tokens].map(|rate| rate.map(|rate| rate.remaining));
        assert_eq!((retry_after, left), (wanted, [Some(1), Some(20)]), "a refusal takes nothing");
    }
    // Of two limits that refuse, the one that has to be waited for longer is told.
    world.run();
    world.arrive(of(1, sequence(5, 12, 4)));
    world.arrive(of(1, sequence(6, 30, 4)));
    let RejectReason::RateLimited { rate: Rate::Tokens, retry_after, .. } = reason(&world, 6) else {
        panic!("{:?}", reason(&world, 6))
    };
    assert_eq!(retry_after, 30_000_000);
}

#[test]
fn rates_are_refused_with_the_time_after_which_they_are_not() {
    let limited = TenantPolicy {
        requests_per_minute: Some(number(3)),
        tokens_per_minute: Some(number(100)),
        ..policy(1)
    };
    let mut world = world(&[limited]);
    (1..=3).for_each(|id| world.arrive(of(1, sequence(id, 4, 2))));
    world.arrive(of(1, sequence(4, 4, 2)));
    let RejectReason::RateLimited { rate: Rate::Requests, per_minute: 3, retry_after, rates } =
        reason(&world, 4)
    else {
        panic!("{:?}", reason(&world, 4))
    };
    assert_eq!((retry_after, rates.requests.map(|rate| rate.remaining)), (20_000_000, Some(0)));
    world.now += retry_after;
    world.arrive(of(1, sequence(5, 4, 2)));
    world.run();
    world.assert_complete(5);
    // Answers are paid for as they come, so a long one makes the next request wait.
    world.now += 120_000_000;
    world.arrive(of(1, sequence(6, 40, 20)));
    world.run();
    world.arrive(of(1, sequence(7, 41, 2)));
    let RejectReason::RateLimited { rate: Rate::Tokens, retry_after, .. } = reason(&world, 7) else {
        panic!()
    };
    assert_eq!(retry_after, 600_000);
    // Another tenant is none the poorer.
    world.arrive(of(2, sequence(8, 60, 2)));
    world.run();
    world.assert_complete(8);
}

#[test]
fn what_nobody_waits_for_any_more_is_ended() {
    let mut world = world(&[]);
    (1..=4).for_each(|id| world.arrive(sequence(id, 8, 30)));
    world.arrive(NewSequence { timeout: Some(5_000), ..sequence(5, 8, 30) });
    world.arrive(NewSequence { timeout: Some(9_000), ..sequence(6, 8, 30) });
    assert_eq!(world.scheduler.next_deadline(), Some(Timestamp(5_000)));
    world.step();
    world.now = 4_999;
    world.apply(Event::TimePassed);
    assert!(world.ends(5).is_empty());
    world.now = 5_000;
    world.apply(Event::TimePassed);
    let failed =
        |id, timeout| Effect::Fail { sequence: SequenceId(id), fault: Fault::DeadlineExceeded { timeout } };
    assert_eq!(world.ends(5), [&failed(5, 5_000)]);
    world.apply(Event::Cancelled(SequenceId(6)));
    assert_eq!(world.scheduler.next_deadline(), None);
    world.run();
    (1..=4).for_each(|id| world.assert_complete(id));
}

#[test]
fn cached_prefixes_are_preferred_but_nobody_is_overtaken_for_ever() {
    let mut world = world(&[]);
    world.arrive(sequence(1, 40, 1));
    world.run();
    (10..=13).for_each(|id| world.arrive(sequence(id, 8, 8)));
    world.submit();
    // The stranger came first; those behind it find their prefix.
    world.arrive(sequence(20, 40, 1));
    for id in 21..60 {
        world.arrive(NewSequence { prompt: sequence(1, 40, 1).prompt, ..sequence(id, 1, 1) });
    }
    world.run();
    let started: Vec<u64> = world
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Started { sequence, .. } if sequence.0 >= 20 => Some(sequence.0),
            _ => None,
        })
        .collect();
    let at = started.iter().position(|&id| id == 20).expect("it started");
    assert!((1..=8).contains(&at), "it was number {at}");
}

#[test]
fn a_full_queue_shuts_nobody_out_who_has_less_than_a_share_of_it() {
    let mut world = World::new(ROOMY, Config { max_queued: 4, ..Config::default() });
    // Four will find a slot, four wait.
    (1..=12).for_each(|id| world.arrive(of(1, sequence(id, 4, 20))));
    (21..=23).for_each(|id| world.arrive(of(2, sequence(id, 4, 4))));
    let full = RejectReason::QueueFull { limit: 4, rates: RateStatuses::default() };
    for id in [9, 10, 11, 12, 23] {
        assert_eq!(reason(&world, id), full);
    }
    let status = world.scheduler.status(Timestamp(world.now));
    let totals = status.tenants.iter().map(|tenant| (tenant.totals.accepted, tenant.totals.refused));
    assert_eq!(totals.collect::<Vec<_>>(), [(8, 4), (2, 1)]);
    world.run();
    (1..=8).chain(21..=22).for_each(|id| world.assert_complete(id));
}

#[test]
fn a_request_of_several_sequences_is_counted_once_and_each_of_its_prompts() {
    let limited = TenantPolicy {
        max_running: Some(number(1)),
        max_queued: Some(0),
        requests_per_minute: Some(number(1)),
        tokens_per_minute: Some(number(100)),
        ..policy(1)
    };
    let mut world = world(&[limited]);
    let part = |id, tokens, part| of(1, NewSequence { part, ..sequence(id, tokens, 4) });
    world.arrive(part(1, 20, RequestPart::First));
    world.arrive(part(2, 20, RequestPart::Choice));
    world.arrive(part(3, 30, RequestPart::Prompt));
    world.arrive(part(4, 30, RequestPart::Choice));
    let rates = world.scheduler.status(Timestamp(world.now)).tenants[0].rates;
    assert_eq!(
        [rates.requests, rates.tokens].map(|rate| rate.map(|rate| rate.remaining)),
        [Some(0), Some(50)]
    );
    world.arrive(part(5, 1, RequestPart::First));
    assert!(matches!(reason(&world, 5), RejectReason::TenantQueueFull { .. }));
    world.run();
    (1..=4).for_each(|id| world.assert_complete(id));
}

#[test]
fn who_holds_the_memory_gives_way_to_who_was_served_less() {
    for (preemption, waits) in [(Preemption::ForShares, false), (Preemption::ForMemory, true)] {
        let limits = EngineLimits { num_blocks: 16, ..LIMITS };
        let mut world = World::new(limits, Config { preemption, ..Config::default() });
        // Half of the slots are its share, with nearly all of the memory.
        (1..=2).for_each(|id| world.arrive(of(1, sequence(id, 20, 12))));
        (0..3).for_each(|_| world.step());
        world.arrive(of(2, sequence(3, 36, 4)));
        world.run();
        (1..=3).for_each(|id| world.assert_complete(id));
        let place = |wanted: &dyn Fn(&Effect) -> bool| world.effects.iter().position(wanted);
        let starts = |effect: &Effect| matches!(effect, Effect::Started { sequence, .. } if sequence.0 == 3);
        let ends = |effect: &Effect| matches!(effect, Effect::Finish { .. });
        assert_eq!(place(&starts) > place(&ends), waits, "{preemption:?}");
    }
}
