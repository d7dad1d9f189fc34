use std::path::PathBuf;

/// Why a tokenizer could not be built or a text not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file is missing or is not a tokenizer.
    #[error("{path}: not a tokenizer: {message}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The parser's words.
        message: String,
    },
    /// `tokenizer.ggml.model` names an algorithm that is not built here.
    #[error("tokenizer model {name:?} is not supported; known models: {known}")]
    UnknownModel {
        /// The file's name for it.
        name: String,
        /// The supported names.
        known: &'static str,
    },
    /// `tokenizer.ggml.pre` names a pre-tokeniser whose rules are not known.
    #[error("pre-tokenizer {name:?} is not supported; known pre-tokenizers: {known}")]
    UnknownPreTokenizer {
        /// The file's name for it, empty if it has none.
        name: String,
        /// The supported names.
        known: String,
    },
    /// The vocabulary contradicts itself.
    #[error("tokenizer vocabulary is invalid: {reason}")]
    Vocabulary {
        /// What is wrong.
        reason: String,
    },
    /// The library failed on a text.
    #[error("text cannot be encoded: {message}")]
    Encode {
        /// The library's words.
        message: String,
    },
}
