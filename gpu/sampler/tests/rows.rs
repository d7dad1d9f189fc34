//! What comes of single rows: log-probabilities, logits that are no numbers, and the room that rows share.

use troupe_protocol::random::uniform;
use troupe_protocol::sampling::{DynamicTemperature, Mirostat, Xtc};
use troupe_protocol::{SampledToken, SamplingParams, TokenId};
use troupe_sampler::{Sampler, Scratch};

const LOGITS: [f32; 12] = [1.3, -0.2, 2.1, 0.4, 0.9, -1.1, 1.7, 0.0, -3.0, 1.1, 2.1, -0.7];

fn drawn(temperature: f32) -> SamplingParams {
    SamplingParams { temperature, seed: 5, ..SamplingParams::greedy() }
}

#[test]
fn what_earlier_rows_left_in_the_scratch_changes_nothing() {
    let params = [
        SamplingParams { logprobs: Some(3), ..SamplingParams::greedy() },
        SamplingParams { logprobs: Some(5), ..drawn(0.7) },
        SamplingParams { top_n_sigma: 2.0, top_k: 50, min_p: 0.01, ..drawn(1.0) },
        SamplingParams { typical_p: 0.8, top_p: 0.9, ..drawn(1.2) },
        SamplingParams { xtc: Some(Xtc { probability: 0.5, threshold: 0.01 }), ..drawn(1.0) },
        SamplingParams {
            dynamic_temperature: Some(DynamicTemperature { range: 0.5, exponent: 1.0 }),
            ..drawn(1.0)
        },
        SamplingParams { mirostat: Some(Mirostat::DEFAULT), ..drawn(1.0) },
    ];
    let mut shared = Scratch::default();
    for position in 0..200 {
        // Vocabularies of all sizes, the large before the small and the other way round.
        let size = 1 + position * 7919 % 3000;
        let logits: Vec<f32> = (0..size).map(|at| 8.0 * uniform(u64::from(position), at)).collect();
        for params in &params {
            let choose = |scratch: &mut Scratch| -> SampledToken {
                Sampler::new(params.clone(), None, logits.len())
                    .unwrap()
                    .sample(&logits, position, None, scratch)
            };
            assert_eq!(choose(&mut shared), choose(&mut Scratch::default()), "{size} logits, {params:?}");
        }
    }
}

#[test]
fn logprobs_are_of_the_models_own_distribution() {
    let params =
        SamplingParams { top_n_sigma: 0.5, logit_bias: vec![(5, 100.0)], logprobs: Some(4), ..drawn(0.3) };
    let mut sampler = Sampler::new(params, None, LOGITS.len()).unwrap();
    let token = sampler.sample(&LOGITS, 0, None, &mut Scratch::default());
    let total: f64 = LOGITS.iter().map(|logit| f64::from(*logit).exp()).sum();
    let of = |id: TokenId| f64::from(LOGITS[id as usize]) - total.ln();
    let logprobs = token.logprobs.unwrap();
    assert_eq!(token.id, 5);
    assert!((f64::from(logprobs.chosen) - of(5)).abs() < 1e-6);
    assert_eq!(logprobs.top.iter().map(|&(id, _)| id).collect::<Vec<_>>(), [2, 10, 6, 0]);
    assert!(logprobs.top.iter().all(|&(id, value)| (f64::from(value) - of(id)).abs() < 1e-6));
}

#[test]
fn rows_that_are_not_finite_are_defined() {
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    for params in [
        SamplingParams { typical_p: 0.5, ..drawn(1.0) },
        SamplingParams { mirostat: Some(Mirostat::DEFAULT), ..drawn(1.0) },
        SamplingParams { top_n_sigma: 1.0, logprobs: Some(2), ..SamplingParams::greedy() },
    ] {
        for (logits, wanted) in [
            ([nan, nan, nan], 0),
            ([-infinity, -infinity, nan], 0),
            ([nan, -infinity, 1.0], 2),
            ([3.0, infinity, infinity], 1),
        ] {
            let mut sampler = Sampler::new(params.clone(), None, logits.len()).unwrap();
            let found = sampler.sample(&logits, 0, None, &mut Scratch::default()).id;
            assert_eq!(found, wanted, "{logits:?}, {params:?}");
        }
    }
}
