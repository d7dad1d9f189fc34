//! What is looked at in a schema before it is compiled.

use serde_json::{Map, Number, Value, json};

use super::error::GrammarError;

/// The most levels of objects and arrays in a schema.
pub const MAX_SCHEMA_DEPTH: usize = 64;
/// The most references in a schema.
pub const MAX_SCHEMA_REFERENCES: usize = 256;

/// At the root it sets llguidance's own options, among them to leave out what it does not know.
const OPTIONS: &str = "x-guidance";
/// Whose values are data, and not schemas.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];
/// Whose values are numbers that documents are compared with, or may hold them.
const NUMBERS: [&str; 3] = ["const", "enum", "multipleOf"];
/// Bounds of numbers: of the greatest, and of the least.
const BOUNDS: [[&str; 2]; 2] = [["maximum", "exclusiveMaximum"], ["minimum", "exclusiveMinimum"]];
/// Whole numbers are held exactly up to this, 2^53: llguidance computes with those of 64-bit floats.
const MAX_EXACT: u64 = 1 << 53;
/// The greatest of these below 2^63: it writes ranges of whole numbers with those of 64 bits, and negates them.
const MAX_WHOLE: i64 = i64::MAX - ((1 << 10) - 1);
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
    // Those of [`compact`] stand in grammars that were made here.
    if schema.get(OPTIONS).is_some_and(|options| *options != own_options()) {
        return Err(GrammarError::UnsupportedKeyword { keyword: OPTIONS });
    }
    check_value(schema, 1, &mut 0)
}

/// Checks the schemas in a Lark grammar, behind `%json`, each against the limits of one.
///
/// # Errors
/// The first limit that one breaks.
pub(super) fn check_embedded(grammar: &str) -> Result<(), GrammarError> {
    for (at, keyword) in grammar.match_indices("%json") {
        let rest = &grammar[at + keyword.len()..];
        // What is no JSON is none of llguidance's either, and it says so itself.
        if let Some(Ok(schema)) = serde_json::Deserializer::from_str(rest).into_iter::<Value>().next() {
            check(&schema)?;
        }
    }
    Ok(())
}

fn check_value(value: &Value, depth: usize, references: &mut usize) -> Result<(), GrammarError> {
    if depth > MAX_SCHEMA_DEPTH {
        return Err(GrammarError::TooDeep { limit: MAX_SCHEMA_DEPTH });
    }
    match value {
        Value::Object(fields) => {
            check_least(fields)?;
            for (key, value) in fields {
                if NUMBERS.contains(&key.as_str()) {
                    check_numbers(value)?;
                }
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

fn is_exact(number: &Number) -> bool {
    match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => whole.unsigned_abs() <= MAX_EXACT,
        (None, Some(_)) => false,
        (None, None) => number.as_f64().is_some_and(|float| float.abs() <= MAX_EXACT as f64),
    }
}

/// Numbers that would be held as others.
fn check_numbers(value: &Value) -> Result<(), GrammarError> {
    match value {
        Value::Number(number) if !is_exact(number) => {
            Err(GrammarError::InexactNumber { number: number.to_string() })
        }
        Value::Array(items) => items.iter().try_for_each(check_numbers),
        Value::Object(fields) => fields.values().try_for_each(check_numbers),
        _ => Ok(()),
    }
}

/// llguidance counts the keys that a document says. Where any may come, one may come twice, and is one property.
fn check_least(schema: &Map<String, Value>) -> Result<(), GrammarError> {
    let Some(least) = schema.get("minProperties").and_then(Value::as_f64) else { return Ok(()) };
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
        && schema
            .get("patternProperties")
            .is_none_or(|patterns| patterns.as_object().is_some_and(Map::is_empty));
    let required = schema.get("required").and_then(Value::as_array).map_or(0, Vec::len);
    // Any one key makes an object that is not empty.
    if is_closed || least <= required.max(1) as f64 {
        return Ok(());
    }
    Err(GrammarError::RepeatableKeys { least: least.to_string(), required })
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

/// The schema with bounds that are held exactly: one that would not be is moved inwards to the next number that is, so that
/// what is generated keeps to both.
fn with_exact_bounds(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let changed = fields.iter().map(|(key, value)| {
                let value = match value {
                    Value::Number(bound) => {
                        exact_bound(key, bound).map_or_else(|| value.clone(), Value::Number)
                    }
                    _ if DATA.contains(&key.as_str()) => value.clone(),
                    value => with_exact_bounds(value),
                };
                (key.clone(), value)
            });
            Value::Object(changed.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(with_exact_bounds).collect()),
        other => other.clone(),
    }
}

/// What takes the place of a bound beyond what is held exactly.
fn exact_bound(key: &str, bound: &Number) -> Option<Number> {
    let side = BOUNDS.iter().position(|keys| keys.contains(&key))?;
    let near = bound.as_f64().filter(|_| !is_exact(bound))?;
    // Whole numbers beyond 64 bits were rounded when they were read.
    let whole = bound.as_i64().map(i128::from).or_else(|| bound.as_u64().map(i128::from));
    let inner = match (side, whole) {
        (0, Some(whole)) if near as i128 <= whole => near,
        (1, Some(whole)) if near as i128 >= whole => near,
        (0, _) => near.next_down(),
        (_, _) => near.next_up(),
    };
    let inner = if side == 0 { inner.min(MAX_WHOLE as f64) } else { inner.max(-MAX_WHOLE as f64) };
    // A whole number stays one as it is written.
    let is_whole = inner.abs() <= MAX_WHOLE as f64;
    if is_whole { Some(Number::from(inner as i64)) } else { Number::from_f64(inner) }
}

fn own_options() -> Value {
    json!({"whitespace_pattern": WHITE_SPACE})
}

/// The schema with llguidance's options, as we set them.
pub(crate) fn compact(schema: &Value) -> Value {
    match with_exact_bounds(schema) {
        Value::Object(mut fields) => {
            fields.insert(OPTIONS.to_owned(), own_options());
            Value::Object(fields)
        }
        // `true` and `false` have no fields.
        other => json!({"allOf": [other], OPTIONS: own_options()}),
    }
}
