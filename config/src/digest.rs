//! Keys as a configuration holds them: not the key itself, so that whoever reads the file cannot use it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The SHA-256 of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyDigest(pub [u8; 32]);

/// A text that is the digest of no key. It is not repeated: it may be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DigestError {
    /// Not a digest at all.
    #[error("is not 64 hexadecimal digits (`printf %s KEY | sha256sum` prints them)")]
    NoDigest,
    /// What `printf %s "$KEY" | sha256sum` prints if the variable is not set.
    #[error("is the SHA-256 of an empty key, which no request can have")]
    EmptyKey,
}

/// The SHA-256 of nothing.
const OF_NOTHING: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
    0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

impl FromStr for KeyDigest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let mut digest = [0; 32];
        if text.len() != 2 * digest.len() {
            return Err(DigestError::NoDigest);
        }
        for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).ok_or(DigestError::NoDigest);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        if digest == OF_NOTHING { Err(DigestError::EmptyKey) } else { Ok(Self(digest)) }
    }
}

impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl TryFrom<String> for KeyDigest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<KeyDigest> for String {
    fn from(digest: KeyDigest) -> Self {
        digest.to_string()
    }
}
