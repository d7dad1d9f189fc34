//! How far the CPU's kernels are from the same weights as plain f32, over 2,000 positions of ordinary text: prose,
//! dialogue, code, letters, and chats of the default model.

mod support;

use support::driver::{Driver, Feed};
use support::reference::{fixture, numbers};
use support::{default_model, greedy_with_logprobs};
use troupe_protocol::{KvCacheDtype, LoadRequest, TokenId, WeightDtype};

/// The most likely tokens that are compared: they hold nearly all of the mass.
const TOP: u8 = 64;

/// The longest text, so that all of them advance together to the end.
const MAX_LEN: usize = 210;

type Distribution = Vec<(TokenId, f32)>;

/// The pieces of ordinary text, and the prompts of the other fixture with the answers to them.
fn texts() -> Vec<Vec<TokenId>> {
    let pieces = fixture("ordinary_text.json");
    let cases = fixture("default_model.json");
    let cases = cases.iter().map(|case| [numbers(&case["prompt"]), numbers(&case["greedy"])].concat());
    let mut texts: Vec<Vec<TokenId>> = pieces.iter().map(numbers).chain(cases).collect();
    texts.iter_mut().for_each(|text| text.truncate(MAX_LEN));
    texts
}

/// The log-probabilities of the most likely tokens after each position of the texts, which are rows of the same steps.
fn distributions(request: &LoadRequest, texts: &[Vec<TokenId>]) -> Vec<Distribution> {
    let mut driver = Driver::load(request);
    let sampling = greedy_with_logprobs(TOP);
    let start = |text: &Vec<TokenId>| driver.sequence(text, sampling.clone(), text.len() as u32);
    let mut sequences: Vec<_> = texts.iter().map(start).collect();
    for position in 0..MAX_LEN {
        let running = sequences.iter_mut().zip(texts).filter(|(_, text)| position < text.len());
        let mut rows: Vec<_> = running.map(|(sequence, _)| (sequence, Feed::Probe(1))).collect();
        driver.step(&mut rows);
    }
    let sampled = sequences.into_iter().flat_map(|sequence| sequence.sampled);
    sampled.map(|token| token.logprobs.unwrap().top).collect()
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
    assert!(exact.len() >= 2000, "{}", exact.len());
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
