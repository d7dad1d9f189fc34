//! Our kernel beside MLX's own operations.

use mlx_sys::Array;

use super::super::{choose, graph, logprobs, with_slots};
use super::{Case, SampleRow, SamplingParams, SlotId, mixed, noise, slots, some_of};

/// Logits of one seed for each case, and what both roads choose.
fn both(cases: &[Case]) -> [Vec<u32>; 2] {
    let rows: Vec<_> = (0..)
        .zip(cases)
        .map(|(slot, case)| SampleRow {
            slot: SlotId(slot),
            position: case.position,
            mask: case.mask.as_ref(),
        })
        .collect();
    let data: Vec<f32> = cases.iter().flat_map(|case| case.logits.clone()).collect();
    let logits = Array::from_slice(&data, &[cases.len() as i32, cases[0].logits.len() as i32]).unwrap();
    assert!(logits.has_sampling_kernel());
    let slots = slots(cases);
    let rows = with_slots(&rows, &slots).unwrap();
    let roads = [choose::choose(&logits, &rows).unwrap(), graph::choose(&logits, &rows).unwrap()];
    roads.map(|tokens| tokens.to_vec().unwrap())
}

/// The kinds of [`mixed`] and the far ends of every parameter.
fn kinds() -> Vec<Case> {
    let base = mixed();
    let plain = base[1].clone();
    let with = |sampling| Case { sampling, ..plain.clone() };
    let drawn = &plain.sampling;
    let mut cases = vec![
        with(SamplingParams { top_k: 10_000, ..drawn.clone() }),
        with(SamplingParams { top_k: 1, temperature: 100.0, ..drawn.clone() }),
        with(SamplingParams { top_p: 1e-6, ..drawn.clone() }),
        with(SamplingParams { top_p: 0.0, ..drawn.clone() }),
        with(SamplingParams { top_p: 0.999_999_9, ..drawn.clone() }),
        with(SamplingParams { min_p: 1.0, ..drawn.clone() }),
        with(SamplingParams { temperature: 0.01, ..drawn.clone() }),
        with(SamplingParams { temperature: 1e4, top_k: 9, top_p: 0.7, ..drawn.clone() }),
        with(SamplingParams { top_k: 9, top_p: 0.7, min_p: 0.3, ..drawn.clone() }),
    ];
    cases.extend(base);
    cases
}

#[test]
fn the_kernel_chooses_as_the_graph_does() {
    for (width, rounds) in [(8, 20), (15, 20), (300, 20), (1100, 6), (20_000, 1)] {
        for round in 0..rounds {
            let cases: Vec<_> = (0..)
                .zip(kinds())
                .map(|(at, case)| {
                    let mut logits = noise(width, 1000 * round + at);
                    match round % 3 {
                        // Ties, and tokens that are banned.
                        1 => logits.iter_mut().for_each(|logit| *logit = (*logit * 2.0).round() / 2.0),
                        2 => logits.iter_mut().step_by(3).for_each(|logit| *logit = f32::NEG_INFINITY),
                        _ => {}
                    }
                    let mask = case.mask.map(|_| some_of(width as u32, at));
                    Case { logits, position: round, mask, ..case }
                })
                .collect();
            let [kernel, graph] = both(&cases);
            for (at, case) in cases.iter().enumerate() {
                assert_eq!(kernel[at], graph[at], "{width} tokens, round {round}: {:?}", case.sampling);
            }
        }
    }
}

#[test]
fn the_kernel_reads_the_logprobs_that_the_graph_does() {
    const ROWS: i32 = 5;
    for width in [1, 15, 1100, 49152] {
        let logits = Array::from_vec(noise((ROWS * width) as usize, 8), &[ROWS, width]).unwrap();
        let tokens = Array::from_slice(&[0_u32; ROWS as usize], &[ROWS]).unwrap();
        for count in [0, 1, 20] {
            let kernel = logits.token_logprobs(&tokens, &[3, 1], count).unwrap();
            let graph = logprobs::by_graph(&logits, &tokens, &[3, 1], count).unwrap();
            let close = |a: &Array, b: &Array| {
                assert_eq!(a.shape(), b.shape());
                let pairs = a.to_vec::<f32>().unwrap().into_iter().zip(b.to_vec::<f32>().unwrap());
                pairs.for_each(|(a, b)| assert!((a - b).abs() < 2e-5, "{a} and {b}"));
            };
            close(&kernel.chosen, &graph.chosen);
            if count > 0 {
                let order = graph.values.negative().unwrap().argsort(-1).unwrap();
                close(&kernel.values, &graph.values.take_along_axis(&order, -1).unwrap());
                let ids = graph.ids.take_along_axis(&order, -1).unwrap();
                assert_eq!(kernel.ids.to_vec::<u32>().unwrap(), ids.to_vec::<u32>().unwrap());
            }
        }
    }
}
