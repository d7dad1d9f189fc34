//! Workloads of many seeds: invariants after every call, every answer what it must be, everything comes to an end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use troupe_sim::canary::{CANARIES, Canary};
use troupe_sim::run::{VARIANTS, run};
use troupe_sim::search::{in_every_variant, search, words};
use troupe_sim::workload::Workload;

#[test]
fn c118u_c123_a_thousand_seeds() {
    search(0..1000).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn seeds_that_once_found_something() {
    for line in include_str!("../seeds.txt").lines() {
        let text = line.split('#').next().unwrap_or_default().trim();
        if !text.is_empty() {
            in_every_variant(text.parse().expect("a seed")).unwrap_or_else(|violation| panic!("{violation}"));
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
        Some(words(&*panic))
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
