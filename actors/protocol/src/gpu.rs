//! The executor's contract. Commands arrive on two bounded lanes (urgent before data), events leave by
//! a sink given at start. `Load`, `Submit`, `Masks` and `Drain` travel on the data lane, `Stats` and `Stop` on the urgent one.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::{BlockName, EngineLimits, Fault, StepId, StepMasks, StepOutcome, StepPlan, StoreId};

/// Capacity of the data lane. The scheduler keeps two steps in flight, each with its masks; the rest is room for `Load` and
/// `Drain`.
pub const DATA_LANE: usize = 6;
/// Capacity of the urgent lane. A sender that finds it full waits: the executor looks between steps.
pub const URGENT_LANE: usize = 8;

/// What the executor may be told.
#[derive(Clone, Debug, PartialEq)]
pub enum GpuCommand {
    /// Load a model; answered by `Ready` or `Fault`.
    Load(LoadRequest),
    /// Run a step; answered by `StepDone` or `StepFailed`.
    Submit(StepPlan),
    /// Sample the rows of a step in flight that wait for their masks. Without effect on a step that is not: it failed.
    Masks(StepMasks),
    /// Report memory and progress; answered by `Stats`.
    Stats,
    /// Finish what is in flight, then stop; answered by `Stopped`.
    Drain,
    /// Stop after the step that is being evaluated; answered by `Stopped`.
    Stop,
}

/// What the executor may say.
#[derive(Clone, Debug, PartialEq)]
pub enum GpuEvent {
    /// Part of the weights is in place.
    Loading {
        /// Tensors done.
        done: u32,
        /// Tensors in all.
        total: u32,
    },
    /// A model is loaded; steps are accepted.
    Ready(EngineInfo),
    /// A step completed.
    StepDone(StepOutcome),
    /// A step failed, and what it computed is void. Every later step in flight fails too, each with its
    /// own event, and KV contents of all sequences are lost; the executor itself goes on.
    StepFailed {
        /// The step.
        step: StepId,
        /// The cause.
        fault: Fault,
    },
    /// Answer to `Stats`.
    Stats(GpuStats),
    /// The executor cannot go on: loading failed, or its thread is gone.
    Fault(Fault),
    /// The thread ended as it was told.
    Stopped,
}

/// What to load, and into how much.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadRequest {
    /// A Hugging Face folder or a GGUF file.
    pub path: String,
    /// Where to compute.
    pub device: DeviceChoice,
    /// In which type weights are kept.
    pub weights: WeightDtype,
    /// In which type keys and values are kept.
    pub kv_cache_dtype: KvCacheDtype,
    /// Bound on a sequence's length; `None` takes the model's own.
    pub max_model_len: Option<u32>,
    /// Sequences that run at once; `None` takes the device's default.
    pub max_num_seqs: Option<u32>,
    /// Tokens of one step; `None` takes the device's default. Never less than `max_num_seqs`.
    pub max_num_batched_tokens: Option<u32>,
    /// Tokens of one KV block.
    pub block_size: u32,
    /// Bytes for KV blocks; `None` lets the executor choose from the memory it finds.
    pub kv_cache_bytes: Option<u64>,
    /// Where blocks go that the KV memory has no room for; `None` forgets them.
    pub store: Option<StoreRequest>,
    /// How the CPU computes. Without effect on a GPU, but for `activations`, which are refused there.
    pub cpu: CpuOptions,
}

/// The block store that is wanted: the second tier of the prefix cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreRequest {
    /// Folder of its file; in memory without one.
    pub dir: Option<String>,
    /// Bytes that it may take.
    pub bytes: u64,
}

/// How the CPU computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuOptions {
    /// Threads that compute together, at most [`Self::MAX_THREADS`]; `None` is one for each core that the process may
    /// use, and 16 at most.
    pub threads: Option<u32>,
    /// How threads are bound to cores.
    pub affinity: CpuAffinity,
    /// What becomes of activations before they meet quantised weights; `None` lets the executor choose.
    pub activations: Option<Activations>,
}

impl CpuOptions {
    /// The most threads that can be asked for.
    pub const MAX_THREADS: u32 = 256;
}

/// How the threads that compute are bound to cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuAffinity {
    /// Each to a core of its own.
    #[default]
    Pinned,
    /// To any core but that of the thread that they work for.
    Free,
}

/// What becomes of activations before they meet quantised weights on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activations {
    /// Rounded to 8 bits in groups of 32.
    Int8,
    /// Rounded to 16 bits in groups of 32.
    Int16,
    /// Left as they are.
    F32,
}

/// Which device computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU if MLX finds one, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU; loading fails if there is none.
    Gpu,
}

/// In which type weights are kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightDtype {
    /// As stored in the file; on the CPU, by the kernels made for it, which compute in f32.
    #[default]
    Auto,
    /// As stored in the file, computing in the file's own type.
    Stored,
    /// Dequantised to f32.
    F32,
}

/// In which type keys and values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvCacheDtype {
    /// f16 by the CPU's own kernels, which compute in f32; f32 where weights are kept as f32, a reference; elsewhere the
    /// type that is computed in.
    #[default]
    Auto,
    /// f32.
    F32,
    /// f16.
    F16,
    /// bf16.
    Bf16,
    /// Bytes with one f32 scale for each token and head.
    Int8,
}

impl fmt::Display for KvCacheDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        })
    }
}

/// A loaded model, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// The family (`model_type`).
    pub architecture: String,
    /// The device in words.
    pub device: String,
    /// Its bounds.
    pub limits: EngineLimits,
    /// Bytes of weights in memory.
    pub weight_bytes: u64,
    /// Bytes of KV blocks.
    pub kv_bytes: u64,
    /// What the block store holds from an earlier run, least recently written first.
    pub stored: Vec<StoredBlock>,
}

/// A block in the block store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    /// Where.
    pub at: StoreId,
    /// What it holds.
    pub name: BlockName,
}

/// The executor's memory and progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuStats {
    /// Steps completed.
    pub steps: u64,
    /// Bytes held by live arrays.
    pub active_bytes: u64,
    /// The most that were held at once.
    pub peak_bytes: u64,
    /// Bytes kept by MLX for reuse.
    pub cache_bytes: u64,
}
