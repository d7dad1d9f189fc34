//! How a tensor's elements are stored, and how many bytes they take.

use std::fmt;

use serde::Serialize;

/// Elements in a block of every GGUF block format that is read here.
pub const BLOCK_ELEMENTS: usize = 32;

/// The type of a dense tensor's elements, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[allow(missing_docs, reason = "the names are the definition")]
pub enum Dtype {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    BF16,
    F32,
    F64,
}

impl Dtype {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// A GGUF block format: 32 elements of one row, with the numbers that scale them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[allow(non_camel_case_types, reason = "the spelling of the GGUF specification")]
pub enum BlockFormat {
    /// f16 scale `d`, 32 nibbles `q`: `(q - 8) * d`.
    Q4_0,
    /// f16 scale `d`, f16 minimum `m`, 32 nibbles `q`: `q * d + m`.
    Q4_1,
    /// f16 scale `d`, 32 signed bytes `q`: `q * d`.
    Q8_0,
}

impl BlockFormat {
    /// Bytes of one block.
    pub const fn block_size(self) -> usize {
        match self {
            Self::Q4_0 => 2 + BLOCK_ELEMENTS / 2,
            Self::Q4_1 => 4 + BLOCK_ELEMENTS / 2,
            Self::Q8_0 => 2 + BLOCK_ELEMENTS,
        }
    }
}

/// The storage of one tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum TensorFormat {
    /// One number after the other.
    Dense(Dtype),
    /// Blocks along the last dimension, which is a multiple of [`BLOCK_ELEMENTS`].
    Blocks(BlockFormat),
}

impl TensorFormat {
    /// Bytes of a tensor of this shape (outermost dimension first). `None` where the product does not fit, or the
    /// last dimension is not whole blocks.
    pub fn byte_len(self, shape: &[usize]) -> Option<usize> {
        let elements = shape.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim))?;
        match self {
            Self::Dense(dtype) => elements.checked_mul(dtype.size()),
            Self::Blocks(blocks) => {
                let last = *shape.last()?;
                let whole = last.is_multiple_of(BLOCK_ELEMENTS);
                whole.then_some(elements / BLOCK_ELEMENTS)?.checked_mul(blocks.block_size())
            }
        }
    }
}

impl fmt::Display for TensorFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dense(dtype) => fmt::Debug::fmt(dtype, f),
            Self::Blocks(blocks) => fmt::Debug::fmt(blocks, f),
        }
    }
}
