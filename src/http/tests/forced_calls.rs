//! Answers that are held to calls, and those that cannot be.

use serde_json::{Value, json};
use troupe_actors::testing::{END, says};
use troupe_protocol::TokenMask;

use super::client::TestServer;
use super::tools::{CHAT, body};

/// The bytes that a mask allows.
fn allowed(mask: &TokenMask) -> Vec<u8> {
    (0..=u8::MAX).filter(|&byte| mask.allows(byte.into())).collect()
}

#[actix_web::test]
async fn a_forced_call_is_all_that_the_model_may_say() {
    let mut server = TestServer::calling(|sequence| {
        says(sequence, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>")
    });
    let flat = json!([{"type": "function", "name": "get_weather"}, {"type": "function", "name": "now"}]);
    let anthropic = json!([
        {"name": "get_weather", "input_schema": {"type": "object"}}, {"name": "now", "input_schema": {"type": "object"}},
    ]);
    for (path, request) in [
        (CHAT, body(&json!({"tool_choice": "required"}))),
        (CHAT, body(&json!({"tool_choice": {"type": "function", "function": {"name": "now"}}}))),
        ("/v1/responses", json!({"input": "hi", "tools": flat, "tool_choice": "required"})),
        (
            "/v1/responses",
            json!({"input": "hi", "tools": flat, "tool_choice": {"type": "function", "name": "now"}}),
        ),
        (
            "/v1/messages",
            json!({
                "model": "test", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 99, "tools": anthropic,
                "tool_choice": {"type": "any"},
            }),
        ),
    ] {
        let reply = server.post(path, &request).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let mask = server.admitted().await.mask.expect("a mask for the first token");
        assert_eq!((allowed(&mask), mask.allows(END)), (vec![b'<'], false), "{request}");
        assert!(reply.json().to_string().contains("\"now\""), "{reply:?}");
    }
    let free = server.post(CHAT, &body(&json!({}))).await;
    assert_eq!((free.status, server.admitted().await.mask), (200, None));
    server.stop().await;
}

#[actix_web::test]
async fn what_cannot_be_forced_is_refused_by_the_client_s_own_name() {
    let server = TestServer::calling(|sequence| says(sequence, "no"));
    let schema = json!({"type": "object", "properties": {"a": {"not": {}}}});
    let strict = json!({"name": "f", "strict": true, "parameters": schema});
    let fine = json!({"name": "g", "strict": true, "parameters": {"type": "object"}});
    let two = json!([{"type": "function", "function": fine}, {"type": "function", "function": strict}]);
    let not = "Unimplemented keys: [\"not\"]";
    let format =
        |schema: Value| json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    let elsewhere =
        json!({"name": "f", "strict": true, "parameters": {"type": "object", "$ref": "http://x"}});
    let flat = |function: &Value| {
        let mut tool = function.clone();
        tool["type"] = json!("function");
        json!([tool])
    };
    let remote = "the reference \"http://x\" is not within the schema; it has to begin with '#'";
    for (path, request, param, reason) in [
        (CHAT, body(&json!({"tools": two, "tool_choice": "required"})), "tools[1].function.parameters", not),
        (CHAT, body(&json!({"tools": two})), "tools[1].function.parameters", not),
        (
            CHAT,
            body(&json!({"tools": two, "response_format": {"type": "json_object"}})),
            "tools[1].function.parameters",
            not,
        ),
        (
            CHAT,
            body(&json!({"response_format": format(json!({"not": {}}))})),
            "response_format.json_schema.schema",
            not,
        ),
        (
            CHAT,
            body(&json!({"tools": two, "response_format": format(json!({"not": {}}))})),
            "response_format.json_schema.schema",
            not,
        ),
        (
            CHAT,
            body(&json!({"tools": [{"type": "function", "function": elsewhere}], "tool_choice": "required"})),
            "tools[0].function.parameters",
            remote,
        ),
        (
            "/v1/responses",
            json!({"input": "hi", "tools": flat(&strict), "tool_choice": "required"}),
            "tools[0].parameters",
            not,
        ),
        (
            "/v1/responses",
            json!({"input": "hi", "tools": flat(&elsewhere), "tool_choice": "required"}),
            "tools[0].parameters",
            remote,
        ),
        (
            CHAT,
            body(&json!({"tool_choice": "required", "guided_regex": "x"})),
            "guided_regex",
            "it contradicts tool_choice",
        ),
        (
            CHAT,
            body(&json!({"tools": null, "guided_regex": "("})),
            "guided_regex",
            "invalid regex \"(\" (in regex): regex parse error: unclosed group",
        ),
    ] {
        let reply = server.post(path, &request).await;
        let error = &reply.json()["error"];
        assert_eq!((reply.status, &error["param"]), (400, &json!(param)), "{reply:?}");
        assert_eq!(error["message"], format!("invalid value for '{param}': {reason}"), "{request}");
    }
    server.stop().await;
}
