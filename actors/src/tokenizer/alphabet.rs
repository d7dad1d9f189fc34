//! How a vocabulary spells bytes, and the exact bytes of each of its tokens.

use serde_json::Value as Json;
use tokenizers::Tokenizer as Library;

/// How the texts of a vocabulary stand for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// GPT-2's: one printable character for each of the 256 bytes.
    ByteLevel,
    /// SentencePiece's: `▁` for a space, `<0xNN>` for a byte, other text as it is.
    SentencePiece,
    /// Words as they are, joined by rules of the decoder (WordPiece); only whole sequences can be decoded.
    Words,
}

impl Alphabet {
    /// Reads it from a tokenizer's decoder.
    pub(super) fn of(library: &Library) -> Self {
        let decoder = library.get_decoder().and_then(|decoder| serde_json::to_value(decoder).ok());
        let Some(decoder) = decoder else { return Self::Words };
        if mentions(&decoder, "ByteLevel") {
            Self::ByteLevel
        } else if mentions(&decoder, "ByteFallback") || mentions(&decoder, "Metaspace") {
            Self::SentencePiece
        } else {
            Self::Words
        }
    }

    /// The bytes of a vocabulary's token.
    pub(super) fn bytes(self, token: &str) -> Vec<u8> {
        match self {
            Self::ByteLevel => token
                .chars()
                .map(byte_of)
                .collect::<Option<Vec<u8>>>()
                // A text with a character outside the alphabet was added as it is.
                .unwrap_or_else(|| token.as_bytes().to_vec()),
            Self::SentencePiece => match fallback_byte(token) {
                Some(byte) => vec![byte],
                None => token.replace('▁', " ").into_bytes(),
            },
            Self::Words => token.as_bytes().to_vec(),
        }
    }
}

/// Whether `json` holds an object with this `type`, at any depth.
fn mentions(json: &Json, name: &str) -> bool {
    match json {
        Json::Object(fields) => {
            fields.get("type").and_then(Json::as_str) == Some(name)
                || fields.values().any(|value| mentions(value, name))
        }
        Json::Array(items) => items.iter().any(|item| mentions(item, name)),
        _ => false,
    }
}

/// The byte that a character of GPT-2's alphabet stands for. Printable bytes of Latin-1 stand for themselves; the other
/// 68 take the characters from U+0100 on, in order.
fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => u8::try_from(code).ok(),
        0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        0x121..=0x142 => u8::try_from(code - 0x121 + 0x7f).ok(),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// The byte of a token `<0xNN>`.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// The bytes of all tokens, in one allocation.
#[derive(Debug)]
pub(super) struct TokenBytes {
    bytes: Vec<u8>,
    /// Ends of the tokens' bytes; the start is the end before.
    ends: Vec<u32>,
}

impl TokenBytes {
    pub(super) fn new(tokens: impl Iterator<Item = Vec<u8>>) -> Self {
        let mut table = Self { bytes: Vec::new(), ends: Vec::new() };
        for token in tokens {
            table.bytes.extend_from_slice(&token);
            table.ends.push(u32::try_from(table.bytes.len()).unwrap_or(u32::MAX));
        }
        table
    }

    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        let index = usize::try_from(id).ok()?;
        let end = *self.ends.get(index)? as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.bytes.get(start..end)
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c036u_all_256_bytes_have_a_character() {
        let alphabet: Vec<char> =
            tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet().into_iter().collect();
        let mut bytes: Vec<u8> = alphabet.iter().filter_map(|c| byte_of(*c)).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!(Alphabet::ByteLevel.bytes("Ġ"), b" ");
        assert_eq!(Alphabet::ByteLevel.bytes("Ċ"), b"\n");
        assert_eq!(Alphabet::ByteLevel.bytes("a b"), b"a b");
    }

    #[test]
    fn sentencepiece_texts_become_bytes() {
        for (token, bytes) in [
            ("▁a", &b" a"[..]),
            ("<0x0A>", b"\n"),
            ("<0xFF>", b"\xff"),
            ("<0x1>", b"<0x1>"),
            ("é", "é".as_bytes()),
        ] {
            assert_eq!(Alphabet::SentencePiece.bytes(token), bytes);
        }
    }
}
