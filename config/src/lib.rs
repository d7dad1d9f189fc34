//! Configuration: one table of options, and everything that follows from it.
//!
//! [`OPTIONS`] names each option once: TOML key, flag, kind, default, help. Its environment variable, its
//! clap argument, its checks and its documentation are derived. [`Config::load`] merges the layers
//! (flag over environment over file over default) into one typed value, and every error says which
//! key was wrong and where it was written.
//!
//! This crate reads configuration files and nothing else: it does not look at models, devices or memory.

mod check;
mod choices;
mod config;
mod digest;
pub mod docs;
mod error;
mod file;
pub mod flags;
mod kind;
mod layer;
mod size;
mod suggest;
mod table;
mod tenants;

pub use choices::{
    CacheShare, CpuActivations, CpuAffinity, Device, KvCacheDtype, LogFormat, LogLevel, Priority, Weights,
};
pub use config::{
    AdminConfig, CacheConfig, Config, CpuConfig, EngineConfig, LogConfig, ModelConfig, ResponsesConfig,
    SchedulerConfig, ServerConfig, TokenizerConfig,
};
pub use digest::{DigestError, KeyDigest};
pub use error::{ConfigError, InForce, Origin};
pub use kind::Kind;
pub use layer::{Sources, unknown_variables};
pub use size::{SizeError, parse_size};
pub use suggest::nearest;
pub use table::{DefaultValue, OPTIONS, OptionSpec, SECTIONS, Section};
pub use tenants::{ANONYMOUS, TENANT_FIELDS, TenantConfig, TenantField};
