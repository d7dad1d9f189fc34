//! Model files: Hugging Face folders of safetensors and single GGUF files, read through one API in Hugging Face's
//! names, shapes and row order.
//!
//! Files come from strangers. Opening checks every number in them against the file's real size, in checked
//! arithmetic, before it is used or allocated for; what is not supported is refused by its name. Nothing in a model's
//! folder is ever run. The crate knows no MLX and no tokenizer: it hands out bytes, texts and numbers.

mod blocks;
mod error;
mod files;
mod folder;
mod folder_prompt;
mod format;
mod gguf;
mod json;
mod mapped;
mod prompt;
mod quantization;
mod safetensors_file;
mod summary;
mod tensor;
mod tokenizer;
mod weights;

pub use blocks::{AffineQuantized, to_affine, to_f32, write_f32};
pub use error::{ModelFileError, Result};
pub use files::{ModelFiles, ModelFormat, OutputHead};
pub use format::{BLOCK_ELEMENTS, BlockFormat, Dtype, TensorFormat};
pub use prompt::{ChatTemplates, GenerationDefaults, NamedTemplate, SpecialTokens};
pub use quantization::{AffineSpec, Quantization};
pub use summary::Summary;
pub use tensor::TensorView;
pub use tokenizer::{GgufTokenizer, HuggingFaceTokenizer, TokenizerSource};
