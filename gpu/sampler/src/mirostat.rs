//! Mirostat v2 (Basu et al. 2021, "Mirostat: A Neural Text Decoding Algorithm that Directly Controls Perplexity").

use troupe_protocol::sampling::Mirostat;

use crate::candidates::{Weighed, largest, total};

/// The bound of surprise in bits that a sequence begins with.
pub(crate) fn first_mu(how: Mirostat) -> f32 {
    2.0 * how.tau
}

/// Keeps tokens whose surprise is at most `mu`, and the most likely ones in any case.
pub(crate) fn truncate(candidates: &mut Vec<Weighed>, mu: f32) {
    let least = total(candidates) * f64::from(-mu).exp2();
    let most = largest(candidates);
    candidates.retain(|candidate| f64::from(candidate.weight) >= least || candidate.logit == most);
}

/// The bound after `chosen` was drawn from `candidates`.
pub(crate) fn learn(how: Mirostat, mu: f32, candidates: &[Weighed], chosen: Weighed) -> f32 {
    let surprise = (total(candidates) / f64::from(chosen.weight)).log2();
    mu - how.eta * (surprise as f32 - how.tau)
}
