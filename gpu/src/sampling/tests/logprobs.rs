//! Log-probabilities against the plain softmax.

use super::*;

#[test]
fn c065_c066_c068_logprobs_are_natural_per_row_and_distinct() {
    let asked = |n, seed| {
        let sampling = SamplingParams {
            logprobs: Some(n),
            // None of these changes what is reported.
            logit_bias: vec![(3, 50.0)],
            top_k: 2,
            seed,
            ..drawn(0.5)
        };
        // Half as many values as tokens: ties everywhere.
        let coarse = noise(300, seed as u32).iter().map(|l| (l * 20.0).round() / 20.0).collect::<Vec<_>>();
        Case::new(&coarse, sampling)
    };
    let cases: Vec<_> = [20, 3, 0, 20, 1].into_iter().zip(1..).map(|(n, seed)| asked(n, seed)).collect();
    for (case, token) in cases.iter().zip(sample_all(&cases)) {
        let total: f64 = case.logits.iter().map(|&l| f64::from(l).exp()).sum();
        let wanted = |id: TokenId| f64::from(case.logits[id as usize]) - total.ln();
        let logprobs = token.logprobs.unwrap();
        assert!((f64::from(logprobs.chosen) - wanted(token.id)).abs() < 1e-5);
        let count = usize::from(case.sampling.logprobs.unwrap());
        assert_eq!(logprobs.top.len(), count);
        for &(id, value) in &logprobs.top {
            assert!((f64::from(value) - wanted(id)).abs() < 1e-5, "{value} of token {id}");
        }
        assert!(logprobs.top.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        let mut distinct: Vec<_> = logprobs.top.iter().map(|&(id, _)| id).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), count);
        let mut sorted = case.logits.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let best: Vec<f32> = logprobs.top.iter().map(|&(id, _)| case.logits[id as usize]).collect();
        assert_eq!(best, sorted[..count]);
        assert!(logprobs.top.iter().map(|&(_, value)| f64::from(value).exp()).sum::<f64>() <= 1.0 + 1e-6);
    }
}

#[test]
fn more_alternatives_than_tokens_are_all_tokens() {
    let sampling = SamplingParams { logprobs: Some(20), top_k: 50, ..drawn(1.0) };
    let top = &sample_all(&[Case::new(&[0.5, 1.5, -1.0], sampling)])[0].logprobs.clone().unwrap().top;
    assert_eq!(top.iter().map(|&(id, _)| id).collect::<Vec<_>>(), [1, 0, 2]);
    assert!((top.iter().map(|&(_, value)| f64::from(value).exp()).sum::<f64>() - 1.0).abs() < 1e-6);
}
