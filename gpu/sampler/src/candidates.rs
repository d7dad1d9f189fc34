//! The tokens that are still in question, in the order of their ids.

use troupe_protocol::TokenId;

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

/// All tokens with a logit above minus infinity.
pub(crate) fn of(logits: &[f32]) -> Vec<Candidate> {
    let all = (0..).zip(logits).map(|(id, &logit)| Candidate { id, logit });
    all.filter(|candidate| candidate.logit > f32::NEG_INFINITY).collect()
}

/// The largest logit; minus infinity if there is none.
pub(crate) fn largest<T: Logit>(candidates: &[T]) -> f32 {
    candidates.iter().fold(f32::NEG_INFINITY, |most, candidate| most.max(candidate.logit()))
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

/// Weighs them by their probabilities.
pub(crate) fn weigh(candidates: &[Candidate]) -> Vec<Weighed> {
    let max = largest(candidates);
    let weighed = |&Candidate { id, logit }: &Candidate| Weighed { id, logit, weight: (logit - max).exp() };
    candidates.iter().map(weighed).collect()
}

/// Weighs them anew, at another temperature.
pub(crate) fn reweigh(candidates: &mut [Weighed], temperature: f32) {
    let max = largest(candidates);
    for candidate in candidates {
        candidate.weight = ((candidate.logit - max) / temperature).exp();
    }
}

/// The sum of all weights.
pub(crate) fn total(candidates: &[Weighed]) -> f64 {
    candidates.iter().map(|candidate| f64::from(candidate.weight)).sum()
}

/// The first candidate at which the cumulative weight exceeds the share `uniform` of the total.
pub(crate) fn draw(candidates: &[Weighed], uniform: f32) -> Option<Weighed> {
    let target = f64::from(uniform) * total(candidates);
    let mut sum = 0.0;
    let exceeds = |candidate: &&Weighed| {
        sum += f64::from(candidate.weight);
        sum > target
    };
    // Where rounding makes the sum fall short, the last one with a weight is taken.
    candidates.iter().find(exceeds).or_else(|| candidates.iter().rfind(|last| last.weight > 0.0)).copied()
}
