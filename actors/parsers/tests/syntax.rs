//! What a format says of its syntax suffices to write calls in it: whoever builds a grammar of it relies on that.

mod support;

use serde_json::{Value as Json, json};
use support::{finished_calls, parse_text};
use troupe_parsers::{
    CallBody, CallSyntax, Ending, Event, Format, HeadField, JsonName, JsonObject, List, NameForm, NamedJson,
    Parameters, Pythonic, Setup,
};

type Arguments = Vec<(&'static str, Json)>;

fn calls() -> Vec<(&'static str, Arguments)> {
    vec![
        (
            "get_weather",
            vec![("city", json!("Köln \"x\"")), ("days", json!(3)), ("flags", json!([true, null]))],
        ),
        ("now", vec![]),
        ("get_weather", vec![("nested", json!({"q": {"r": ""}}))]),
    ]
}

fn object(arguments: &Arguments) -> Json {
    Json::Object(arguments.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
}

/// An answer of these calls, written by the syntax alone.
fn write(syntax: &CallSyntax) -> String {
    let written: Vec<String> = calls()
        .iter()
        .enumerate()
        .map(|(index, (name, arguments))| {
            let body = write_call(syntax, index, name, arguments);
            format!("{}{body}{}", syntax.call.begin, syntax.call.end)
        })
        .collect();
    let calls = written.join(syntax.separator);
    let in_list = match syntax.body {
        CallBody::JsonObject(JsonObject { list: List::Brackets, .. })
        | CallBody::Pythonic(Pythonic { list: List::Brackets }) => format!("[{calls}]"),
        _ => calls,
    };
    format!("{}{in_list}{}", syntax.section.begin, syntax.section.end)
}

fn write_call(syntax: &CallSyntax, index: usize, name: &str, arguments: &Arguments) -> String {
    match syntax.body {
        CallBody::JsonObject(JsonObject { name: JsonName::IsKey, .. }) => {
            json!({name: object(arguments)}).to_string()
        }
        CallBody::JsonObject(JsonObject { name: JsonName::Under { name_key, arguments_key }, .. }) => {
            json!({name_key: name, arguments_key: object(arguments)}).to_string()
        }
        CallBody::NamedJson(body) => write_named(&body, index, name, arguments),
        CallBody::Parameters(body) => write_parameters(&body, name, arguments),
        CallBody::Pythonic(_) => {
            let arguments: Vec<String> =
                arguments.iter().map(|(key, value)| format!("{key}={}", python(value))).collect();
            format!("{name}({})", arguments.join(", "))
        }
        CallBody::Braced { quote } => format!("call:{name}{}", braced(&object(arguments), quote)),
        CallBody::Channels => format!("{name} <|constrain|>json<|message|>{}", object(arguments)),
    }
}

fn write_named(body: &NamedJson, index: usize, name: &str, arguments: &Arguments) -> String {
    let mut out = String::new();
    for (field, terminator) in body.head {
        match (field, body.name) {
            (HeadField::Name, NameForm::Plain) => out.push_str(name),
            (HeadField::Name, NameForm::Numbered) => out.push_str(&format!("functions.{name}:{index}")),
            (HeadField::Id, _) => out.push_str("abcdefghi"),
            (HeadField::Constant(word), _) => out.push_str(word),
        }
        out.push_str(terminator);
    }
    format!("{out}{}{}{}", body.arguments.begin, object(arguments), body.arguments.end)
}

fn write_parameters(body: &Parameters, name: &str, arguments: &Arguments) -> String {
    let mut out =
        format!("{}{name}{}{}", body.name.begin, body.name.end, body.name_attributes.unwrap_or_default());
    for (key, value) in arguments {
        out.push_str(&format!("{}{key}{}", body.key.begin, body.key.end));
        if let Some(attribute) = body.type_attribute {
            out.push_str(if value.is_string() { attribute.string } else { "other" });
            out.push_str(attribute.end);
        }
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let padding = body.padding.map_or(("", body.value.end), |padding| (padding.begin, padding.end));
        out.push_str(&format!("{}{}{value}{}", body.value.begin, padding.0, padding.1));
    }
    out + body.end
}

fn python(value: &Json) -> String {
    value.to_string().replace("true", "True").replace("null", "None")
}

fn braced(value: &Json, quote: &str) -> String {
    let join = |parts: Vec<String>| parts.join(",");
    match value {
        Json::String(text) => format!("{quote}{text}{quote}"),
        Json::Array(items) => format!("[{}]", join(items.iter().map(|item| braced(item, quote)).collect())),
        Json::Object(fields) => {
            format!(
                "{{{}}}",
                join(fields.iter().map(|(key, value)| format!("{key}:{}", braced(value, quote))).collect())
            )
        }
        other => other.to_string(),
    }
}

#[test]
fn calls_written_by_the_syntax_are_read_back() {
    for format in Format::ALL {
        let written = write(&format.call_syntax());
        // The prompt of a format of channels ends in the header that a message begins with.
        let output = written.strip_prefix("<|start|>assistant").unwrap_or(&written);
        let setup = Setup { format: Some(*format), tools: support::tools(), ..Setup::default() };
        let (events, ending) = parse_text(setup, output);
        let read: Vec<(String, Json)> = finished_calls(&events)
            .into_iter()
            .map(|(_, _, name, arguments)| (name, serde_json::from_str(&arguments).expect("JSON")))
            .collect();
        let expected: Vec<(String, Json)> =
            calls().iter().map(|(name, arguments)| ((*name).to_owned(), object(arguments))).collect();
        assert_eq!(read, expected, "{}: {output}", format.name());
        assert_eq!(ending, Ending::Complete, "{}", format.name());
        let is_text = |event: &Event| matches!(event, Event::Content(_) | Event::Reasoning(_));
        assert!(!events.iter().any(is_text), "{}: {events:?}", format.name());
    }
}
