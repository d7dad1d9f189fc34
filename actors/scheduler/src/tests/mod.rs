//! The core against a fake executor that keeps books of its own.

mod fake_gpu;
mod random;
mod scenarios;
