use crate::candidates::{Candidate, keep_first_largest};

/// Keeps the `k` largest logits and those equal to the least of them; one keeps a single token, and zero all. (Fan et
/// al. 2018, "Hierarchical Neural Story Generation".) `logits` is room to work in.
pub(crate) fn top_k(candidates: &mut Vec<Candidate>, k: u32, logits: &mut Vec<f32>) {
    let k = k as usize;
    if k == 0 || k >= candidates.len() {
        return;
    }
    if k == 1 {
        return keep_first_largest(candidates);
    }
    logits.clear();
    logits.extend(candidates.iter().map(|candidate| candidate.logit));
    let (_, &mut least, _) = logits.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
    candidates.retain(|candidate| candidate.logit >= least);
}
