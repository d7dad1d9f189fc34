//! Tool calls and reasoning as clients get them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use troupe_actors::testing::says;
use troupe_protocol::{NewSequence, SequenceEvent};

use super::client::TestServer;

pub(super) const CHAT: &str = "/v1/chat/completions";

/// A thought, a sentence, two calls.
pub(super) const TWO_CALLS: &str = "<think>\nTwo.\n</think>\n\nLet me look.\n\
    <tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>\n\
    <tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

/// A chat request that offers two tools.
pub(super) fn body(extra: &Value) -> Value {
    let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
    let mut body = json!({
        "messages": [{"role": "user", "content": "What is the weather?"}],
        "tools": [tool("get_weather"), tool("now")],
    });
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

/// The message that the deltas of a stream add up to, put together as OpenAI's clients do, and the reason of its end.
fn accumulate(events: &[Value]) -> (Value, Value) {
    let mut message = json!({});
    let mut calls: Vec<Value> = Vec::new();
    let mut reason = Value::Null;
    let append = |target: &mut Value, key: &str, delta: &Value| {
        if let Some(more) = delta[key].as_str() {
            let text = format!("{}{more}", target[key].as_str().unwrap_or_default());
            target[key] = json!(text);
        }
    };
    for choice in events.iter().flat_map(|event| event["choices"].as_array().unwrap()) {
        let delta = &choice["delta"];
        for key in ["role", "content", "reasoning_content"] {
            append(&mut message, key, delta);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().unwrap() as usize;
            if index == calls.len() {
                calls.push(json!({"id": call["id"], "type": call["type"], "function": {"name": call["function"]["name"]}}));
            }
            append(&mut calls[index]["function"], "arguments", &call["function"]);
        }
        if !choice["finish_reason"].is_null() {
            assert_eq!(reason, Value::Null, "the answer ends twice");
            reason = choice["finish_reason"].clone();
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    (message, reason)
}

/// A message without what differs between two answers.
fn comparable(mut message: Value) -> Value {
    for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
        assert!(call["id"].as_str().unwrap().starts_with("call_"), "{call}");
        call["id"] = Value::Null;
    }
    message.as_object_mut().unwrap().remove("refusal");
    if message["content"] == "" && message["tool_calls"].is_array() {
        message["content"] = Value::Null;
    }
    message
}

#[actix_web::test]
async fn c001_c020_c206_c215_two_parallel_calls_are_the_same_streamed_and_whole() {
    let server = TestServer::calling(|sequence| says(sequence, TWO_CALLS));
    let whole = server.post(CHAT, &body(&json!({}))).await.json();
    let call = |name: &str, arguments: &str| json!({"id": null, "type": "function", "function": {"name": name, "arguments": arguments}});
    let message = comparable(whole["choices"][0]["message"].clone());
    let expected = json!({
        "role": "assistant",
        "content": "Let me look.",
        "reasoning_content": "Two.",
        "tool_calls": [call("get_weather", "{\"city\": \"Köln\"}"), call("now", "{}")],
    });
    assert_eq!((&message, &whole["choices"][0]["finish_reason"]), (&expected, &json!("tool_calls")));
    let reasoning = "\nTwo.\n</think>".len();
    assert_eq!(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], reasoning);

    let options = json!({"stream": true, "stream_options": {"include_usage": true}});
    let events = server.post(CHAT, &body(&options)).await.events();
    assert_eq!(events.last().unwrap()["usage"], whole["usage"]);
    let (streamed, reason) = accumulate(&events);
    assert_eq!((comparable(streamed), reason), (expected, json!("tool_calls")));
    server.stop().await;
}

#[actix_web::test]
async fn c203_c221_the_deltas_of_a_call_are_openais() {
    let output = "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": 1}}\n</tool_call>";
    assert!(output.is_ascii());
    let server = TestServer::calling(|sequence| {
        says(sequence, "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": 1}}\n</tool_call>")
    });
    let events = server.post(CHAT, &body(&json!({"stream": true}))).await.events();
    let deltas: Vec<&Value> = events.iter().map(|event| &event["choices"][0]["delta"]).collect();
    assert_eq!(*deltas[0], json!({"role": "assistant", "content": ""}));
    let id = &deltas[1]["tool_calls"][0]["id"];
    assert_eq!(
        *deltas[1],
        json!({"tool_calls": [{"index": 0, "id": id, "type": "function", "function": {"name": "now", "arguments": ""}}]})
    );
    let (last, fragments) = deltas[2..].split_last().unwrap();
    for delta in fragments {
        let fragment = &delta["tool_calls"][0]["function"]["arguments"];
        assert_eq!(**delta, json!({"tool_calls": [{"index": 0, "function": {"arguments": fragment}}]}));
    }
    assert!(fragments.len() > 1 && **last == json!({}), "{deltas:?}");
    server.stop().await;
}

#[actix_web::test]
async fn c026_choices_are_read_apart_and_their_calls_have_ids_of_their_own() {
    let server = TestServer::calling(|sequence| says(sequence, TWO_CALLS));
    let whole = server.post(CHAT, &body(&json!({"n": 3}))).await.json();
    let choices = whole["choices"].as_array().unwrap();
    let calls = || choices.iter().flat_map(|choice| choice["message"]["tool_calls"].as_array().unwrap());
    let ids: BTreeSet<&str> = calls().map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 6, "{whole}");
    let first = comparable(choices[0]["message"].clone());
    assert!(choices.iter().all(|choice| comparable(choice["message"].clone()) == first), "{whole}");
    server.stop().await;
}

#[actix_web::test]
async fn content_is_null_beside_calls_alone() {
    let server = TestServer::calling(|sequence| {
        says(sequence, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>")
    });
    let whole = server.post(CHAT, &body(&json!({}))).await.json();
    assert_eq!(whole["choices"][0]["message"]["content"], Value::Null);
    server.stop().await;
}

#[actix_web::test]
async fn without_parallel_calls_the_answer_ends_with_the_first() {
    let mut server = TestServer::calling(|sequence| says(sequence, TWO_CALLS));
    for stream in [false, true] {
        let request = body(&json!({"parallel_tool_calls": false, "stream": stream}));
        let reply = server.post(CHAT, &request).await;
        let (message, reason) = if stream {
            accumulate(&reply.events())
        } else {
            let choice = reply.json()["choices"][0].clone();
            (choice["message"].clone(), choice["finish_reason"].clone())
        };
        assert_eq!(message["tool_calls"].as_array().map(Vec::len), Some(1), "{message}");
        assert_eq!(reason, "tool_calls");
        server.cancelled().await;
    }
    server.stop().await;
}

/// An id that its template takes back, ahead of the arguments, where it is told with the call, and behind them, where it is
/// not waited for; a text that holds half a surrogate pair.
const CALLS_WITH_IDS: &str = "[TOOL_CALLS][{\"id\": \"Abc123xyZ\", \"name\": \"get_weather\", \"arguments\": {\"city\": \"x\\ud83d\"}}, \
    {\"name\": \"now\", \"arguments\": {}, \"id\": \"Abc123xyW\"}]";

#[actix_web::test]
async fn a_models_own_id_ahead_of_the_arguments_is_the_calls_streamed_and_whole() {
    let server = TestServer::calling_in("mistral_list", |sequence| says(sequence, CALLS_WITH_IDS));
    let whole = server.post(CHAT, &body(&json!({}))).await.json();
    let (streamed, reason) = accumulate(&server.post(CHAT, &body(&json!({"stream": true}))).await.events());
    assert_eq!(
        (&reason, &whole["choices"][0]["finish_reason"]),
        (&json!("tool_calls"), &json!("tool_calls"))
    );
    for message in [&whole["choices"][0]["message"], &streamed] {
        let calls = message["tool_calls"].as_array().unwrap();
        let function = json!({"name": "get_weather", "arguments": "{\"city\": \"x\\ufffd\"}"});
        assert_eq!(calls[0], json!({"id": "Abc123xyZ", "type": "function", "function": function}));
        assert_eq!(calls[1]["function"], json!({"name": "now", "arguments": "{}"}));
        let id = calls[1]["id"].as_str().unwrap();
        assert_ne!(id, "Abc123xyW");
        assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        assert_eq!(calls.len(), 2);
    }
    server.stop().await;
}

#[actix_web::test]
async fn calls_are_text_unless_tools_are_offered() {
    let server = TestServer::calling(|sequence| says(sequence, TWO_CALLS));
    for extra in [json!({"tools": null}), json!({"tool_choice": "none"})] {
        let whole = server.post(CHAT, &body(&extra)).await.json();
        let message = &whole["choices"][0]["message"];
        assert!(message["content"].as_str().unwrap().contains("<tool_call>"), "{message}");
        assert_eq!(
            (message.get("tool_calls"), &whole["choices"][0]["finish_reason"]),
            (None, &json!("stop"))
        );
    }
    server.stop().await;
}

#[actix_web::test]
async fn c220_reasoning_is_shown_unless_it_is_not_wanted() {
    let server = TestServer::calling(|sequence| says(sequence, "<think>Hm.</think>\n\nYes."));
    for (include, reasoning) in
        [(json!(null), json!("Hm.")), (json!(true), json!("Hm.")), (json!(false), json!(null))]
    {
        let extra = json!({"tools": null, "include_reasoning": include});
        let whole = server.post(CHAT, &body(&extra)).await.json();
        let message = &whole["choices"][0]["message"];
        assert_eq!((&message["content"], &message["reasoning_content"]), (&json!("Yes."), &reasoning));
        let mut streamed = extra.clone();
        streamed["stream"] = json!(true);
        let (message, reason) = accumulate(&server.post(CHAT, &body(&streamed)).await.events());
        assert_eq!((&message["content"], &message["reasoning_content"]), (&json!("Yes."), &reasoning));
        assert_eq!(reason, "stop");
    }
    server.stop().await;
}

#[actix_web::test]
async fn tools_calls_and_results_reach_the_prompt() {
    let mut server = TestServer::calling(|sequence| says(sequence, "It rains."));
    let mut prompt = async |extra: Value| {
        let reply = server.post(CHAT, &body(&extra)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let tokens = server.admitted().await.prompt;
        String::from_utf8(tokens.into_iter().map(|token| token as u8).collect()).unwrap()
    };
    let now = "{\"type\": \"function\", \"function\": {\"name\": \"now\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}}\n";
    assert!(prompt(json!({})).await.contains(now));
    assert_eq!(prompt(json!({"tool_choice": "none"})).await, "user: What is the weather?\n");
    let messages = json!([
        {"role": "user", "content": "What is the weather?"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Köln\"}"}},
        ]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    ]);
    let round = prompt(json!({"messages": messages})).await;
    let call = "assistant: \n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>\n";
    assert!(round.ends_with(&format!("{call}tool: rain\n")), "{round}");
    let off = prompt(json!({"reasoning_effort": "none"})).await;
    assert!(off.ends_with("<think>\n\n</think>\n\n"), "{off}");
    server.stop().await;
}

/// Thinks without end, unless its prompt has the end of it.
pub(super) fn thinks(sequence: &NewSequence) -> Vec<SequenceEvent> {
    let end: Vec<u32> = "</think>".bytes().map(u32::from).collect();
    if sequence.prompt.ends_with(&end) {
        return says(sequence, "\n\nSo.");
    }
    says(sequence, &format!("<think>{}", "x".repeat(300)))
}

#[actix_web::test]
async fn a_budget_closes_the_reasoning_and_the_answer_goes_on() {
    let mut server = TestServer::calling(thinks);
    let request = json!({"tools": null, "thinking_token_budget": 50, "max_tokens": 200});
    let whole = server.post(CHAT, &body(&request)).await.json();
    let message = &whole["choices"][0]["message"];
    assert_eq!((&message["content"], &message["reasoning_content"]), (&json!("So."), &json!("x".repeat(50))));
    // "<think>", the budget, the closing tag, the answer and the token that ends it.
    assert_eq!(whole["usage"]["completion_tokens"], 7 + 50 + 8 + 5 + 1);
    assert_eq!(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 50 + 8);
    let prompt = whole["usage"]["prompt_tokens"].as_u64().unwrap() as usize;
    let [first, second] = [server.admitted().await, server.admitted().await];
    assert_eq!((first.prompt.len(), second.prompt.len()), (prompt, prompt + 65));
    assert_eq!((first.max_tokens, second.max_tokens), (200, 135));

    let streamed = json!({"tools": null, "thinking_token_budget": 50, "max_tokens": 200, "stream": true});
    let (message, reason) = accumulate(&server.post(CHAT, &body(&streamed)).await.events());
    assert_eq!((&message["content"], &message["reasoning_content"]), (&json!("So."), &json!("x".repeat(50))));
    assert_eq!(reason, "stop");
    server.stop().await;
}
