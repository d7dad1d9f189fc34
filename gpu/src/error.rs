//! Why a model cannot be loaded or a step cannot be computed.

use mlx_sys::Dtype;
use thiserror::Error;
use troupe_model_files::ModelFileError;
use troupe_protocol::KvCacheDtype;

use crate::store::StoreError;

/// Result of this crate.
pub type Result<T, E = GpuError> = std::result::Result<T, E>;

/// Errors of the executor's thread.
#[derive(Debug, Error)]
pub enum GpuError {
    /// Files that cannot be read.
    #[error(transparent)]
    Files(#[from] ModelFileError),
    /// A configuration that cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An architecture that no family serves.
    #[error("unknown architecture `{found}` (known: {known})")]
    UnknownArchitecture {
        /// The file's `model_type`.
        found: String,
        /// All that are known.
        known: String,
    },
    /// A tensor whose shape contradicts the configuration.
    #[error("tensor `{name}` has shape {found:?}, but the configuration asks for {wanted:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape in the file.
        found: Vec<usize>,
        /// Its shape by the configuration.
        wanted: Vec<usize>,
    },
    /// A tensor whose type cannot be used where it stands.
    #[error("tensor `{name}` holds {found}, which cannot serve as {role}")]
    Type {
        /// The tensor.
        name: String,
        /// Its type in the file.
        found: String,
        /// What it was wanted for.
        role: &'static str,
    },
    /// A type of KV blocks that attention does not read where it runs.
    #[error(
        "a KV cache of {wanted} needs the CPU's own kernels; on a GPU, or with weights as stored, it is of the type \
         that is computed in: {kept} (use `--kv-cache-dtype auto`)"
    )]
    KvDtype {
        /// What was asked for.
        wanted: KvCacheDtype,
        /// What it would be.
        kept: Dtype,
    },
    /// The asked-for device is not there.
    #[error("no GPU is available to MLX {version}; use `--device cpu` or an MLX build for your GPU")]
    NoGpu {
        /// MLX's version.
        version: String,
    },
    /// A number of threads that no pool has.
    #[error("cpu.threads of {threads} is not between 1 and {}", troupe_protocol::CpuOptions::MAX_THREADS)]
    Threads {
        /// What was asked for.
        threads: u32,
    },
    /// An option for quantised weights where there are none.
    #[error("cpu.activations is set to {activations}, but {reason}")]
    ActivationsUnused {
        /// What was asked for.
        activations: &'static str,
        /// Why it would change nothing.
        reason: &'static str,
    },
    /// A longer context than the model is made for.
    #[error("max_model_len of {wanted} exceeds the {limit} tokens that the model is made for")]
    ContextTooLong {
        /// What was asked for.
        wanted: u32,
        /// What the model's configuration allows.
        limit: u32,
    },
    /// Memory that cannot hold what was asked for.
    #[error(
        "{wanted} bytes for KV blocks (engine.kv_cache_memory) hold {blocks} blocks, but a sequence needs at least {least}"
    )]
    KvTooSmall {
        /// Bytes asked for.
        wanted: u64,
        /// Blocks that fit into them.
        blocks: u64,
        /// The least number of blocks.
        least: u64,
    },
    /// More memory for keys and values than there is.
    #[error(
        "engine.kv_cache_memory of {wanted} bytes is more than the {total} bytes of memory that the {owner} has"
    )]
    KvTooLarge {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes there are.
        total: u64,
        /// Whose memory it is.
        owner: &'static str,
    },
    /// The block store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Weights or configuration that make nonsense of every input.
    #[error("the model's weights or its configuration are broken: its scores are not finite numbers")]
    NotFinite,
    /// A step that contradicts what the executor holds.
    #[error("invalid step: {0}")]
    Step(String),
    /// MLX refused or failed.
    #[error("mlx: {0}")]
    Mlx(#[from] mlx_sys::Error),
}

impl GpuError {
    /// The option of the server's configuration that is to be changed, if it is not the model that is to blame.
    pub fn option(&self) -> Option<&'static str> {
        match self {
            Self::KvDtype { .. } => Some("engine.kv_cache_dtype"),
            Self::NoGpu { .. } => Some("engine.device"),
            Self::Threads { .. } => Some("cpu.threads"),
            Self::ActivationsUnused { .. } => Some("cpu.activations"),
            Self::ContextTooLong { .. } => Some("engine.max_model_len"),
            Self::KvTooSmall { .. } | Self::KvTooLarge { .. } => Some("engine.kv_cache_memory"),
            Self::Store(error) => error.option(),
            Self::Files(_)
            | Self::Config(_)
            | Self::UnknownArchitecture { .. }
            | Self::Shape { .. }
            | Self::Type { .. }
            | Self::NotFinite
            | Self::Step(_)
            | Self::Mlx(_) => None,
        }
    }
}

/// A key of `config.json` that is missing or unusable.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Needed and not there.
    #[error("the model's configuration lacks `{key}`")]
    Missing {
        /// The key, dotted.
        key: String,
    },
    /// There, and unusable.
    #[error("the model's configuration has an unusable `{key}`: {reason}")]
    Invalid {
        /// The key, dotted.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}
