//! Whether a document by a schema may look like a bare call.

use serde_json::{Map, Value as Json};
use troupe_parsers::{JsonObject, Tool};

use super::values::{MAX_DEPTH, resolve};

/// Keywords that say nothing of what a document is.
const SAY_NOTHING: [&str; 7] =
    ["title", "description", "$comment", "$defs", "definitions", "default", "examples"];

/// Keywords by which an object is described here. Beside any other it may be anything.
const OF_OBJECTS: [&str; 6] =
    ["type", "properties", "required", "additionalProperties", "minProperties", "maxProperties"];

/// Whether a document by this schema may be read as a call of one of these tools. True in all cases in which it is not clear
/// that none is.
///
/// Documents have the properties that a schema lists ahead of others, in their order, and a reader gives a call up at the
/// first key that none has.
pub(super) fn may_look_like_a_call(body: &JsonObject, tools: &[Tool], schema: &Json) -> bool {
    Likeness { body, tools, root: schema }.of(schema, MAX_DEPTH)
}

struct Likeness<'a> {
    body: &'a JsonObject,
    tools: &'a [Tool],
    root: &'a Json,
}

impl Likeness<'_> {
    fn of(&self, schema: &Json, depth: usize) -> bool {
        let (Some(deeper), Json::Object(fields)) = (depth.checked_sub(1), schema) else {
            return *schema != Json::Bool(false);
        };
        if excludes(fields, "object", Json::is_object) {
            return false;
        }
        let has_only = |keys: &[&str]| {
            fields.keys().all(|key| keys.contains(&key.as_str()) || SAY_NOTHING.contains(&key.as_str()))
        };
        for key in ["anyOf", "oneOf"] {
            if let Some(Json::Array(alternatives)) = fields.get(key).filter(|_| has_only(&[key])) {
                return alternatives.iter().any(|schema| self.of(schema, deeper));
            }
        }
        if fields.contains_key("$ref") && has_only(&["$ref"]) {
            let target = resolve(self.root, schema);
            return target.get("$ref").is_some() || self.of(target, deeper);
        }
        !has_only(&OF_OBJECTS) || self.of_object(fields)
    }

    /// Whether name and arguments may both come before a key that no call has must have come.
    fn of_object(&self, fields: &Map<String, Json>) -> bool {
        let empty = Map::new();
        let listed = fields.get("properties").and_then(Json::as_object).unwrap_or(&empty);
        let is_closed = fields.get("additionalProperties") == Some(&Json::Bool(false));
        let is_required = |key: &String| {
            let required = fields.get("required").and_then(Json::as_array).into_iter().flatten();
            required.into_iter().any(|other| other == key)
        };
        let stranger = listed.keys().position(|key| is_required(key) && !self.body.knows(key));
        let first = |is_of_it: &dyn Fn(&str) -> bool| {
            let place = listed.keys().position(|key| is_of_it(key));
            place.or_else(|| (!is_closed).then_some(listed.len()))
        };
        let name = first(&|key| self.body.is_name(key));
        let arguments = first(&|key| self.body.is_arguments(key));
        let (Some(name), Some(arguments)) = (name, arguments) else { return false };
        if stranger.is_some_and(|place| place < name.max(arguments)) {
            return false;
        }
        let said = listed.iter().find(|(key, _)| self.body.is_name(key)).map(|(_, schema)| schema);
        said.is_none_or(|schema| self.may_be_a_name(schema))
    }

    fn may_be_a_name(&self, schema: &Json) -> bool {
        let is_a_name = |value: &Json| self.tools.iter().any(|tool| *value == tool.name.as_str());
        let Json::Object(fields) = resolve(self.root, schema) else { return true };
        !excludes(fields, "string", is_a_name)
    }
}

/// Whether what `type`, `enum` and `const` say leaves nothing of this kind.
fn excludes(fields: &Map<String, Json>, kind: &str, is_of_it: impl Fn(&Json) -> bool) -> bool {
    let by_type = match fields.get("type") {
        Some(Json::String(name)) => name != kind,
        Some(Json::Array(names)) => names.iter().all(|name| name.is_string() && name != kind),
        _ => false,
    };
    let by_values =
        fields.get("enum").and_then(Json::as_array).is_some_and(|values| !values.iter().any(&is_of_it));
    by_type || by_values || fields.get("const").is_some_and(|value| !is_of_it(value))
}
