//! How far the CPU's kernels are from the same weights as plain f32, on ordinary text.

mod support;

use std::path::Path;

use serde_json::Value;
use support::driver::Driver;
use support::{default_model, greedy_with_logprobs};
use troupe_protocol::{KvCacheDtype, LoadRequest, TokenId, WeightDtype};

/// The most likely tokens that are compared: they hold nearly all of the mass.
const TOP: u8 = 64;

/// The prompts of the fixture and the answers to them, in one piece each.
fn texts() -> Vec<Vec<TokenId>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/default_model.json");
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let ids = |case: &Value, key: &str| -> Vec<TokenId> {
        case[key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as TokenId).collect()
    };
    cases.iter().map(|case| [ids(case, "prompt"), ids(case, "greedy")].concat()).collect()
}

/// The log-probabilities of the most likely tokens after each position of `text`.
fn distributions(request: &LoadRequest, texts: &[Vec<TokenId>]) -> Vec<Vec<(TokenId, f32)>> {
    let mut driver = Driver::load(request);
    let of = |text: &Vec<TokenId>| {
        let places: Vec<usize> = (0..text.len()).collect();
        driver.logprobs_at(text, &places, &greedy_with_logprobs(TOP))
    };
    texts.iter().flat_map(of).collect()
}

/// The Kullback-Leibler divergence of `found` from `wanted`, in nats, with all tokens that are not reported by both
/// taken together as one. Never negative, and a lower bound of the divergence over the whole vocabulary.
fn divergence(found: &[(TokenId, f32)], wanted: &[(TokenId, f32)]) -> f64 {
    let both = wanted.iter().filter_map(|&(id, p)| {
        found.iter().find(|other| other.0 == id).map(|&(_, q)| (f64::from(p).exp(), f64::from(q).exp()))
    });
    let both: Vec<(f64, f64)> = both.collect();
    // Log-probabilities are rounded to f32, so what is left of a sure distribution may come out at or below zero.
    let rest = |sum: f64| (1.0 - sum).max(1e-7);
    let rest = (rest(both.iter().map(|(p, _)| p).sum()), rest(both.iter().map(|(_, q)| q).sum()));
    both.into_iter().chain([rest]).map(|(p, q)| p * (p / q).ln()).sum()
}

/// As served, which keeps keys and values as f16, and with the smallest type, against f32 throughout.
#[test]
fn the_kernels_hardly_change_the_distribution() {
    let texts = texts();
    let exact = distributions(&LoadRequest { weights: WeightDtype::F32, ..default_model() }, &texts);
    let int8 = LoadRequest { kv_cache_dtype: KvCacheDtype::Int8, ..default_model() };
    for (what, request, least_agreed) in [("as served", default_model(), 0.99), ("with int8 KV", int8, 0.98)]
    {
        let found = distributions(&request, &texts);
        let count = exact.len() as f64;
        let pairs = || found.iter().zip(&exact);
        let mean = pairs().map(|(found, exact)| divergence(found, exact)).sum::<f64>() / count;
        let agreed = pairs().filter(|(found, exact)| found[0].0 == exact[0].0).count() as f64 / count;
        println!(
            "{what}, {count} positions: mean divergence {mean:.2e} nats, the same first token {agreed:.4}"
        );
        assert!(mean < 1e-3, "{what}: {mean}");
        assert!(agreed >= least_agreed, "{what}: {agreed}");
    }
}
