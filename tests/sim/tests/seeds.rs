//! Workloads of many seeds: invariants after every call, every answer what it must be, everything comes to an end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use troupe_sim::canary::{CANARIES, Canary};
use troupe_sim::run::{VARIANTS, run};
use troupe_sim::workload::Workload;

fn in_every_variant(seed: u64) {
    let workload = Workload::new(seed);
    for variant in VARIANTS {
        run(&workload, variant, None);
    }
}

#[test]
fn c118u_a_thousand_seeds() {
    // As it is served, and in one other variant by turns. In four parts, so that two cores have something to do.
    let part = |part| {
        for seed in (part..1000).step_by(4) {
            let workload = Workload::new(seed);
            run(&workload, VARIANTS[0], None);
            run(&workload, VARIANTS[1 + seed as usize % (VARIANTS.len() - 1)], None);
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|number| drop(scope.spawn(move || part(number)))));
}

#[test]
fn seeds_that_once_found_something() {
    for line in include_str!("../seeds.txt").lines() {
        let text = line.split('#').next().unwrap_or_default().trim();
        if !text.is_empty() {
            in_every_variant(text.parse().expect("a seed"));
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_history() {
    for seed in 0..10 {
        let workload = Workload::new(seed);
        for variant in VARIANTS {
            assert_eq!(
                run(&workload, variant, None),
                run(&Workload::new(seed), variant, None),
                "seed {seed}"
            );
        }
    }
}

/// What was said of a planted mistake within a few seeds.
fn said_of(canary: Canary) -> Vec<String> {
    let violation = |seed| {
        let workload = Workload::new(seed);
        let panic = catch_unwind(AssertUnwindSafe(|| run(&workload, VARIANTS[0], Some(canary)))).err()?;
        panic.downcast_ref::<String>().cloned()
    };
    (0..20).filter_map(violation).collect()
}

#[test]
fn every_planted_mistake_is_noticed_by_the_one_who_should() {
    for (canary, words) in CANARIES {
        let said = said_of(canary);
        assert!(said.iter().any(|said| said.contains(words)), "{canary:?}: nobody says {words:?}: {said:?}");
    }
}
