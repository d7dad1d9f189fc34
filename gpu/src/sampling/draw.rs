//! Drawing from the truncated distribution by inverting its cumulative sum.

use mlx_sys::{Array, Axis, Scan};
use troupe_protocol::SamplingParams;

use crate::batch::{column, vector};
use crate::error::Result;

/// Draws a token for each row of `logits` [G, vocabulary] f32 with `uniforms` [G, 1] in [0, 1): the first
/// token at which the mass of the kept ones exceeds that share of their total. Truncation looks at the distribution
/// before the temperature. [G] u32.
pub(super) fn draw(logits: &Array, params: &[&SamplingParams], uniforms: &Array) -> Result<Array> {
    let kept = match threshold(logits, params)? {
        Some(threshold) => {
            logits.greater_equal(&threshold)?.where_(logits, &Array::scalar(f32::NEG_INFINITY)?)?
        }
        None => logits.clone(),
    };
    let temperatures: Vec<f32> = params.iter().map(|p| p.temperature).collect();
    let mass = kept.divide(&column(&temperatures)?)?.softmax(-1)?.cumsum(-1, Scan::Inclusive)?;
    let last = mass.dim(-1) - 1;
    let total = mass.take(&vector(&[last])?, 1)?;
    // A draw has 24 bits, so its product with the total stays below the total, and some token exceeds it.
    Ok(mass.greater(&uniforms.multiply(&total)?)?.argmax(-1, Axis::Drop)?)
}

/// The least logit that each row keeps, [G, 1], or nothing if all rows keep everything.
fn threshold(logits: &Array, params: &[&SamplingParams]) -> Result<Option<Array>> {
    let width = logits.dim(-1);
    let cuts_ranks = params.iter().any(|p| (p.top_k > 0 && (p.top_k as i32) < width) || p.top_p < 1.0);
    let by_rank = if cuts_ranks { Some(rank_threshold(logits, params)?) } else { None };
    if params.iter().all(|p| p.min_p <= 0.0) {
        return Ok(by_rank);
    }
    // ln(0) is -inf, which keeps everything.
    let min_p: Vec<f32> = params.iter().map(|p| p.min_p.ln()).collect();
    let by_mass = logits.max(-1, Axis::Keep)?.add(&column(&min_p)?)?;
    Ok(Some(match by_rank {
        Some(by_rank) => by_rank.maximum(&by_mass)?,
        None => by_mass,
    }))
}

/// The least logit within each row's `top_k`, and within the least set of these whose mass reaches `top_p`.
fn rank_threshold(logits: &Array, params: &[&SamplingParams]) -> Result<Array> {
    let width = logits.dim(-1);
    let descending = logits.negative()?.sort(-1)?.negative()?;
    let ranks: Vec<i32> = params
        .iter()
        .map(|p| if p.top_k == 0 { width - 1 } else { (p.top_k.min(width as u32) as i32) - 1 })
        .collect();
    let ranks = vector(&ranks)?.expand_dims(&[1])?;
    let kth = descending.take_along_axis(&ranks, -1)?;
    if params.iter().all(|p| p.top_p >= 1.0) {
        return Ok(kth);
    }
    let within = descending.greater_equal(&kth)?;
    let within = within.where_(&descending, &Array::scalar(f32::NEG_INFINITY)?)?;
    // The mass before a token decides, so that the first is always kept. A row without top_p keeps all,
    // whatever its sum rounds to.
    let before = within.softmax(-1)?.cumsum(-1, Scan::Exclusive)?;
    let top_p: Vec<f32> = params.iter().map(|p| if p.top_p < 1.0 { p.top_p } else { 2.0 }).collect();
    let kept = before.less(&column(&top_p)?)?;
    let least = kept.where_(&descending, &Array::scalar(f32::INFINITY)?)?.min(-1, Axis::Keep)?;
    Ok(least.maximum(&kth)?)
}
