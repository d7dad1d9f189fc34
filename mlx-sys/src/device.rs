//! Devices and the version of MLX.

use crate::Result;
use crate::bridge::ffi;

/// Where operations run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Device {
    /// The host.
    Cpu,
    /// The first GPU (CUDA or Metal, as the linked MLX has it).
    Gpu,
}

impl Device {
    /// True when the linked MLX can use this device on this machine.
    #[must_use]
    pub fn is_available(self) -> bool {
        ffi::device_available(self == Self::Gpu)
    }

    /// What the device says of itself, `key=value` pairs in order of their keys.
    pub fn info(self) -> Result<String> {
        Ok(ffi::device_info(self == Self::Gpu)?)
    }

    /// The device's name, as its maker spells it.
    pub fn name(self) -> Result<String> {
        Ok(ffi::device_name(self == Self::Gpu)?)
    }

    /// Bytes of memory that the device has, or recommends to use at most. `None` where MLX does not say.
    pub fn memory_bytes(self) -> Result<Option<u64>> {
        let bytes = ffi::device_memory(self == Self::Gpu)?;
        Ok((bytes > 0).then_some(bytes))
    }
}

/// Where operations built from now on run. The one piece of ambient state, and MLX's own.
pub fn set_default_device(device: Device) -> Result<()> {
    Ok(ffi::set_default_device(device == Device::Gpu)?)
}

/// Where operations built now would run.
#[must_use]
pub fn default_device() -> Device {
    if ffi::default_is_gpu() { Device::Gpu } else { Device::Cpu }
}

/// Waits until all work submitted by this thread is done.
pub fn synchronize() -> Result<()> {
    Ok(ffi::synchronize()?)
}

/// MLX's version, as the library at run time says it.
#[must_use]
pub fn version() -> String {
    ffi::version()
}

/// How many threads our CPU kernels and BLAS work with.
#[must_use]
pub fn cpu_threads() -> usize {
    ffi::cpu_threads()
}

/// How many threads our CPU kernels and BLAS work with from now on: at least one, at most 256. The default is the cores
/// that this process may use. Results do not depend on it. Waits for work under way.
pub fn set_cpu_threads(threads: std::num::NonZeroUsize) -> Result<()> {
    Ok(ffi::set_cpu_threads(threads.get())?)
}

/// How the worker threads of our CPU kernels are bound to cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CpuAffinity {
    /// Each to a core of its own, never the one that the evaluating thread runs on.
    Pinned,
    /// To any core but the one that the evaluating thread runs on.
    Free,
}

/// How workers are bound from now on; pinned is the default. Results do not depend on it. Without effect where the
/// system has no such binding.
pub fn set_cpu_affinity(affinity: CpuAffinity) {
    ffi::pin_cpu_threads(affinity == CpuAffinity::Pinned);
}
