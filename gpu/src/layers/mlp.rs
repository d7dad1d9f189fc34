//! Feed-forward layers.

use mlx_sys::Array;

use super::{Linear, Projections};
use crate::error::Result;

/// `down(silu(gate(x)) * up(x))` (Shazeer 2020).
#[derive(Debug)]
pub struct GatedMlp {
    /// Gate and up, in this order.
    pub gate_up: Projections,
    /// Back to the hidden width.
    pub down: Linear,
}

impl GatedMlp {
    /// `x` [T, hidden] to the same shape.
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn forward(&self, x: &Array) -> Result<Array> {
        let parts = self.gate_up.forward(x)?;
        let (gate, up) = (&parts[0], &parts[1]);
        self.down.forward(&gate.swiglu(up)?)
    }
}
