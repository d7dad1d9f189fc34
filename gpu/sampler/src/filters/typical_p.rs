use crate::candidates::{Weighed, mean, total};
use crate::mass::{Ranked, least_kept};

/// Keeps the smallest set of tokens whose surprise is nearest to what is expected and whose mass reaches the share `p`;
/// one keeps all. (Meister et al. 2023, "Locally Typical Sampling".) `ranked` is room to work in.
pub(crate) fn typical_p(candidates: &mut Vec<Weighed>, p: f32, ranked: &mut Vec<Ranked>) {
    if p >= 1.0 {
        return;
    }
    let total = total(candidates);
    // A surprise is the logarithm of the sum of e^logit, less the logit. The expected one has the mean for its logit.
    let mean = mean(candidates, total);
    let key = |candidate: &Weighed| -(f64::from(candidate.logit) - mean).abs() as f32;
    if let Some(least) = least_kept(candidates, key, f64::from(p) * total, ranked) {
        candidates.retain(|candidate| key(candidate) >= least);
    }
}
