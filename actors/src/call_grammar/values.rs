//! What schemas say of arguments, as far as formats that do not write JSON need to know.

use serde_json::{Map, Value as Json, json};

use super::room::Room;
use super::{Term, all, separated, text};

/// References are followed this often, and values nested this deep, so that a schema that refers to itself ends.
pub(super) const MAX_DEPTH: usize = 8;

/// An argument that a schema describes.
pub(super) struct Property<'a> {
    pub(super) name: &'a str,
    pub(super) schema: &'a Json,
    pub(super) is_required: bool,
}

/// The properties of an object's schema, in their order.
pub(super) fn properties(root: &Json) -> Vec<Property<'_>> {
    properties_of(root, root)
}

fn properties_of<'a>(root: &'a Json, schema: &'a Json) -> Vec<Property<'a>> {
    let schema = resolve(root, schema);
    let required = schema.get("required").and_then(Json::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
    let fields = schema.get("properties").and_then(Json::as_object).into_iter().flatten();
    fields.map(|(name, schema)| Property { name, schema, is_required: is_required(name) }).collect()
}

/// Keywords by which a schema says itself what an object holds beyond its properties.
const OPENERS: [&str; 12] = [
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "dependentSchemas",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "$ref",
    "$dynamicRef",
];

/// The schema of arguments: an object of the properties that it lists and no others, unless it says what else there is.
/// A model that may invent arguments does.
pub(super) fn closed(schema: &Json) -> Json {
    let mut fields = schema.as_object().cloned().unwrap_or_default();
    fields.entry("type").or_insert_with(|| "object".into());
    let lists_all = {
        let known = fields.get("properties").and_then(Json::as_object);
        let required = fields.get("required").and_then(Json::as_array).into_iter().flatten();
        let is_known =
            |name: &Json| known.zip(name.as_str()).is_some_and(|(known, name)| known.contains_key(name));
        known.is_some() && required.into_iter().all(is_known)
    };
    if lists_all && !OPENERS.iter().any(|keyword| fields.contains_key(*keyword)) {
        fields.insert("additionalProperties".to_owned(), false.into());
    }
    Json::Object(fields)
}

/// What may be kept of any schema, whatever else it says: which arguments there are, which of them have to be, and the
/// plain types of their values.
pub fn relaxed(schema: &Json) -> Json {
    const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "null", "array", "object"];
    let is_plain = |kind: &&Json| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    let properties = schema.get("properties").and_then(Json::as_object).into_iter().flatten();
    let properties: Map<String, Json> = properties
        .map(|(name, schema)| {
            let kind = schema.get("type").filter(is_plain);
            (name.clone(), kind.map_or_else(|| json!({}), |kind| json!({ "type": kind })))
        })
        .collect();
    let required = schema.get("required").and_then(Json::as_array).into_iter().flatten();
    let required: Vec<&Json> =
        required.filter(|name| name.as_str().is_some_and(|name| properties.contains_key(name))).collect();
    match properties.is_empty() {
        true => json!({"type": "object"}),
        false => json!({"type": "object", "properties": properties, "required": required}),
    }
}

/// A part of a schema on its own, with the definitions that it may refer to.
pub(super) fn in_schema(root: &Json, schema: &Json) -> Json {
    let Json::Object(fields) = schema else { return schema.clone() };
    let mut whole = fields.clone();
    for key in ["$defs", "definitions"] {
        if let Some(definitions) = root.get(key).filter(|_| !fields.contains_key(key)) {
            whole.insert(key.to_owned(), definitions.clone());
        }
    }
    Json::Object(whole)
}

/// The strings that a schema lists, if it allows nothing else.
pub(super) fn words<'a>(root: &'a Json, schema: &'a Json) -> Option<Vec<&'a str>> {
    let schema = resolve(root, schema);
    if let Some(word) = schema.get("const") {
        return Some(vec![word.as_str()?]);
    }
    schema.get("enum")?.as_array().filter(|words| !words.is_empty())?.iter().map(Json::as_str).collect()
}

/// Whether an argument is written as it stands: it may be a string, or the schema says no type.
pub(super) fn is_text(root: &Json, schema: &Json) -> bool {
    may_be_text(root, schema, MAX_DEPTH).unwrap_or(true)
}

/// None if the schema does not say.
fn may_be_text(root: &Json, schema: &Json, depth: usize) -> Option<bool> {
    let depth = depth.checked_sub(1)?;
    let schema = resolve(root, schema);
    match schema.get("type") {
        Some(Json::String(name)) => return Some(name == "string"),
        Some(Json::Array(names)) => return Some(names.iter().any(|name| name == "string")),
        _ => {}
    }
    let listed = |key: &str| schema.get(key).and_then(Json::as_array).into_iter().flatten();
    let values = listed("enum").chain(schema.get("const")).map(Json::is_string);
    let alternatives = ["anyOf", "oneOf", "allOf"].into_iter().flat_map(listed);
    let said = values.chain(alternatives.filter_map(|schema| may_be_text(root, schema, depth)));
    let structured = schema.get("properties").or_else(|| schema.get("items")).map(|_| false);
    said.chain(structured).reduce(|one, other| one || other)
}

/// Follows local references.
pub(super) fn resolve<'a>(root: &'a Json, mut schema: &'a Json) -> &'a Json {
    for _ in 0..MAX_DEPTH {
        let reference = schema.get("$ref").and_then(Json::as_str).and_then(|text| text.strip_prefix('#'));
        match reference.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// Arguments with unquoted keys and strings between `quote`s; none if there is no room for them.
pub(super) fn braced(room: &Room, schema: &Json, quote: &str) -> Option<Term> {
    Braced { room, root: schema, quote }.value(schema, MAX_DEPTH)
}

/// Writes values with unquoted keys.
struct Braced<'a> {
    room: &'a Room,
    root: &'a Json,
    quote: &'a str,
}

impl Braced<'_> {
    fn value(&self, schema: &Json, depth: usize) -> Option<Term> {
        self.room.take(0)?;
        let schema = resolve(self.root, schema);
        let kind = schema.get("type").and_then(Json::as_str);
        let Some(deeper) = depth.checked_sub(1) else { return Some(self.string()) };
        if let Some(words) = words(self.root, schema) {
            return self.words(&words);
        }
        match kind {
            Some("integer" | "number" | "boolean" | "null") => self.room.json(self.root, schema),
            Some("array") => {
                let item = schema.get("items").map(|items| self.value(items, deeper));
                let item = item.unwrap_or_else(|| Some(self.string()))?;
                let items = Term::Maybe(Box::new(Term::Many(Box::new(item), ",".to_owned())));
                Some(all([text("["), items, text("]")]))
            }
            Some("object") | None
                if kind.is_some() || schema.get("properties").is_some() || depth == MAX_DEPTH =>
            {
                let property = |property: &Property| {
                    self.room.take(property.name.len())?;
                    let value = self.value(property.schema, deeper)?;
                    Some(all([text(&format!("{}:", property.name)), value]))
                };
                let properties = separated(&properties_of(self.root, schema), ",", property)?;
                Some(all([text("{"), properties, text("}")]))
            }
            _ => Some(self.string()),
        }
    }

    fn words(&self, words: &[&str]) -> Option<Term> {
        let quote = self.quote;
        self.room.take(words.iter().map(|word| word.len()).sum())?;
        Some(Term::Any(words.iter().map(|word| text(&format!("{quote}{word}{quote}"))).collect()))
    }

    fn string(&self) -> Term {
        all([text(self.quote), Term::Until(self.quote.to_owned())])
    }
}
