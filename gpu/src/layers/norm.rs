//! Normalisation.

use mlx_sys::Array;

use crate::error::Result;

/// Root-mean-square normalisation (Zhang, Sennrich 2019) with a weight [hidden].
#[derive(Debug)]
pub struct RmsNorm {
    /// Multiplies the normalised values.
    pub weight: Array,
    /// Added to the mean square.
    pub eps: f32,
}

impl RmsNorm {
    /// `x` [T, hidden] to the same shape.
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn forward(&self, x: &Array) -> Result<Array> {
        Ok(x.rms_norm(Some(&self.weight), self.eps)?)
    }
}
