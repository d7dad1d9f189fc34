use troupe_protocol::sampling::Xtc;

use crate::candidates::{Weighed, total};

/// Where `uniform` is below the probability, drops all tokens more likely than the least likely one that reaches the
/// threshold. (Weidmann 2024, "Exclude Top Choices".)
pub(crate) fn xtc(candidates: &mut Vec<Weighed>, how: Xtc, uniform: f32) {
    if uniform >= how.probability {
        return;
    }
    let limit = f64::from(how.threshold) * total(candidates);
    let choices = candidates.iter().filter(|candidate| f64::from(candidate.weight) >= limit);
    let least = choices.map(|candidate| candidate.logit).reduce(f32::min);
    if let Some(least) = least {
        candidates.retain(|candidate| candidate.logit <= least);
    }
}
