use crate::candidates::{Logit, largest};

/// Keeps tokens at least `p` times as likely as the most likely one; zero keeps all. (Nguyen et al. 2024, "Turning Up
/// the Heat: Min-p Sampling for Creative and Coherent LLM Outputs".)
pub(crate) fn min_p<T: Logit>(candidates: &mut Vec<T>, p: f32) {
    if p <= 0.0 {
        return;
    }
    let least = largest(candidates) + p.ln();
    candidates.retain(|candidate| candidate.logit() >= least);
}
