//! Structured output by the real model: what ends by itself is what was asked for, by the word of another validator.

use serde_json::{Value, json};

use crate::support::{Answer, Server, chat, streamed, with};

const QUESTION: &str = "Describe a famous person. Answer in JSON.";

/// Schemas of all kinds, each of which bounds the length of its documents.
fn schemas() -> Vec<Value> {
    let word = json!({"type": "string", "minLength": 1, "maxLength": 12});
    let object = |properties: Value| {
        let required: Vec<String> = properties.as_object().unwrap().keys().cloned().collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    };
    let list =
        |items: Value, most: u32| json!({"type": "array", "items": items, "minItems": 1, "maxItems": most});
    vec![
        object(json!({"name": word, "age": {"type": "integer", "minimum": 0, "maximum": 150}})),
        object(json!({"name": word, "dead": {"type": "boolean"}, "nothing": {"type": "null"}})),
        object(json!({"kind": {"enum": ["artist", "scientist", 3, null]}, "name": word})),
        object(json!({"version": {"const": {"a": [1, "x"]}}, "name": word})),
        object(json!({"born": {"type": "string", "format": "date"}})),
        object(
            json!({"at": {"type": "string", "format": "date-time"}, "id": {"type": "string", "format": "uuid"}}),
        ),
        object(json!({"phone": {"type": "string", "pattern": "^[0-9]{3}-[0-9]{4}$"}})),
        object(json!({"height": {"type": "number", "minimum": 0.5, "exclusiveMaximum": 3}})),
        object(json!({"even": {"type": "integer", "multipleOf": 2, "minimum": 10, "maximum": 99}})),
        object(json!({"names": list(word.clone(), 3)})),
        object(
            json!({"pair": {"type": "array", "prefixItems": [word, {"type": "boolean"}], "items": false, "minItems": 2}}),
        ),
        object(json!({"address": object(json!({"street": word, "city": object(json!({"name": word}))}))})),
        list(object(json!({"x": {"type": "integer", "minimum": -9, "maximum": 9}})), 2),
        json!({"anyOf": [object(json!({"a": {"type": "boolean"}})), object(json!({"b": {"type": "null"}}))]}),
        json!({"oneOf": [{"type": "boolean"}, {"type": "string", "maxLength": 5}]}),
        json!({"allOf": [object(json!({"a": {"type": "integer", "maximum": 5}})), {"properties": {"a": {"minimum": 3}}}]}),
        json!({"$defs": {"tree": object(json!({"leaf": {"type": "boolean"}}))}, "type": "object",
               "properties": {"left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}},
               "required": ["left"], "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}, "required": ["b"],
               "additionalProperties": false}),
        json!({"type": "object", "patternProperties": {"^k[0-9]$": {"type": "boolean"}}, "additionalProperties": false,
               "maxProperties": 2}),
        json!({"enum": ["Ada Lovelace", "Alan \"the\" Turing", "Grace/Hopper\n"]}),
    ]
}

fn asked(schema: &Value, more: Value) -> Value {
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": schema}});
    with(with(chat(QUESTION, 120), json!({ "response_format": format })), more)
}

/// How many choices ended by themselves; each of them is valid.
fn count_valid(answer: &Answer, schema: &Value) -> usize {
    let validator = jsonschema::validator_for(schema).unwrap();
    let ended = answer.choices.iter().filter(|choice| choice.finish_reason == "stop");
    for choice in ended.clone() {
        let document = serde_json::from_str(&choice.text);
        let document = document.unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        assert!(validator.is_valid(&document), "{document} is not valid by {schema}");
    }
    ended.count()
}

#[test]
fn answers_by_twenty_schemas_parse_and_are_valid() {
    let server = Server::start(&[]);
    let schemas = schemas();
    let mut ended = 0;
    for schema in &schemas {
        let greedy = server.client.chat(&asked(schema, json!({})));
        assert_eq!(server.client.chat(&streamed(asked(schema, json!({})))), greedy, "{schema}");
        ended += count_valid(&greedy, schema);
        // As random as it gets.
        let wild = json!({"temperature": 2, "seed": 7, "n": 2, "logprobs": true, "repetition_penalty": 1.3});
        ended += count_valid(&server.client.chat(&asked(schema, wild)), schema);
    }
    println!("{ended} of {} answers ended by themselves", 3 * schemas.len());
    assert!(ended > 2 * schemas.len(), "{ended}");
    server.until_idle();
}

#[test]
fn every_kind_of_format_holds_beside_free_answers() {
    let server = Server::start(&[]);
    let free = chat("Tell me a long story.", 80);
    let expected = server.client.chat(&free);
    let mut neighbour = server.client.post("/v1/chat/completions", &streamed(free)).events();
    let mut heard = Answer::default();
    heard.add_chunk(&neighbour.data());

    let ask = |more: Value| server.client.chat(&with(chat("Is the sky blue?", 40), more));
    let object = ask(json!({"response_format": {"type": "json_object"}, "max_tokens": 200}));
    if object.finish_reason() == "stop" {
        assert!(serde_json::from_str::<Value>(object.text()).unwrap().is_object());
    }
    let choice = ask(json!({"guided_choice": ["yes", "no"]}));
    assert!(["yes", "no"].contains(&choice.text()), "{choice:?}");
    assert_eq!(ask(json!({"structured_outputs": {"choice": ["only this"]}})).text(), "only this");
    let digits = ask(json!({"guided_regex": "[0-9]{3}-[0-9]{2}"}));
    let is_shaped = |(at, byte): (usize, u8)| if at == 3 { byte == b'-' } else { byte.is_ascii_digit() };
    assert!(digits.text().len() == 6 && digits.text().bytes().enumerate().all(is_shaped), "{digits:?}");
    let brackets = ask(json!({"guided_grammar": "start: \"(\" start \")\" | \"x\""}));
    assert!(brackets.finish_reason() == "length" || brackets.text().contains('x'), "{brackets:?}");

    heard.follow(neighbour);
    assert_eq!(heard, expected, "the neighbour was not disturbed");
    server.until_idle();
}

#[test]
fn c106_c108_c110_c111_hostile_formats_are_refused_by_name_and_cost_nobody_else() {
    let server = Server::start(&[]);
    let expected = server.client.chat(&chat(QUESTION, 8));
    let megabyte = json!({"description": "x".repeat(1 << 20)});
    let deep = (0..10_000).fold(String::from("{}"), |inner, _| format!("{{\"items\":{inner}}}"));
    let schema = "response_format.json_schema.schema";
    for (request, param) in [
        (asked(&megabyte, json!({})), Some(schema)),
        (asked(&json!({"$ref": "https://example.com/schema.json"}), json!({})), Some(schema)),
        (asked(&json!({"type": "array", "uniqueItems": true}), json!({})), Some(schema)),
        (with(chat(QUESTION, 8), json!({ "guided_json": deep })), Some("guided_json")),
        (asked(&json!({"type": "not-a-type"}), json!({})), Some(schema)),
        (
            asked(&json!({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}), json!({})),
            Some(schema),
        ),
        (asked(&json!({"$ref": "#"}), json!({})), Some(schema)),
        (asked(&json!({"type": "string", "pattern": "["}), json!({})), Some(schema)),
        (with(chat(QUESTION, 8), json!({"guided_regex": "["})), Some("guided_regex")),
        (with(chat(QUESTION, 8), json!({"guided_regex": "foo**"})), None),
        (
            with(chat(QUESTION, 8), json!({"structured_outputs": {"json_object": false}})),
            Some("structured_outputs"),
        ),
        (
            with(chat(QUESTION, 8), json!({"structured_outputs": {"json": ""}})),
            Some("structured_outputs.json"),
        ),
        (
            with(chat(QUESTION, 8), json!({"structured_outputs": {"structural_tag": {}}})),
            Some("structured_outputs.structural_tag"),
        ),
        (with(chat(QUESTION, 8), json!({"guided_regex": "((((a{0,999}){0,999}){0,999}){0,999})"})), None),
        (with(chat(QUESTION, 8), json!({ "guided_choice": vec!["x"; 100_000] })), Some("guided_choice")),
        (with(chat(QUESTION, 8), json!({"guided_grammar": "start: start"})), Some("guided_grammar")),
    ] {
        let response = server.client.post("/v1/chat/completions", &request);
        let status = response.status;
        let error = response.json()["error"].take();
        match param {
            Some(param) => {
                assert_eq!((status, error["param"].as_str()), (400, Some(param)), "{error}");
                let refers_to_itself = request.to_string().contains(r##""$ref":"#"##);
                let reason = error["message"].as_str().unwrap_or_default();
                assert!(!refers_to_itself || reason.contains("no text can satisfy it"), "{error}");
            }
            // Bounded work, whatever comes of it.
            None => assert!([200, 400].contains(&status), "{status}: {error}"),
        }
    }
    assert_eq!(server.client.chat(&chat(QUESTION, 8)), expected);
}
