//! MLX's allocator: what it holds, and its limits. All numbers are bytes.

use crate::Result;
use crate::bridge::ffi;

/// Bytes in live arrays.
#[must_use]
pub fn active() -> usize {
    ffi::active_memory()
}

/// The most bytes that were in live arrays since the start or the last [`reset_peak`].
#[must_use]
pub fn peak() -> usize {
    ffi::peak_memory()
}

/// Starts the measure of [`peak`] anew.
pub fn reset_peak() {
    ffi::reset_peak_memory();
}

/// Bytes kept for reuse.
#[must_use]
pub fn cache() -> usize {
    ffi::cache_memory()
}

/// Gives the kept buffers back.
pub fn clear_cache() {
    ffi::clear_cache();
}

/// Sets what evaluation should stay below; returns the limit before.
pub fn set_limit(bytes: usize) -> Result<usize> {
    Ok(ffi::set_memory_limit(bytes)?)
}

/// Sets how much may be kept for reuse; returns the limit before.
pub fn set_cache_limit(bytes: usize) -> Result<usize> {
    Ok(ffi::set_cache_limit(bytes)?)
}

/// Sets how much stays resident (Metal only); returns the limit before.
pub fn set_wired_limit(bytes: usize) -> Result<usize> {
    Ok(ffi::set_wired_limit(bytes)?)
}
