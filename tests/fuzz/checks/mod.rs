//! What must hold for any bytes. `fuzz_targets` feeds these with libFuzzer, the contracts with mutated seeds.

pub mod bodies;
pub mod calls;
pub mod events;
pub mod grammars;
pub mod templates;
