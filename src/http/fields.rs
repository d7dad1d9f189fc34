//! A JSON object read field by field, so that every error names the field and what was wrong with it.
//!
//! A field that is null counts as absent. What has not been taken in the end is refused by name, never ignored.

use serde_json::{Map, Number, Value};

use super::error::ApiError;

/// The fields of one object that nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct Fields {
    map: Map<String, Value>,
    /// Whether it is a request's body, and no object within one.
    #[cfg(test)]
    is_body: bool,
}

/// A field that OpenAI or vLLM define and that this server does not implement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unimplemented {
    /// The field.
    pub(super) name: &'static str,
    /// Values, as JSON, that ask for nothing beyond what is done anyway.
    pub(super) neutral: &'static [&'static str],
}

impl Fields {
    /// The fields of `value`, which goes by `name` in errors.
    ///
    /// # Errors
    /// If it is no object.
    pub(super) fn of(value: Value, name: &str) -> Result<Self, ApiError> {
        match value {
            Value::Object(map) => Ok(Self {
                map,
                #[cfg(test)]
                is_body: name == "body",
            }),
            other => Err(wrong_type(name, "an object", &other)),
        }
    }

    /// Any value.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        #[cfg(test)]
        if self.is_body {
            asked::note(name);
        }
        // The order of the rest does not matter: it is looked at for its names only.
        self.map.swap_remove(name).filter(|value| !value.is_null())
    }

    /// Any value, which has to be there.
    ///
    /// # Errors
    /// If it is absent.
    pub(super) fn required(&mut self, name: &str) -> Result<Value, ApiError> {
        self.take(name).ok_or_else(|| ApiError::Missing { param: name.to_owned() })
    }

    /// A string.
    ///
    /// # Errors
    /// If it is something else.
    pub(super) fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        self.take(name).map(|value| to_string(name, value)).transpose()
    }

    /// A truth value.
    ///
    /// # Errors
    /// If it is something else.
    pub(super) fn bool(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        let read = |value| match value {
            Value::Bool(flag) => Ok(flag),
            other => Err(wrong_type(name, "a boolean", &other)),
        };
        self.take(name).map(read).transpose()
    }

    /// A number as the engine computes with it.
    ///
    /// # Errors
    /// If it is something else, or too large for an `f32`.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<f32>, ApiError> {
        self.take(name).map(|value| to_number(name, &value)).transpose()
    }

    /// An integer from zero to what a `u32` holds.
    ///
    /// # Errors
    /// If it is something else.
    pub(super) fn unsigned(&mut self, name: &str) -> Result<Option<u32>, ApiError> {
        self.take(name).map(|value| to_u32(name, &value)).transpose()
    }

    /// An object.
    ///
    /// # Errors
    /// If it is something else.
    pub(super) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, ApiError> {
        let read = |value| match value {
            Value::Object(map) => Ok(map),
            other => Err(wrong_type(name, "an object", &other)),
        };
        self.take(name).map(read).transpose()
    }

    /// What is left, for a reader that knows further fields. It takes those of `reserved` for something else, so they
    /// are refused as unknown.
    ///
    /// # Errors
    /// For the first of them that has a value.
    pub(super) fn into_rest(self, reserved: &[&str]) -> Result<Map<String, Value>, ApiError> {
        match self.map.iter().find(|(name, value)| reserved.contains(&name.as_str()) && !value.is_null()) {
            Some((name, _)) => Err(ApiError::Unrecognized { param: name.clone() }),
            None => Ok(self.map),
        }
    }

    /// Refuses what is left: a field of `known` as not implemented unless its value is neutral, any other as unknown.
    ///
    /// # Errors
    /// For the first field that is left with a value.
    pub(super) fn finish(self, known: &[Unimplemented]) -> Result<(), ApiError> {
        #[cfg(test)]
        if self.is_body {
            asked::note_unimplemented(known);
        }
        for (name, value) in self.map.into_iter().filter(|(_, value)| !value.is_null()) {
            let Some(field) = known.iter().find(|field| field.name == name) else {
                return Err(ApiError::Unrecognized { param: name });
            };
            if !field.neutral.contains(&value.to_string().as_str()) {
                let reason = match field.neutral {
                    [] => "this server does not implement it".to_owned(),
                    values => format!(
                        "this server does not implement it, so only {} is accepted",
                        values.join(" or ")
                    ),
                };
                return Err(ApiError::Unsupported { param: name, reason });
            }
        }
        Ok(())
    }
}

/// The error for a value of the wrong type.
pub(super) fn wrong_type(param: &str, expected: &'static str, got: &Value) -> ApiError {
    let got = match got {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a decimal number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    ApiError::InvalidType { param: param.to_owned(), expected, got }
}

/// A string, named `param` in errors.
///
/// # Errors
/// If it is something else.
pub(super) fn to_string(param: &str, value: Value) -> Result<String, ApiError> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(wrong_type(param, "a string", &other)),
    }
}

/// A number, named `param` in errors.
///
/// # Errors
/// If it is something else, or too large for an `f32`.
pub(super) fn to_number(param: &str, value: &Value) -> Result<f32, ApiError> {
    let number = value.as_f64().ok_or_else(|| wrong_type(param, "a number", value))?;
    let narrow = number as f32;
    if !narrow.is_finite() {
        return Err(ApiError::invalid(param, format!("{value} is out of range")));
    }
    Ok(narrow)
}

/// Whether a number is an integer beyond those of 64 bits, of either sign. The parser reads it as a double, and every
/// double of that size is an integer.
pub(super) fn is_beyond_64_bits(number: &Number) -> bool {
    const ABOVE_U64: f64 = 18_446_744_073_709_551_616.0;
    const BELOW_I64: f64 = -9_223_372_036_854_775_808.0;
    let beyond = |value: f64| value >= ABOVE_U64 || value <= BELOW_I64;
    number.is_f64() && number.as_f64().is_some_and(beyond)
}

/// An integer from zero to what a `u32` holds, named `param` in errors.
///
/// # Errors
/// If it is something else.
pub(super) fn to_u32(param: &str, value: &Value) -> Result<u32, ApiError> {
    match value {
        Value::Number(number) if !number.is_f64() || is_beyond_64_bits(number) => number
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| ApiError::invalid(param, format!("{number} is not between 0 and {}", u32::MAX))),
        other => Err(wrong_type(param, "an integer", other)),
    }
}

/// A list, named `param` in errors.
///
/// # Errors
/// If it is something else.
pub(super) fn to_list(param: &str, value: Value) -> Result<Vec<Value>, ApiError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(wrong_type(param, "an array", &other)),
    }
}

/// What a reader asks for, so that a test can hold the OpenAPI document and docs/api.md against it.
#[cfg(test)]
pub(super) mod asked {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::Unimplemented;

    thread_local! {
        static ASKED: RefCell<(BTreeSet<String>, Vec<Unimplemented>)> = RefCell::default();
    }

    pub(super) fn note(name: &str) {
        ASKED.with_borrow_mut(|(names, _)| names.insert(name.to_owned()));
    }

    pub(super) fn note_unimplemented(fields: &[Unimplemented]) {
        ASKED.with_borrow_mut(|(_, unimplemented)| unimplemented.extend(fields));
    }

    /// The names of the fields that `read` takes, and those that it knows and does not implement.
    pub(in crate::http) fn by(read: impl FnOnce()) -> (BTreeSet<String>, Vec<Unimplemented>) {
        ASKED.take();
        read();
        ASKED.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn number_of(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_wrong_type_is_named_with_what_it_was() {
        type Read = fn(&mut Fields) -> Result<(), ApiError>;
        let string: Read = |f| f.string("x").map(drop);
        let number: Read = |f| f.number("x").map(drop);
        let unsigned: Read = |f| f.unsigned("x").map(drop);
        let boolean: Read = |f| f.bool("x").map(drop);
        let object: Read = |f| f.object("x").map(drop);
        for (read, value, message) in [
            (string, json!(1), "invalid type for 'x': expected a string, but got an integer instead"),
            (number, json!("1"), "invalid type for 'x': expected a number, but got a string instead"),
            (number, json!(1e300), "invalid value for 'x': 1e+300 is out of range"),
            (
                unsigned,
                json!(1.5),
                "invalid type for 'x': expected an integer, but got a decimal number instead",
            ),
            (unsigned, json!(-1), "invalid value for 'x': -1 is not between 0 and 4294967295"),
            (
                unsigned,
                json!(1_u64 << 40),
                "invalid value for 'x': 1099511627776 is not between 0 and 4294967295",
            ),
            (
                unsigned,
                number_of("18446744073709551616"),
                "invalid value for 'x': 1.8446744073709552e+19 is not between 0 and 4294967295",
            ),
            (
                unsigned,
                number_of("-9223372036854775809"),
                "invalid value for 'x': -9.223372036854776e+18 is not between 0 and 4294967295",
            ),
            (boolean, json!(0), "invalid type for 'x': expected a boolean, but got an integer instead"),
            (object, json!([]), "invalid type for 'x': expected an object, but got an array instead"),
        ] {
            let mut fields = Fields::of(json!({ "x": value }), "body").unwrap();
            assert_eq!(read(&mut fields).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn null_counts_as_absent() {
        let mut fields = Fields::of(json!({"a": null, "b": null, "c": null}), "body").unwrap();
        assert_eq!(fields.number("a"), Ok(None));
        assert_eq!(fields.required("b"), Err(ApiError::Missing { param: "b".to_owned() }));
        assert_eq!(fields.finish(&[]), Ok(()));
    }

    #[test]
    fn what_is_left_is_refused_by_name() {
        const KNOWN: &[Unimplemented] = &[
            Unimplemented { name: "tools", neutral: &[] },
            Unimplemented { name: "store", neutral: &["false"] },
        ];
        for (body, message) in [
            (json!({"foo": 1}), "unrecognized request argument supplied: foo"),
            (json!({"tools": []}), "'tools' is not supported: this server does not implement it"),
            (
                json!({"store": true}),
                "'store' is not supported: this server does not implement it, so only false is accepted",
            ),
        ] {
            let fields = Fields::of(body, "body").unwrap();
            assert_eq!(fields.finish(KNOWN).unwrap_err().to_string(), message);
        }
        assert_eq!(Fields::of(json!({"store": false}), "body").unwrap().finish(KNOWN), Ok(()));
    }
}
