use crate::candidates::{Candidate, largest};
use crate::lanes;

/// Keeps logits within `n` standard deviations of all of them below the largest; zero keeps all. (Tang et al. 2024,
/// "Top-nσ: Not All Logits Are You Need".)
pub(crate) fn top_n_sigma(candidates: &mut Vec<Candidate>, n: f32) {
    if n <= 0.0 || candidates.len() < 2 {
        return;
    }
    let count = candidates.len() as f64;
    let mean = lanes::sum(candidates, |candidate| f64::from(candidate.logit)) / count;
    let squares = lanes::sum(candidates, |candidate| (f64::from(candidate.logit) - mean).powi(2));
    let deviation = (squares / count).sqrt();
    let least = f64::from(largest(candidates)) - f64::from(n) * deviation;
    candidates.retain(|candidate| f64::from(candidate.logit) >= least);
}
