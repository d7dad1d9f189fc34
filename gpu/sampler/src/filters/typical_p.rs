use crate::candidates::{Weighed, total};
use crate::mass::{Ranked, least_kept};

/// Keeps the smallest set of tokens whose surprise is nearest to what is expected and whose mass reaches the share `p`;
/// one keeps all. (Meister et al. 2023, "Locally Typical Sampling".)
pub(crate) fn typical_p(candidates: &mut Vec<Weighed>, p: f32) {
    if p >= 1.0 {
        return;
    }
    let total = total(candidates);
    // In nats. A weight of zero surprises without end, and so ranks last.
    let surprise = |candidate: &Weighed| total.ln() - f64::from(candidate.weight).ln();
    let expected: f64 = candidates
        .iter()
        .filter(|candidate| candidate.weight > 0.0)
        .map(|candidate| f64::from(candidate.weight) / total * surprise(candidate))
        .sum();
    let rank = |candidate: &Weighed| Ranked {
        key: -(surprise(candidate) - expected).abs() as f32,
        mass: candidate.weight,
    };
    let mut ranked: Vec<Ranked> = candidates.iter().map(rank).collect();
    if let Some(least) = least_kept(&mut ranked, f64::from(p) * total) {
        candidates.retain(|candidate| rank(candidate).key >= least);
    }
}
