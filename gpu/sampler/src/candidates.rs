//! The tokens that are still in question, in the order of their ids.

use troupe_protocol::TokenId;

use crate::exp::exp;
use crate::lanes;

/// A token with its logit, which is a number or plus infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) id: TokenId,
    pub(crate) logit: f32,
}

/// A candidate with the weight e^((logit - max) / temperature), `max` being the largest logit when it was weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Weighed {
    pub(crate) id: TokenId,
    pub(crate) logit: f32,
    pub(crate) weight: f32,
}

/// What has a logit.
pub(crate) trait Logit {
    fn logit(&self) -> f32;
}

impl Logit for Candidate {
    fn logit(&self) -> f32 {
        self.logit
    }
}

impl Logit for Weighed {
    fn logit(&self) -> f32 {
        self.logit
    }
}

/// All tokens with a logit above minus infinity, into `out`.
pub(crate) fn fill(out: &mut Vec<Candidate>, logits: &[f32]) {
    let all = (0..).zip(logits).map(|(id, &logit)| Candidate { id, logit });
    out.clear();
    out.extend(all.filter(|candidate| candidate.logit > f32::NEG_INFINITY));
}

/// The largest logit; minus infinity if there is none.
pub(crate) fn largest<T: Logit>(candidates: &[T]) -> f32 {
    lanes::max(candidates, T::logit)
}

/// The first of the most likely ones.
pub(crate) fn first_largest<T: Logit>(candidates: &[T]) -> Option<&T> {
    let most = largest(candidates);
    candidates.iter().find(|candidate| candidate.logit() == most)
}

/// Drops all but the first of the most likely ones.
pub(crate) fn keep_first_largest<T: Logit + Copy>(candidates: &mut Vec<T>) {
    if let Some(&first) = first_largest(candidates) {
        candidates.clear();
        candidates.push(first);
    }
}

/// Weighs them at a temperature, into `out`.
pub(crate) fn weigh(out: &mut Vec<Weighed>, candidates: &[Candidate], temperature: f32) {
    let (max, inverse) = (largest(candidates), temperature.recip());
    let weighed = |&Candidate { id, logit }: &Candidate| {
        let weight = exp((logit - max) * inverse);
        Weighed { id, logit, weight }
    };
    out.clear();
    out.extend(candidates.iter().map(weighed));
}

/// Weighs those anew that were weighed at temperature one, by the largest logit that is left.
pub(crate) fn reweigh(candidates: &mut [Weighed], temperature: f32) {
    // Who has the largest logit weighs one. Filters may have dropped it.
    if temperature == 1.0 && candidates.iter().any(|candidate| candidate.weight == 1.0) {
        return;
    }
    let (max, inverse) = (largest(candidates), temperature.recip());
    for candidate in candidates {
        candidate.weight = exp((candidate.logit - max) * inverse);
    }
}

/// The sum of all weights.
pub(crate) fn total(candidates: &[Weighed]) -> f64 {
    lanes::sum(candidates, |candidate| f64::from(candidate.weight))
}

/// The mean of the logits by weight, `total` being the sum of all weights.
pub(crate) fn mean(candidates: &[Weighed], total: f64) -> f64 {
    let part = |candidate: &Weighed| f64::from(candidate.weight) * f64::from(candidate.logit);
    lanes::sum(candidates, part) / total
}

/// The first candidate at which the cumulative weight exceeds the share `uniform` of the total.
pub(crate) fn draw(candidates: &[Weighed], uniform: f32) -> Option<Weighed> {
    /// Parts are summed first, so that a walk through one of them is enough.
    const PART: usize = 1024;
    let sums: Vec<f64> = candidates.chunks(PART).map(total).collect();
    let target = f64::from(uniform) * sums.iter().sum::<f64>();
    let mut sum = 0.0;
    for (part, of_part) in candidates.chunks(PART).zip(sums) {
        if sum + of_part <= target {
            sum += of_part;
            continue;
        }
        let exceeds = |candidate: &&Weighed| {
            sum += f64::from(candidate.weight);
            sum > target
        };
        // Where rounding makes the walk fall short, the part's last one with a weight is taken.
        let found = part.iter().find(exceeds).or_else(|| part.iter().rfind(|last| last.weight > 0.0));
        return found.copied();
    }
    None
}
