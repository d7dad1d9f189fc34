//! Keys as a configuration holds them: not the key itself, so that whoever reads the file cannot use it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The SHA-256 of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyDigest(pub [u8; 32]);

/// A text that is no digest. It is not repeated: it may be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("is not 64 hexadecimal digits (`printf %s KEY | sha256sum` prints them)")]
pub struct DigestError;

impl FromStr for KeyDigest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let mut digest = [0; 32];
        if text.len() != 2 * digest.len() {
            return Err(DigestError);
        }
        for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).ok_or(DigestError);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Ok(Self(digest))
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
