//! The chain against its definition: which token each draw falls on, and how often.

mod oracle;

use oracle::{Case, TopChoices, distribution};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use troupe_protocol::random::{Draw, uniform, uniform_for};
use troupe_protocol::sampling::{Ban, Dry, DynamicTemperature, Mirostat, Xtc};
use troupe_protocol::{History, SamplingParams, TokenId};
use troupe_sampler::{Sampler, Scratch};

fn drawn(temperature: f32) -> SamplingParams {
    SamplingParams { temperature, seed: 5, ..SamplingParams::greedy() }
}

fn token(case: &Case, position: u32) -> TokenId {
    let mut sampler =
        Sampler::new(case.params.clone(), Some(&case.history), case.logits.len()).expect("known tokens");
    sampler.sample(&case.logits, position, None, &mut Scratch::default()).id
}

fn top_choices(params: &SamplingParams, position: u32) -> TopChoices {
    match params.xtc {
        Some(xtc) if uniform_for(Draw::Xtc, params.seed, position) < xtc.probability => TopChoices::Excluded,
        _ => TopChoices::Kept,
    }
}

/// Whether the draw at `position` falls on `token`, give or take what rounding moves.
fn allows(case: &Case, position: u32, token: TokenId) -> bool {
    let (token, uniform) = (token as usize, f64::from(uniform(case.params.seed, position)));
    [0.0, 3e-6, -3e-6].into_iter().any(|slack| {
        let masses = distribution(case, position, top_choices(&case.params, position), slack);
        let before: f64 = masses[..token].iter().sum();
        masses[token] > 0.0 && before <= uniform + 1e-5 && before + masses[token] >= uniform - 1e-5
    })
}

/// Draws of every position against the exact distribution.
fn follows(case: &Case, draws: u32) {
    let mut counts = vec![0.0; case.logits.len()];
    (0..draws).for_each(|position| counts[token(case, position) as usize] += 1.0);
    let share = case.params.xtc.map_or(0.0, |xtc| f64::from(xtc.probability));
    let [kept, excluded] =
        [TopChoices::Kept, TopChoices::Excluded].map(|top| distribution(case, u32::MAX, top, 0.0));
    let (mut chi_square, mut bins, mut rest) = (0.0, 0.0, (0.0, 0.0));
    for (at, count) in counts.into_iter().enumerate() {
        let probability = (1.0 - share) * kept[at] + share * excluded[at];
        if probability == 0.0 {
            assert_eq!(count, 0.0, "a dropped token was drawn: {case:?}");
            continue;
        }
        let expected = probability * f64::from(draws);
        // What is too rare for the approximation is counted together.
        if expected < 8.0 {
            rest = (rest.0 + count, rest.1 + expected);
            continue;
        }
        chi_square += (count - expected) * (count - expected) / expected;
        bins += 1.0;
    }
    if rest.1 >= 8.0 {
        chi_square += (rest.0 - rest.1) * (rest.0 - rest.1) / rest.1;
        bins += 1.0;
    }
    // A single bin has nothing to deviate.
    assert!(
        bins < 2.0 || chi_square <= bound(bins - 1.0),
        "chi-square {chi_square} of {bins} bins: {case:?}"
    );
}

/// What chi-square exceeds once in 30,000 times (four deviations, by Wilson and Hilferty).
fn bound(freedom: f64) -> f64 {
    let part = 2.0 / (9.0 * freedom);
    freedom * (1.0 - part + 4.0 * part.sqrt()).powi(3)
}

const LOGITS: [f32; 12] = [1.3, -0.2, 2.1, 0.4, 0.9, -1.1, 1.7, 0.0, -3.0, 1.1, 2.1, -0.7];

#[test]
fn draws_of_each_filter_alone_follow_the_exact_distribution() {
    const DRAWS: u32 = 20_000;
    let plain = || drawn(1.0);
    let dynamic = |range, exponent| Some(DynamicTemperature { range, exponent });
    for params in [
        plain(),
        drawn(0.5),
        drawn(2.0),
        SamplingParams { top_n_sigma: 1.0, ..plain() },
        SamplingParams { top_k: 4, ..plain() },
        // Two of the most likely tokens are equal.
        SamplingParams { top_k: 1, ..plain() },
        SamplingParams { typical_p: 0.4, ..plain() },
        SamplingParams { typical_p: 0.0, ..plain() },
        SamplingParams { top_p: 0.6, ..drawn(1.7) },
        SamplingParams { top_p: 0.0, ..plain() },
        SamplingParams { min_p: 0.3, ..drawn(0.6) },
        SamplingParams { xtc: Some(Xtc { probability: 0.4, threshold: 0.1 }), ..plain() },
        SamplingParams { xtc: Some(Xtc { probability: 1.0, threshold: 0.0 }), ..plain() },
        SamplingParams { dynamic_temperature: dynamic(0.7, 1.0), ..plain() },
        SamplingParams { dynamic_temperature: dynamic(0.9, 3.0), top_k: 5, ..drawn(0.5) },
        SamplingParams { mirostat: Some(Mirostat { tau: 1.3, eta: 0.1 }), ..plain() },
        SamplingParams { mirostat: Some(Mirostat { tau: 0.0, eta: 0.1 }), ..plain() },
        SamplingParams { logit_bias: vec![(8, 4.0), (2, -100.0)], ..plain() },
        SamplingParams { allowed: Some(vec![1, 5, 10]), ..plain() },
    ] {
        follows(&Case::new(&LOGITS, params), DRAWS);
    }
}

#[test]
fn what_filters_leave_of_unlikely_tokens_keeps_its_shares() {
    let xtc = Some(Xtc { probability: 1.0, threshold: 0.0 });
    let dynamic_temperature = Some(DynamicTemperature { range: 0.5, exponent: 1.0 });
    for params in
        [SamplingParams { xtc, ..drawn(1.0) }, SamplingParams { xtc, dynamic_temperature, ..drawn(1.0) }]
    {
        // Beside the first, e^logit of the others is nothing in single precision.
        follows(&Case::new(&[150.0, 0.0, 0.0, 0.0], params), 3000);
    }
}

#[test]
fn draws_under_penalties_follow_the_exact_distribution() {
    let history =
        History { prompt: vec![2, 6, 9, 2, 6, 4], generated: vec![0, 2, 6, 0, 2, 6], mu: Some(2.2) };
    let dry = Dry { multiplier: 0.6, ..Dry::DEFAULT };
    for params in [
        SamplingParams { repetition_penalty: 1.4, ..drawn(1.0) },
        SamplingParams { repetition_penalty: 1.4, repeat_last_n: Some(3), ..drawn(1.0) },
        SamplingParams { presence_penalty: 0.7, frequency_penalty: 0.4, ..drawn(1.0) },
        SamplingParams { dry: Some(dry.clone()), ..drawn(1.0) },
        SamplingParams { dry: Some(Dry { breakers: vec![0], ..dry.clone() }), ..drawn(1.0) },
        SamplingParams { dry: Some(dry), mirostat: Some(Mirostat::DEFAULT), ..drawn(0.8) },
    ] {
        follows(&Case { history: history.clone(), ..Case::new(&LOGITS, params) }, 20_000);
    }
}

/// Some of a vocabulary of `size` tokens, in ascending order.
fn tokens(size: u32) -> impl Strategy<Value = Vec<TokenId>> {
    proptest::collection::btree_set(0..size, 1..=size as usize).prop_map(|set| set.into_iter().collect())
}

/// Distinct logits, or coarse ones that are often equal, or with some that are no numbers.
fn logits(size: u32) -> impl Strategy<Value = Vec<f32>> {
    let number = |x: i32| x as f32 / 256.0;
    let fine = vec((-2000..2000).prop_map(number), size as usize);
    let coarse = vec((-6..6).prop_map(|x: i32| x as f32 / 2.0), size as usize);
    let holes = vec(
        prop_oneof![4 => (-2000..2000).prop_map(number), 1 => Just(f32::NAN), 1 => Just(f32::NEG_INFINITY)],
        size as usize,
    );
    prop_oneof![2 => fine, 1 => coarse, 1 => holes]
}

prop_compose! {
    fn dry(size: u32)(
        multiplier in 0.0_f32..3.0,
        base in 1.0_f32..2.5,
        allowed_length in 1_u32..4,
        last_n in prop::option::of(0_u32..20),
        breakers in prop_oneof![Just(vec![]), tokens(size.min(3))],
    ) -> Dry {
        Dry { multiplier, base, allowed_length, last_n, breakers }
    }
}

prop_compose! {
    /// What comes before the filters.
    fn adjustments(size: u32)(
        allowed in prop::option::weighted(0.2, tokens(size)),
        logit_bias in vec((0..size, -5.0_f32..5.0), 0..4),
        repetition_penalty in prop_oneof![Just(1.0), 0.5_f32..2.0],
        repeat_last_n in prop::option::of(0_u32..20),
        presence_penalty in prop_oneof![Just(0.0), -2.0_f32..2.0],
        frequency_penalty in prop_oneof![Just(0.0), -1.0_f32..1.0],
        dry in prop::option::of(dry(size)),
    ) -> SamplingParams {
        SamplingParams {
            allowed, logit_bias, repetition_penalty, repeat_last_n, presence_penalty, frequency_penalty, dry,
            ..drawn(1.0)
        }
    }
}

prop_compose! {
    fn params(size: u32)(
        before in adjustments(size),
        top_n_sigma in prop_oneof![2 => Just(0.0), 1 => 0.1_f32..3.0],
        top_k in prop_oneof![2 => Just(0_u32), 1 => 1..=size + 1],
        typical_p in prop_oneof![2 => Just(1.0), 1 => 0.0_f32..1.0],
        top_p in prop_oneof![2 => Just(1.0), 1 => 0.0_f32..1.0],
        min_p in prop_oneof![2 => Just(0.0), 1 => 0.0_f32..1.0],
        xtc in prop::option::of((0.0_f32..1.0, 0.0_f32..0.5)),
        temperature in prop_oneof![1 => Just(0.0), 1 => Just(1.0), 3 => 0.05_f32..2.0],
        dynamic in prop::option::of((0.0_f32..2.0, 0.0_f32..3.0)),
        mirostat in prop::option::weighted(0.25, (0.0_f32..6.0, 0.0_f32..1.0)),
        seed in any::<u64>(),
    ) -> SamplingParams {
        SamplingParams {
            top_n_sigma, top_k, typical_p, top_p, min_p, temperature, seed,
            xtc: xtc.map(|(probability, threshold)| Xtc { probability, threshold }),
            dynamic_temperature: dynamic.map(|(range, exponent)| DynamicTemperature { range, exponent }),
            mirostat: mirostat.map(|(tau, eta)| Mirostat { tau, eta }),
            ..before
        }
    }
}

fn case() -> impl Strategy<Value = Case> {
    (1_u32..40).prop_flat_map(|size| {
        // Few different tokens, so that they repeat.
        let few = 0..size.min(4);
        let history = (vec(few.clone(), 0..12), vec(few, 0..12), prop::option::of(0.0_f32..8.0));
        (logits(size), params(size), history).prop_map(|(logits, params, (prompt, generated, mu))| Case {
            logits,
            params,
            history: History { prompt, generated, mu },
        })
    })
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(11),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(4000))]
    #[test]
    fn each_draw_falls_where_the_definition_says(case in case()) {
        case.params.validate(case.logits.len() as u32).expect("valid parameters");
        for position in 0..8 {
            let found = token(&case, position);
            // Where no token is allowed and a number, the first is taken.
            let nothing = distribution(&case, position, TopChoices::Kept, 0.0).iter().all(|mass| mass.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater));
            prop_assert!(nothing && found == 0 || allows(&case, position, found), "{found} at {position}");
        }
    }
}

proptest! {
    #![proptest_config(config(100))]
    #[test]
    fn draws_of_combinations_follow_the_exact_distribution(case in case()) {
        let possible = distribution(&case, 0, TopChoices::Kept, 0.0).iter().any(|mass| *mass > 0.0);
        // Where rounding decides what is kept, the two may keep different tokens for ever.
        let bounds = [TopChoices::Kept, TopChoices::Excluded].map(|top| {
            let masses = [3e-6, -3e-6].map(|slack| distribution(&case, 0, top, slack));
            masses[0].iter().zip(&masses[1]).all(|(a, b)| (a > &0.0) == (b > &0.0))
        });
        prop_assume!(possible && bounds == [true, true]);
        follows(&case, 4000);
    }
}

#[test]
fn banned_tokens_wait_for_their_position() {
    let ban = Some(Ban { tokens: vec![2, 10], before: 40 });
    for base in [SamplingParams::greedy(), drawn(1.0)] {
        let case = Case::new(&LOGITS, SamplingParams { ban: ban.clone(), top_n_sigma: 3.0, ..base });
        let found: Vec<TokenId> = (0..80).map(|position| token(&case, position)).collect();
        assert!(found[..40].iter().all(|id| ![2, 10].contains(id)), "{found:?}");
        assert!(found[40..].contains(&2), "{found:?}");
        assert!(!case.params.is_greedy() || found[40] == 2, "{found:?}");
    }
    // A grammar or a list may leave nothing but them: then they are not banned.
    let allowed = Some(vec![2]);
    let case = Case::new(&LOGITS, SamplingParams { ban, allowed, ..drawn(1.0) });
    assert_eq!(token(&case, 0), 2);
}

#[test]
fn a_mask_comes_before_everything() {
    // Tokens 1, 5 and 40, in the second word.
    let mask = [1 << 1 | 1 << 5, 1 << 8];
    let mut logits = vec![9.0; 50];
    (logits[1], logits[5], logits[40]) = (0.5, 0.4, 0.3);
    for params in [
        drawn(1.0),
        SamplingParams { top_k: 3, top_p: 0.99, min_p: 0.1, ..drawn(1.0) },
        SamplingParams { top_n_sigma: 3.0, logit_bias: vec![(0, 100.0)], ..drawn(1.0) },
        SamplingParams { mirostat: Some(Mirostat::DEFAULT), ..drawn(1.0) },
    ] {
        let mut sampler = Sampler::new(params.clone(), None, logits.len()).unwrap();
        let found: Vec<TokenId> =
            (0..60).map(|at| sampler.sample(&logits, at, Some(&mask), &mut Scratch::default()).id).collect();
        assert!(found.iter().all(|id| [1, 5, 40].contains(id)), "{params:?}: {found:?}");
        assert!([1, 5, 40].iter().all(|id| found.contains(id)), "{params:?}: {found:?}");
        // A mask that is shorter than the vocabulary allows nothing beyond.
        assert_ne!(sampler.sample(&logits, 0, Some(&mask[..1]), &mut Scratch::default()).id, 40);
        // Of what is impossible by itself, the first that is allowed.
        let impossible = vec![f32::NEG_INFINITY; 50];
        assert_eq!(sampler.sample(&impossible, 0, Some(&[0, 1 << 8]), &mut Scratch::default()).id, 40);
    }
}

#[test]
fn a_replay_from_any_point_says_the_same() {
    const COUNT: usize = 60;
    let row = |position: usize| -> Vec<f32> {
        (0..40).map(|at| 5.0 * uniform(9, (position % 7 * 1000 + at) as u32)).collect()
    };
    let prompt: Vec<TokenId> = vec![3, 1, 4, 1, 5, 9, 2, 6];
    for params in [
        SamplingParams { mirostat: Some(Mirostat { tau: 2.0, eta: 0.3 }), ..drawn(1.0) },
        SamplingParams { xtc: Some(Xtc { probability: 0.5, threshold: 0.05 }), ..drawn(1.0) },
        SamplingParams {
            dry: Some(Dry { multiplier: 2.0, allowed_length: 1, ..Dry::DEFAULT }),
            ..drawn(0.3)
        },
        SamplingParams {
            repetition_penalty: 1.5,
            repeat_last_n: Some(5),
            frequency_penalty: 0.3,
            ..drawn(0.3)
        },
    ] {
        // Tokens so far, and what mirostat learned.
        let go_on = |mut generated: Vec<TokenId>, mu: Option<f32>, count: usize| {
            let history = History { prompt: prompt.clone(), generated: generated.clone(), mu };
            let mut sampler = Sampler::new(params.clone(), Some(&history), 40).unwrap();
            for at in generated.len()..count {
                generated.push(
                    sampler.sample(&row(at), (prompt.len() + at) as u32, None, &mut Scratch::default()).id,
                );
            }
            (generated, sampler.mu())
        };
        let (wanted, last) = go_on(vec![], None, COUNT);
        for cut in [1, 17, 59] {
            let (generated, mu) = go_on(vec![], None, cut);
            assert_eq!(go_on(generated, mu, COUNT), (wanted.clone(), last), "after {cut}: {params:?}");
        }
    }
}

#[test]
fn mirostat_comes_near_its_target() {
    // Of a distribution with a long tail, the surprise of what is drawn.
    let logits: Vec<f32> = (1..2000).map(|rank| -1.1 * (rank as f32).ln()).collect();
    let masses: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
    for tau in [2.0, 4.0, 6.0] {
        let params = SamplingParams { mirostat: Some(Mirostat { tau, eta: 0.1 }), ..drawn(1.0) };
        let mut sampler = Sampler::new(params, None, logits.len()).unwrap();
        let mut surprise = 0.0;
        for position in 0..3000 {
            let token = sampler.sample(&logits, position, None, &mut Scratch::default()).id;
            // By the distribution that was drawn from: what is within mirostat's bound.
            surprise += (masses.ln() - f64::from(logits[token as usize])) / std::f64::consts::LN_2;
        }
        // The model's own surprise is a little above that of the truncated distribution, which is what is steered.
        let mean = surprise / 3000.0;
        assert!((f64::from(tau) - 0.2..f64::from(tau) + 2.0).contains(&mean), "{mean} for {tau}");
    }
}

#[test]
fn a_history_beyond_the_vocabulary_is_refused() {
    let history = History { prompt: vec![3], generated: vec![12], mu: None };
    let error = Sampler::new(drawn(1.0), Some(&history), 12).unwrap_err();
    assert_eq!(error.to_string(), "token 12 is beyond the vocabulary");
}
