//! Dense weights in the form that our CPU kernels read fastest.

use crate::array::Array;
use crate::bridge::ffi;
use crate::{Dtype, Result};

/// A matrix `[n, k]` of f32, f16 or bf16 in the form of our CPU kernels, no larger than it was but for rows that fill
/// up a multiple of 32. Its numbers are unchanged; products compute in f32.
///
/// A row of a product depends on that row of `x` alone, bit for bit: not on its neighbours, nor on the number of
/// threads.
#[derive(Debug, Clone)]
pub struct DensePanels {
    data: Array,
    rows: i32,
    columns: i32,
    dtype: Dtype,
}

impl DensePanels {
    /// Repacks `matrix`, at once; drop it afterwards to have one copy in memory. `None` where no kernel takes it: on a
    /// GPU, or for another type or another number of axes than two. Use [`Array::linear`] then.
    ///
    /// # Errors
    /// When `matrix` cannot be evaluated.
    pub fn from_rows(matrix: &Array) -> Result<Option<Self>> {
        let (&[rows, columns], dtype) = (matrix.shape(), matrix.dtype()) else { return Ok(None) };
        if !ffi::has_dense_panels(dtype.code()) {
            return Ok(None);
        }
        let data = Array::wrap(ffi::pack_dense(matrix.raw()))?;
        Ok(Some(Self { data, rows, columns, dtype }))
    }

    /// The rows `ids` (integers `[…]`) of the matrix: `[…, k]` f32.
    ///
    /// # Errors
    /// On evaluation for a row that the matrix does not have.
    pub fn rows(&self, ids: &Array) -> Result<Array> {
        Array::wrap(ffi::dense_rows(ids.raw(), self.data.raw(), &self.layout()))
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

    /// The type of its numbers.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The array that holds it; its bytes are the kernels' affair.
    pub(crate) fn data(&self) -> &Array {
        &self.data
    }

    pub(crate) fn layout(&self) -> ffi::DenseLayout {
        ffi::DenseLayout { rows: self.rows, columns: self.columns, dtype: self.dtype.code() }
    }
}
