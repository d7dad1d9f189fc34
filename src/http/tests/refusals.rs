//! Bad requests: each is refused with a status, a `param` and a reason.

use actix_web::ResponseError;
use serde_json::{Value, json};
use troupe_actors::template::TemplateError;
use troupe_actors::testing::model_card;
use troupe_actors::tokenizer_pool::PromptError;
use troupe_protocol::TenantId;

use super::client::{BODY_LIMIT, CONTEXT, TestServer, head, post};
use crate::http::Tenant;
use crate::http::error::ApiError;
use crate::http::fields::Fields;
use crate::http::generate::prompt_error;
use crate::http::{chat_request, completions_request};

/// As the parser reads the integer `18446744073709551616`.
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

fn tenant() -> Tenant {
    Tenant::unlimited(TenantId::ANONYMOUS)
}

/// The error that a chat request with these fields, beside a fine conversation, meets.
fn chat_error(extra: &Value) -> (u16, Value) {
    let card = model_card(CONTEXT).unwrap();
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let error = chat_request::read(Fields::of(body, "body").unwrap(), &card, &tenant(), 0).unwrap_err();
    (error.status_code().as_u16(), error.to_json()["error"].clone())
}

fn completion_error(body: Value) -> (u16, Value) {
    let card = model_card(CONTEXT).unwrap();
    let error =
        completions_request::read(Fields::of(body, "body").unwrap(), &card, &tenant(), 0).unwrap_err();
    (error.status_code().as_u16(), error.to_json()["error"].clone())
}

#[test]
fn c015_c053_c091_c093_a_bad_value_is_named() {
    for (extra, param, code) in [
        (json!({"temperature": "1"}), "temperature", "invalid_type"),
        (json!({"temperature": -1}), "temperature", "invalid_value"),
        (json!({"temperature": 1e300}), "temperature", "invalid_value"),
        (json!({"top_p": "1"}), "top_p", "invalid_type"),
        (json!({"top_p": 1.5}), "top_p", "invalid_value"),
        (json!({"top_k": 1.5}), "top_k", "invalid_type"),
        (json!({"top_k": -2}), "top_k", "invalid_value"),
        (json!({"min_p": -0.1}), "min_p", "invalid_value"),
        (json!({"presence_penalty": 3}), "presence_penalty", "invalid_value"),
        (json!({"frequency_penalty": []}), "frequency_penalty", "invalid_type"),
        (json!({"repetition_penalty": 0}), "repetition_penalty", "invalid_value"),
        (json!({"repeat_penalty": 200}), "repetition_penalty", "invalid_value"),
        (json!({"repetition_penalty": 1.1, "repeat_penalty": 1.2}), "repeat_penalty", "invalid_value"),
        (json!({"repeat_last_n": -2}), "repeat_last_n", "invalid_value"),
        (json!({"repeat_last_n": 1.5}), "repeat_last_n", "invalid_type"),
        (json!({"dry_multiplier": -1}), "dry_multiplier", "invalid_value"),
        (json!({"dry_multiplier": 1e300}), "dry_multiplier", "invalid_value"),
        (json!({"dry_multiplier": "1"}), "dry_multiplier", "invalid_type"),
        (json!({"dry_base": 0.9}), "dry_base", "invalid_value"),
        (json!({"dry_allowed_length": 0}), "dry_allowed_length", "invalid_value"),
        (json!({"dry_penalty_last_n": -2}), "dry_penalty_last_n", "invalid_value"),
        (
            json!({"dry_multiplier": 1, "dry_sequence_breakers": ["\n", 1]}),
            "dry_sequence_breakers[1]",
            "invalid_type",
        ),
        (
            json!({"dry_multiplier": 1, "dry_sequence_breakers": ["no token"]}),
            "dry_sequence_breakers",
            "invalid_value",
        ),
        (json!({"top_n_sigma": -2}), "top_n_sigma", "invalid_value"),
        (json!({"typical_p": 1.5}), "typical_p", "invalid_value"),
        (json!({"xtc_probability": 2}), "xtc_probability", "invalid_value"),
        (json!({"xtc_threshold": -0.1}), "xtc_threshold", "invalid_value"),
        (json!({"dynatemp_range": 3}), "dynatemp_range", "invalid_value"),
        (json!({"dynatemp_exponent": -1}), "dynatemp_exponent", "invalid_value"),
        (json!({"mirostat": 1}), "mirostat", "invalid_value"),
        (json!({"mirostat_tau": -5}), "mirostat_tau", "invalid_value"),
        (json!({"mirostat": 2, "mirostat_eta": 1.5}), "mirostat_eta", "invalid_value"),
        (json!({"allowed_token_ids": []}), "allowed_token_ids", "invalid_value"),
        (json!({"allowed_token_ids": [1, 257]}), "allowed_token_ids[1]", "invalid_value"),
        (json!({"min_tokens": 5, "max_tokens": 4}), "min_tokens", "invalid_value"),
        (json!({"min_tokens": -1}), "min_tokens", "invalid_value"),
        (json!({"logit_bias": {"99999": 1}}), "logit_bias", "invalid_value"),
        (json!({"logit_bias": {"x": 1}}), "logit_bias", "invalid_value"),
        (json!({"logit_bias": {"+1": 1}}), "logit_bias", "invalid_value"),
        (json!({"logit_bias": {"01": 1}}), "logit_bias", "invalid_value"),
        (json!({"logit_bias": {" 1": 1}}), "logit_bias", "invalid_value"),
        (json!({"logit_bias": {"1": "a lot"}}), "logit_bias.1", "invalid_type"),
        (json!({"logit_bias": {"1": 101}}), "logit_bias", "invalid_value"),
        (json!({"logprobs": 3}), "logprobs", "invalid_type"),
        (json!({"logprobs": true, "top_logprobs": 25}), "top_logprobs", "invalid_value"),
        (json!({"top_logprobs": 2}), "top_logprobs", "invalid_value"),
        (json!({"n": 0}), "n", "invalid_value"),
        (json!({"n": 1e9 as u64}), "n", "invalid_value"),
        (json!({"n": 1.5}), "n", "invalid_type"),
        (json!({"max_tokens": 0}), "max_tokens", "invalid_value"),
        (json!({"max_tokens": -5}), "max_tokens", "invalid_value"),
        (json!({"max_tokens": u64::MAX}), "max_tokens", "invalid_value"),
        (json!({"max_tokens": "5"}), "max_tokens", "invalid_type"),
        (json!({"max_tokens": 5, "max_completion_tokens": 6}), "max_tokens", "invalid_value"),
        (json!({"seed": 1.5}), "seed", "invalid_type"),
        (json!({"seed": "7"}), "seed", "invalid_type"),
        (json!({"seed": TWO_TO_64}), "seed", "invalid_value"),
        (json!({"max_completion_tokens": TWO_TO_64}), "max_completion_tokens", "invalid_value"),
        (json!({"stop": 1}), "stop", "invalid_type"),
        (json!({"stop": ["a", 1]}), "stop[1]", "invalid_type"),
        (json!({"stop": ""}), "stop", "invalid_value"),
        (json!({"stop": vec!["x"; 17]}), "stop", "invalid_value"),
        (json!({"stop": "x".repeat(1025)}), "stop", "invalid_value"),
        (json!({"stop_token_ids": [257]}), "stop_token_ids[0]", "invalid_value"),
        (json!({"stream": "yes"}), "stream", "invalid_type"),
        (json!({"stream_options": {"include_usage": true}}), "stream_options", "invalid_value"),
        (
            json!({"stream": true, "stream_options": {"include_usage": 1}}),
            "stream_options.include_usage",
            "invalid_type",
        ),
        (json!({"stream": true, "stream_options": {"foo": 1}}), "stream_options.foo", "unknown_parameter"),
        (json!({"model": 1}), "model", "invalid_type"),
        (json!({"user": 1}), "user", "invalid_type"),
        (json!({"safety_identifier": 1}), "safety_identifier", "invalid_type"),
        (json!({"prompt_cache_key": 1}), "prompt_cache_key", "invalid_type"),
        (json!({"metadata": []}), "metadata", "invalid_type"),
        (json!({"metadata": {"a": 1}}), "metadata.a", "invalid_type"),
        (json!({"metadata": {"a": "x".repeat(513)}}), "metadata.a", "invalid_value"),
        (json!({"service_tier": "slow"}), "service_tier", "invalid_value"),
        (json!({"chat_template_kwargs": []}), "chat_template_kwargs", "invalid_type"),
    ] {
        let (status, error) = chat_error(&extra);
        assert_eq!((status, &error["param"], &error["code"]), (400, &json!(param), &json!(code)), "{extra}");
        assert_eq!(error["type"], "invalid_request_error");
    }
}

#[test]
fn c023_what_is_not_implemented_is_refused_by_name() {
    for extra in [
        json!({"tools": [{"type": "function", "function": {"name": "f"}}]}),
        json!({"thinking_token_budget": 100}),
        json!({"thinking_budget_tokens": 100}),
        json!({"functions": [{}]}),
        json!({"audio": {}}),
        json!({"modalities": ["text", "audio"]}),
        json!({"store": true}),
        json!({"prompt_logprobs": 1}),
        json!({"use_beam_search": true}),
        json!({"bad_words": ["x"]}),
        json!({"min_keep": 1}),
        json!({"samplers": ["top_k", "temperature"]}),
        json!({"samplers": "kt"}),
        json!({"chat_template": "x"}),
        json!({"add_special_tokens": true}),
    ] {
        let (status, error) = chat_error(&extra);
        let name = extra.as_object().unwrap().keys().next().unwrap();
        assert_eq!((status, &error["param"]), (400, &json!(name)));
        assert_eq!(error["code"], "unsupported_parameter", "{extra}");
    }
    let (_, error) = chat_error(&json!({"foo": 1}));
    assert_eq!(error["message"], "unrecognized request argument supplied: foo");
}

#[test]
fn c103_messages_are_checked_part_by_part() {
    for (messages, param, code) in [
        (json!([]), "messages", "invalid_value"),
        (json!("hi"), "messages", "invalid_type"),
        (json!(["hi"]), "messages[0]", "invalid_type"),
        (json!([{"content": "hi"}]), "messages[0].role", "missing_required_parameter"),
        (json!([{"role": "robot", "content": "hi"}]), "messages[0].role", "invalid_value"),
        (json!([{"role": "user"}]), "messages[0].content", "missing_required_parameter"),
        (json!([{"role": "user", "content": 5}]), "messages[0].content", "invalid_type"),
        (json!([{"role": "user", "content": ["x"]}]), "messages[0].content[0]", "invalid_type"),
        (
            json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}]),
            "messages[0].content[1]",
            "unsupported_parameter",
        ),
        (
            json!([{"role": "user", "content": [{"type": "input_audio"}]}]),
            "messages[0].content[0]",
            "unsupported_parameter",
        ),
        (
            json!([{"role": "user", "content": [{"type": "text"}]}]),
            "messages[0].content[0].text",
            "missing_required_parameter",
        ),
        (json!([{"role": "assistant", "tool_calls": 5}]), "messages[0].tool_calls", "invalid_type"),
        (json!([{"role": "assistant", "tool_calls": {}}]), "messages[0].tool_calls", "invalid_type"),
        (json!([{"role": "assistant", "tool_calls": ["x"]}]), "messages[0].tool_calls[0]", "invalid_type"),
        (json!(null), "messages", "missing_required_parameter"),
    ] {
        let (status, error) = chat_error(&json!({ "messages": messages }));
        assert_eq!(
            (status, &error["param"], &error["code"]),
            (400, &json!(param), &json!(code)),
            "{messages}"
        );
    }
}

/// What a client wrote comes back in part, cut between characters; what was wrong with it is still said.
#[test]
fn long_texts_are_not_given_back_whole() {
    let long = "é".repeat(300_000);
    let cut = format!("{}…", "é".repeat(100));
    let role = json!([{"role": long, "content": ""}]);
    let kind = json!([{"role": "user", "content": [{"type": long}]}]);
    for (extra, param, message) in [
        (json!({ &*long: 1 }), &*cut, format!("unrecognized request argument supplied: {cut}")),
        (json!({ "model": long }), "model", format!("the model '{cut}' does not exist")),
        (
            json!({ "messages": role }),
            "messages[0].role",
            format!(
                "invalid value for 'messages[0].role': {cut:?} is not one of system, developer, user, assistant, tool, function"
            ),
        ),
        (
            json!({ "messages": kind }),
            "messages[0].content[0]",
            format!(
                "'messages[0].content[0]' is not supported: this model takes parts of type \"text\", not {cut:?}"
            ),
        ),
        (
            json!({"logit_bias": { &*long: 1 }}),
            "logit_bias",
            format!("invalid value for 'logit_bias': {cut:?} is not a token id"),
        ),
    ] {
        let (_, error) = chat_error(&extra);
        assert_eq!((&error["param"], &error["message"]), (&json!(param), &json!(message)));
    }
    let template = ApiError::Template { part: "messages", message: long }.to_json();
    assert_eq!(template["error"]["message"], format!("{}…", "é".repeat(1000)));
}

#[test]
fn a_count_that_may_be_minus_one_says_so() {
    for name in ["top_k", "repeat_last_n", "dry_penalty_last_n"] {
        let (_, error) = chat_error(&json!({ name: -2 }));
        let reason = "-2 is neither -1 nor between 0 and 4294967295";
        assert_eq!(error["message"], format!("invalid value for '{name}': {reason}"));
    }
}

#[test]
fn a_template_that_never_ends_is_no_fault_of_its_clients() {
    for (error, status, kind) in [
        (TemplateError::OutOfFuel, 500, "server_error"),
        (TemplateError::Raised("no".to_owned()), 400, "invalid_request_error"),
    ] {
        let error = prompt_error("messages", PromptError::Template(error));
        assert_eq!((error.status_code().as_u16(), &error.to_json()["error"]["type"]), (status, &json!(kind)));
    }
}

#[test]
fn c015_null_is_absent_and_neutral_values_pass() {
    let card = model_card(CONTEXT).unwrap();
    let plain = json!({"messages": [{"role": "user", "content": "hi"}]});
    let mut full = plain.clone();
    full.as_object_mut().unwrap().extend(
        json!({
            "model": "alias", "temperature": null, "top_p": null, "stop": null, "seed": null, "logit_bias": null,
            "tools": null, "response_format": {"type": "text"}, "store": false, "metadata": {"a": "b"}, "top_k": -1,
            "frequency_penalty": 0, "tool_choice": "auto", "modalities": ["text"], "stream_options": null, "foo": null,
        })
        .as_object()
        .unwrap()
        .clone(),
    );
    let read = |body| chat_request::read(Fields::of(body, "body").unwrap(), &card, &tenant(), 9).unwrap();
    assert_eq!(read(full), read(plain));
}

#[test]
fn c023_c028_c088_prompts_are_checked() {
    for (body, param, code) in [
        (json!({}), "prompt", "missing_required_parameter"),
        (json!({"prompt": 5}), "prompt", "invalid_type"),
        (json!({"prompt": []}), "prompt", "invalid_value"),
        (json!({"prompt": ["a", 5]}), "prompt[1]", "invalid_type"),
        (json!({"prompt": [1, "a"]}), "prompt[1]", "invalid_type"),
        (json!({"prompt": [1, 99999]}), "prompt[1]", "invalid_value"),
        (json!({"prompt": [[1], [-1]]}), "prompt[1][0]", "invalid_value"),
        (json!({"prompt": vec!["a"; 129]}), "prompt", "invalid_value"),
        (json!({"prompt": "a", "n": 2, "best_of": 1}), "best_of", "invalid_value"),
        (json!({"prompt": "a", "best_of": 129}), "best_of", "invalid_value"),
        (json!({"prompt": ["a", "b"], "best_of": 100}), "prompt", "invalid_value"),
        (json!({"prompt": "a", "best_of": 2, "stream": true}), "best_of", "invalid_value"),
        (json!({"prompt": "a", "suffix": "b"}), "suffix", "unsupported_parameter"),
        (json!({"prompt": "a", "logprobs": 21}), "logprobs", "invalid_value"),
        (json!({"prompt": "a", "logprobs": true}), "logprobs", "invalid_type"),
        (json!({"prompt": "a", "max_tokens": 0}), "max_tokens", "invalid_value"),
        (
            json!({"prompt": "a", "max_tokens": 0, "min_tokens": 1, "echo": true}),
            "min_tokens",
            "invalid_value",
        ),
        (json!({"prompt": "a", "messages": []}), "messages", "unknown_parameter"),
        (
            json!({"prompt": "a", "allowed_token_ids": [5], "guided_regex": "a"}),
            "allowed_token_ids",
            "invalid_value",
        ),
    ] {
        let (status, error) = completion_error(body.clone());
        assert_eq!((status, &error["param"], &error["code"]), (400, &json!(param), &json!(code)), "{body}");
    }
}

#[actix_web::test]
async fn c005_c013_c016_c033_c088_c096_every_refusal_is_plain_json() {
    let server = TestServer::start(|_| Vec::new());
    let chat = |extra: &str| {
        post(
            "/v1/chat/completions",
            format!(r#"{{"messages":[{{"role":"user","content":"hi"}}]{extra}}}"#).as_bytes(),
        )
    };
    let hopeless = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(7 * CONTEXT as usize + 1));
    let too_long = format!("content-length: {}\r\n", BODY_LIMIT + 1);
    let chunked = format!("{:x}\r\n{}\r\n0\r\n\r\n", BODY_LIMIT + 1, " ".repeat(BODY_LIMIT + 1));
    let mut chunked_request = head("POST", "/v1/completions", "transfer-encoding: chunked\r\n");
    chunked_request.extend(chunked.bytes());
    let mut zipped = head("POST", "/v1/completions", "content-encoding: gzip\r\ncontent-length: 2\r\n");
    zipped.extend(b"{}");
    let mut bad_chunk = head("POST", "/v1/completions", "transfer-encoding: chunked\r\n");
    bad_chunk.extend(b"zz\r\n{}\r\n0\r\n\r\n");
    for (request, status, param, code) in [
        (post("/v1/chat/completions", b"{"), 400, None, None),
        (post("/v1/chat/completions", b"\xff\xfe"), 400, None, None),
        (post("/v1/completions", b"[]"), 400, Some("body"), Some("invalid_type")),
        (chat(r#","stream":true,"temperature":9"#), 400, Some("temperature"), Some("invalid_value")),
        (chat(r#","model":"gpt-9""#), 404, Some("model"), Some("model_not_found")),
        (chat(r#","max_tokens":2048"#), 400, Some("messages"), Some("context_length_exceeded")),
        (
            post("/v1/chat/completions", br#"{"messages":[{"role":"user","content":"raise"}]}"#),
            400,
            Some("messages"),
            Some("template_error"),
        ),
        (post("/v1/completions", hopeless.as_bytes()), 400, Some("prompt"), Some("context_length_exceeded")),
        (post("/v1/completions", br#"{"prompt":""}"#), 400, Some("prompt"), Some("invalid_value")),
        (post("/v1/completions", br#"{"prompt":["a",""]}"#), 400, Some("prompt"), Some("invalid_value")),
        (post("/detokenize", br#"{"tokens":[257]}"#), 400, Some("tokens[0]"), Some("invalid_value")),
        (post("/tokenize", b"{}"), 400, Some("messages"), Some("missing_required_parameter")),
        (head("POST", "/v1/chat/completions", &too_long), 413, None, Some("body_too_large")),
        (chunked_request, 413, None, Some("body_too_large")),
        (bad_chunk, 400, None, None),
        (zipped, 415, None, Some("unsupported_content_encoding")),
        (head("GET", "/v1/nothing", ""), 404, None, Some("unknown_url")),
        (post("/v1/responses/compact", b"{}"), 404, None, Some("unknown_url")),
        (head("GET", "/v1/models/nobody/none", ""), 404, Some("model"), Some("model_not_found")),
        (head("GET", "/v1/completions", ""), 405, None, None),
        (post("/health", b""), 405, None, None),
    ] {
        let name = String::from_utf8_lossy(&request[..request.len().min(300)]).into_owned();
        let reply = server.ask(request).await;
        let error = &reply.json()["error"];
        assert_eq!(reply.status, status, "{name}: {reply:?}");
        assert_eq!((&error["param"], &error["code"]), (&json!(param), &json!(code)), "{name}: {reply:?}");
        assert_eq!(error["type"], "invalid_request_error", "{name}");
        let message = error["message"].as_str().unwrap();
        assert!(!message.contains("None"), "{name}: {message}");
        assert_eq!(reply.header("content-type"), Some("application/json"), "{name}");
        assert!(reply.header("x-request-id").is_some(), "{name}");
    }
    server.stop().await;
}
