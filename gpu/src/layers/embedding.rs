//! Token embedding, which may serve as the output head too.

use mlx_sys::{Around, Array, Dtype, Norm};

use super::Matrix;
use crate::error::Result;

/// A row for each token of the vocabulary.
#[derive(Debug)]
pub struct Embedding {
    /// [vocabulary, hidden].
    pub matrix: Matrix,
    /// Type of what comes out.
    pub dtype: Dtype,
}

impl Embedding {
    /// `tokens` [T] to [T, hidden].
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn forward(&self, tokens: &Array) -> Result<Array> {
        self.matrix.rows(tokens, self.dtype)
    }

    /// Scores of every token for the normalised rows of `hidden` [S, hidden]: [S, vocabulary].
    ///
    /// # Errors
    /// If MLX refuses an operation.
    pub fn logits(&self, hidden: &Array, norm: Norm<'_>) -> Result<Array> {
        self.matrix.project(hidden, Around { norm: Some(norm), ..Around::default() })
    }
}
