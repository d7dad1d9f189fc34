//! Troupe: a multi-tenant inference server on MLX. This package is the command line, the HTTP surface and the wiring;
//! it is the only one that knows all the others.

pub mod bench;
#[cfg(feature = "engine")]
pub mod boot;
#[cfg(feature = "engine")]
mod cache_key;
#[cfg(feature = "engine")]
pub mod cli;
pub mod http;
#[cfg(feature = "engine")]
pub mod local;
#[cfg(feature = "engine")]
mod logging;
#[cfg(feature = "engine")]
mod progress;
pub mod sampler_options;
#[cfg(feature = "engine")]
mod stop_signals;
#[cfg(feature = "engine")]
mod tenancy;
