//! A model in a few numbers, for a person who inspects it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::files::{ModelFiles, ModelFormat};
use crate::format::TensorFormat;

/// What `inspect` shows of a model's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The kind of files.
    pub format: ModelFormat,
    /// `model_type`, where there is one.
    pub architecture: Option<String>,
    /// Weights as the model computes with them: a packed word counts as the elements in it, scales and biases of
    /// quantisation not at all.
    pub num_parameters: u64,
    /// Tensors in the files.
    pub num_tensors: usize,
    /// Bytes of tensors by storage format.
    pub bytes_by_format: BTreeMap<String, u64>,
    /// Bytes of the weight files together.
    pub file_bytes: u64,
    /// Weight files.
    pub num_files: usize,
    /// For instance `Q4_1` (the block format with most bytes) or `affine 4-bit, group 64`; none for dense weights.
    pub quantization: Option<String>,
    /// `max_position_embeddings`.
    pub context_length: Option<u64>,
    /// `vocab_size`.
    pub vocab_size: Option<u64>,
}

impl ModelFiles {
    /// Adds up the directory; reads no weights.
    pub fn summary(&self) -> Summary {
        let mut bytes_by_format = BTreeMap::<TensorFormat, u64>::new();
        let mut num_parameters = 0u64;
        for view in self.tensors() {
            *bytes_by_format.entry(view.format()).or_default() += view.num_bytes() as u64;
            num_parameters += self.parameters(view.name(), view.num_elements() as u64);
        }
        let number = |key: &str| self.config().get(key).and_then(Value::as_u64);
        let files = self.weights.files();
        Summary {
            format: self.format(),
            architecture: self.model_type().ok().map(str::to_owned),
            num_parameters,
            num_tensors: self.tensors().count(),
            quantization: self.quantization_name(&bytes_by_format),
            bytes_by_format: bytes_by_format
                .into_iter()
                .map(|(format, bytes)| (format.to_string(), bytes))
                .collect(),
            file_bytes: files.iter().map(|file| file.bytes().len() as u64).sum(),
            num_files: files.len(),
            context_length: number("max_position_embeddings"),
            vocab_size: number("vocab_size"),
        }
    }

    fn parameters(&self, tensor: &str, num_elements: u64) -> u64 {
        let Some((module, parameter)) = tensor.rsplit_once('.') else { return num_elements };
        match (self.affine(module), parameter) {
            (Some(spec), "weight") => num_elements * 32 / u64::from(spec.bits()),
            (Some(_), "scales" | "biases") => 0,
            _ => num_elements,
        }
    }

    fn quantization_name(&self, bytes_by_format: &BTreeMap<TensorFormat, u64>) -> Option<String> {
        if let Some(quantization) = self.quantization() {
            let spec = quantization.default_spec();
            return Some(format!("affine {}-bit, group {}", spec.bits(), spec.group_size()));
        }
        let blocks = bytes_by_format.iter().filter(|(format, _)| matches!(format, TensorFormat::Blocks(_)));
        blocks.max_by_key(|(_, bytes)| **bytes).map(|(format, _)| format.to_string())
    }
}
