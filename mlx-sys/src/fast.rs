//! Quantised matrices and MLX's fused operations.

use crate::array::{Array, unlist};
use crate::bridge::ffi;
use crate::{Dtype, Error, Result};

/// How the rows of a quantised matrix are packed (MLX's affine mode).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// Elements that share one scale and bias: 32, 64 or 128.
    pub group_size: i32,
    /// Bits of an element: 2, 3, 4, 5, 6 or 8.
    pub bits: i32,
}

/// A matrix quantised in groups along its rows.
#[derive(Debug, Clone)]
pub struct Quantized {
    /// The elements, packed into u32: `[n, k · bits / 32]`.
    pub packed: Array,
    /// One scale a group: `[n, k / group_size]`.
    pub scales: Array,
    /// One bias a group, like `scales`.
    pub biases: Array,
    /// How the elements are packed.
    pub packing: Packing,
}

/// Which way a matrix stands in a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orientation {
    /// `x · w`
    Plain,
    /// `x · wᵀ`, the way of linear layers
    Transposed,
}

impl Quantized {
    /// Quantises the rows of `matrix` `[n, k]`.
    pub fn quantize(matrix: &Array, packing: Packing) -> Result<Self> {
        let mut parts = unlist(&*ffi::quantize(matrix.raw(), &packing.raw())?).into_iter();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(packed), Some(scales), Some(biases)) => Ok(Self { packed, scales, biases, packing }),
            _ => Err(Error::Mlx("quantize gave less than three arrays".to_owned())),
        }
    }

    /// The matrix as plain `dtype`.
    #[allow(unsafe_code, reason = "a pointer that is null or a live array")]
    pub fn dequantize(&self, dtype: Dtype) -> Result<Array> {
        let (packing, biases) = (self.packing.raw(), pointer(Some(&self.biases)));
        // SAFETY: `biases` points to an array that outlives the call.
        Array::wrap(unsafe {
            ffi::dequantize(self.packed.raw(), self.scales.raw(), biases, &packing, dtype.code())
        })
    }

    /// The product of `x` with this matrix.
    #[allow(unsafe_code, reason = "a pointer that is null or a live array")]
    pub fn matmul(&self, x: &Array, orientation: Orientation) -> Result<Array> {
        let (packing, biases) = (self.packing.raw(), pointer(Some(&self.biases)));
        let transposed = orientation == Orientation::Transposed;
        // SAFETY: `biases` points to an array that outlives the call.
        Array::wrap(unsafe {
            ffi::quantized_matmul(x.raw(), self.packed.raw(), self.scales.raw(), biases, transposed, &packing)
        })
    }
}

impl Packing {
    fn raw(self) -> ffi::Packing {
        ffi::Packing { group_size: self.group_size, bits: self.bits }
    }
}

/// Which pairs of elements a rotary embedding rotates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopePairs {
    /// Element i with element i + dims/2 (Hugging Face).
    HalfSplit,
    /// Element 2i with element 2i + 1 (GGUF, GPT-J).
    Interleaved,
}

/// The angles of a rotary embedding.
#[derive(Debug, Clone)]
pub enum RopeAngles {
    /// Powers of a base.
    Base(f32),
    /// The period of each pair: `[dims / 2]`, f32.
    Periods(Array),
}

/// A rotary position embedding over the last axis.
#[derive(Debug, Clone)]
pub struct Rope {
    /// How many leading elements are rotated.
    pub dims: i32,
    /// Which pairs.
    pub pairs: RopePairs,
    /// The angles.
    pub angles: RopeAngles,
    /// Positions are multiplied with it.
    pub scale: f32,
}

impl Rope {
    /// Rotates `x` `[…, tokens, head_dim]`, whose first token stands at position `offset`.
    #[allow(unsafe_code, reason = "a pointer that is null or a live array")]
    pub fn apply(&self, x: &Array, offset: i32) -> Result<Array> {
        let (base, periods) = match &self.angles {
            RopeAngles::Base(base) => (Some(*base), None),
            RopeAngles::Periods(periods) => (None, Some(periods)),
        };
        let options = ffi::RopeOptions {
            dims: self.dims,
            traditional: self.pairs == RopePairs::Interleaved,
            has_base: base.is_some(),
            base: base.unwrap_or_default(),
            scale: self.scale,
        };
        // SAFETY: the pointer is null or points to an array that outlives the call.
        Array::wrap(unsafe { ffi::rope(x.raw(), &options, offset, pointer(periods)) })
    }
}

/// What a query may see in [`scaled_dot_product_attention`].
#[derive(Debug, Clone, Copy)]
pub enum Mask<'a> {
    /// Every key.
    None,
    /// The keys up to its own position, the last query standing at the last key.
    Causal,
    /// Added to the scores, or (bool) true where a key is seen; broadcasts to `[batch, heads, queries, keys]`.
    Array(&'a Array),
}

/// Attention of `q` `[batch, heads, queries, dim]` over `k` and `v` `[batch, kv_heads, keys, dim]`.
#[allow(unsafe_code, reason = "a pointer that is null or a live array")]
pub fn scaled_dot_product_attention(
    q: &Array,
    k: &Array,
    v: &Array,
    scale: f32,
    mask: Mask<'_>,
) -> Result<Array> {
    let (mode, array) = match mask {
        Mask::None => ("", None),
        Mask::Causal => ("causal", None),
        Mask::Array(array) => ("array", Some(array)),
    };
    // SAFETY: the pointer is null or points to an array that outlives the call.
    Array::wrap(unsafe { ffi::attention(q.raw(), k.raw(), v.raw(), scale, mode, pointer(array)) })
}

impl Array {
    /// Each row normalised to mean 0 and variance 1, times `weight`, plus `bias`.
    #[allow(unsafe_code, reason = "a pointer that is null or a live array")]
    pub fn layer_norm(&self, weight: Option<&Array>, bias: Option<&Array>, eps: f32) -> Result<Array> {
        // SAFETY: the pointers are null or point to arrays that outlive the call.
        Array::wrap(unsafe { ffi::layer_norm(self.raw(), pointer(weight), pointer(bias), eps) })
    }
}

/// `width` random bytes (1, 2 or 4) an element, from a counter-based generator: the same `key` (u32 `[2]`) gives the
/// same bits on every device.
pub fn random_bits(shape: &[i32], width: i32, key: &Array) -> Result<Array> {
    Array::wrap(ffi::random_bits(shape, width, key.raw()))
}

fn pointer(array: Option<&Array>) -> *const ffi::MlxArray {
    array.map_or(std::ptr::null(), |array| std::ptr::from_ref(array.raw()))
}
