//! What is looked at in a schema before it is compiled.

use serde_json::{Value, json};

use super::error::GrammarError;

/// The most levels of objects and arrays in a schema.
pub const MAX_SCHEMA_DEPTH: usize = 64;
/// The most references in a schema.
pub const MAX_SCHEMA_REFERENCES: usize = 256;

/// At the root it sets llguidance's own options, among them to leave out what it does not know.
const OPTIONS: &str = "x-guidance";
/// Whose values are data, and not schemas.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// White space between two parts of a document: a space, or a new line and its indentation. Where more is allowed, small
/// models write little else.
const WHITE_SPACE: &str = r"\x20|\x0D?\x0A[\x20\x09]{0,32}";

/// Checks a schema against the limits.
///
/// # Errors
/// The first that it breaks.
pub(super) fn check(schema: &Value) -> Result<(), GrammarError> {
    if !schema.is_object() && !schema.is_boolean() {
        return Err(GrammarError::NotASchema);
    }
    if schema.get(OPTIONS).is_some() {
        return Err(GrammarError::UnsupportedKeyword { keyword: OPTIONS });
    }
    check_value(schema, 1, &mut 0)
}

fn check_value(value: &Value, depth: usize, references: &mut usize) -> Result<(), GrammarError> {
    if depth > MAX_SCHEMA_DEPTH {
        return Err(GrammarError::TooDeep { limit: MAX_SCHEMA_DEPTH });
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                check_field(key, value, references)?;
                if !DATA.contains(&key.as_str()) {
                    check_value(value, depth + 1, references)?;
                }
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(|item| check_value(item, depth + 1, references)),
        _ => Ok(()),
    }
}

fn check_field(key: &str, value: &Value, references: &mut usize) -> Result<(), GrammarError> {
    // A property may have such a name; then its value is a schema.
    let Value::String(reference) = value else { return Ok(()) };
    if !REFERENCES.contains(&key) {
        return Ok(());
    }
    if !reference.starts_with('#') {
        let reference = reference.chars().take(200).collect();
        return Err(GrammarError::RemoteReference { reference });
    }
    *references += 1;
    if *references > MAX_SCHEMA_REFERENCES {
        return Err(GrammarError::TooManyReferences { limit: MAX_SCHEMA_REFERENCES });
    }
    Ok(())
}

/// The schema with llguidance's options, as we set them.
pub(crate) fn compact(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut fields = fields.clone();
            fields.insert(OPTIONS.to_owned(), json!({"whitespace_pattern": WHITE_SPACE}));
            Value::Object(fields)
        }
        // `true` and `false` have no fields.
        other => json!({"allOf": [other], OPTIONS: {"whitespace_pattern": WHITE_SPACE}}),
    }
}
