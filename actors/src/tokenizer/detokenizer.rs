use std::sync::Arc;

use super::core::{SpecialText, Tokenizer};

/// Turns one stream of ids into text.
///
/// It holds back at most the three bytes of an unfinished character. What can no longer become UTF-8 comes out as
/// U+FFFD at once, so the pieces and the tail together are the lossy decoding of all bytes.
#[derive(Debug)]
pub struct Detokenizer {
    tokenizer: Arc<Tokenizer>,
    special: SpecialText,
    pending: Vec<u8>,
}

impl Detokenizer {
    /// A stream that starts.
    pub fn new(tokenizer: Arc<Tokenizer>, special: SpecialText) -> Self {
        Self { tokenizer, special, pending: Vec::new() }
    }

    /// The text that `id` completes, often empty. An id outside the vocabulary has no text.
    pub fn push(&mut self, id: u32) -> String {
        if self.special == SpecialText::Skip && self.tokenizer.is_special(id) {
            return String::new();
        }
        self.pending.extend_from_slice(self.tokenizer.token_bytes(id).unwrap_or_default());
        take_complete(&mut self.pending)
    }

    /// The text that is left at the end: U+FFFD for an unfinished character.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// Takes all but an unfinished character off `bytes`, replacing what is invalid as `String::from_utf8_lossy` does.
fn take_complete(bytes: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut kept = 0;
    let mut read = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        read += chunk.valid().len() + chunk.invalid().len();
        if chunk.invalid().is_empty() {
            continue;
        }
        if read == bytes.len() && is_unfinished(chunk.invalid()) {
            kept = chunk.invalid().len();
        } else {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    bytes.drain(..read - kept);
    text
}

/// Whether more bytes could make `bytes` a character.
fn is_unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::take_complete;

    fn pieces(chunks: &[&[u8]]) -> Vec<String> {
        let mut pending = Vec::new();
        let mut out: Vec<String> = chunks
            .iter()
            .map(|chunk| {
                pending.extend_from_slice(chunk);
                take_complete(&mut pending)
            })
            .collect();
        out.push(String::from_utf8_lossy(&pending).into_owned());
        out
    }

    #[test]
    fn c030_only_incomplete_bytes_are_held() {
        assert_eq!(
            pieces(&[b"hi", b"\xf0", b"\x9f", b"\x98", b"\x80", b"!"]),
            ["hi", "", "", "", "😀", "!", ""]
        );
    }

    #[test]
    fn c031u_a_cut_character_ends_as_a_replacement() {
        assert_eq!(pieces(&[b"a\xe4\xb8"]), ["a", "\u{fffd}"]);
    }

    #[test]
    fn c035u_a_real_replacement_character_is_not_incomplete() {
        assert_eq!(pieces(&[" \u{fffd}".as_bytes(), b"x"]), [" \u{fffd}", "x", ""]);
    }

    #[test]
    fn bytes_proven_invalid_come_out_at_once() {
        assert_eq!(pieces(&[b"\xff", b"\xe4a", b"\x80"]), ["\u{fffd}", "\u{fffd}a", "\u{fffd}", ""]);
    }

    proptest! {
        #[test]
        fn pieces_concatenate_to_the_lossy_whole(chunks in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..4),
                prop::sample::select(vec![b"\xf0\x9f".to_vec(), b"\x98\x80".to_vec(), b"\xe4".to_vec(), b"\xb8\xad".to_vec(), b"a".to_vec()]),
            ], 0..40)) {
            let slices: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            let whole = chunks.concat();
            prop_assert_eq!(pieces(&slices).concat(), String::from_utf8_lossy(&whole));
        }
    }
}
