//! The text of one argument, turned into JSON as its type wants.

use crate::json::{append_escaped, strict};
use crate::literal::{append_text, python_to_json};
use crate::tools::Kind;

/// A value that is no plain string is held back whole, up to this many bytes; a longer one is passed on as a string.
pub const MAX_HELD_VALUE: usize = 64 * 1024;

/// Takes the characters of a value.
#[derive(Debug)]
pub(crate) enum ValueText {
    /// Passed on as it comes, inside a JSON string.
    Streamed,
    /// Held until it is whole.
    Held { text: String, kind: Kind },
}

impl ValueText {
    /// A value, and the JSON that it begins with.
    pub(crate) fn new(kind: Kind, out: &mut String) -> Self {
        match kind {
            Kind::Text => {
                out.push('"');
                Self::Streamed
            }
            Kind::Json | Kind::Either => Self::Held { text: String::new(), kind },
        }
    }

    /// Takes text and appends the JSON that it makes.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) {
        match self {
            Self::Streamed => text.chars().for_each(|character| append_escaped(character, out)),
            Self::Held { text: held, .. } => {
                held.push_str(text);
                if held.len() > MAX_HELD_VALUE {
                    out.push('"');
                    held.chars().for_each(|character| append_escaped(character, out));
                    *self = Self::Streamed;
                }
            }
        }
    }

    /// Appends the rest of the JSON.
    pub(crate) fn finish(self, out: &mut String) {
        match self {
            Self::Streamed => out.push('"'),
            Self::Held { text, kind } => match as_json(&text, kind) {
                Some(json) => out.push_str(&json),
                None => append_text(&text, out),
            },
        }
    }
}

/// The text as JSON, or as a literal of Python: templates of some models print values that way.
fn as_json(text: &str, kind: Kind) -> Option<String> {
    let trimmed = text.trim();
    match (strict(trimmed), kind) {
        (Some(json), Kind::Either) => Some(json).filter(|json| !json.starts_with('"')),
        (None, Kind::Either) => None,
        (json, _) => json.or_else(|| python_to_json(trimmed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(kind: Kind, text: &str) -> String {
        let mut out = String::new();
        let mut value = ValueText::new(kind, &mut out);
        text.chars().for_each(|character| value.push(&character.to_string(), &mut out));
        value.finish(&mut out);
        out
    }

    #[test]
    fn a_value_is_what_its_type_says() {
        for (kind, text, json) in [
            (Kind::Text, "5", "\"5\""),
            (Kind::Text, "a\"b\n", "\"a\\\"b\\n\""),
            (Kind::Json, " 5\n", "5"),
            (Kind::Json, "[1, {\"a\": null}]", "[1, {\"a\": null}]"),
            (Kind::Json, "[True, 'x']", "[true,\"x\"]"),
            (Kind::Json, "[1e999, \"\\ud83d\\/\"]", "[1e999, \"\\ufffd\\/\"]"),
            (Kind::Json, "1, 2", "\"1, 2\""),
            (Kind::Json, "five", "\"five\""),
            (Kind::Json, "", "\"\""),
            (Kind::Either, "null", "null"),
            (Kind::Either, "nul", "\"nul\""),
            (Kind::Either, "\"5\"", "\"\\\"5\\\"\""),
        ] {
            assert_eq!(convert(kind, text), json, "{text}");
        }
        let long = "1".repeat(MAX_HELD_VALUE + 1);
        assert_eq!(convert(Kind::Json, &long), format!("\"{long}\""));
    }
}
