//! Sampling against plain oracles on the host.

mod logprobs;
mod oracle;
mod penalties;

use mlx_sys::Array;
use troupe_protocol::random::uniform;
use troupe_protocol::sampling::Ban;
use troupe_protocol::{Binding, History, SampledToken, SamplingParams, SlotId, TokenId, TokenMask};

use troupe_sampler::Scratch;

use super::{SampleRow, Sampled, sample};
use crate::slots::Slots;

/// One sequence's logits, parameters and history, at a position.
#[derive(Clone)]
struct Case {
    logits: Vec<f32>,
    sampling: SamplingParams,
    history: Option<History>,
    position: u32,
    mask: Option<TokenMask>,
}

impl Case {
    fn new(logits: &[f32], sampling: SamplingParams) -> Self {
        Self { logits: logits.to_vec(), sampling, history: None, position: 0, mask: None }
    }
}

fn slots(cases: &[Case]) -> Slots {
    let mut slots = Slots::new(cases.len(), cases[0].logits.len()).unwrap();
    for (slot, case) in (0..).zip(cases) {
        let (sampling, history) = (case.sampling.clone(), case.history.clone());
        slots.bind(&Binding { slot: SlotId(slot), sampling, history, max_len: 1000 }).unwrap();
    }
    slots
}

/// One step of all cases together.
fn sample_all(cases: &[Case]) -> Vec<SampledToken> {
    let rows: Vec<_> = (0..)
        .zip(cases)
        .map(|(slot, case)| SampleRow {
            slot: SlotId(slot),
            position: case.position,
            mask: case.mask.as_ref(),
        })
        .collect();
    let logits = cases.iter().flat_map(|case| case.logits.clone()).collect();
    let shape = [cases.len() as i32, cases[0].logits.len() as i32];
    let logits = Array::from_vec(logits, &shape).unwrap();
    tokens(sample(&logits, &rows, &mut slots(cases)).unwrap())
}

fn tokens(sampled: Sampled) -> Vec<SampledToken> {
    sampled.read(&mut Scratch::default()).unwrap().into_iter().map(|chosen| chosen.token).collect()
}

fn ids(tokens: &[SampledToken]) -> Vec<TokenId> {
    tokens.iter().map(|token| token.id).collect()
}

/// Numbers in [-4, 4), none twice.
fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 21) as f32 - 4.0
    };
    (0..count).map(|_| next()).collect()
}

fn best(logits: &[f32]) -> TokenId {
    let more = |a: &usize, b: &usize| logits[*a].total_cmp(&logits[*b]).then(b.cmp(a));
    (0..logits.len()).max_by(more).unwrap() as TokenId
}

fn drawn(temperature: f32) -> SamplingParams {
    SamplingParams { temperature, seed: 5, ..SamplingParams::greedy() }
}

/// Exact probabilities after `top_k`, `top_p`, `min_p` and temperature.
fn exact(logits: &[f32], params: &SamplingParams) -> Vec<f64> {
    let mut by_rank: Vec<(usize, f64)> = logits.iter().map(|&l| f64::from(l).exp()).enumerate().collect();
    by_rank.sort_by(|a, b| b.1.total_cmp(&a.1));
    if params.top_k > 0 {
        by_rank.truncate(params.top_k as usize);
    }
    let total: f64 = by_rank.iter().map(|(_, mass)| mass).sum();
    let mut before = 0.0;
    by_rank.retain(|(_, mass)| {
        let kept = before < f64::from(params.top_p) * total;
        before += mass;
        kept
    });
    let most = by_rank[0].1;
    by_rank.retain(|(_, mass)| *mass >= f64::from(params.min_p) * most);
    by_rank.iter_mut().for_each(|(_, mass)| *mass = mass.powf(1.0 / f64::from(params.temperature)));
    let total: f64 = by_rank.iter().map(|(_, mass)| mass).sum();
    let mut out = vec![0.0; logits.len()];
    by_rank.into_iter().for_each(|(token, mass)| out[token] = mass / total);
    out
}

#[test]
fn draws_follow_the_exact_distribution() {
    const DRAWS: u32 = 6000;
    let logits = [1.3, -0.2, 2.1, 0.4, 0.9, -1.1, 1.7, 0.0, -3.0, 1.1];
    for params in [
        drawn(1.0),
        drawn(0.5),
        drawn(2.0),
        SamplingParams { top_k: 4, ..drawn(1.0) },
        SamplingParams { top_p: 0.6, ..drawn(1.0) },
        SamplingParams { min_p: 0.3, ..drawn(1.0) },
        SamplingParams { top_k: 6, top_p: 0.8, ..drawn(0.7) },
        SamplingParams { top_k: 7, top_p: 0.95, min_p: 0.2, ..drawn(1.4) },
    ] {
        let cases = [Case::new(&logits, params.clone())];
        let rows: Vec<_> =
            (0..DRAWS).map(|position| SampleRow { slot: SlotId(0), position, mask: None }).collect();
        let tiled = Array::from_vec(logits.repeat(DRAWS as usize), &[DRAWS as i32, 10]).unwrap();
        let tokens = tokens(sample(&tiled, &rows, &mut slots(&cases)).unwrap());
        let mut counts = [0.0; 10];
        tokens.iter().for_each(|token| counts[token.id as usize] += 1.0);
        let wanted = exact(&logits, &params);
        let (mut chi_square, mut freedom) = (0.0, -1.0);
        for (count, probability) in counts.iter().zip(&wanted) {
            if *probability == 0.0 {
                assert_eq!(*count, 0.0, "a dropped token was drawn: {params:?}");
                continue;
            }
            let expected = probability * f64::from(DRAWS);
            chi_square += (count - expected) * (count - expected) / expected;
            freedom += 1.0;
        }
        // Mean and variance of the distribution are its freedom and twice that: three deviations above.
        let bound = freedom + 3.0 * f64::sqrt(2.0 * freedom);
        assert!(chi_square <= bound, "chi-square {chi_square} of {freedom}: {params:?}");
    }
}

#[test]
fn the_least_and_the_largest_draw_fall_on_kept_tokens() {
    const LEAST: u32 = 103_248_489;
    const LARGEST: u32 = 130_727_906;
    assert_eq!((uniform(5, LEAST), uniform(5, LARGEST)), (0.0, 1.0 - f32::EPSILON / 2.0));
    for seed in 0..20 {
        let mut logits = noise(300, seed);
        // Neither the first token nor the last is kept.
        (logits[0], logits[299]) = (-9.0, -9.0);
        for params in [
            SamplingParams { top_k: 7, ..drawn(1.0) },
            SamplingParams { top_p: 0.5, ..drawn(1.0) },
            SamplingParams { min_p: 0.3, ..drawn(0.9) },
        ] {
            let kept = exact(&logits, &params).into_iter().map(|probability| probability > 0.0);
            let kept: Vec<TokenId> = (0..).zip(kept).filter(|(_, kept)| *kept).map(|(id, _)| id).collect();
            let at = |position| Case { position, ..Case::new(&logits, params.clone()) };
            let found = ids(&sample_all(&[at(LEAST), at(LARGEST)]));
            assert_eq!(found, [kept[0], kept[kept.len() - 1]], "{params:?}");
        }
    }
}

#[test]
fn c080_tiny_temperature_or_top_p_takes_the_most_likely() {
    let table: Vec<Vec<f32>> = (0..8).map(|seed| noise(500, seed)).collect();
    for params in [
        drawn(1e-4),
        drawn(0.0),
        SamplingParams { top_p: 1e-4, ..drawn(1.0) },
        SamplingParams { top_p: 0.0, ..drawn(1.0) },
        SamplingParams { top_k: 1, ..drawn(2.0) },
        SamplingParams { min_p: 1.0, ..drawn(1.0) },
        SamplingParams { top_p: 1e-30, ..drawn(2.0) },
    ] {
        // Logits as large as they come must not overflow either.
        for scale in [1.0, 1e4] {
            let scaled = |logits: &Vec<f32>| logits.iter().map(|l| l * scale).collect::<Vec<_>>();
            let cases: Vec<_> = table.iter().map(|l| Case::new(&scaled(l), params.clone())).collect();
            let wanted: Vec<_> = table.iter().map(|logits| best(logits)).collect();
            assert_eq!(ids(&sample_all(&cases)), wanted, "{params:?}");
        }
    }
}

/// About a third of the tokens, and the last.
fn some_of(count: u32, seed: u32) -> TokenMask {
    let mut mask = TokenMask::none(count);
    let is_in = |token: &u32| (token ^ seed).wrapping_mul(2_654_435_761) >> 16 < 1 << 14;
    (0..count).filter(is_in).chain([count - 1]).for_each(|token| mask.allow(token));
    mask
}

/// Rows of every kind side by side.
fn mixed() -> Vec<Case> {
    let history = History { prompt: vec![1, 2, 3], generated: vec![4, 4], mu: None };
    let penalties = SamplingParams { presence_penalty: 1.0, repetition_penalty: 1.2, ..drawn(1.0) };
    let kinds = [
        SamplingParams::greedy(),
        drawn(1.0),
        SamplingParams { top_k: 5, ..drawn(0.7) },
        SamplingParams { top_p: 0.5, logprobs: Some(3), ..drawn(1.0) },
        penalties,
        SamplingParams { min_p: 0.1, logit_bias: vec![(7, 5.0)], ..drawn(1.0) },
        SamplingParams { logprobs: Some(0), ..SamplingParams::greedy() },
        SamplingParams { logprobs: Some(20), ..drawn(1.5) },
    ];
    let case = |(seed, sampling): (u32, SamplingParams)| Case {
        logits: noise(300, seed),
        history: sampling.has_penalties().then(|| history.clone()),
        sampling: SamplingParams { seed: u64::from(seed), ..sampling },
        position: 10 + seed,
        mask: (seed % 3 == 0).then(|| some_of(300, seed)),
    };
    (0..).zip(kinds).map(case).collect()
}

#[test]
fn c073_a_row_depends_on_nothing_but_itself() {
    let cases = mixed();
    let together = sample_all(&cases);
    for (at, case) in cases.iter().enumerate() {
        assert_eq!(sample_all(std::slice::from_ref(case))[0], together[at], "row {at}");
    }
    let backwards: Vec<_> = cases.iter().rev().cloned().collect();
    let mut turned = sample_all(&backwards);
    turned.reverse();
    assert_eq!(turned, together);
}

#[test]
fn c076_a_seed_says_the_same_whatever_was_sampled_before() {
    let case = |seed, position| {
        let sampling = SamplingParams { seed, ..drawn(1.5) };
        Case { position, ..Case::new(&noise(300, 1), sampling) }
    };
    let stream = |seed: u64| ids(&sample_all(&(0..40).map(|at| case(seed, at)).collect::<Vec<_>>()));
    let first = stream(1);
    assert_ne!(first, stream(2));
    sample_all(&mixed());
    assert_eq!(stream(1), first);
    // Neither is one draw repeated at every position.
    assert!(first.iter().any(|id| *id != first[0]));
}

#[test]
fn a_bias_forces_or_bans() {
    let logits = noise(300, 9);
    let first = best(&logits);
    for base in [SamplingParams::greedy(), drawn(1.0)] {
        let with = |logit_bias| SamplingParams { logit_bias, ..base.clone() };
        let at = |position, sampling| Case { position, ..Case::new(&logits, sampling) };
        let forced: Vec<_> = (0..50).map(|position| at(position, with(vec![(123, 100.0)]))).collect();
        assert!(ids(&sample_all(&forced)).iter().all(|&id| id == 123));
        let banned: Vec<_> = (0..50).map(|position| at(position, with(vec![(first, -100.0)]))).collect();
        assert!(ids(&sample_all(&banned)).iter().all(|&id| id != first));
        // Biases of one token add up; biases of several each count.
        let mixed = with(vec![(5, 60.0), (6, 100.0), (5, 60.0)]);
        assert_eq!(ids(&sample_all(&[at(0, mixed)])), [5]);
    }
}

#[test]
fn a_mask_leaves_nothing_else_and_changes_no_logprob() {
    for vocabulary in [10, 32, 300] {
        let logits = noise(vocabulary as usize, 9);
        let mask = some_of(vocabulary, 1);
        let only: Vec<f32> = (0..)
            .zip(&logits)
            .map(|(token, &logit)| if mask.allows(token) { logit } else { f32::NEG_INFINITY })
            .collect();
        let total: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
        for base in
            [SamplingParams::greedy(), drawn(1.0), SamplingParams { top_k: 40, top_p: 0.9, ..drawn(2.0) }]
        {
            let sampling = SamplingParams { logprobs: Some(1), ..base };
            let at = |logits: &[f32], position| Case { position, ..Case::new(logits, sampling.clone()) };
            let masked: Vec<_> =
                (0..40).map(|position| Case { mask: Some(mask.clone()), ..at(&logits, position) }).collect();
            let alone: Vec<_> = (0..40).map(|position| at(&only, position)).collect();
            let found = sample_all(&masked);
            assert_eq!(ids(&found), ids(&sample_all(&alone)), "{sampling:?}");
            for token in found {
                assert!(mask.allows(token.id));
                let wanted = f64::from(logits[token.id as usize]) - total.ln();
                assert!((f64::from(token.logprobs.unwrap().chosen) - wanted).abs() < 1e-5);
            }
        }
    }
}

#[test]
fn the_host_chooses_as_the_device_does() {
    // Parameters that neither knows better than the other, and one that only the host knows, set to what changes nothing.
    let all: Vec<TokenId> = (0..300).collect();
    for round in 0..40 {
        let on_device: Vec<_> = mixed()
            .into_iter()
            .map(|case| {
                let mut logits = noise(300, 50 + round);
                if round % 2 == 1 {
                    logits.iter_mut().for_each(|logit| *logit = (*logit * 4.0).round() / 4.0);
                }
                let ban = Some(Ban { tokens: vec![best(&logits), 17], before: round * 2 });
                Case {
                    logits,
                    position: 30 + round,
                    sampling: SamplingParams { ban, ..case.sampling.clone() },
                    ..case
                }
            })
            .collect();
        let on_host: Vec<_> = on_device
            .iter()
            .map(|case| {
                let sampling = SamplingParams { allowed: Some(all.clone()), ..case.sampling.clone() };
                Case { sampling, ..case.clone() }
            })
            .collect();
        assert!(on_host.iter().all(|case| case.sampling.on_host()));
        assert!(on_device.iter().all(|case| !case.sampling.on_host()));
        let (device, host) = (sample_all(&on_device), sample_all(&on_host));
        assert_eq!(ids(&device), ids(&host), "round {round}");
        for (device, host) in device.iter().zip(&host) {
            let (Some(device), Some(host)) = (&device.logprobs, &host.logprobs) else {
                assert_eq!(device.logprobs, host.logprobs);
                continue;
            };
            assert!((device.chosen - host.chosen).abs() < 2e-6);
            for (device, host) in device.top.iter().zip(&host.top) {
                assert!(device.0 == host.0 && (device.1 - host.1).abs() < 2e-6, "{device:?} and {host:?}");
            }
        }
        // Side by side in one step, each row gives what it gives alone.
        let both: Vec<_> = on_device.iter().chain(&on_host).cloned().collect();
        assert_eq!(sample_all(&both), [device, host].concat());
    }
}

#[test]
fn banned_tokens_are_not_chosen_before_their_position() {
    let logits = noise(300, 9);
    let first = best(&logits);
    let ban = Some(Ban { tokens: vec![first], before: 20 });
    for base in [SamplingParams::greedy(), drawn(0.1)] {
        let sampling = SamplingParams { ban: ban.clone(), ..base };
        let cases: Vec<_> =
            (0..40).map(|position| Case { position, ..Case::new(&logits, sampling.clone()) }).collect();
        let found = ids(&sample_all(&cases));
        assert!(found[..20].iter().all(|&id| id != first));
        assert!(!sampling.is_greedy() || found[20..].iter().all(|&id| id == first));
    }
}
