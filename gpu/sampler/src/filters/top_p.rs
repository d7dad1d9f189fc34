use crate::candidates::{Weighed, keep_first_largest, total};
use crate::mass::{Ranked, least_kept};

/// Keeps the smallest set of most likely tokens whose mass reaches the share `p`; zero keeps a single token, and one
/// all. (Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration".) `ranked` is room to work in.
pub(crate) fn top_p(candidates: &mut Vec<Weighed>, p: f32, ranked: &mut Vec<Ranked>) {
    if p >= 1.0 {
        return;
    }
    if p <= 0.0 {
        return keep_first_largest(candidates);
    }
    let limit = f64::from(p) * total(candidates);
    if let Some(least) = least_kept(candidates, |candidate| candidate.logit, limit, ranked) {
        candidates.retain(|candidate| candidate.logit >= least);
    }
}
