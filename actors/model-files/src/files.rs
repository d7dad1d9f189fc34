//! An open model: the one type through which the rest of the server reads a model's files.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::error::{ModelFileError, Result};
use crate::json::JsonFile;
use crate::mapped::MappedFile;
use crate::prompt::{ChatTemplates, GenerationDefaults, Prompting, SpecialTokens};
use crate::quantization::{AffineSpec, Quantization};
use crate::tensor::TensorView;
use crate::tokenizer::{GgufTokenizer, HuggingFaceTokenizer, TokenizerSource};
use crate::weights::Weights;
use crate::{folder, format, gguf};

/// The kind of files that hold a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelFormat {
    /// A Hugging Face folder.
    Safetensors,
    /// One GGUF file.
    Gguf,
}

/// Which matrix turns hidden states into logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputHead {
    /// The token embedding.
    Tied,
    /// `lm_head.weight`.
    Own,
}

/// What the tokenizer is read from when it is asked for.
#[derive(Debug)]
pub(crate) enum TokenizerOrigin {
    Folder { tokenizer_config: JsonFile },
    Gguf(Option<GgufTokenizer>),
}

/// A model's files, opened and checked: every tensor lies inside its file, overlaps no other, and is as long as its
/// type and shape say. Weights are mapped, not read. Drop it once the weights are loaded: mapped pages count towards
/// the process's resident size.
#[derive(Debug)]
pub struct ModelFiles {
    pub(crate) path: PathBuf,
    pub(crate) format: ModelFormat,
    pub(crate) config: JsonFile,
    pub(crate) weights: Weights,
    pub(crate) quantization: Option<Quantization>,
    pub(crate) tokenizer: TokenizerOrigin,
    pub(crate) prompting: Prompting,
}

impl ModelFiles {
    /// Opens a Hugging Face folder or a GGUF file, told apart by what is there and not by its name.
    ///
    /// # Errors
    /// Whatever is wrong with the files, but for a missing tokenizer, which [`Self::tokenizer`] reports: a model
    /// can be inspected without one.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let metadata = std::fs::metadata(path).map_err(|source| ModelFileError::io(path, source))?;
        if metadata.is_dir() {
            return folder::open(path);
        }
        let looks_like_gguf =
            path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
        if looks_like_gguf || MappedFile::open(path)?.bytes().starts_with(&gguf::MAGIC) {
            return gguf::open(path);
        }
        Err(ModelFileError::NotAModel { path: path.into(), problem: "a file, but not a GGUF file".into() })
    }

    /// What was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of files.
    pub fn format(&self) -> ModelFormat {
        self.format
    }

    /// The configuration in Hugging Face's keys: config.json as it is, or the translation of GGUF metadata.
    pub fn config(&self) -> &Map<String, Value> {
        &self.config.map
    }

    /// `model_type` of the configuration: the name of the model's family.
    ///
    /// # Errors
    /// When the configuration has none.
    pub fn model_type(&self) -> Result<&str> {
        const KEY: &str = "model_type";
        match self.config.get(KEY) {
            Some(Value::String(name)) => Ok(name),
            Some(other) => Err(self.config.wrong(KEY, "a text", other)),
            None => Err(ModelFileError::key(&self.config.path, KEY, "missing")),
        }
    }

    /// Every tensor, in the order of the files' bytes.
    pub fn tensors(&self) -> impl Iterator<Item = TensorView<'_>> {
        self.weights.iter()
    }

    /// The name of every tensor, in the same order.
    pub fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.weights.iter().map(|view| view.name())
    }

    /// Whether there is a tensor of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.weights.get(name).is_some()
    }

    /// One tensor by its Hugging Face name.
    ///
    /// # Errors
    /// When there is none.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        let unknown = || ModelFileError::UnknownTensor { path: self.path.clone(), tensor: name.into() };
        self.weights.get(name).ok_or_else(unknown)
    }

    /// How config.json says that MLX quantised the model. `None` for GGUF files, whose tensors say it themselves.
    pub fn quantization(&self) -> Option<&Quantization> {
        self.quantization.as_ref()
    }

    /// The affine form in which a module is stored as `MODULE.weight`, `.scales` and `.biases`, whose shapes agree with
    /// it; `None` for a module that is not stored so.
    pub fn affine(&self, module: &str) -> Option<AffineSpec> {
        let packed = format::TensorFormat::Dense(format::Dtype::U32);
        let weight = self.weights.get(&format!("{module}.weight"))?;
        let is_packed = weight.format() == packed && self.contains(&format!("{module}.scales"));
        is_packed.then(|| self.quantization.as_ref()?.for_module(module)).flatten()
    }

    /// Which output head a causal language model with the usual tensor names has. A `tie_word_embeddings` of true ties
    /// whatever tensors are there; without the flag, the presence of `lm_head.weight` decides.
    ///
    /// # Errors
    /// When the flag is false and there is no `lm_head.weight`.
    pub fn output_head(&self) -> Result<OutputHead> {
        const FLAG: &str = "tie_word_embeddings";
        const HEAD: &str = "lm_head.weight";
        match (self.config.bool(FLAG)?, self.contains(HEAD)) {
            (Some(true), _) | (None, false) => Ok(OutputHead::Tied),
            (Some(false) | None, true) => Ok(OutputHead::Own),
            (Some(false), false) => {
                Err(ModelFileError::tensor(&self.path, HEAD, format!("missing, and {FLAG} is false")))
            }
        }
    }

    /// The raw material of the tokenizer.
    ///
    /// # Errors
    /// When the model comes without one.
    pub fn tokenizer(&self) -> Result<TokenizerSource> {
        match &self.tokenizer {
            TokenizerOrigin::Gguf(Some(tokenizer)) => Ok(TokenizerSource::Gguf(Box::new(tokenizer.clone()))),
            TokenizerOrigin::Gguf(None) => Err(ModelFileError::key(
                &self.path,
                "tokenizer.ggml.tokens",
                "missing, so the model has no tokenizer",
            )),
            TokenizerOrigin::Folder { tokenizer_config } => {
                let tokenizer_json = self.path.join("tokenizer.json");
                if !tokenizer_json.is_file() {
                    let hint = match self.path.join("tokenizer.model").exists() {
                        true => "only tokenizer.model is there; convert it with transformers' fast tokenizer",
                        false => "the model has no tokenizer; was the download complete?",
                    };
                    return Err(ModelFileError::Missing { path: tokenizer_json, hint });
                }
                Ok(TokenizerSource::HuggingFace(HuggingFaceTokenizer {
                    tokenizer_json,
                    add_bos: tokenizer_config.bool("add_bos_token")?,
                    add_eos: tokenizer_config.bool("add_eos_token")?,
                }))
            }
        }
    }

    /// The chat templates, none for a base model.
    pub fn chat_templates(&self) -> &ChatTemplates {
        &self.prompting.templates
    }

    /// The texts of the special tokens.
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.prompting.special_tokens
    }

    /// Defaults for generation.
    pub fn generation_defaults(&self) -> &GenerationDefaults {
        &self.prompting.generation
    }

    /// 64 hexadecimal digits that stay the same for the same model and differ between models, fine-tunes of one base
    /// included: a hash over the configuration, each file's name, size and header, and at most 18 pages of each tensor,
    /// the first and the last among them. It does not read all weights, and so is no proof against tampering.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(Value::Object(self.config.map.clone()).to_string().as_bytes());
        for (file, header) in self.weights.headers() {
            part(file.path().file_name().unwrap_or_default().as_encoded_bytes());
            part(&(file.bytes().len() as u64).to_le_bytes());
            part(header);
        }
        for view in self.weights.iter() {
            view.samples().for_each(&mut part);
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
