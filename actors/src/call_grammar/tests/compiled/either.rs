//! Answers that are calls or JSON: each may be said, nothing else may, and readers tell one from the other.

use troupe_parsers::CallPlace;

use super::*;
use crate::call_grammar::{beside_json, calls_or_json};

impl Model {
    /// Where calls stand beside JSON by this schema, and the guide of such an answer.
    fn either(&self, tools: &[Tool], limit: CallLimit, schema: &Json) -> Option<(CallPlace, Guide)> {
        let place = self.output.calls_beside_json(tools, schema)?;
        let text = self.output.calls_or_json_grammar(tools, limit, schema, place).unwrap();
        let guide = Guide::new(&self.vocabulary, &Grammar::made_lark_of_wholes(&text).unwrap(), &[END]);
        Some((place, guide.unwrap_or_else(|error| panic!("{}: {error}\n{text}", self.name()))))
    }
}

/// What a reader finds in such an answer, which comes in pieces of so many characters: names of calls, and content.
fn read(format: Format, tools: &[Tool], place: CallPlace, said: &str, piece: usize) -> (Vec<String>, String) {
    let setup = Setup { format: Some(format), tools: tools.to_vec(), place, ..Setup::default() };
    let mut parser = Parser::new(setup);
    let characters: Vec<char> = said.chars().collect();
    let pieces = characters.chunks(piece).map(|piece| piece.iter().collect::<String>());
    let mut events: Vec<Event> = pieces.flat_map(|piece| parser.push(Piece::Text(&piece))).collect();
    events.extend(parser.finish().0);
    let (mut names, mut content) = (Vec::new(), String::new());
    for event in events {
        match event {
            Event::CallStarted { name, .. } => names.push(name),
            Event::Content(text) => content.push_str(&text),
            Event::Reasoning(text) => panic!("{said:?} holds reasoning: {text:?}"),
            Event::CallBroken { .. } => panic!("{said:?} holds a broken call"),
            Event::Arguments { .. } | Event::CallFinished { .. } => {}
        }
    }
    (names, content)
}

#[test]
fn an_answer_is_calls_or_json_where_these_are_told_from_each_other() {
    let (mut problems, mut without) = (Vec::new(), Vec::new());
    let object = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    let list = json!({"type": "array", "items": {"type": ["boolean", "integer", "null", "array"]}});
    let word = json!({"type": ["boolean", "null"]});
    for format in Format::ALL {
        for control in [&[], CONTROL] {
            let model = Model::new(*format, control);
            for (schema, document) in [(&object, "{\"a\": 12}"), (&list, "[true, [12]]"), (&word, "false")] {
                let Some((place, guide)) = model.either(&tools(), CallLimit::Any, schema) else {
                    without.push((format.name(), control.len()));
                    continue;
                };
                let begin = if format.has_channels() { "<|channel|>final<|message|>" } else { "" };
                let said = format!("{begin}{document}");
                let grammar =
                    calls_or_json(&format.call_syntax(), &tools(), CallLimit::One, schema, place, &[]);
                let Ok(Term::Any(ways)) = grammar else { panic!("{}", format.name()) };
                // All ways but the last are calls.
                let mut allowed = vec![said.clone()];
                for way in &ways[..ways.len() - 1] {
                    allowed.extend((0..tools().len()).map(|index| example(way, Fill::Most, index)));
                }
                if *format == Format::Llama3 {
                    let bare = calls(&format.call_syntax(), &tools(), CallLimit::One).unwrap();
                    allowed.extend((0..tools().len()).map(|index| example(&bare, Fill::Most, index)));
                }
                for text in &allowed {
                    problems.extend(model.accepts(&mut guide.clone(), text).err());
                    let (names, content) = read(*format, &tools(), place, text, 1);
                    let expected = if *text == said { (0, document) } else { (1, "") };
                    assert_eq!((names.len(), content.as_str()), expected, "{}: {text:?}", format.name());
                }
                let call = &allowed[1];
                for wrong in ["", "{\"b\": 12}", "Well.", &format!("{said}{call}"), &format!("{call}{said}")]
                {
                    problems.extend(model.accepts(&mut guide.clone(), wrong).ok().map(|()| wrong.to_owned()));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    without.dedup();
    // Without its tokens, text of messages is not told from what is around them.
    assert_eq!(without, [("harmony", 0)]);
}

#[test]
fn whatever_is_said_of_calls_or_json_is_read_as_one_of_these_however_it_comes() {
    let tools = short_tools();
    let marked =
        ["<tool_call>", "functools[", "<function=now>\n</function>", "[now()]", "<|python_start|>[now()]"];
    let schemas = [
        json!({"type": "object", "properties": {"a": {"enum": marked}}, "required": ["a"], "additionalProperties": false}),
        json!({"type": "array", "items": {"type": ["boolean", "array"], "maxItems": 1}, "maxItems": 3}),
        json!({"enum": [true, false, null, marked[2], marked[4], "now", 7]}),
        json!({
            "type": "object",
            "properties": {"name": {"enum": ["now", "get"]}, "parameters": {"type": "object", "maxProperties": 0}},
            "required": ["name", "parameters"],
            "additionalProperties": false,
        }),
    ];
    let mut calls_said = 0;
    for format in Format::ALL {
        for control in [&[], CONTROL] {
            let model = Model::new(*format, control);
            for schema in &schemas {
                let Some((place, guide)) = model.either(&tools, CallLimit::One, schema) else { continue };
                for mut seed in 0..6 {
                    let (mut guide, mut said) = (guide.clone(), Vec::new());
                    while !guide.is_complete() && said.len() < 5_000 {
                        let token = choose(&guide.mask().unwrap(), model.vocabulary.size(), &mut seed);
                        if guide.advance(token).unwrap() != Progress::Ended {
                            said.push(token);
                        }
                    }
                    let text = model.text(&said);
                    let case = format!("{}, {schema}: {text:?}", format.name());
                    let (names, content) = read(*format, &tools, place, &text, 1);
                    for piece in [2, 3, 7, text.len()] {
                        assert_eq!(
                            read(*format, &tools, place, &text, piece),
                            (names.clone(), content.clone()),
                            "{case}"
                        );
                    }
                    let document = text.strip_prefix("<|channel|>final<|message|>").unwrap_or(&text);
                    match names.len() {
                        0 => {
                            assert_eq!(content.trim(), document.trim(), "{case}");
                            assert!(serde_json::from_str::<Json>(&content).is_ok(), "{case}");
                        }
                        count => {
                            calls_said += 1;
                            assert_eq!((count, content.as_str()), (1, ""), "{case}");
                        }
                    }
                }
            }
        }
    }
    assert!(calls_said > 100, "only {calls_said} calls were said");
}

#[test]
fn a_bare_object_is_a_call_only_where_no_document_looks_like_one() {
    let model = Model::new(Format::Llama3, &[]);
    let syntax = Format::Llama3.call_syntax();
    let text = json!({"type": "string"});
    let object = json!({"type": "object"});
    let of = |properties: Json, required: Json, is_open: bool| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": is_open});
    let named = json!({"name": text, "parameters": object});
    let node = json!({
        "$defs": {"n": of(json!({"v": text, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}), json!(["v"]), false)},
        "$ref": "#/$defs/n",
    });
    for (schema, is_told) in [
        (object.clone(), false),
        (json!({}), false),
        (json!(true), false),
        (json!({"type": ["array", "null"]}), true),
        (json!({"enum": ["now", 1]}), true),
        (json!({"enum": [{"name": "now", "parameters": {}}]}), false),
        (of(json!({"a": text}), json!(["a"]), true), true),
        (of(json!({"a": text}), json!([]), true), false),
        (of(json!({"a": text}), json!([]), false), true),
        (of(json!({"name": text, "age": text}), json!(["name"]), false), true),
        (of(json!({"name": text, "age": text}), json!(["name"]), true), false),
        (of(json!({"name": text, "age": text}), json!(["name", "age"]), true), true),
        (of(named.clone(), json!(["name", "parameters"]), false), false),
        (of(json!({"name": text, "arguments": object}), json!([]), false), false),
        (of(json!({"parameters": object, "id": text, "name": text}), json!([]), false), false),
        (of(json!({"name": {"enum": ["later"]}, "parameters": object}), json!(["name"]), false), true),
        (
            of(json!({"name": {"enum": ["later", "now"]}, "parameters": object}), json!(["name"]), false),
            false,
        ),
        (of(json!({"name": {"type": "integer"}, "parameters": object}), json!([]), false), true),
        (json!({"anyOf": [{"type": "null"}, of(json!({"a": text}), json!(["a"]), true)]}), true),
        (json!({"anyOf": [{"type": "null"}, of(named.clone(), json!([]), false)]}), false),
        (json!({"allOf": [of(json!({"a": text}), json!(["a"]), false)]}), false),
        (node, true),
        // One that names its draft cannot be a part of another.
        (json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "null"}), false),
    ] {
        let place = beside_json(&syntax, &tools(), &schema, &[]);
        let expected = if is_told { CallPlace::Start } else { CallPlace::MarkedStart };
        assert_eq!(place, Some(expected), "{schema}");
        let (_, guide) = model.either(&tools(), CallLimit::Any, &schema).unwrap();
        model.accepts(&mut guide.clone(), "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}").unwrap();
        let calls = [
            "{\"name\": \"now\", \"parameters\": {}}",
            "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Rome\", \"nested\": {\"q\": \"x\"}}}",
        ];
        for call in calls.iter().filter(|_| is_told) {
            model.accepts(&mut guide.clone(), call).unwrap_or_else(|error| panic!("{error}: {schema}"));
            // No document of the schema by itself begins so.
            let alone = Guide::new(&model.vocabulary, &Grammar::json_schema(schema.clone()).unwrap(), &[END])
                .unwrap();
            model.accepts(&mut alone.clone(), call).unwrap_err();
        }
    }
}
