//! Normalisation.

use mlx_sys::{Array, Norm};

/// Root-mean-square normalisation (Zhang, Sennrich 2019) with a weight [hidden].
#[derive(Debug)]
pub struct RmsNorm {
    /// Multiplies the normalised values.
    pub weight: Array,
    /// Added to the mean square.
    pub eps: f32,
}

impl RmsNorm {
    /// The same as a product takes it.
    pub fn norm(&self) -> Norm<'_> {
        Norm::Rms { weight: &self.weight, eps: self.eps }
    }
}
