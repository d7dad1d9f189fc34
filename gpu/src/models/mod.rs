//! Model families: one file and one line of the registry each. A family's name appears nowhere else.

mod config;
mod llama;

use mlx_sys::Array;

use crate::batch::Batch;
use crate::error::{GpuError, Result};
use crate::kv::{CacheKind, KvCache};
use crate::load::Loader;

pub use config::ConfigReader;

/// All families.
const FAMILIES: &[Family] = &[llama::FAMILY];

/// What the engine needs to know of a family.
#[derive(Clone, Copy)]
pub struct Family {
    /// The `model_type` that it serves.
    pub model_type: &'static str,
    /// What each layer keeps of the past.
    pub cache: fn(&ConfigReader) -> Result<Vec<CacheKind>>,
    /// Reads the weights.
    pub load: fn(&ConfigReader, &mut Loader<'_>) -> Result<Box<dyn Model>>,
}

/// A loaded model. Lives and dies on the executor's thread.
pub trait Model {
    /// Hidden states [T, hidden] of the batch's tokens, whose keys and values go into `kv`.
    ///
    /// # Errors
    /// If MLX refuses an operation.
    fn forward(&self, batch: &Batch, kv: &mut KvCache) -> Result<Array>;

    /// Scores of every token of the vocabulary for hidden states [S, hidden]: [S, vocabulary].
    ///
    /// # Errors
    /// If MLX refuses an operation.
    fn logits(&self, hidden: &Array) -> Result<Array>;
}

/// The family of a configuration.
///
/// # Errors
/// A configuration without `model_type`, or with one that is not known.
pub fn family(config: &ConfigReader) -> Result<Family> {
    let found = config.str("model_type")?.ok_or_else(|| config.missing("model_type"))?;
    FAMILIES.iter().find(|family| family.model_type == found).copied().ok_or_else(|| {
        let known: Vec<_> = FAMILIES.iter().map(|family| family.model_type).collect();
        GpuError::UnknownArchitecture { found: found.to_owned(), known: known.join(", ") }
    })
}
