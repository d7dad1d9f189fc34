//! The GPU executor: one pinned thread that alone calls MLX, and everything that lives and dies on it:
//! the engine, KV memory, sampling, layers and model families.
//!
//! The crate takes [`StepPlan`](troupe_protocol::StepPlan)s and answers with outcomes. It does not know requests,
//! text, tenants or time, and decides nothing about who runs.

mod batch;
mod budget;
mod engine;
mod error;
mod executor;
mod fallback;
mod host;
mod kv;
mod kv_copy;
mod layers;
mod load;
mod models;
mod prompt_logprobs;
mod sampling;
mod slots;
mod store;
mod transfer;
mod unsampled;

pub use engine::Engine;
pub use error::{ConfigError, GpuError, Result};
pub use executor::{EventSink, Executor};
