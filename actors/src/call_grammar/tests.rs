mod compiled;

use std::collections::BTreeMap;

use serde_json::json;
use troupe_parsers::{Event, Format, Parser, Piece, Setup};

use super::*;
use crate::guide::compact;

fn tools() -> Vec<Tool> {
    let tool = |name: &str, parameters: Json| Tool { name: name.to_owned(), parameters };
    vec![
        tool(
            "get_weather",
            json!({
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "unit": {"enum": ["c", "f"]},
                    "flags": {"type": "array", "items": {"type": "boolean"}},
                    "nested": {"$ref": "#/$defs/nested"},
                },
                "required": ["city", "nested"],
                "$defs": {"nested": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}},
            }),
        ),
        tool("now", json!({"type": "object", "properties": {}})),
        tool("any", json!({"type": "object", "properties": {"a": {}, "b": {"type": "number"}}})),
    ]
}

/// How much of what is optional an example holds.
#[derive(Clone, Copy, PartialEq)]
enum Fill {
    Least,
    Most,
}

/// A text that the grammar allows; of alternatives, that of the index.
fn example(term: &Term, fill: Fill, index: usize) -> String {
    match term {
        Term::Text(text) => text.clone(),
        Term::Json(schema) => value(schema, schema, fill).to_string(),
        Term::Until(end) => format!("Köln\n\"x\" {{}}{end}"),
        Term::Id => "abcdefgh1".to_owned(),
        Term::Number => "0".to_owned(),
        Term::All(terms) => terms.iter().map(|term| example(term, fill, index)).collect(),
        Term::Any(terms) => example(&terms[index % terms.len()], fill, index),
        Term::Maybe(_) if fill == Fill::Least => String::new(),
        Term::Maybe(term) => example(term, fill, index),
        Term::Many(term, _) if fill == Fill::Least => example(term, fill, index),
        Term::Free(begun) => format!("Hm. {}{}", begun[0].0, example(&begun[0].1, fill, index)),
        Term::Many(term, separator) => {
            let [one, other] = [0, 0].map(|_| example(term, fill, index));
            format!("{one}{separator}{other}")
        }
    }
}

/// A value that the schema allows.
fn value(root: &Json, schema: &Json, fill: Fill) -> Json {
    let schema = schema.get("$ref").and_then(|path| root.pointer(&path.as_str()?[1..])).unwrap_or(schema);
    if let Some(words) = schema.get("enum") {
        return words[0].clone();
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => json!(3),
        Some("boolean") => json!(true),
        Some("array") => json!([value(root, &schema["items"], fill)]),
        Some("object") => {
            let required = |name: &str| {
                schema["required"].as_array().is_some_and(|names| names.iter().any(|n| n == name))
            };
            let fields = schema["properties"].as_object().into_iter().flatten();
            let fields = fields.filter(|(name, _)| fill == Fill::Most || required(name));
            fields
                .map(|(name, schema)| (name.clone(), value(root, schema, fill)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        _ => json!("Köln\n\"x\" {}"),
    }
}

/// Name and arguments.
type Called = (String, BTreeMap<String, Json>);

/// The calls that a parser finds in an answer, and whether it finds anything else.
fn parse(format: Format, output: &str) -> (Vec<Called>, bool) {
    parse_with(format, tools(), output)
}

fn parse_with(format: Format, tools: Vec<Tool>, output: &str) -> (Vec<Called>, bool) {
    let mut parser = Parser::new(Setup { format: Some(format), tools, ..Setup::default() });
    let mut events = parser.push(Piece::Text(output));
    events.extend(parser.finish().0);
    let (mut names, mut arguments, mut finished, mut other) = (Vec::new(), Vec::new(), 0, false);
    for event in events {
        match event {
            Event::CallStarted { name, .. } => {
                names.push(name);
                arguments.push(String::new());
            }
            Event::Arguments { index, fragment } => arguments[index] += &fragment,
            Event::CallFinished { .. } => finished += 1,
            Event::CallBroken { .. } | Event::Content(_) | Event::Reasoning(_) => other = true,
        }
    }
    let is_whole = finished == names.len();
    let parsed = arguments.iter().map(|text| serde_json::from_str(text).unwrap_or_default());
    (names.into_iter().zip(parsed).collect(), other || !is_whole)
}

#[test]
fn what_the_grammar_allows_is_read_as_the_calls_that_it_forces() {
    for format in Format::ALL {
        let syntax = format.call_syntax();
        for (limit, fill) in
            [(CallLimit::One, Fill::Least), (CallLimit::One, Fill::Most), (CallLimit::Any, Fill::Most)]
        {
            let grammar = calls(&syntax, &tools(), limit).unwrap();
            for (index, tool) in tools().iter().enumerate() {
                let output = example(&grammar, fill, index);
                let (found, other) = parse(*format, &output);
                let case = format!("{}, {}: {output}", format.name(), tool.name);
                assert!(!other, "{case}\n{found:?}");
                let count = if limit == CallLimit::Any && !format.has_channels() { 2 } else { 1 };
                assert_eq!(found.len(), count, "{case}");
                for (name, arguments) in found {
                    assert_eq!(name, tool.name, "{case}");
                    let required: Vec<&str> = properties(&tool.parameters)
                        .iter()
                        .filter(|property| property.is_required)
                        .map(|property| property.name)
                        .collect();
                    assert!(
                        required.iter().all(|name| arguments.contains_key(*name)),
                        "{case}: {arguments:?}"
                    );
                    if let Some(city) = arguments.get("city") {
                        assert_eq!(city, "Köln\n\"x\" {}", "{case}");
                        assert_eq!(
                            arguments["nested"],
                            value(
                                &json!({}),
                                &json!({"type": "object", "properties": {"q": {}}}),
                                Fill::Most
                            )
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn nothing_to_call_is_no_grammar() {
    let none = calls(&Format::Hermes.call_syntax(), &[], CallLimit::Any);
    assert_eq!(none, Err(CallGrammarError::NoTools));
}

#[test]
fn control_tokens_are_tokens_in_lark() {
    let tool = Tool { name: "f".to_owned(), parameters: json!({"type": "object"}) };
    let hermes = calls(&Format::Hermes.call_syntax(), &[tool], CallLimit::One).unwrap();
    let body = "\"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": \" r0 \"}\"";
    let json = format!("%json {}", compact(&json!({"type": "object"})));
    assert_eq!(
        lark(&hermes, &[]),
        format!("start: \"<tool_call>\\n\" ({body}) \"\\n</tool_call>\"\nr0: {json}\n")
    );
    let control = [("<tool_call>".to_owned(), 7), ("</tool_call>".to_owned(), 8)];
    assert_eq!(lark(&hermes, &control), format!("start: <[7]> \"\\n\" ({body}) \"\\n\" <[8]>\nr0: {json}\n"));
}

#[test]
fn text_ends_at_its_end() {
    let until = Term::Until("</p>\n".to_owned());
    assert_eq!(lark(&until, &[]), "start: r0\nr0[suffix=\"</p>\\n\"]: /(?s:.*)/\n");
    let control = [("</p>".to_owned(), 9)];
    assert_eq!(lark(&until, &control), "start: /(?s:.*)/ <[9]> \"\\n\"\n");
}

#[test]
fn a_separator_and_what_follows_it_are_one_lexeme() {
    let item = all([text("<a>"), Term::Number]);
    let grammar = Term::Many(Box::new(item), "\n".to_owned());
    assert_eq!(lark(&grammar, &[]), "start: \"<a>\" r0 (\"\\n<a>\" r0)*\nr0: /[0-9]{1,4}/\n");
}

#[test]
fn a_rule_that_is_there_already_is_not_written_again() {
    let any = Term::Json(json!(true));
    let both = all([any.clone(), text(","), any]);
    assert_eq!(lark(&both, &[]), format!("start: r0 \",\" r0\nr0: %json {}\n", compact(&json!(true))));
}

#[test]
fn arguments_are_those_that_a_schema_lists_unless_it_says_otherwise() {
    let properties = json!({"a": {}});
    for (schema, is_closed) in [
        (json!({"properties": properties}), true),
        (json!({"type": "object", "properties": {}}), true),
        (json!({"properties": properties, "required": ["a"]}), true),
        (json!({"properties": properties, "required": ["b"]}), false),
        (json!({"properties": properties, "additionalProperties": true}), false),
        (json!({"properties": properties, "patternProperties": {"^x": {}}}), false),
        (json!({"properties": properties, "allOf": [{"properties": {"b": {}}}]}), false),
        (json!({"type": "object"}), false),
        (json!(null), false),
    ] {
        let closed = closed(&schema);
        assert_eq!(closed["type"], "object", "{schema}");
        assert_eq!(closed.get("additionalProperties") == Some(&json!(false)), is_closed, "{schema}");
    }
}

#[test]
fn what_is_kept_of_a_schema_can_always_be_enforced() {
    let schema = json!({
        "not": {},
        "properties": {"a": {"type": "string", "format": "x"}, "b": {"type": ["string", "null"]}, "c": {"type": "date"}},
        "required": ["a", "d", 5],
    });
    let kept = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {}, "c": {}},
        "required": ["a"],
    });
    assert_eq!(relaxed(&schema), kept);
    assert_eq!(relaxed(&json!({"$ref": "http://x"})), json!({"type": "object"}));
}

#[test]
fn a_schema_that_would_make_a_huge_grammar_is_refused() {
    let many: serde_json::Map<String, Json> =
        (0..1000).map(|index| (format!("p{index}"), json!({"type": "integer"}))).collect();
    let again = json!({"$ref": "#"});
    let recursive = json!({
        "type": "object",
        "properties": {"a": again, "b": again, "c": again, "d": again, "e": again, "f": again, "g": again},
    });
    let defined = json!({
        "type": "object",
        "properties": many.iter().take(100).map(|(name, _)| (name.clone(), json!({"type": "integer"}))).collect::<serde_json::Map<_, _>>(),
        "$defs": {"x": {"description": "x".repeat(10_000)}},
    });
    for (format, schema) in [
        (Format::Pythonic, json!({"type": "object", "properties": many})),
        (Format::Gemma4, recursive),
        (Format::Qwen3Coder, defined),
    ] {
        let tool = Tool { name: "f".to_owned(), parameters: schema };
        let refused = calls(&format.call_syntax(), &[tool], CallLimit::Any);
        assert_eq!(
            refused,
            Err(CallGrammarError::TooLarge { limit: MAX_GRAMMAR_BYTES }),
            "{}",
            format.name()
        );
    }
}
