//! Everything that can be wrong with a model's files, said so that a person can act on it.

use std::path::{Path, PathBuf};

/// The reason a model's files were refused. Each names its file, then the tensor or key, then the way out.
#[derive(Debug, thiserror::Error)]
pub enum ModelFileError {
    /// The operating system would not open, stat, read or map a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The path is neither a model folder nor a GGUF file.
    #[error("{}: {problem}; give a folder with config.json and *.safetensors, or a .gguf file", path.display())]
    NotAModel {
        /// What was given.
        path: PathBuf,
        /// Why it is no model.
        problem: String,
    },
    /// A file that the model cannot do without is not there.
    #[error("{}: missing; {hint}", path.display())]
    Missing {
        /// Where it should be.
        path: PathBuf,
        /// What to do.
        hint: &'static str,
    },
    /// A JSON file does not parse, or does not hold an object.
    #[error("{}: not valid JSON: {problem}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        problem: String,
    },
    /// A file ends before what its header promises.
    #[error("{}: truncated: ends inside {what}; download it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// What the end cuts through.
        what: String,
    },
    /// A value lies over a limit that no real model reaches.
    #[error("{}: {what} is {value}, over the limit of {limit}", path.display())]
    OverLimit {
        /// The file.
        path: PathBuf,
        /// The thing counted.
        what: String,
        /// Its value.
        value: u64,
        /// The most that is accepted.
        limit: u64,
    },
    /// The bytes contradict the format.
    #[error("{}: {what}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The part of the file.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A key of the configuration or metadata is missing or holds the wrong thing.
    #[error("{}: key `{key}`: {problem}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The key as the file spells it.
        key: String,
        /// What is wrong with its value.
        problem: String,
    },
    /// A tensor contradicts the file, the configuration or its siblings.
    #[error("{}: tensor `{tensor}`: {problem}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor as the file spells it.
        tensor: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No tensor has that name.
    #[error("{}: no tensor `{tensor}`", path.display())]
    UnknownTensor {
        /// The model.
        path: PathBuf,
        /// The name asked for.
        tensor: String,
    },
    /// A tensor's type is known to the format and not to us.
    #[error(
        "{}: tensor `{tensor}` has type {found}, which is not supported; convert the model to one of {supported}",
        path.display()
    )]
    UnsupportedType {
        /// The file.
        path: PathBuf,
        /// The tensor as the file spells it.
        tensor: String,
        /// Its type.
        found: String,
        /// The types that can be read.
        supported: &'static str,
    },
    /// A GGUF architecture whose tensor names and keys are not in our table.
    #[error("{}: architecture `{found}` is not supported in GGUF files; known: {known}", path.display())]
    UnsupportedArchitecture {
        /// The file.
        path: PathBuf,
        /// What the file says it is.
        found: String,
        /// The rows of our table.
        known: String,
    },
    /// A quantisation method other than MLX's affine one.
    #[error(
        "{}: quantisation `{method}` is not supported; use an unquantised model, an MLX affine one, or GGUF",
        path.display()
    )]
    UnsupportedQuantization {
        /// The file that names the method.
        path: PathBuf,
        /// The method or mode.
        method: String,
    },
    /// The folder asks for its own code to be run.
    #[error("{}: key `{key}` asks to run code from the model's folder, which is never done", path.display())]
    RunsCode {
        /// The configuration file.
        path: PathBuf,
        /// The key.
        key: &'static str,
    },
}

/// The crate's result.
pub type Result<T, E = ModelFileError> = std::result::Result<T, E>;

impl ModelFileError {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    pub(crate) fn malformed(path: &Path, what: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Malformed { path: path.into(), what: what.into(), problem: problem.into() }
    }

    pub(crate) fn key(path: &Path, key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Key { path: path.into(), key: key.into(), problem: problem.into() }
    }

    pub(crate) fn tensor(path: &Path, tensor: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Tensor { path: path.into(), tensor: tensor.into(), problem: problem.into() }
    }
}
