//! Penalties against their definition.

use super::*;

/// Penalised logits, as the parameters' definitions say it.
fn penalised(logits: &[f32], params: &SamplingParams, prompt: &[TokenId], generated: &[TokenId]) -> Vec<f32> {
    let mut out = logits.to_vec();
    for (token, logit) in (0..).zip(&mut out) {
        let times = generated.iter().filter(|&&other| other == token).count() as f32;
        if times > 0.0 || prompt.contains(&token) {
            let factor = params.repetition_penalty;
            *logit = if *logit > 0.0 { *logit / factor } else { *logit * factor };
        }
        if times > 0.0 {
            *logit -= params.presence_penalty + params.frequency_penalty * times;
        }
    }
    out
}

fn penalties() -> [SamplingParams; 5] {
    let none = SamplingParams::greedy();
    [
        SamplingParams { repetition_penalty: 1.5, ..none.clone() },
        SamplingParams { repetition_penalty: 0.8, ..none.clone() },
        SamplingParams { presence_penalty: 1.5, ..none.clone() },
        SamplingParams { frequency_penalty: 0.375, ..none.clone() },
        SamplingParams { repetition_penalty: 1.25, presence_penalty: 0.5, frequency_penalty: -0.125, ..none },
    ]
}

/// Greedy tokens over the same logits each time, going on after `generated`.
fn penalised_stream(case: &Case, count: u32) -> Vec<TokenId> {
    let mut slots = slots(std::slice::from_ref(case));
    let logits = Array::from_slice(&case.logits, &[1, case.logits.len() as i32]).unwrap();
    let mut step = |position| {
        let rows = [SampleRow { slot: SlotId(0), position, mask: None }];
        tokens(sample(&logits, &rows, &mut slots).unwrap())[0].id
    };
    (0..count).map(&mut step).collect()
}

#[test]
fn c086u_penalties_count_prompt_and_output_once_and_survive_a_replay() {
    const COUNT: usize = 30;
    let logits = noise(40, 3);
    let prompt = vec![best(&logits), 1, 1, 1, 2];
    for params in penalties() {
        let mut wanted = Vec::new();
        for _ in 0..COUNT {
            wanted.push(best(&penalised(&logits, &params, &prompt, &wanted)));
        }
        for done in [0, 1, 13] {
            let generated = wanted[..done].to_vec();
            let history = Some(History { prompt: prompt.clone(), generated, mu: None });
            let case = Case { history, ..Case::new(&logits, params.clone()) };
            assert_eq!(penalised_stream(&case, (COUNT - done) as u32), wanted[done..], "{done}, {params:?}");
        }
    }
}

#[test]
fn c083_c085u_penalties_are_off_by_default() {
    let logits = noise(40, 3);
    let first = best(&logits);
    let plain = SamplingParams::greedy();
    assert!(!plain.has_penalties());
    let history = Some(History { prompt: vec![first; 9], generated: vec![first; 9], mu: None });
    let case = Case { history, ..Case::new(&logits, plain) };
    assert_eq!(penalised_stream(&case, 20), vec![first; 20]);
}
