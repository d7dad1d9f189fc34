//! The host's memory.

/// Bytes of the host's memory.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// All.
    pub total: u64,
    /// What could be taken without swapping.
    pub available: u64,
}

/// The host's memory; `None` where the system does not say.
pub fn memory() -> Option<Memory> {
    // Linux says it in kibibytes; elsewhere the file is not there.
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let bytes = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    };
    Some(Memory { total: bytes("MemTotal:")?, available: bytes("MemAvailable:")? })
}
