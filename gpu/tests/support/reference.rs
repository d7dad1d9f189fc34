//! What `transformers` computed of the default model, by fixtures that scripts/fixtures wrote, and how far an engine is
//! from it.

use std::path::Path;

use serde_json::Value;

use super::driver::{Driver, Feed};
use super::greedy_with_logprobs;

/// Log-probabilities of the default model may differ by this much.
pub const DEFAULT_MODEL_TOLERANCE: f32 = 0.02;

/// The cases of a file of fixtures.
pub fn fixture(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

pub fn numbers<T: TryFrom<u64, Error: std::fmt::Debug>>(value: &Value) -> Vec<T> {
    value.as_array().unwrap().iter().map(|n| T::try_from(n.as_u64().unwrap()).unwrap()).collect()
}

pub fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|n| n.as_f64().unwrap() as f32).collect()
}

/// Asserts the reference's greedy tokens of a case of the default model, and gives the largest difference of
/// log-probabilities from it.
pub fn worst_difference(driver: &mut Driver, case: &Value) -> f32 {
    let (name, prompt) = (&case["name"], numbers::<u32>(&case["prompt"]));
    let greedy = numbers::<u32>(&case["greedy"]);
    let max_len = (prompt.len() + greedy.len()) as u32;
    let mut sequence = driver.sequence(&prompt, greedy_with_logprobs(20), max_len);
    // Chunks of 256 split the long prompt in the midst of a block.
    driver.step(&mut [(&mut sequence, Feed::Known(prompt.len().min(5)))]);
    driver.generate(&mut sequence, 251, greedy.len());
    assert_eq!(sequence.generated(), greedy, "{name}");
    let mut worst = 0.0_f32;
    for (step, (found, wanted)) in sequence.sampled.iter().zip(case["top"].as_array().unwrap()).enumerate() {
        let found = &found.logprobs.as_ref().unwrap().top;
        let wanted: Vec<(u32, f32)> =
            numbers(&wanted["ids"]).into_iter().zip(floats(&wanted["logprobs"])).collect();
        worst = worst.max(difference(found, &wanted, &format!("{name}, token {step}")));
    }
    driver.release(sequence);
    worst
}

/// The largest difference over the reference's tokens. A token of the reference that is not among the found ones
/// has to lie within the tolerance of the least likely found one, which took its place.
#[track_caller]
fn difference(found: &[(u32, f32)], wanted: &[(u32, f32)], at: &str) -> f32 {
    assert_eq!(found.len(), wanted.len(), "{at}");
    let least = found.last().unwrap().1;
    let apart = |&(id, wanted): &(u32, f32)| {
        let found = found.iter().find(|(other, _)| *other == id).map_or(least, |(_, value)| *value);
        assert!((found - wanted).abs() <= DEFAULT_MODEL_TOLERANCE, "{at}: token {id}: {found}, not {wanted}");
        (found - wanted).abs()
    };
    wanted.iter().map(apart).fold(0.0, f32::max)
}
