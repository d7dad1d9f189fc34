//! Attention as it is defined, in f64.

use mlx_sys::Visibility;

use crate::{Model, SCALE, Scores, Sequence, angle};

/// A head's numbers, rotated, in f64.
fn rotated(model: Model, x: &[f32], token: usize) -> Vec<f64> {
    let mut out: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    for i in 0..model.half {
        let ((sin, cos), (a, b)) = (angle(token, i).sin_cos(), (out[i], out[i + model.half]));
        (out[i], out[i + model.half]) = (a * cos - b * sin, b * cos + a * sin);
    }
    out
}

/// Attention of every token of a sequence that is one row, in f64.
pub fn oracle(model: Model, s: &Sequence, scores: &Scores) -> Vec<f32> {
    let Model { heads, kv_heads, dim, .. } = model;
    let head_of =
        |data: &[f32], t: usize, head: usize, heads: usize| data[(t * heads + head) * dim..][..dim].to_vec();
    let window = scores.window.map_or(usize::MAX, |window| window as usize);
    let keys: Vec<Vec<f64>> = (0..s.len * kv_heads)
        .map(|i| rotated(model, &head_of(&s.k, i / kv_heads, i % kv_heads, kv_heads), i / kv_heads))
        .collect();
    let mut out = vec![];
    for token in 0..s.len {
        let first = (token + 1).saturating_sub(window);
        let end = match scores.visibility {
            Visibility::Causal => token + 1,
            Visibility::Bidirectional => s.len.min(token.saturating_add(window)),
        };
        for head in 0..heads {
            let kv_head = head / (heads / kv_heads);
            let q = rotated(model, &head_of(&s.q, token, head, heads), token);
            let score = |t: usize| {
                let dot: f64 = q.iter().zip(&keys[t * kv_heads + kv_head]).map(|(q, k)| q * k).sum();
                let score = dot * f64::from(SCALE);
                scores.softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
            };
            let weights: Vec<f64> = (first..end).map(|t| score(t).exp()).collect();
            let sink = scores.sinks.as_ref().map_or(0.0, |sinks| f64::from(sinks[head]).exp());
            let total = weights.iter().sum::<f64>() + sink;
            out.extend((0..dim).map(|d| {
                let value = |t: usize| f64::from(s.v[(t * kv_heads + kv_head) * dim + d]);
                let sum: f64 = weights.iter().zip(first..).map(|(w, t)| w * value(t)).sum();
                (sum / total) as f32
            }));
        }
    }
    out
}
