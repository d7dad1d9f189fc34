//! The default model with the kernels of every instruction set that this machine runs: the reference's text from each.

mod support;

use support::default_model;
use support::driver::Driver;
use support::reference::{fixture, numbers, worst_difference};

/// The kernels that every machine has are slow with longer prompts, and these reach all of them.
const LONGEST_PROMPT: usize = 40;

// One test, since a process has one set at a time.
#[test]
fn every_instruction_set_says_what_the_reference_says() {
    let mut cases = fixture("default_model.json");
    cases.retain(|case| numbers::<u32>(&case["prompt"]).len() <= LONGEST_PROMPT);
    assert!(cases.len() >= 4);
    let mut driver = Driver::load(&default_model());
    let sets = mlx_sys::instruction_sets();
    assert_eq!(mlx_sys::instruction_set(), sets[0], "the best set is the default");
    for set in &sets {
        mlx_sys::use_instruction_set(set).unwrap();
        assert_eq!(&mlx_sys::instruction_set(), set);
        let worst = cases.iter().map(|case| worst_difference(&mut driver, case)).fold(0.0, f32::max);
        println!("{set}: largest difference {worst}");
    }
}
