//! Log-probabilities by the model's own distribution, before anything changed it.

use troupe_protocol::{TokenId, TokenLogprobs};

use crate::exp::exp;
use crate::lanes;

/// Of `chosen` and of the `count` most likely tokens, by one row of logits: the most likely first, the lowest id first
/// among equals. `values` is room to work in.
pub(crate) fn of(logits: &[f32], chosen: TokenId, count: usize, values: &mut Vec<f32>) -> TokenLogprobs {
    let max = lanes::max(logits, |logit| *logit);
    // Where the largest is infinite, so is the sum.
    let total: f64 = match max.is_infinite() {
        true => 1.0,
        false => lanes::sum(logits, |logit| f64::from(exp(number(*logit) - max))),
    };
    let log_of = |logit: f32| (f64::from(number(logit)) - f64::from(max) - total.ln()) as f32;
    let top = most_likely(logits, count, values).into_iter().map(|(id, logit)| (id, log_of(logit))).collect();
    TokenLogprobs { chosen: logits.get(chosen as usize).map_or(f32::NEG_INFINITY, |l| log_of(*l)), top }
}

/// NaN counts as minus infinity.
fn number(logit: f32) -> f32 {
    if logit.is_nan() { f32::NEG_INFINITY } else { logit }
}

fn most_likely(logits: &[f32], count: usize, values: &mut Vec<f32>) -> Vec<(TokenId, f32)> {
    let count = count.min(logits.len());
    if count == 0 {
        return Vec::new();
    }
    values.clear();
    values.extend(logits.iter().map(|logit| number(*logit)));
    let (_, &mut least, _) = values.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a));
    let all = (0..).zip(logits).map(|(id, logit)| (id, number(*logit)));
    let mut best: Vec<(TokenId, f32)> = all.filter(|(_, logit)| *logit >= least).collect();
    best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    best.truncate(count);
    best
}
