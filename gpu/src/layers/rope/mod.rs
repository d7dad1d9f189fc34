//! Rotary position embedding (Su et al. 2021) with the frequency scalings of `transformers`' `ROPE_INIT_FUNCTIONS`.
//!
//! Frequencies are made on the host in f64, once or, where they depend on the sequence's length, once a
//! row; angles on the device, once a step; rotation once a layer. A length-dependent scaling looks at the
//! most tokens that the sequence may come to hold, which is fixed for its life: neither chunking nor a replay changes it.

mod config;

#[cfg(test)]
mod tests;

use std::f64::consts::PI;

use mlx_sys::{Array, TokenAngles};

use crate::batch::Batch;
use crate::error::Result;

pub use config::{context_limit, length_classes};

/// How base frequencies are stretched for contexts longer than the model was first trained on.
#[derive(Clone, Debug, PartialEq)]
enum Scaling {
    /// As trained.
    None,
    /// Positions divided by `factor` (Chen et al. 2023).
    Linear { factor: f64 },
    /// The base grows with the length beyond the trained one (NTK-aware).
    Dynamic { factor: f64, trained_len: u32 },
    /// Low frequencies divided by `factor`, high ones kept, a ramp between (Llama 3.1).
    Llama3 { factor: f64, low: f64, high: f64, trained_len: u32 },
    /// Interpolation by parts (Peng et al. 2023).
    Yarn { factor: f64, beta_fast: f64, beta_slow: f64, trained_len: u32, truncate: bool },
    /// One factor a frequency, of two sets: one for sequences within the trained length, one for longer ones
    /// (Ding et al. 2024).
    LongRope { short: Vec<f64>, long: Vec<f64>, trained_len: u32 },
}

/// Rotary embedding of one model.
#[derive(Clone, Debug)]
pub struct Rope {
    /// Dimensions of a head that are rotated; the rest passes through.
    dims: usize,
    theta: f64,
    scaling: Scaling,
    /// Factor on both sine and cosine.
    magnitude: f64,
}

/// Cosines and sines of one step, each [T, dims / 2].
#[derive(Debug)]
pub struct Angles {
    cos: Array,
    sin: Array,
}

impl Rope {
    /// Radians a position for each rotated pair, of a sequence that may come to hold `max_len` tokens.
    fn frequencies(&self, max_len: u32) -> Vec<f64> {
        let plain = |theta: f64| {
            let dims = self.dims as f64;
            (0..self.dims / 2).map(move |i| theta.powf(-2.0 * i as f64 / dims))
        };
        match &self.scaling {
            Scaling::None => plain(self.theta).collect(),
            Scaling::Linear { factor } => plain(self.theta).map(|f| f / factor).collect(),
            Scaling::Dynamic { factor, trained_len } => {
                let stretch = f64::from(max_len.max(*trained_len)) / f64::from(*trained_len);
                let exponent = self.dims as f64 / (self.dims as f64 - 2.0);
                plain(self.theta * (factor * stretch - (factor - 1.0)).powf(exponent)).collect()
            }
            Scaling::Llama3 { factor, low, high, trained_len } => {
                plain(self.theta).map(|f| llama3(f, *factor, (*low, *high), *trained_len)).collect()
            }
            Scaling::Yarn { factor, .. } => {
                let ramp = self.yarn_ramp();
                plain(self.theta).zip(ramp).map(|(f, kept)| f * kept + f / factor * (1.0 - kept)).collect()
            }
            Scaling::LongRope { short, long, trained_len } => {
                let factors = if max_len > *trained_len { long } else { short };
                plain(self.theta).zip(factors).map(|(f, factor)| f / factor).collect()
            }
        }
    }

    /// For each pair, the share of its unscaled frequency that YaRN keeps.
    fn yarn_ramp(&self) -> Vec<f64> {
        let Scaling::Yarn { beta_fast, beta_slow, trained_len, truncate, .. } = self.scaling else {
            return vec![1.0; self.dims / 2];
        };
        let dims = self.dims as f64;
        // The pair that turns `rotations` times over the trained length.
        let pair = |rotations: f64| {
            dims * (f64::from(trained_len) / (rotations * 2.0 * PI)).ln() / (2.0 * self.theta.ln())
        };
        let (mut low, mut high) = (pair(beta_fast), pair(beta_slow));
        if truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, mut high) = (low.max(0.0), high.min(dims - 1.0));
        if low == high {
            high += 0.001;
        }
        (0..self.dims / 2).map(|i| 1.0 - ((i as f64 - low) / (high - low)).clamp(0.0, 1.0)).collect()
    }

    /// Whether sequences of different length limits have different frequencies.
    fn depends_on_length(&self) -> bool {
        matches!(self.scaling, Scaling::Dynamic { .. } | Scaling::LongRope { .. })
    }

    /// Cosines and sines for every token of a step.
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn angles(&self, batch: &Batch) -> Result<Angles> {
        let half = (self.dims / 2) as i32;
        let frequencies = if self.depends_on_length() {
            let table: Vec<f32> =
                batch.max_lens.iter().flat_map(|&len| self.frequencies(len)).map(|f| f as f32).collect();
            let table = Array::from_slice(&table, &[batch.max_lens.len() as i32, half])?;
            table.take(&batch.row_of_token()?, 0)?
        } else {
            let table: Vec<f32> = self.frequencies(0).into_iter().map(|f| f as f32).collect();
            Array::from_slice(&table, &[1, half])?
        };
        let angles = batch.positions.expand_dims(&[1])?.multiply(&frequencies)?;
        let (mut cos, mut sin) = (angles.cos()?, angles.sin()?);
        if self.magnitude != 1.0 {
            let magnitude = Array::scalar(self.magnitude as f32)?;
            (cos, sin) = (cos.multiply(&magnitude)?, sin.multiply(&magnitude)?);
        }
        Ok(Angles { cos, sin })
    }
}

impl Angles {
    /// As attention takes them.
    pub fn of_tokens(&self) -> TokenAngles<'_> {
        TokenAngles { cos: &self.cos, sin: &self.sin }
    }
}

/// Llama 3.1's frequency map: wavelengths beyond `trained_len / low` are stretched, those below
/// `trained_len / high` kept.
fn llama3(frequency: f64, factor: f64, (low, high): (f64, f64), trained_len: u32) -> f64 {
    let rotations = f64::from(trained_len) * frequency / (2.0 * PI);
    let kept = ((rotations - low) / (high - low)).clamp(0.0, 1.0);
    (1.0 - kept) * frequency / factor + kept * frequency
}
