//! The tools that a request offers, and what their schemas say of a parameter's type.

use serde_json::Value as Json;

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name. Calls of other names are content.
    pub name: String,
    /// The JSON schema of its parameters; `null` if it has none.
    pub parameters: Json,
}

/// What the text of a parameter stands for, in formats that do not write JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A string, as it stands. Also of parameters that the schema does not know.
    Text,
    /// JSON of another type.
    Json,
    /// JSON of another type if it reads as such, else a string.
    Either,
}

/// References are followed this often, so that a schema that refers to itself ends.
const MAX_REFERENCES: usize = 16;

/// What the schema of `tool` says of `parameter`.
pub(crate) fn parameter_kind(tool: &Tool, parameter: &str) -> Kind {
    let root = &tool.parameters;
    let schema = resolve(root, root).get("properties").and_then(|properties| properties.get(parameter));
    let mut types = Types::default();
    if let Some(schema) = schema {
        types.add(root, schema, MAX_REFERENCES);
    }
    match (types.string, types.other) {
        (false, true) => Kind::Json,
        (true, true) => Kind::Either,
        (_, false) => Kind::Text,
    }
}

/// Follows local references (`#/…`).
fn resolve<'a>(root: &'a Json, mut schema: &'a Json) -> &'a Json {
    for _ in 0..MAX_REFERENCES {
        let reference = schema.get("$ref").and_then(Json::as_str).and_then(|text| text.strip_prefix('#'));
        match reference.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// Which types a schema allows, as far as it says.
#[derive(Default)]
struct Types {
    string: bool,
    other: bool,
}

impl Types {
    fn add(&mut self, root: &Json, schema: &Json, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        let schema = resolve(root, schema);
        match schema.get("type") {
            Some(Json::String(name)) => self.add_name(name),
            Some(Json::Array(names)) => {
                names.iter().filter_map(Json::as_str).for_each(|name| self.add_name(name))
            }
            _ => self.add_untyped(root, schema, depth),
        }
    }

    fn add_name(&mut self, name: &str) {
        if name == "string" {
            self.string = true;
        } else {
            self.other = true;
        }
    }

    /// A schema without `type` says its types by values, alternatives, or keywords that only one type has.
    fn add_untyped(&mut self, root: &Json, schema: &Json, depth: usize) {
        let listed = |key: &str| schema.get(key).and_then(Json::as_array).into_iter().flatten();
        for value in listed("enum").chain(schema.get("const")) {
            self.add_name(if value.is_string() { "string" } else { "other" });
        }
        for alternative in listed("anyOf").chain(listed("oneOf")).chain(listed("allOf")) {
            self.add(root, alternative, depth);
        }
        if schema.get("properties").or_else(|| schema.get("items")).is_some() {
            self.other = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_parameter_is_typed_by_its_schema() {
        let parameters = json!({
            "$ref": "#/$defs/root",
            "$defs": {
                "root": {"properties": {
                    "text": {"type": "string"},
                    "count": {"type": "integer"},
                    "optional": {"type": ["string", "null"]},
                    "union": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                    "word": {"enum": ["a", "b"]},
                    "level": {"enum": [1, 2]},
                    "object": {"properties": {}},
                    "anything": {},
                    "there": {"$ref": "#/$defs/list"},
                    "loop": {"$ref": "#/$defs/loop"},
                    "knot": {"$ref": "#/$defs/knot"},
                }},
                "list": {"type": "array"},
                "loop": {"$ref": "#/$defs/loop"},
                "knot": {"anyOf": [{"$ref": "#/$defs/knot"}]},
            },
        });
        let tool = Tool { name: "f".to_owned(), parameters };
        for (parameter, kind) in [
            ("text", Kind::Text),
            ("count", Kind::Json),
            ("optional", Kind::Either),
            ("union", Kind::Either),
            ("word", Kind::Text),
            ("level", Kind::Json),
            ("object", Kind::Json),
            ("anything", Kind::Text),
            ("there", Kind::Json),
            ("loop", Kind::Text),
            ("knot", Kind::Text),
            ("unknown", Kind::Text),
        ] {
            assert_eq!(parameter_kind(&tool, parameter), kind, "{parameter}");
        }
        let bare = Tool { name: "f".to_owned(), parameters: Json::Null };
        assert_eq!(parameter_kind(&bare, "text"), Kind::Text);
    }
}
