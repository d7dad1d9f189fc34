//! What values an option takes, from text (flags, variables, defaults) and from TOML.

use toml::Value;
use toml::de::DeValue;

use crate::{KeyDigest, parse_size};

/// What values an option takes. Each becomes a [`toml::Value`] of one type, whichever layer it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text that is not empty.
    Text,
    /// A path that is not empty; relative ones start at the working directory.
    Path,
    /// Any number of texts; in one text, they are separated by commas.
    TextList,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number, bounds included.
    Integer {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// 1, 2, 4, 8 and so on.
    PowerOfTwo {
        /// The most.
        max: u64,
    },
    /// Bytes: a number, or a text with a unit.
    Size {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// The SHA-256 of a key in 64 hexadecimal digits.
    Digest,
    /// Any number of them; in one text, they are separated by commas.
    DigestList,
}

impl Kind {
    /// What stands for a value in help and documentation.
    pub fn metavar(&self) -> &'static str {
        match self {
            Self::Text | Self::TextList => "NAME",
            Self::Path => "PATH",
            Self::Choice(_) => "WORD",
            Self::Integer { .. } | Self::PowerOfTwo { .. } => "N",
            Self::Size { .. } => "SIZE",
            Self::Digest | Self::DigestList => "SHA256",
        }
    }

    /// The values in words, for documentation.
    pub fn describe(&self) -> String {
        match *self {
            Self::Text => "text".to_owned(),
            Self::Path => "path".to_owned(),
            Self::TextList => "list of texts".to_owned(),
            Self::Choice(words) => words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", "),
            Self::Integer { min, max } if max == u64::from(u32::MAX) => format!("whole number from {min}"),
            Self::Integer { min, max } => format!("whole number from {min} to {max}"),
            Self::PowerOfTwo { max } => format!("power of two up to {max}"),
            Self::Size { .. } => "size in bytes, or text such as `\"512MiB\"`, `\"4.1GB\"`".to_owned(),
            Self::Digest => "64 hexadecimal digits".to_owned(),
            Self::DigestList => "list of texts of 64 hexadecimal digits".to_owned(),
        }
    }

    /// Reads a value written as text. The error is the reason alone.
    pub(crate) fn parse_text(&self, text: &str) -> Result<Value, String> {
        match *self {
            Self::Text | Self::Path => not_empty(text),
            Self::TextList => Ok(Value::Array(parts(text).map(Value::from).collect())),
            Self::Digest => digest(text),
            Self::DigestList => Ok(Value::Array(parts(text).map(digest).collect::<Result<_, _>>()?)),
            Self::Choice(words) => one_of(words, text),
            Self::Integer { min, max } => within(integer_text(text)?, min, max),
            Self::PowerOfTwo { max } => power_of_two(integer_text(text)?, max),
            Self::Size { min, max } => within(parse_size(text).map_err(|e| e.to_string())?, min, max),
        }
    }

    /// Reads a value from a TOML file. The error is the reason alone.
    pub(crate) fn parse_toml(&self, value: &DeValue<'_>) -> Result<Value, String> {
        match (self, value) {
            (
                Self::Text | Self::Path | Self::Choice(_) | Self::Size { .. } | Self::Digest,
                DeValue::String(text),
            ) => self.parse_text(text),
            (Self::TextList | Self::DigestList, DeValue::Array(items)) => {
                let read = if matches!(self, Self::TextList) { not_empty } else { digest };
                let texts = items.iter().enumerate().map(|(index, item)| {
                    let text = match item.get_ref() {
                        DeValue::String(text) => read(text),
                        other => Err(format!("is {}, not a text", article(other))),
                    };
                    text.map_err(|reason| format!("item {} {reason}", index + 1))
                });
                Ok(Value::Array(texts.collect::<Result<_, _>>()?))
            }
            (
                Self::Integer { .. } | Self::PowerOfTwo { .. } | Self::Size { .. },
                DeValue::Integer(number),
            ) => {
                let number = i128::from_str_radix(number.as_str(), number.radix())
                    .map_err(|_| format!("{} is not a whole number", number.as_str()))?;
                self.parse_text(&number.to_string())
            }
            (_, other) => Err(format!("is {}, not {}", article(other), self.toml_type())),
        }
    }

    fn toml_type(&self) -> &'static str {
        match self {
            Self::Text | Self::Path | Self::Choice(_) | Self::Digest => "a text",
            Self::TextList | Self::DigestList => "an array of texts",
            Self::Integer { .. } | Self::PowerOfTwo { .. } => "a whole number",
            Self::Size { .. } => "a number of bytes or a text such as \"512MiB\"",
        }
    }
}

pub(crate) fn article(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn digest(text: &str) -> Result<Value, String> {
    text.parse().map(|digest: KeyDigest| Value::from(digest.to_string())).map_err(|error| error.to_string())
}

fn not_empty(text: &str) -> Result<Value, String> {
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(Value::from(text)) }
}

fn one_of(words: &[&str], text: &str) -> Result<Value, String> {
    if words.contains(&text) {
        return Ok(Value::from(text));
    }
    Err(format!("`{text}` is none of {}", words.join(", ")))
}

fn integer_text(text: &str) -> Result<u64, String> {
    let number: i128 = text.trim().parse().map_err(|_| format!("`{text}` is not a whole number"))?;
    u64::try_from(number).map_err(|_| match number {
        ..0 => format!("{number} is negative"),
        _ => format!("{number} is too large"),
    })
}

fn within(number: u64, min: u64, max: u64) -> Result<Value, String> {
    match i64::try_from(number) {
        Ok(value) if (min..=max).contains(&number) => Ok(Value::Integer(value)),
        _ => Err(format!("{number} is not between {min} and {max}")),
    }
}

fn power_of_two(number: u64, max: u64) -> Result<Value, String> {
    if !number.is_power_of_two() {
        return Err(format!("{number} is not a power of two"));
    }
    within(number, 1, max)
}
