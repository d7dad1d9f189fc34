//! What the engine computes against what `transformers` computes, by fixtures that scripts/fixtures wrote.

mod support;

use std::path::Path;

use serde_json::{Value, json};
use support::checkpoint::Checkpoint;
use support::driver::{Driver, Feed};
use support::{default_model, greedy_with_logprobs, request};
use troupe_protocol::{LoadRequest, WeightDtype};

/// Log-probabilities of the default model may differ by this much.
const DEFAULT_MODEL_TOLERANCE: f32 = 0.02;

/// Those of tiny models, in f32 on both sides.
const TINY_TOLERANCE: f32 = 2e-4;

/// More than the vocabulary of the tiny models: all are reported.
const ALL: u8 = 64;

fn fixture(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn numbers<T: TryFrom<u64, Error: std::fmt::Debug>>(value: &Value) -> Vec<T> {
    value.as_array().unwrap().iter().map(|n| T::try_from(n.as_u64().unwrap()).unwrap()).collect()
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|n| n.as_f64().unwrap() as f32).collect()
}

#[test]
fn the_default_model_says_what_the_reference_says() {
    for weights in [WeightDtype::Auto, WeightDtype::F32] {
        let worst = worst_difference(&LoadRequest { weights, ..default_model() });
        println!("{weights:?}: largest difference {worst}");
        assert!(worst <= DEFAULT_MODEL_TOLERANCE, "{weights:?}: {worst}");
    }
}

/// Asserts the reference's greedy tokens, and gives the largest difference of log-probabilities from it.
fn worst_difference(model: &LoadRequest) -> f32 {
    let mut driver = Driver::load(model);
    let mut worst = 0.0_f32;
    for case in fixture("default_model.json") {
        let (name, prompt) = (&case["name"], numbers::<u32>(&case["prompt"]));
        let greedy = numbers::<u32>(&case["greedy"]);
        let max_len = (prompt.len() + greedy.len()) as u32;
        let mut sequence = driver.sequence(&prompt, greedy_with_logprobs(20), max_len);
        // Chunks of 256 split the long prompt in the midst of a block.
        driver.step(&mut [(&mut sequence, Feed::Known(prompt.len().min(5)))]);
        driver.generate(&mut sequence, 251, greedy.len());
        assert_eq!(sequence.generated(), greedy, "{name}");
        for (step, (found, wanted)) in
            sequence.sampled.iter().zip(case["top"].as_array().unwrap()).enumerate()
        {
            let found = &found.logprobs.as_ref().unwrap().top;
            let wanted: Vec<(u32, f32)> =
                numbers(&wanted["ids"]).into_iter().zip(floats(&wanted["logprobs"])).collect();
            worst = worst.max(difference(found, &wanted, &format!("{name}, token {step}")));
        }
        driver.release(sequence);
    }
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

#[test]
fn tiny_models_of_every_kind_equal_the_reference() {
    let cases = fixture("llama_tiny.json");
    assert!(cases.len() >= 30);
    let mut worst = 0.0_f32;
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let found = tiny_logprobs(&case["config"], case);
        assert_eq!(found, tiny_logprobs(&version_4(&case["config"]), case), "{name} in the older spelling");
        for (position, (found, wanted)) in found.iter().zip(case["logprobs"].as_array().unwrap()).enumerate()
        {
            for (id, (found, wanted)) in found.iter().zip(floats(wanted)).enumerate() {
                let apart = (found - wanted).abs();
                assert!(apart <= TINY_TOLERANCE, "{name}, {position}, token {id}: {found}, not {wanted}");
                worst = worst.max(apart);
            }
        }
    }
    println!("largest difference {worst}");
}

/// Log-probabilities of the whole vocabulary, by id, at the positions of a case.
fn tiny_logprobs(config: &Value, case: &Value) -> Vec<Vec<f32>> {
    let folder = Checkpoint::llama(config).write();
    let mut driver = Driver::load(&request(folder.path()));
    let (tokens, positions) = (numbers::<u32>(&case["tokens"]), numbers::<usize>(&case["positions"]));
    let mut found = driver.logprobs_at(&tokens, &positions, &greedy_with_logprobs(ALL));
    found.iter_mut().for_each(|top| top.sort_by_key(|&(id, _)| id));
    found.into_iter().map(|top| top.into_iter().map(|(_, value)| value).collect()).collect()
}

/// The same configuration as transformers 4 spells it.
fn version_4(config: &Value) -> Value {
    let mut config = config.clone();
    let mut scaling = config.as_object_mut().unwrap().remove("rope_parameters").unwrap();
    let theta = scaling.as_object_mut().unwrap().remove("rope_theta").unwrap();
    let kind = scaling.as_object_mut().unwrap().remove("rope_type").unwrap();
    // The name of the kind before 4.43.
    scaling["type"] = kind;
    config["rope_theta"] = theta;
    config["rope_scaling"] = scaling;
    config
}

#[test]
fn sequences_of_different_lengths_have_their_own_frequencies_in_one_step() {
    let cases = fixture("llama_tiny.json");
    let case = |name: &str| cases.iter().find(|case| case["name"] == name).unwrap();
    for (short, long) in [
        ("longrope within the trained length", "longrope beyond the trained length"),
        ("dynamic within the trained length", "dynamic beyond the trained length"),
    ] {
        let (short, long) = (case(short), case(long));
        assert_eq!(short["config"], long["config"]);
        let folder = Checkpoint::llama(&short["config"]).write();
        let mut driver = Driver::load(&request(folder.path()));
        let mut pair = [short, long].map(|case| {
            let tokens = numbers::<u32>(&case["tokens"]);
            driver.sequence(&tokens, greedy_with_logprobs(ALL), tokens.len() as u32)
        });
        let [a, b] = &mut pair;
        let (of_a, of_b) = (Feed::Known(a.num_left()), Feed::Known(b.num_left()));
        driver.step(&mut [(a, of_a), (b, of_b)]);
        for (sequence, case) in pair.iter().zip([short, long]) {
            let wanted = floats(case["logprobs"].as_array().unwrap().last().unwrap());
            for &(id, found) in &sequence.sampled[0].logprobs.as_ref().unwrap().top {
                let wanted = wanted[id as usize];
                assert!((found - wanted).abs() <= TINY_TOLERANCE, "{}: {found}, not {wanted}", case["name"]);
            }
        }
    }
}

#[test]
fn keys_that_say_nothing_change_nothing() {
    let tokens: Vec<u32> = (0..20).collect();
    let logprobs = |changes: &Value| {
        let folder = Checkpoint::tiny(changes).write();
        Driver::load(&request(folder.path())).logprobs_at(&tokens, &[19], &greedy_with_logprobs(ALL))
    };
    let plain = logprobs(&json!({}));
    for changes in [
        json!({"rope_parameters": null, "rope_scaling": null}),
        json!({"rope_theta": 10000}),
        json!({"rope_scaling": {"type": "linear", "factor": 1.0}}),
        json!({"rope_scaling": {"rope_type": "dynamic", "factor": 4}}),
        json!({"hidden_act": "silu", "attention_bias": false, "mlp_bias": null, "head_dim": null}),
    ] {
        assert_eq!(logprobs(&changes), plain, "{changes}");
    }
    assert_ne!(logprobs(&json!({"rope_theta": 500})), plain);
}
