//! Feed-forward layers.

use mlx_sys::{Around, Array, Gate, Norm};

use super::{Linear, Projections};
use crate::error::Result;

/// `x + down(act(gate(norm(x))) * up(norm(x)))` (Shazeer 2020).
#[derive(Debug)]
pub struct GatedMlp {
    /// Gate and up, in this order.
    pub gate_up: Projections,
    /// Back to the hidden width.
    pub down: Linear,
    /// The activation.
    pub gate: Gate,
}

impl GatedMlp {
    /// `x` [T, hidden] to the same shape.
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn forward(&self, x: &Array, norm: Norm<'_>) -> Result<Array> {
        let inner = self.gate_up.gated(x, norm, self.gate)?;
        self.down.forward(&inner, Around { residual: Some(x), ..Around::default() })
    }
}
