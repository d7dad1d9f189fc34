//! Memory of KV blocks that is present before a step writes to it.

use std::fmt;

use cxx::UniquePtr;

use crate::Result;
use crate::array::{Array, list};
use crate::bridge::ffi;

/// Makes the pages of slabs present before blocks in them are used, on a thread of its own, so that no step waits while
/// the system finds and clears them. Holds on to the slabs.
pub struct PagesAhead(UniquePtr<ffi::PagesAhead>);

impl PagesAhead {
    /// Begins with the first large page (2 MiB) of each array `[blocks, ...]`, which are evaluated arrays in the memory of
    /// the CPU.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn new(slabs: &[&Array]) -> Result<Self> {
        Ok(Self(ffi::pages_ahead(&list(slabs))?))
    }

    /// Says that the first `blocks` blocks of each slab are in use, so that the next will soon be wanted. Does not wait.
    pub fn used(&self, blocks: usize) {
        self.0.used(blocks);
    }

    /// Waits until all that is wanted so far is present. Answers how many blocks of each slab, at
    /// least, are present.
    #[must_use]
    pub fn settle(&self) -> usize {
        self.0.settle()
    }
}

impl fmt::Debug for PagesAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagesAhead").finish_non_exhaustive()
    }
}
