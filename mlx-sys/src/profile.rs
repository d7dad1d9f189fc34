//! Where a step's time goes: the time of each of our CPU kernels, added up by name. Costs nothing while it is off.

use std::time::Duration;

use crate::bridge::ffi;

/// Time that the calls of a kernel took, from start to end on its stream's thread; other threads worked with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelTime {
    /// Its name; products are named by their shape.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// Of all calls.
    pub time: Duration,
}

/// Forgets all times, and adds up those of kernels that run from now on.
pub fn start() {
    ffi::profile_kernels(true);
}

/// Ends the adding up and gives the sums, by name.
#[must_use]
pub fn stop() -> Vec<KernelTime> {
    let times = ffi::kernel_times();
    ffi::profile_kernels(false);
    let times = times.into_iter().map(|sum| KernelTime {
        name: sum.name,
        calls: sum.calls,
        time: Duration::from_nanos(sum.nanoseconds),
    });
    times.collect()
}
