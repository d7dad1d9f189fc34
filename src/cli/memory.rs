//! How much memory this machine has to give.

use std::fs;

/// Bytes that can be taken without swapping, within the limit of a container; `None` where the system
/// does not say.
pub(super) fn available_bytes() -> Option<u64> {
    let machine = mem_available(&fs::read_to_string("/proc/meminfo").ok()?)?;
    Some(cgroup_left().map_or(machine, |left| left.min(machine)))
}

fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What is left of a control group's limit (version 2, as a container sees it).
fn cgroup_left() -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse().ok()
    };
    // `memory.max` without a limit says `max`, which is no number.
    number("memory.max")?.checked_sub(number("memory.current")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_bytes() {
        let text = "MemTotal:       24576 kB\nMemFree:  1 kB\nMemAvailable:   20480 kB\n";
        assert_eq!(mem_available(text), Some(20 << 20));
        assert_eq!(mem_available("MemTotal: 1 kB\n"), None);
    }
}
