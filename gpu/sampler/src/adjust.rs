//! What changes single logits of a row before any is dropped.

use troupe_protocol::{SamplingParams, TokenId};

use crate::history::Counts;

/// Drops the tokens that are not in `mask`: bit `id % 32` of its word `id / 32`.
pub(crate) fn keep_masked(logits: &mut [f32], mask: &[u32]) {
    for (at, part) in logits.chunks_mut(32).enumerate() {
        let word = mask.get(at).copied().unwrap_or(0);
        for (bit, logit) in part.iter_mut().enumerate() {
            if word >> bit & 1 == 0 {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
}

/// The first token of a mask; token 0 of an empty one.
pub(crate) fn first_of_mask(mask: &[u32]) -> TokenId {
    let first = (0..).zip(mask).find(|(_, word)| **word != 0);
    first.map_or(0, |(at, word): (u32, _)| at * u32::BITS + word.trailing_zeros())
}

/// Drops the tokens that are not in `allowed`, which ascends.
pub(crate) fn keep_listed(logits: &mut [f32], allowed: &[TokenId]) {
    let mut next = 0;
    for &token in allowed {
        let token = (token as usize).min(logits.len());
        logits[next.min(token)..token].fill(f32::NEG_INFINITY);
        next = token + 1;
    }
    let rest = next.min(logits.len());
    logits[rest..].fill(f32::NEG_INFINITY);
}

/// Drops the tokens `banned`, unless none would be left.
pub(crate) fn ban(logits: &mut [f32], banned: &[TokenId]) {
    let mut taken = Vec::with_capacity(banned.len());
    for &token in banned {
        if let Some(logit) = logits.get_mut(token as usize) {
            taken.push((token, std::mem::replace(logit, f32::NEG_INFINITY)));
        }
    }
    if logits.iter().any(|&logit| logit > f32::NEG_INFINITY) {
        return;
    }
    // Backwards, for a token that is named twice.
    for (token, logit) in taken.into_iter().rev() {
        logits[token as usize] = logit;
    }
}

/// Adds the biases; those of one token add up.
pub(crate) fn add_biases(logits: &mut [f32], biases: &[(TokenId, f32)]) {
    for &(token, bias) in biases {
        if let Some(logit) = logits.get_mut(token as usize) {
            *logit += bias;
        }
    }
}

/// Takes the repetition penalty (Keskar et al. 2019, "CTRL") and OpenAI's presence and frequency penalties.
pub(crate) fn penalise(logits: &mut [f32], params: &SamplingParams, counts: &Counts) {
    let repetition = params.repetition_penalty;
    for ((logit, &recent), &generated) in logits.iter_mut().zip(&counts.recent).zip(&counts.generated) {
        if recent > 0 {
            *logit = if *logit > 0.0 { *logit / repetition } else { *logit * repetition };
        }
        if generated > 0 {
            *logit -= params.presence_penalty;
            *logit -= generated as f32 * params.frequency_penalty;
        }
    }
}
