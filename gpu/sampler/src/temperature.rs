//! The temperature of a draw.

use troupe_protocol::SamplingParams;

use crate::candidates::{Weighed, largest, mean, total};

/// The temperature that the parameters give for these candidates, weighed at temperature one by the largest
/// logit among them.
///
/// With a range it grows from `temperature - range` to `temperature + range` with their entropy, as a share of the largest
/// that so many could have. (Zhu et al. 2024, "EDT: Improving Large Language Models' Generation by Entropy-based
/// Dynamic Temperature Sampling"; the formula is llama.cpp's.)
pub(crate) fn temperature(params: &SamplingParams, candidates: &[Weighed]) -> f32 {
    let dynamic = params.dynamic_temperature.filter(|dynamic| dynamic.is_on());
    let Some(dynamic) = dynamic.filter(|_| candidates.len() > 1 && !params.is_greedy()) else {
        return params.temperature;
    };
    let total = total(candidates);
    let entropy = total.ln() + f64::from(largest(candidates)) - mean(candidates, total);
    let share = (entropy / (candidates.len() as f64).ln()).clamp(0.0, 1.0);
    let least = (params.temperature - dynamic.range).max(0.0);
    let span = params.temperature + dynamic.range - least;
    least + span * share.powf(dynamic.exponent.into()) as f32
}
