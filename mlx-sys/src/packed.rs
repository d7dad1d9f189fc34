//! Quantised weights in the form that our CPU kernels read fastest.
//!
//! A row of a product depends on that row of `x` alone, bit for bit: not on its neighbours, nor on the number of
//! threads.

use crate::array::Array;
use crate::bridge::ffi;
use crate::{Dtype, Error, Quantized, Result};

/// What becomes of activations before they are multiplied with a quantised matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activations {
    /// Rounded to 8 bits, with a scale for every 32 elements of a row: fast. An element's error is at most
    /// 1/254 of the largest magnitude among its 32. A NaN or an infinity makes NaN of its row, and of no other.
    Int8,
    /// The same with 16 bits: about half as fast for many rows, and as exact as f32 for practical purposes. An
    /// element's error is at most 1/65024 of the largest magnitude.
    Int16,
    /// Left as they are.
    F32,
}

impl Activations {
    pub(crate) fn raw(self) -> ffi::Activations {
        match self {
            Self::Int8 => ffi::Activations::Int8,
            Self::Int16 => ffi::Activations::Int16,
            Self::F32 => ffi::Activations::F32,
        }
    }
}

/// A quantised matrix `[n, k]` in the form of our CPU kernels, no larger than it was but for rows that fill up a
/// multiple of 16.
#[derive(Debug, Clone)]
pub struct PackedMatrix {
    data: Array,
    rows: i32,
    columns: i32,
    group_size: i32,
    bits: i32,
    scales: Dtype,
    activations: Activations,
}

impl PackedMatrix {
    /// Repacks `matrix`, at once; drop it afterwards to have one copy in memory. `None` where no kernel takes it: on a
    /// GPU, or for a type or a packing that none is made for. Use [`Quantized::matmul`] then.
    ///
    /// # Errors
    /// When the arrays of `matrix` do not fit each other.
    pub fn from_affine(matrix: &Quantized, activations: Activations) -> Result<Option<Self>> {
        let (&[rows, words], &[scale_rows, _]) = (matrix.packed.shape(), matrix.scales.shape()) else {
            return Err(Error::Mlx("[packed] a quantised matrix has two axes".to_owned()));
        };
        let (bits, group_size) = (matrix.packing.bits, matrix.packing.group_size);
        if bits <= 0 || rows != scale_rows || matrix.scales.dtype() != matrix.biases.dtype() {
            return Ok(None);
        }
        let columns = i64::from(words) * 32 / i64::from(bits);
        let Ok(columns) = i32::try_from(columns) else { return Ok(None) };
        let data = Array::zeros(&[0], Dtype::U8)?;
        let scales = matrix.scales.dtype();
        let mut packed = Self { data, rows, columns, group_size, bits, scales, activations };
        let layout = packed.layout();
        if !scales.is_float() || !ffi::can_pack(&layout)? {
            return Ok(None);
        }
        packed.data = Array::wrap(ffi::pack_affine(
            matrix.packed.raw(),
            matrix.scales.raw(),
            matrix.biases.raw(),
            &layout,
        ))?;
        Ok(Some(packed))
    }

    /// The rows `ids` (integers `[…]`) of the matrix: `[…, k]` f32.
    ///
    /// # Errors
    /// On evaluation for a row that the matrix does not have.
    pub fn rows(&self, ids: &Array) -> Result<Array> {
        Array::wrap(ffi::packed_rows(ids.raw(), self.data.raw(), &self.layout()))
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        self.data.nbytes()
    }

    /// `[n, k]`
    #[must_use]
    pub fn shape(&self) -> [i32; 2] {
        [self.rows, self.columns]
    }

    /// The array that holds it, to evaluate or to keep alive; its bytes are the kernels' affair.
    #[must_use]
    pub fn data(&self) -> &Array {
        &self.data
    }

    /// What becomes of activations.
    #[must_use]
    pub fn activations(&self) -> Activations {
        self.activations
    }

    pub(crate) fn layout(&self) -> ffi::PackedLayout {
        ffi::PackedLayout {
            rows: self.rows,
            columns: self.columns,
            group_size: self.group_size,
            bits: self.bits,
            scales: self.scales.code(),
        }
    }
}
