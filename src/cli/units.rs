//! Numbers as people read them.

/// Bytes in binary units.
pub(super) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    scaled(n, 1024.0, &UNITS)
}

/// A count in thousands, millions and billions, as parameters are given.
pub(super) fn count(n: u64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "B", "T"];
    scaled(n, 1000.0, &UNITS)
}

fn scaled(n: u64, base: f64, units: &[&str]) -> String {
    let mut value = n as f64;
    let mut unit = 0;
    // The printed value has one decimal, so what rounds up to a whole unit moves on.
    while value + 0.05 >= base && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let text = if unit == 0 { n.to_string() } else { format!("{value:.1}") };
    format!("{text} {}", units[unit]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_where_the_printed_number_would() {
        let table = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (96_600_000, "92.1 MiB"),
            (u64::MAX, "16777216.0 TiB"),
        ];
        for (n, text) in table {
            assert_eq!(bytes(n), text, "{n}");
        }
        assert_eq!(count(134_515_008), "134.5 M");
        assert_eq!(count(999), "999");
    }
}
