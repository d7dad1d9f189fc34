//! Troupe: a multi-tenant inference server on MLX. This package is the command line, the HTTP surface and the wiring;
//! it is the only one that knows all the others.

pub mod bench;
pub mod boot;
mod cache_key;
pub mod cli;
pub mod http;
pub mod local;
mod logging;
mod progress;
pub mod sampler_options;
mod tenancy;
