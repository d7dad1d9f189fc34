//! What the CPU can do at most with the threads and the instruction set in use: work to take the time of, beside that of
//! a kernel.

use crate::bridge::ffi;

/// Reads `bytes` once, with all threads. The answer is a sum of them that nobody needs.
#[must_use]
pub fn read_once(bytes: &[u8]) -> u64 {
    ffi::read_once(bytes)
}

/// Multiplies and adds f32 numbers that stay in registers, with all threads, and answers how many operations that was:
/// two for a product that is added. They are in proportion to `rounds`.
#[must_use]
pub fn multiply_and_add(rounds: u32) -> i64 {
    ffi::multiply_and_add(rounds.into())
}
