//! Structured output: what is asked for is read, compiled before anything is generated, and refused by name.

use std::time::Duration;

use serde_json::{Value, json};
use troupe_actors::guide::{MAX_CHOICES, MAX_SCHEMA_REFERENCES};
use troupe_actors::testing::{END, Seen, VOCAB_SIZE, says};
use troupe_protocol::{Fault, FinishReason, NewSequence, SequenceEvent, TokenId, Usage};

use super::client::TestServer;

fn chat(extra: &Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn schema(schema: Value) -> Value {
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}})
}

const SCHEMA: &str = "response_format.json_schema.schema";

#[actix::test]
async fn a_wrong_format_is_refused_by_its_parameter_before_anything_runs() {
    let mut server = TestServer::start(|sequence| says(sequence, "x"));
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let loops = json!({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"});
    let references = vec![json!({"$ref": "#/$defs/a"}); MAX_SCHEMA_REFERENCES + 1];
    let table = [
        (json!({"response_format": "json"}), "response_format", "invalid_type"),
        (json!({"response_format": {}}), "response_format.type", "missing_required_parameter"),
        (json!({"response_format": {"type": 1}}), "response_format.type", "invalid_type"),
        (json!({"response_format": {"type": "xml"}}), "response_format.type", "invalid_value"),
        (json!({"response_format": {"type": "text", "x": 1}}), "response_format.x", "unknown_parameter"),
        (
            json!({"response_format": {"type": "json_schema"}}),
            "response_format.json_schema",
            "missing_required_parameter",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}),
            "response_format.json_schema.name",
            "missing_required_parameter",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}}),
            "response_format.json_schema.name",
            "invalid_value",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}),
            SCHEMA,
            "missing_required_parameter",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}, "strict": "yes"}}}),
            "response_format.json_schema.strict",
            "invalid_type",
        ),
        (schema(json!([])), SCHEMA, "invalid_type"),
        (schema(json!({"type": "strin"})), SCHEMA, "invalid_value"),
        (schema(json!({"not": {}})), SCHEMA, "invalid_value"),
        (schema(json!(loops)), SCHEMA, "invalid_value"),
        (schema(json!({"$ref": "https://example.com/x"})), SCHEMA, "invalid_value"),
        (schema(json!({"allOf": references, "$defs": {"a": {}}})), SCHEMA, "invalid_value"),
        (json!({"guided_json": "{"}), "guided_json", "invalid_value"),
        (json!({"guided_json": deep}), "guided_json", "invalid_value"),
        (json!({"guided_json": "[]"}), "guided_json", "invalid_type"),
        (json!({"guided_regex": 1}), "guided_regex", "invalid_type"),
        (json!({"guided_regex": ""}), "guided_regex", "invalid_value"),
        (json!({"guided_regex": "(a"}), "guided_regex", "invalid_value"),
        (json!({"guided_choice": "a"}), "guided_choice", "invalid_type"),
        (json!({"guided_choice": []}), "guided_choice", "invalid_value"),
        (json!({"guided_choice": ["a", 1]}), "guided_choice[1]", "invalid_type"),
        (json!({"guided_choice": [""]}), "guided_choice", "invalid_value"),
        (json!({"guided_choice": vec!["a"; MAX_CHOICES + 1]}), "guided_choice", "invalid_value"),
        (json!({"guided_grammar": "start: start"}), "guided_grammar", "invalid_value"),
        (json!({"guided_grammar": "x"}), "guided_grammar", "invalid_value"),
        (json!({"structured_outputs": {}}), "structured_outputs", "invalid_value"),
        (json!({"structured_outputs": {"json_object": 1}}), "structured_outputs.json_object", "invalid_type"),
        (json!({"structured_outputs": {"regex": "(a"}}), "structured_outputs.regex", "invalid_value"),
        (
            json!({"structured_outputs": {"regex": "a", "choice": ["a"]}}),
            "structured_outputs.choice",
            "invalid_value",
        ),
        (
            json!({"structured_outputs": {"regex": "a", "structural_tag": "x"}}),
            "structured_outputs.structural_tag",
            "unsupported_parameter",
        ),
        (json!({"guided_regex": "a", "guided_choice": ["a"]}), "guided_choice", "invalid_value"),
        (
            json!({"response_format": {"type": "json_object"}, "guided_json": {}}),
            "guided_json",
            "invalid_value",
        ),
        (
            json!({"guided_regex": "a", "guided_whitespace_pattern": "x"}),
            "guided_whitespace_pattern",
            "unsupported_parameter",
        ),
    ];
    for (extra, param, code) in table {
        for (path, body) in [("/v1/chat/completions", chat(&extra)), ("/v1/completions", completion(&extra))]
        {
            let reply = server.post(path, &body).await;
            let error = &reply.json()["error"];
            assert_eq!(
                (reply.status, &error["param"], &error["code"]),
                (400, &json!(param), &json!(code)),
                "{extra}: {error}"
            );
        }
    }
    assert!(server.seen.try_recv().is_err(), "something was generated");
}

#[actix::test]
async fn a_grammar_that_takes_too_much_work_is_not_laid_to_a_parameter_that_was_not_sent() {
    let server = TestServer::start(|_| {
        vec![SequenceEvent::Failed(Fault::Guide { message: "too many states".to_owned() })]
    });
    let reply = server.post("/v1/completions", &completion(&json!({"guided_regex": "[ab]c"}))).await;
    let error = &reply.json()["error"];
    assert_eq!((reply.status, &error["param"], &error["code"]), (400, &json!(null), &json!("invalid_value")));
    assert!(error["message"].as_str().is_some_and(|text| text.contains("too many states")), "{error}");
}

fn completion(extra: &Value) -> Value {
    let mut body = json!({"prompt": "hi"});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

#[actix::test]
async fn every_spelling_of_a_format_guides_the_sequence() {
    let json_schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let table = [
        (json!({"response_format": {"type": "json_object"}}), "{"),
        (schema(json_schema.clone()), "{"),
        (json!({"guided_json": json_schema}), "{"),
        (json!({"guided_json": json_schema.to_string()}), "{"),
        (json!({"guided_regex": "[ab]c"}), "ab"),
        (json!({"guided_choice": ["yes", "no"]}), "ny"),
        (json!({"guided_grammar": "start: \"x\" | \"y\" start"}), "xy"),
        (json!({"structured_outputs": {"json": json_schema}}), "{"),
        (json!({"structured_outputs": {"json_object": true}}), "{"),
        (json!({"structured_outputs": {"regex": "[ab]c"}}), "ab"),
        (json!({"structured_outputs": {"choice": ["yes", "no"]}}), "ny"),
        (json!({"structured_outputs": {"grammar": "start: \"x\""}}), "x"),
    ];
    for (extra, first) in table {
        for (path, body) in [("/v1/chat/completions", chat(&extra)), ("/v1/completions", completion(&extra))]
        {
            let mut server = TestServer::start(|_| vec![SequenceEvent::Failed(Fault::Shutdown)]);
            server.post(path, &body).await;
            let mask = server.admitted().await.mask.expect("it is guided");
            let allowed: Vec<TokenId> = (0..VOCAB_SIZE).filter(|&token| mask.allows(token)).collect();
            let wanted: Vec<TokenId> = first.bytes().map(TokenId::from).collect();
            assert_eq!(allowed, wanted, "{extra}");
        }
    }
    let mut server = TestServer::start(|sequence| says(sequence, "x"));
    server.post("/v1/completions", &completion(&json!({"response_format": {"type": "text"}}))).await;
    assert_eq!(server.admitted().await.mask, None);
}

#[actix::test]
async fn a_complete_document_ends_the_answer_without_an_end_token() {
    let server = TestServer::start(|sequence| {
        let text = "{\"a\":1}and so on";
        let is_end = |event: &SequenceEvent| matches!(event, SequenceEvent::Finished { .. });
        says(sequence, text).into_iter().filter(|event| !is_end(event)).collect()
    });
    for stream in [false, true] {
        let extra = json!({"response_format": {"type": "json_object"}, "stream": stream});
        let body = completion(&extra);
        let reply = tokio::time::timeout(Duration::from_secs(60), server.post("/v1/completions", &body));
        let reply = reply.await.expect("the answer ends");
        assert_eq!(reply.status, 200);
        if !stream {
            let choice = &reply.json()["choices"][0];
            assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!("{\"a\":1}"), &json!("stop")));
        }
    }
}

#[actix::test]
async fn a_document_that_is_cut_says_length() {
    let cut = |sequence: &NewSequence| {
        let mut events: Vec<_> = says(sequence, "{\"a\"").into_iter().take(4).collect();
        let usage = Usage { prompt_tokens: 1, cached_tokens: 0, completion_tokens: 4, reasoning_tokens: 0 };
        events.push(SequenceEvent::Finished { reason: FinishReason::Length, usage });
        events
    };
    let server = TestServer::start(cut);
    for stop in [json!(null), json!(["\""]), json!(["a\""])] {
        let extra = json!({"response_format": {"type": "json_object"}, "max_tokens": 4, "stop": stop});
        let reply = server.post("/v1/completions", &completion(&extra)).await;
        assert_eq!(reply.json()["choices"][0]["finish_reason"], "length", "{stop}");
    }
    let stops = TestServer::start(|sequence| says(sequence, "a@b\n"));
    let extra = json!({"guided_regex": "[a-z]@[a-z]\n", "stop": ["\n"]});
    let choice = stops.post("/v1/completions", &completion(&extra)).await.json()["choices"][0].clone();
    assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!("a@b"), &json!("stop")));
}

#[actix::test]
async fn c040_no_part_of_a_stop_string_inside_a_document_leaves() {
    let server = TestServer::start(|sequence| says(sequence, "{\"a\": \"brown fox\"}"));
    let extra = json!({"response_format": {"type": "json_object"}, "stop": ["own fox"], "stream": true});
    let events = server.post("/v1/completions", &completion(&extra)).await.events();
    let choices = || events.iter().flat_map(|event| event["choices"].as_array().unwrap());
    let text: String = choices().filter_map(|choice| choice["text"].as_str()).collect();
    assert_eq!(text, "{\"a\": \"br");
    let reasons: Vec<&Value> =
        choices().map(|c| &c["finish_reason"]).filter(|reason| !reason.is_null()).collect();
    assert_eq!(reasons, ["length"], "a part of a document is none");
}

#[actix::test]
async fn the_end_may_come_where_the_document_is_complete_only() {
    let mut server = TestServer::start(|sequence| says(sequence, "ab"));
    let reply = server.post("/v1/completions", &completion(&json!({"guided_regex": "[a-z]{2,}"}))).await;
    assert_eq!(reply.json()["choices"][0]["text"], "ab");
    let mut masks = vec![server.admitted().await.mask.unwrap()];
    while masks.len() < 3 {
        if let Seen::Masked(_, generated, mask) = server.seen.recv().await.unwrap() {
            assert_eq!(generated as usize, masks.len());
            masks.push(mask);
        }
    }
    let may_end: Vec<bool> = masks.iter().map(|mask| mask.allows(END)).collect();
    assert_eq!(may_end, [false, false, true]);
}
