//! Sizes in bytes as people write them.

use thiserror::Error;

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SizeError {
    /// Not digits, with at most one point and a unit.
    #[error("`{0}` is not a size such as 512MiB, 4.1GB or 1048576")]
    Malformed(String),
    /// A unit of which nobody knows whether it counts in 1000 or in 1024.
    #[error(
        "the unit of `{text}` is ambiguous: write {letter}B for powers of 1000 or {letter}iB for powers of 1024"
    )]
    Ambiguous {
        /// The whole text.
        text: String,
        /// The unit.
        letter: String,
    },
    /// More than 64 bits of bytes.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

/// Bytes of `text`: digits, perhaps a fraction, perhaps a unit (B, kB, MB, GB, TB by 1000; KiB, MiB, GiB,
/// TiB by 1024; case does not matter). Computed in integers, so `4.1GB` is 4100000000 exactly; what
/// is left of a byte is dropped.
///
/// # Errors
/// [`SizeError`], with the text.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let malformed = || SizeError::Malformed(text.to_owned());
    let trimmed = text.trim();
    let end_of_number =
        trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end_of_number);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let scale = unit_bytes(unit.trim_start(), text)?;
    let (whole, fraction) = (digits(whole).ok_or_else(malformed)?, digits(fraction).ok_or_else(malformed)?);

    let too_large = || SizeError::TooLarge(text.to_owned());
    let bytes = integer(&whole).and_then(|n| n.checked_mul(scale)).ok_or_else(too_large)?;
    // Twelve digits are more than the largest unit can tell apart from a whole byte.
    let fraction = &fraction[..fraction.len().min(12)];
    let part = integer(fraction).ok_or_else(too_large)? * scale / 10_u128.pow(fraction.len() as u32);
    u64::try_from(bytes + part).map_err(|_| too_large())
}

fn unit_bytes(unit: &str, text: &str) -> Result<u128, SizeError> {
    let upper = unit.to_ascii_uppercase();
    let (letters, base): (&str, u128) = match upper.as_str() {
        "" | "B" => return Ok(1),
        "K" | "M" | "G" | "T" => {
            return Err(SizeError::Ambiguous { text: text.to_owned(), letter: unit.to_owned() });
        }
        other => match other.strip_suffix("IB") {
            Some(letters) => (letters, 1024),
            None => (other.strip_suffix('B').unwrap_or(""), 1000),
        },
    };
    let power = match letters {
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return Err(SizeError::Malformed(text.to_owned())),
    };
    Ok(base.pow(power))
}

/// Digits without separators; `None` if there are none, or anything else is among them.
fn digits(text: &str) -> Option<String> {
    let plain: String = text.chars().filter(|&c| c != '_').collect();
    (!plain.is_empty() && plain.bytes().all(|b| b.is_ascii_digit())).then_some(plain)
}

/// `None` beyond 128 bits.
fn integer(digits: &str) -> Option<u128> {
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c193u_decimal_sizes_are_exact() {
        let table = [
            ("4.1GB", 4_100_000_000),
            ("0.1MB", 100_000),
            ("1.005TB", 1_005_000_000_000),
            ("512MiB", 512 << 20),
            ("1.5GiB", 3 << 29),
            ("4.1 gb", 4_100_000_000),
            ("10kB", 10_000),
            ("1_000B", 1_000),
            ("1048576", 1_048_576),
            // What is left of a byte is dropped, never rounded up.
            ("1.1KiB", 1_126),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in table {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "GB", "1.2.3GB", "-1GB", "1e9", "4XB", "1,5GB", ".", "5 GB x", "1.B"] {
            assert_eq!(parse_size(text), Err(SizeError::Malformed(text.to_owned())), "{text}");
        }
        assert!(matches!(parse_size("4G"), Err(SizeError::Ambiguous { letter, .. }) if letter == "G"));
        for text in ["18446744073709551616", "99999999999999999999999999999999999999999TB", "20000000TB"] {
            assert_eq!(parse_size(text), Err(SizeError::TooLarge(text.to_owned())), "{text}");
        }
    }
}
