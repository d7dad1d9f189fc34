//! From JSON to the engine's values.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use serde_json::Value as Json;

use super::guard::{Guard, Role, role_of};

/// How a tool call's arguments, which clients send as a JSON string, reach the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentsForm {
    /// As a mapping that prints as the string that the client sent.
    Mapping,
    /// As the string that the client sent, for templates that concatenate it.
    Text,
}

/// Converts what a client sent, with its control tokens hidden by `guard`.
pub(super) fn to_value(json: &Json, role: Role, guard: &Guard) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => number_value(number),
        Json::String(text) => Value::from(guard.hide(text, role).as_ref()),
        Json::Array(items) => items.iter().map(|item| to_value(item, role, guard)).collect(),
        Json::Object(fields) => Value::from_pairs(fields.iter().map(|(key, value)| {
            (Value::from(guard.hide(key, Role::Word).as_ref()), to_value(value, role_of(key), guard))
        })),
    }
}

fn number_value(number: &serde_json::Number) -> Value {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(integer), _, _) => Value::from(integer),
        (_, Some(integer), _) => Value::from(integer),
        (_, _, Some(float)) => Value::from(float),
        _ => Value::from(number.to_string()),
    }
}

/// Converts a message, giving the arguments of its tool calls the asked form.
pub(super) fn message_value(message: &Json, form: ArgumentsForm, guard: &Guard) -> Value {
    let Json::Object(fields) = message else {
        return to_value(message, Role::Text, guard);
    };
    Value::from_pairs(fields.iter().map(|(key, value)| {
        let value = match value {
            Json::Array(calls) if key == "tool_calls" && form == ArgumentsForm::Mapping => {
                calls.iter().map(|call| call_value(call, guard)).collect()
            }
            _ => to_value(value, role_of(key), guard),
        };
        (Value::from(guard.hide(key, Role::Word).as_ref()), value)
    }))
}

/// A tool call, or the function inside it: the one that holds `arguments` has them parsed.
fn call_value(call: &Json, guard: &Guard) -> Value {
    let Json::Object(fields) = call else {
        return to_value(call, Role::Text, guard);
    };
    Value::from_pairs(fields.iter().map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("function", Json::Object(_)) => call_value(value, guard),
            ("arguments", Json::String(text)) => match parse_arguments(text) {
                Some(parsed) => Value::from_object(Arguments {
                    mapping: to_value(&parsed, Role::Text, guard),
                    text: guard.hide(text, Role::Text).into_owned(),
                }),
                None => to_value(value, Role::Text, guard),
            },
            _ => to_value(value, role_of(key), guard),
        };
        (Value::from(guard.hide(key, Role::Word).as_ref()), value)
    }))
}

/// The mapping in an arguments string; a call without arguments may send an empty one. None of any other text: templates
/// get it as it stands.
pub fn parse_arguments(text: &str) -> Option<Json> {
    if text.trim().is_empty() {
        return Some(Json::Object(serde_json::Map::new()));
    }
    serde_json::from_str(text).ok().filter(Json::is_object)
}

/// Arguments that iterate as a mapping and print as JSON.
pub(super) struct Arguments {
    mapping: Value,
    text: String,
}

impl Arguments {
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Object for Arguments {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.mapping.as_object()?.get_value(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match self.mapping.try_iter() {
            Ok(keys) => Enumerator::Values(keys.collect()),
            Err(_) => Enumerator::Empty,
        }
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
