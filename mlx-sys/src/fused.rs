//! The operations between products, one graph node each. On the CPU, f32 goes to our kernels, where a row's result
//! depends on that row alone, bit for bit; everything else is a graph of MLX's own operations.

use crate::Result;
use crate::array::Array;
use crate::bridge::ffi;

impl Array {
    /// Each row (last axis) over its root mean square, times `weight` `[row length]`.
    #[allow(unsafe_code, reason = "a pointer that is null or a live array")]
    pub fn rms_norm(&self, weight: Option<&Array>, eps: f32) -> Result<Array> {
        let weight = weight.map_or(std::ptr::null(), |weight| std::ptr::from_ref(weight.raw()));
        // SAFETY: the pointer is null or points to an array that outlives the call.
        Array::wrap(unsafe { ffi::rms_norm(self.raw(), weight, eps) })
    }

    /// `silu(self) · up`, both of one shape: the middle of a gated feed-forward layer.
    pub fn swiglu(&self, up: &Array) -> Result<Array> {
        Array::wrap(ffi::swiglu(self.raw(), up.raw()))
    }

    /// Rotates `[tokens, heads, dim]` by angles given per token: `cos` and `sin` are `[tokens, half]` with
    /// `half <= dim / 2`. Element i pairs with element i + half; elements from 2 · half on are copied.
    pub fn rotate_half(&self, cos: &Array, sin: &Array) -> Result<Array> {
        Array::wrap(ffi::rotate_half(self.raw(), cos.raw(), sin.raw()))
    }
}

/// `last` with all of our CPU nodes that it depends on and that are not evaluated as one node, which computes them in
/// order on the stream's thread; `last` itself where there is nothing to join. What it depends on is computed again if it
/// is evaluated by another handle.
///
/// MLX spends a few microseconds on every node on the way from one thread to the other, as much as a small product takes.
///
/// # Errors
/// If MLX refuses the node.
pub fn fuse(last: &Array) -> Result<Array> {
    Array::wrap(ffi::fuse(last.raw()))
}
