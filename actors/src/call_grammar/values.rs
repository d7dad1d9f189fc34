//! What schemas say of arguments, as far as formats that do not write JSON need to know.

use serde_json::Value as Json;

use super::{Term, all, separated, text};

/// References are followed this often, and values nested this deep, so that a schema that refers to itself ends.
const MAX_DEPTH: usize = 8;

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
fn resolve<'a>(root: &'a Json, mut schema: &'a Json) -> &'a Json {
    for _ in 0..MAX_DEPTH {
        let reference = schema.get("$ref").and_then(Json::as_str).and_then(|text| text.strip_prefix('#'));
        match reference.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// A value with unquoted keys and strings between `quote`s.
pub(super) fn braced(root: &Json, schema: &Json, quote: &str) -> Term {
    braced_value(root, schema, quote, MAX_DEPTH)
}

fn braced_value(root: &Json, schema: &Json, quote: &str, depth: usize) -> Term {
    let schema = resolve(root, schema);
    let kind = schema.get("type").and_then(Json::as_str);
    let Some(deeper) = depth.checked_sub(1) else { return quoted(quote) };
    match kind {
        _ if words(root, schema).is_some() => {
            let words = words(root, schema).unwrap_or_default();
            Term::Any(words.into_iter().map(|word| text(&format!("{quote}{word}{quote}"))).collect())
        }
        Some("integer" | "number" | "boolean" | "null") => Term::Json(in_schema(root, schema)),
        Some("array") => {
            let item = schema
                .get("items")
                .map_or_else(|| quoted(quote), |items| braced_value(root, items, quote, deeper));
            let items = Term::Maybe(Box::new(Term::Many(Box::new(item), ",".to_owned())));
            all([text("["), items, text("]")])
        }
        Some("object") | None
            if kind.is_some() || schema.get("properties").is_some() || depth == MAX_DEPTH =>
        {
            let property = |property: &Property| {
                let value = braced_value(root, property.schema, quote, deeper);
                all([text(&format!("{}:", property.name)), value])
            };
            all([text("{"), separated(&properties_of(root, schema), ",", property), text("}")])
        }
        _ => quoted(quote),
    }
}

fn quoted(quote: &str) -> Term {
    all([text(quote), Term::Until(quote.to_owned())])
}
