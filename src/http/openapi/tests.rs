//! The document, the readers, the routes and docs/api.md say the same.

mod nested;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use troupe_actors::testing::{calling_card, model_card};
use troupe_protocol::TenantId;

use super::{chat, completions, detokenize, document, messages, request::Request, responses, tokenize};
use crate::http::fields::{Fields, Unimplemented, asked};
use crate::http::{self, Tenant};

const CONTEXT: u32 = 2048;

/// What the reader of one endpoint asks for.
struct Reader {
    path: &'static str,
    request: Request,
    asked: BTreeSet<String>,
    unimplemented: BTreeMap<&'static str, &'static [&'static str]>,
    /// Names of fields that it passes on to chat's reader.
    passed_on: BTreeSet<String>,
}

impl Reader {
    /// Reads `bodies`, which together lead the reader to each of its fields.
    fn of(
        path: &'static str,
        request: Request,
        bodies: &[Value],
        read: impl Fn(Fields) -> Result<(), http::ApiError>,
    ) -> Self {
        let (asked, unimplemented) = asked::by(|| {
            for body in bodies {
                read(Fields::of(body.clone(), "body").unwrap()).unwrap();
            }
        });
        let unimplemented: BTreeMap<_, _> =
            unimplemented.into_iter().map(|Unimplemented { name, neutral }| (name, neutral)).collect();
        let unimplemented = unimplemented.into_iter().filter(|(name, _)| !asked.contains(*name)).collect();
        Self { path, request, asked, unimplemented, passed_on: BTreeSet::new() }
    }

    /// A reader that takes fields for itself, and passes the rest on to chat's but for `reserved`.
    fn before_chat(
        (path, request): (&'static str, Request),
        own: &[Unimplemented],
        reserved: &[&str],
        read: impl FnOnce() -> Result<(), http::ApiError>,
    ) -> Self {
        let (mut asked, _) = asked::by(|| read().unwrap());
        asked.retain(|name| own.iter().all(|field| field.name != name));
        let unimplemented: BTreeMap<_, _> =
            own.iter().map(|&Unimplemented { name, neutral }| (name, neutral)).collect();
        let mut passed_on = chat().accepted();
        passed_on.retain(|name| {
            !reserved.contains(&name.as_str())
                && !asked.contains(name)
                && !unimplemented.contains_key(name.as_str())
        });
        Self { path, request, asked, unimplemented, passed_on }
    }

    /// Names of all fields that some value is accepted of.
    fn accepted(&self) -> BTreeSet<String> {
        let neutral = self.unimplemented.iter().filter(|(_, values)| !values.is_empty());
        let own = self.asked.iter().cloned().chain(neutral.map(|(name, _)| (*name).to_owned()));
        own.chain(self.passed_on.iter().cloned()).collect()
    }
}

fn chat() -> Reader {
    let card = model_card(CONTEXT).unwrap();
    let tenant = Tenant::unlimited(TenantId::ANONYMOUS);
    let messages = json!({"messages": [{"role": "user", "content": "hi"}]});
    Reader::of("/v1/chat/completions", chat::request(), &[messages], |fields| {
        http::chat_request::read(fields, &card, &tenant, 0).map(drop)
    })
}

/// Readers of the APIs that chat answers.
fn translators() -> Vec<Reader> {
    let card = model_card(CONTEXT).unwrap();
    let fields = |body: Value| Fields::of(body, "body");
    let question = || {
        let messages = json!([{"role": "user", "content": "hi"}]);
        json!({"model": "test", "messages": messages, "max_tokens": 1})
    };
    let response = |path| {
        let read = || http::responses::read_request(fields(json!({"input": "hi"}))?).map(drop);
        let (own, reserved) = (http::responses::UNIMPLEMENTED, http::responses::RESERVED);
        Reader::before_chat((path, responses::request()), own, reserved, read)
    };
    let (own, reserved) = (http::messages::UNIMPLEMENTED, http::messages::RESERVED);
    vec![
        response("/v1/responses"),
        response("/v1/responses/input_tokens"),
        Reader::before_chat(("/v1/messages", messages::message()), own, reserved, || {
            http::messages::message(fields(question())?, &card).map(drop)
        }),
        Reader::before_chat(("/v1/messages/count_tokens", messages::prompt()), own, reserved, || {
            http::messages::prompt(fields(question())?, &card).map(drop)
        }),
    ]
}

/// All endpoints that take a body.
fn readers() -> Vec<Reader> {
    let card = model_card(CONTEXT).unwrap();
    let tenant = Tenant::unlimited(TenantId::ANONYMOUS);
    let messages = json!({"messages": [{"role": "user", "content": "hi"}]});
    let mut readers = translators();
    readers.extend([
        chat(),
        Reader::of("/v1/completions", completions::request(), &[json!({"prompt": "hi"})], |fields| {
            http::completions_request::read(fields, &card, &tenant, 0).map(drop)
        }),
        Reader::of("/tokenize", tokenize::request(), &[messages, json!({"prompt": "hi"})], |fields| {
            http::tokenize::read(fields, &card, &tenant).map(drop)
        }),
        Reader::of("/detokenize", detokenize::request(), &[json!({"tokens": [1]})], |fields| {
            http::detokenize::read(fields, &card, &tenant).map(drop)
        }),
    ]);
    readers
}

#[test]
fn a_body_s_schema_has_the_fields_that_its_reader_takes() {
    let difference = |reader: Reader| {
        let (described, accepted) = (reader.request.names(), reader.accepted());
        let only = |these: &BTreeSet<String>, those: &BTreeSet<String>| -> Vec<String> {
            these.difference(those).cloned().collect()
        };
        (reader.path, only(&described, &accepted), only(&accepted, &described))
    };
    let differences = readers().into_iter().map(difference);
    let differences: Vec<_> =
        differences.filter(|(_, described, taken)| described.len() + taken.len() > 0).collect();
    assert!(differences.is_empty(), "(path, only described, only taken): {differences:#?}");
}

#[test]
fn what_is_described_of_tools_and_formats_is_taken() {
    let document = serde_json::to_value(document()).unwrap();
    let described = |schema: &str| -> BTreeSet<String> {
        let properties = document["components"]["schemas"][schema]["properties"].as_object();
        properties.expect(schema).keys().cloned().collect()
    };
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let function = json!({
        "name": "f", "description": "", "parameters": {"type": "object"}, "strict": true, "return": {}, "response": {},
    });
    let tool = json!({"type": "function", "function": function, "strict": false});
    let named = json!({"type": "function", "function": {"name": "f"}});
    let list = json!({"mode": "auto", "tools": [named]});
    let choice = json!({"type": "allowed_tools", "allowed_tools": list});
    let schema = json!({"name": "a", "description": "", "schema": {}, "strict": true});
    let format = json!({"type": "json_schema", "json_schema": schema});
    for (name, value) in [
        ("FunctionDefinition", &function),
        ("ToolDefinition", &tool),
        ("NamedFunction", &named),
        ("AllowedTool", &named),
        ("FunctionName", &named["function"]),
        ("AllowedList", &list),
        ("AllowedTools", &choice),
        ("NamedSchema", &schema),
        ("SchemaFormat", &format),
        ("PlainFormat", &json!({"type": "text"})),
    ] {
        assert_eq!(described(name), names(value), "{name}");
        assert_eq!(document["components"]["schemas"][name]["additionalProperties"], false, "{name}");
    }
    let card = calling_card(CONTEXT).unwrap();
    for choice in [named, choice] {
        let messages = json!([{"role": "user", "content": "hi"}]);
        let body = json!({
            "messages": messages, "tools": [tool], "tool_choice": choice, "response_format": format,
        });
        let fields = Fields::of(body, "body").unwrap();
        let read =
            http::chat_request::read(fields, &card, &Tenant::unlimited(TenantId::ANONYMOUS), 0).map(drop);
        assert_eq!(read, Ok(()), "{choice}");
    }
}

#[test]
fn every_endpoint_with_a_body_has_its_reader_in_these_tests() {
    let document = serde_json::to_value(document()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let with_body = paths.iter().filter(|(_, item)| item["post"]["requestBody"].is_object());
    let read: BTreeSet<_> = readers().iter().map(|reader| reader.path).collect();
    assert_eq!(with_body.map(|(path, _)| path.as_str()).collect::<BTreeSet<_>>(), read);
}

#[test]
fn every_route_is_in_the_document() {
    const OURS: [&str; 3] = ["/openapi.json", "/docs", "/docs/{file:.*}"];
    // Where endpoints are registered; those with several methods, or in several lines, by hand.
    const FILES: [&str; 2] = [include_str!("../mod.rs"), include_str!("../responses/mod.rs")];
    const MORE: [(&str, &str); 4] = [
        ("get", "/v1/responses/{id}"),
        ("delete", "/v1/responses/{id}"),
        ("post", "/v1/messages"),
        ("post", "/v1/messages/count_tokens"),
    ];
    let routes = FILES.into_iter().flat_map(str::lines).filter_map(|line| {
        let (method, rest) = line.trim().strip_prefix(".service(")?.split_once("(\"")?;
        Some((method, rest.split_once('"')?.0))
    });
    let routes = routes.chain(MORE);
    let routes = routes.filter(|(_, path)| !OURS.contains(path));
    let routes: BTreeSet<_> = routes.map(|(method, path)| (method, path.replace(":.*", ""))).collect();
    let document = serde_json::to_value(document()).unwrap();
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["get", "post", "delete"] {
            if item[method].is_object() {
                documented.insert((method, path.clone()));
            }
        }
    }
    assert!(routes.len() > 9, "{routes:?}");
    assert_eq!(routes, documented);
}

#[test]
fn the_document_is_openapi_3_1_and_every_reference_in_it_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|field| references(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let document = serde_json::to_value(document()).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 30, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').expect(reference);
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

/// Rows of docs/api.md: under each endpoint's heading, its fields and what becomes of them.
fn rows(page: &str) -> BTreeMap<&str, BTreeMap<&str, &str>> {
    let mut endpoints = BTreeMap::<_, BTreeMap<_, _>>::new();
    let mut paths = Vec::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            paths = heading.split(", ").filter_map(|endpoint| endpoint.strip_prefix("POST ")).collect();
        } else if let Some(row) = line.strip_prefix("| `") {
            let (name, rest) = row.split_once("` | ").expect(line);
            let (fate, _) = rest.split_once(" |").expect(line);
            for &path in &paths {
                assert_eq!(
                    endpoints.entry(path).or_default().insert(name, fate),
                    None,
                    "{line} is there twice"
                );
            }
        }
    }
    endpoints
}

/// What docs/api.md has to say of a field that is not implemented.
fn fate(neutral: &[&str]) -> String {
    match neutral {
        [] => "refused".to_owned(),
        values => format!("refused but for `{}`", values.join("` and `")),
    }
}

#[test]
fn the_page_of_fields_says_what_the_readers_do() {
    let page = include_str!("../../../docs/api.md");
    let told = rows(page);
    for reader in readers() {
        let told = &told[reader.path];
        let names = |of: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
            told.iter().filter(|(_, fate)| of(fate)).map(|(name, _)| (*name).to_owned()).collect()
        };
        let done = names(&|fate| matches!(fate, "done" | "no effect"));
        assert_eq!(done, reader.asked, "{}", reader.path);
        let refused: BTreeMap<_, _> =
            reader.unimplemented.iter().map(|(name, neutral)| (*name, fate(neutral))).collect();
        let told = told.iter().filter(|(name, _)| !done.contains(**name));
        let told: BTreeMap<_, _> = told.map(|(name, fate)| (*name, (*fate).to_owned())).collect();
        assert_eq!(told, refused, "{}", reader.path);
    }
}
