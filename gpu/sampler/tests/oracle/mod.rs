//! The chain's definition in double precision, by sorting and by plain loops.

use troupe_protocol::sampling::{Dry, Xtc};
use troupe_protocol::{History, SamplingParams, TokenId};

/// All that a choice depends on, but for the draws.
#[derive(Clone, Debug)]
pub struct Case {
    pub logits: Vec<f32>,
    pub params: SamplingParams,
    pub history: History,
}

impl Case {
    pub fn new(logits: &[f32], params: SamplingParams) -> Self {
        let history = History { prompt: vec![], generated: vec![], mu: None };
        Self { logits: logits.to_vec(), params, history }
    }
}

/// Whether top choices are excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopChoices {
    Kept,
    Excluded,
}

/// Probabilities of all tokens at `position`. `slack` moves every bound by as much as rounding may.
pub fn distribution(case: &Case, position: u32, top: TopChoices, slack: f64) -> Vec<f64> {
    let params = &case.params;
    let logits = adjusted(case, position);
    let mut kept: Vec<usize> = (0..logits.len()).filter(|&at| logits[at] > f64::NEG_INFINITY).collect();
    let temperature = |kept: &[usize]| temperature(params, &logits, kept);
    if let Some(mirostat) = params.mirostat {
        let t = temperature(&kept);
        if t < 1e-3 {
            return one(&logits, &kept);
        }
        let scaled: Vec<f64> = logits.iter().map(|logit| logit / t).collect();
        let mu = f64::from(case.history.mu.unwrap_or(2.0 * mirostat.tau));
        let masses = softmax(&scaled, &kept);
        let most = masses.iter().copied().fold(0.0, f64::max);
        kept.retain(|&at| -masses[at].log2() <= mu + slack || masses[at] == most);
        return softmax(&scaled, &kept);
    }
    truncate(params, &logits, &mut kept, slack);
    if let (Some(xtc), TopChoices::Excluded) = (params.xtc, top) {
        exclude(xtc, &logits, &mut kept, slack);
    }
    let t = temperature(&kept);
    if t < 1e-3 {
        return one(&logits, &kept);
    }
    let scaled: Vec<f64> = logits.iter().map(|logit| logit / t).collect();
    softmax(&scaled, &kept)
}

/// The first of the most likely ones, for certain.
fn one(logits: &[f64], kept: &[usize]) -> Vec<f64> {
    let mut out = vec![0.0; logits.len()];
    let best = kept.iter().copied().max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a)));
    out[best.unwrap_or(0)] = 1.0;
    out
}

fn softmax(logits: &[f64], kept: &[usize]) -> Vec<f64> {
    let max = kept.iter().map(|&at| logits[at]).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = kept.iter().map(|&at| (logits[at] - max).exp()).sum();
    let mut out = vec![0.0; logits.len()];
    kept.iter().for_each(|&at| out[at] = (logits[at] - max).exp() / total);
    out
}

fn adjusted(case: &Case, position: u32) -> Vec<f64> {
    let Case { params, history, .. } = case;
    let all: Vec<TokenId> = history.prompt.iter().chain(&history.generated).copied().collect();
    let recent = last(&all, params.repeat_last_n);
    let of = |(token, &logit): (TokenId, &f32)| {
        let allowed = params.allowed.as_ref().is_none_or(|allowed| allowed.contains(&token));
        let banned = params.ban.as_ref().is_some_and(|b| position < b.before && b.tokens.contains(&token));
        if logit.is_nan() || !allowed || banned {
            return f64::NEG_INFINITY;
        }
        let mut logit = f64::from(logit);
        logit +=
            params.logit_bias.iter().filter(|(id, _)| *id == token).map(|(_, b)| f64::from(*b)).sum::<f64>();
        if recent.contains(&token) {
            let factor = f64::from(params.repetition_penalty);
            logit = if logit > 0.0 { logit / factor } else { logit * factor };
        }
        let times = history.generated.iter().filter(|id| **id == token).count() as f64;
        if times > 0.0 {
            logit -= f64::from(params.presence_penalty) + times * f64::from(params.frequency_penalty);
        }
        logit - params.dry.as_ref().map_or(0.0, |dry| repetition(dry, &all, token))
    };
    (0..).zip(&case.logits).map(of).collect()
}

fn last(tokens: &[TokenId], count: Option<u32>) -> &[TokenId] {
    &tokens[tokens.len().saturating_sub(count.map_or(usize::MAX, |count| count as usize))..]
}

/// DRY's penalty of `next`.
fn repetition(dry: &Dry, all: &[TokenId], next: TokenId) -> f64 {
    let tokens = last(all, dry.last_n);
    let longest = (0..tokens.len().saturating_sub(1))
        .filter(|&end| tokens[end + 1] == next && !dry.breakers.contains(&next))
        .map(|end| {
            let pairs = tokens[..=end].iter().rev().zip(tokens.iter().rev());
            pairs.take_while(|(a, b)| a == b && !dry.breakers.contains(a)).count() as u32
        })
        .max();
    match longest {
        Some(length) if length >= dry.allowed_length => {
            f64::from(dry.multiplier) * f64::from(dry.base).powi((length - dry.allowed_length) as i32)
        }
        _ => 0.0,
    }
}

fn truncate(params: &SamplingParams, logits: &[f64], kept: &mut Vec<usize>, slack: f64) {
    let most = |kept: &[usize]| kept.iter().map(|&at| logits[at]).fold(f64::NEG_INFINITY, f64::max);
    if params.top_n_sigma > 0.0 {
        let count = kept.len() as f64;
        let mean = kept.iter().map(|&at| logits[at]).sum::<f64>() / count;
        let variance = kept.iter().map(|&at| (logits[at] - mean).powi(2)).sum::<f64>() / count;
        let least = most(kept) - f64::from(params.top_n_sigma) * variance.sqrt();
        kept.retain(|&at| logits[at] >= least - slack);
    }
    let k = params.top_k as usize;
    if k == 1 {
        let only = one(logits, kept);
        kept.retain(|&at| only[at] == 1.0);
    } else if k > 1 && k < kept.len() {
        let mut sorted = kept.clone();
        sorted.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        let least = logits[sorted[k - 1]];
        kept.retain(|&at| logits[at] >= least);
    }
    if params.typical_p < 1.0 {
        let masses = softmax(logits, kept);
        let entropy: f64 = kept.iter().map(|&at| -masses[at] * masses[at].ln()).sum();
        let distance = |at: usize| (-masses[at].ln() - entropy).abs();
        nearest(kept, &masses, f64::from(params.typical_p) + slack, distance);
    }
    if params.top_p <= 0.0 {
        let only = one(logits, kept);
        kept.retain(|&at| only[at] == 1.0);
    } else if params.top_p < 1.0 {
        let masses = softmax(logits, kept);
        nearest(kept, &masses, f64::from(params.top_p) + slack, |at| -logits[at]);
    }
    let least = most(kept) + f64::from(params.min_p).ln();
    kept.retain(|&at| logits[at] >= least - slack);
}

/// Keeps a token if those that are nearer have less than this share of the mass.
fn nearest(kept: &mut Vec<usize>, masses: &[f64], share: f64, distance: impl Fn(usize) -> f64) {
    let all = kept.clone();
    // Of equal logits, distances are equal.
    let before = |at: usize| -> f64 {
        all.iter().filter(|&&other| distance(other) < distance(at)).map(|&other| masses[other]).sum()
    };
    let nearest = all.iter().map(|&at| distance(at)).fold(f64::INFINITY, f64::min);
    kept.retain(|&at| before(at) < share || distance(at) == nearest);
}

fn exclude(xtc: Xtc, logits: &[f64], kept: &mut Vec<usize>, slack: f64) {
    let masses = softmax(logits, kept);
    let choices = kept.iter().filter(|&&at| masses[at] >= f64::from(xtc.threshold) - slack);
    if let Some(least) = choices.map(|&at| logits[at]).reduce(f64::min) {
        kept.retain(|&at| logits[at] <= least);
    }
}

fn temperature(params: &SamplingParams, logits: &[f64], kept: &[usize]) -> f64 {
    let t = f64::from(params.temperature);
    match params.dynamic_temperature {
        Some(dynamic) if dynamic.range > 0.0 && kept.len() > 1 && t >= 1e-3 => {
            let masses = softmax(logits, kept);
            let shares = kept.iter().map(|&at| masses[at]).filter(|share| *share > 0.0);
            let entropy: f64 = shares.map(|share| -share * share.ln()).sum();
            let share = entropy / (kept.len() as f64).ln();
            let (least, most) = ((t - f64::from(dynamic.range)).max(0.0), t + f64::from(dynamic.range));
            least + (most - least) * share.powf(dynamic.exponent.into())
        }
        _ => t,
    }
}
