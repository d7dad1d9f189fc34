//! The nodes that choose tokens and read log-probabilities.

use std::num::{NonZeroU32, NonZeroUsize};

use mlx_sys::{Array, Choice, Drawing, Dtype, Penalty, RowChoice, set_cpu_threads};

const PLAIN: Drawing = Drawing { temperature: 1.0, top_k: None, top_p: 1.0, min_p: 0.0, uniform: 0.5 };

/// Numbers in [0, 1).
fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    (0..count).map(|_| next()).collect()
}

fn array(data: &[f32], shape: [usize; 2]) -> Array {
    Array::from_slice(data, &shape.map(|n| n as i32)).unwrap()
}

fn row(choice: Choice) -> RowChoice<'static> {
    RowChoice { choice, penalty: None, biases: &[], mask: None }
}

fn draw(how: Drawing) -> RowChoice<'static> {
    row(Choice::Draw(how))
}

fn tokens(logits: &Array, rows: &[RowChoice<'_>]) -> Vec<u32> {
    logits.choose_tokens(rows).unwrap().to_vec().unwrap()
}

/// Rows of every kind, over and over.
fn kinds(count: usize) -> Vec<RowChoice<'static>> {
    let uniforms = noise(count, 11);
    let kind = |(at, &uniform): (usize, &f32)| {
        let plain = Drawing { uniform, ..PLAIN };
        match at % 7 {
            0 => row(Choice::Greedy),
            1 => draw(plain),
            2 => draw(Drawing { temperature: 0.6, top_k: NonZeroU32::new(40), ..plain }),
            3 => draw(Drawing { top_p: 0.9, ..plain }),
            4 => draw(Drawing { min_p: 0.05, temperature: 1.3, ..plain }),
            5 => draw(Drawing { top_k: NonZeroU32::new(900), top_p: 0.95, ..plain }),
            _ => draw(Drawing { top_p: 0.999, min_p: 1e-5, ..plain }),
        }
    };
    uniforms.iter().enumerate().map(kind).collect()
}

#[test]
fn a_row_depends_on_itself_alone_whatever_the_threads() {
    const ROWS: usize = 21;
    for vocabulary in [1, 15, 1000, 49152] {
        let data: Vec<f32> = noise(ROWS * vocabulary, 3).iter().map(|x| 12.0 * x * x).collect();
        let logits = array(&data, [ROWS, vocabulary]);
        let rows = kinds(ROWS);
        let alone: Vec<u32> = data
            .chunks(vocabulary)
            .zip(&rows)
            .map(|(own, how)| tokens(&array(own, [1, vocabulary]), std::slice::from_ref(how))[0])
            .collect();
        for threads in [1, 2, 4] {
            set_cpu_threads(NonZeroUsize::new(threads).unwrap()).unwrap();
            assert_eq!(tokens(&logits, &rows), alone, "{vocabulary} tokens, {threads} threads");
        }
        // A view with other strides has the same rows.
        let turned = logits.transpose(&[1, 0]).unwrap().contiguous().unwrap().transpose(&[1, 0]).unwrap();
        assert_eq!(tokens(&turned, &rows), alone);
    }
}

#[test]
fn draws_follow_the_distribution() {
    const DRAWS: usize = 20_000;
    let logits = [1.3, -0.2, 2.1, 0.4, 0.9, -1.1, 1.7, 0.0, f32::NEG_INFINITY, 1.1, f32::NAN];
    let tiled = array(&logits.repeat(DRAWS), [DRAWS, logits.len()]);
    let top = |k| NonZeroU32::new(k);
    // What is kept: by hand, from the logits above.
    for (how, kept) in [
        (PLAIN, [0, 1, 2, 3, 4, 5, 6, 7, 9].as_slice()),
        (Drawing { temperature: 2.0, ..PLAIN }, &[0, 1, 2, 3, 4, 5, 6, 7, 9]),
        (Drawing { top_k: top(3), ..PLAIN }, &[0, 2, 6]),
        (Drawing { top_p: 0.5, ..PLAIN }, &[2, 6]),
        (Drawing { top_k: top(4), top_p: 0.9, ..PLAIN }, &[0, 2, 6, 9]),
        (Drawing { min_p: 0.3, ..PLAIN }, &[0, 2, 4, 6, 9]),
    ] {
        let rows: Vec<_> = noise(DRAWS, 5).iter().map(|&uniform| draw(Drawing { uniform, ..how })).collect();
        let mut counts = [0.0_f64; 11];
        tokens(&tiled, &rows).iter().for_each(|&token| counts[token as usize] += 1.0);
        let weight = |token: usize| f64::from(logits[token] / how.temperature).exp();
        let total: f64 = kept.iter().map(|&token| weight(token)).sum();
        let mut chi_square = 0.0;
        for &token in kept {
            let expected = weight(token) / total * DRAWS as f64;
            chi_square += (counts[token] - expected).powi(2) / expected;
            counts[token] = 0.0;
        }
        assert_eq!(counts, [0.0; 11], "a dropped token was drawn: {how:?}");
        // Mean and variance of the distribution are its freedom and twice that: three deviations above.
        let freedom = kept.len() as f64 - 1.0;
        let bound = freedom + 3.0 * f64::sqrt(2.0 * freedom);
        assert!(chi_square <= bound, "chi-square {chi_square} of {freedom}: {how:?}");
    }
}

#[test]
fn biases_and_penalties_come_first() {
    let logits = array(&[1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0], [3, 4]);
    let counts = |data: [f32; 4]| Array::from_slice(&data, &[4]).unwrap();
    let (prompt, generated) = (counts([0.0, 0.0, 0.0, 1.0]), counts([0.0, 0.0, 2.0, 0.0]));
    let penalty =
        Penalty { prompt: &prompt, generated: &generated, repetition: 4.0, presence: 0.5, frequency: 0.5 };
    let greedy = row(Choice::Greedy);
    let penalised = RowChoice { penalty: Some(penalty), ..greedy };
    // 1, 2, 3/4 - 0.5 - 1, 4/4
    assert_eq!(tokens(&logits, &[greedy, penalised, greedy]), [3, 1, 3]);
    let biased = RowChoice { biases: &[(0, 0.6), (0, 0.6), (1, -1.0)], ..penalised };
    let banned = RowChoice { biases: &[(3, f32::NEG_INFINITY)], ..greedy };
    assert_eq!(tokens(&logits, &[biased, penalised, banned]), [0, 1, 2]);
}

#[test]
fn logprobs_are_ordered_and_exact() {
    const ROWS: usize = 5;
    for vocabulary in [1, 15, 1025, 49152] {
        // Few values: ties everywhere.
        let data: Vec<f32> = noise(ROWS * vocabulary, 7).iter().map(|x| (x * 60.0).round() / 5.0).collect();
        let logits = array(&data, [ROWS, vocabulary]);
        let chosen: Vec<u32> = (0..ROWS).map(|at| (at * 37 % vocabulary) as u32).collect();
        let which = [4, 0, 3];
        let ids = Array::from_slice(&chosen, &[ROWS as i32]).unwrap();
        let found = logits.token_logprobs(&ids, &which, 20).unwrap();
        let count = vocabulary.min(20);
        assert_eq!(found.ids.shape(), [3, count as i32]);
        let (best, values) = (found.ids.to_vec::<u32>().unwrap(), found.values.to_vec::<f32>().unwrap());
        for (at, (&row, own)) in which.iter().zip(found.chosen.to_vec::<f32>().unwrap()).enumerate() {
            let logits = &data[row as usize * vocabulary..][..vocabulary];
            let total: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
            let close = |found: f32, id: u32| {
                let wanted = f64::from(logits[id as usize]) - total.ln();
                assert!((f64::from(found) - wanted).abs() < 3e-6, "{found} is not {wanted}");
            };
            close(own, chosen[row as usize]);
            let mut order: Vec<u32> = (0..vocabulary as u32).collect();
            order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
            assert_eq!(best[at * count..][..count], order[..count]);
            values[at * count..][..count].iter().zip(&order).for_each(|(&value, &id)| close(value, id));
        }
    }
}

#[test]
fn logprobs_of_rows_that_are_not_finite_are_defined() {
    let (infinity, nan) = (f32::INFINITY, f32::NAN);
    let rows = [[1.0, nan, -infinity], [nan, nan, nan], [infinity, 2.0, infinity], [nan, 0.0, nan]];
    let logits = array(rows.as_flattened(), [4, 3]);
    let chosen = Array::from_slice(&[1_u32, 0, 1, 1], &[4]).unwrap();
    let found = logits.token_logprobs(&chosen, &[0, 1, 2, 3], 3).unwrap();
    let ids = found.ids.to_vec::<u32>().unwrap();
    assert_eq!(ids, [0, 1, 2, 0, 1, 2, 0, 2, 1, 1, 0, 2]);
    let chosen = found.chosen.to_vec::<f32>().unwrap();
    assert_eq!((chosen[0], chosen[2], chosen[3]), (-infinity, -infinity, 0.0));
    assert!(chosen[1].is_nan());
    assert_eq!(found.values.to_vec::<f32>().unwrap()[..3], [0.0, -infinity, -infinity]);
}

#[test]
fn no_rows_give_no_tokens() {
    let none = Array::zeros(&[0, 100], Dtype::F32).unwrap();
    assert_eq!(tokens(&none, &[]), []);
    let two = array(&[1.0; 8], [2, 4]);
    let found = two.token_logprobs(&Array::from_slice(&[0_u32, 1], &[2]).unwrap(), &[], 3).unwrap();
    assert_eq!((found.chosen.to_vec::<f32>().unwrap(), found.ids.shape()), (vec![], [0, 3].as_slice()));
}

#[test]
fn bad_input_is_refused_by_name() {
    let logits = array(&[1.0; 8], [2, 4]);
    let refused = |rows: &[RowChoice<'_>]| logits.choose_tokens(rows).unwrap_err().to_string();
    let greedy = row(Choice::Greedy);
    assert_eq!(refused(&[greedy]), "[choose_tokens] 1 drawings of 2 rows");
    let biased = RowChoice { biases: &[(4, 1.0)], ..greedy };
    assert_eq!(refused(&[greedy, biased]), "[choose_tokens] a bias of token 4");
    let short = Array::zeros(&[3], Dtype::F32).unwrap();
    let penalty =
        Penalty { prompt: &short, generated: &short, repetition: 1.0, presence: 0.0, frequency: 0.0 };
    let penalised = RowChoice { penalty: Some(penalty), ..greedy };
    assert_eq!(refused(&[greedy, penalised]), "[choose_tokens] counts are f32, one a token");
    for (how, wanted) in [
        (Drawing { temperature: 0.0, ..PLAIN }, "temperature 0"),
        (Drawing { temperature: f32::INFINITY, ..PLAIN }, "temperature inf"),
        (Drawing { top_p: 1.5, ..PLAIN }, "top_p 1.5"),
        (Drawing { min_p: f32::NAN, ..PLAIN }, "min_p NaN"),
        (Drawing { uniform: 1.0, ..PLAIN }, "uniform 1"),
    ] {
        assert_eq!(refused(&[greedy, draw(how)]), format!("[choose_tokens] {wanted} is out of range"));
    }
    let half = logits.astype(Dtype::F16).unwrap();
    assert!(!half.has_sampling_kernel() && logits.has_sampling_kernel());
    assert!(
        half.choose_tokens(&[greedy, greedy]).unwrap_err().to_string().contains("no kernel takes logits")
    );
    let beyond = Array::from_slice(&[0_u32, 4], &[2]).unwrap();
    let late = logits.token_logprobs(&beyond, &[1], 1).unwrap().chosen.wait().unwrap_err();
    assert_eq!(late.to_string(), "[token_logprobs] token 4 of 4");
    assert!(logits.token_logprobs(&beyond, &[2], 1).is_err());
    assert!(logits.token_logprobs(&short, &[0], 1).is_err());
}
