//! What the engine computes against what `transformers` computes, by fixtures that scripts/fixtures wrote.

mod support;

use serde_json::{Value, json};
use support::checkpoint::Checkpoint;
use support::driver::{Driver, Feed};
use support::reference::{fixture, floats, numbers, worst_difference};
use support::{default_model, greedy_with_logprobs, request};
use troupe_protocol::{LoadRequest, WeightDtype};

/// Those of tiny models, in f32 on both sides.
const TINY_TOLERANCE: f32 = 2e-4;

/// More than the vocabulary of the tiny models: all are reported.
const ALL: u8 = 64;

#[test]
fn the_default_model_says_what_the_reference_says() {
    for weights in [WeightDtype::Auto, WeightDtype::F32] {
        let mut driver = Driver::load(&LoadRequest { weights, ..default_model() });
        let cases = fixture("default_model.json");
        let worst = cases.iter().map(|case| worst_difference(&mut driver, case)).fold(0.0, f32::max);
        println!("{weights:?}: largest difference {worst}");
    }
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
