//! The instruction sets that our CPU kernels are compiled for, and a choice among them for tests and benches.

use crate::bridge::ffi;
use crate::{Error, Result, synchronize};

/// The names of the sets that this machine runs, best first: `v4vnni`, `v4`, `v3vnni`, `v3` after the levels of the
/// x86-64 ABI, `dotprod` on AArch64, and `base`, which every machine of the architecture has.
#[must_use]
pub fn instruction_sets() -> Vec<String> {
    ffi::instruction_set_names()
}

/// The set whose kernels are in use: the best, or what was chosen by hand.
#[must_use]
pub fn instruction_set() -> String {
    ffi::instruction_set_name()
}

/// Uses the kernels of set `name` from now on, in the whole process. For tests and benches: a row's bits depend on the
/// set, so it is not to be changed during a computation. Waits for the work that this thread has submitted.
///
/// # Errors
/// When this machine does not run the set, or when submitted work fails.
pub fn use_instruction_set(name: &str) -> Result<()> {
    synchronize()?;
    if ffi::set_instruction_set(name) {
        return Ok(());
    }
    Err(Error::InstructionSet { name: name.to_owned(), available: instruction_sets().join(", ") })
}
