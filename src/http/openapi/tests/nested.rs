//! What lies within the fields of Responses and Messages is described as the readers take it.

use serde_json::{Value, json};
use troupe_actors::model_card::ModelCard;
use troupe_actors::testing::calling_card;
use troupe_protocol::TenantId;

use super::super::faults;
use super::CONTEXT;
use crate::http::fields::Fields;
use crate::http::{self, ApiError, Tenant};

type Read = fn(Fields, &ModelCard, &Tenant) -> Result<(), ApiError>;

fn response(fields: Fields, card: &ModelCard, tenant: &Tenant) -> Result<(), ApiError> {
    http::responses::read_alone(fields, card, tenant).map(drop)
}

fn message(fields: Fields, card: &ModelCard, tenant: &Tenant) -> Result<(), ApiError> {
    let chat = http::messages::message(fields, card)?;
    http::as_chat::read(chat, http::messages::NAMES, card, tenant).map(drop)
}

/// Holds the schema and the reader to what becomes of `base` with each of `bodies` in it.
fn check(schema: &str, read: Read, base: &Value, is_taken: bool, bodies: &[Value]) {
    let card = calling_card(CONTEXT).unwrap();
    let tenant = Tenant::unlimited(TenantId::ANONYMOUS);
    for more in bodies {
        let mut body = base.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let faults = faults(schema, &body);
        assert_eq!(faults.is_empty(), is_taken, "the schema's: {more} {faults:?}");
        let read = read(Fields::of(body, "body").unwrap(), &card, &tenant);
        assert_eq!(read.is_ok(), is_taken, "the reader's: {more} {read:?}");
    }
}

fn flat() -> Value {
    json!({
        "type": "function", "name": "f", "description": "", "parameters": {"type": "object"}, "strict": true,
        "allowed_callers": ["direct"], "async": false, "defer_loading": false,
    })
}

/// `whole` without the field, and with one that nobody knows.
fn spoilt(whole: &Value, field: &str) -> [Value; 2] {
    let mut without = whole.clone();
    without.as_object_mut().unwrap().shift_remove(field);
    let mut with = whole.clone();
    with["foo"] = json!(1);
    [without, with]
}

fn items() -> Vec<Value> {
    let text = json!({
        "type": "output_text", "text": "a", "annotations": [], "logprobs": [],
        "prompt_cache_breakpoint": {"mode": "explicit"},
    });
    vec![
        json!({"role": "user", "content": "a"}),
        json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "a"}]}),
        json!({
            "id": "msg_1", "status": "completed", "type": "message", "role": "assistant", "phase": "commentary",
            "content": [text, {"type": "refusal", "refusal": "no"}],
        }),
        json!({
            "type": "reasoning", "id": "rs_1", "summary": [],
            "content": [{"type": "reasoning_text", "text": "hm"}], "encrypted_content": null,
        }),
        json!({
            "type": "function_call", "id": "fc_1", "call_id": "1", "name": "f", "arguments": "{}",
            "caller": {"type": "direct"}, "async": false, "status": "completed",
        }),
        json!({"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "a"}]}),
    ]
}

#[test]
fn responses_are_described_as_they_are_read() {
    let check = |is_taken, bodies: &[Value]| {
        check("ResponseRequest", response, &json!({"input": "hi"}), is_taken, bodies);
    };
    let named = json!({"type": "function", "name": "f"});
    let some = json!({"type": "allowed_tools", "mode": "required", "tools": [named]});
    let format =
        json!({"type": "json_schema", "name": "a", "description": "", "schema": {}, "strict": false});
    let reasoning = json!({
        "effort": "low", "summary": "auto", "generate_summary": "auto", "context": "auto", "mode": "standard",
    });
    check(
        true,
        &[
            json!({"tools": [flat()], "tool_choice": "required"}),
            json!({"tools": [flat()], "tool_choice": named}),
            json!({"tools": [flat()], "tool_choice": some}),
            json!({"tools": [{"type": "function", "name": "f"}], "text": {"format": {"type": "text"}}}),
            json!({"text": {"format": {"type": "json_object"}, "verbosity": "medium"}}),
            json!({"text": {"format": format}}),
            json!({"reasoning": reasoning, "stream_options": {"include_obfuscation": false}}),
            json!({"include": ["message.output_text.logprobs", "reasoning.encrypted_content"]}),
            json!({"input": items()}),
        ],
    );
    check(
        false,
        &[
            json!({"tools": [{"type": "web_search"}]}),
            json!({"tools": [{"type": "function", "name": "a b"}]}),
            json!({"tools": [{"type": "function", "function": {"name": "f"}}]}),
            json!({"tools": [flat()], "tool_choice": "any"}),
            json!({"tools": [flat()], "tool_choice": {"type": "web_search"}}),
            json!({"text": {"format": {"type": "text", "name": "a"}}}),
            json!({"text": {"format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}}}),
            json!({"text": {"verbosity": "low"}}),
            json!({"reasoning": {"effort": "much"}}),
            json!({"reasoning": {"summary": "detailed"}}),
            json!({"stream_options": {"include_obfuscation": true}}),
            json!({"include": ["file_search_call.results"]}),
            json!({"input": [{"role": "tool", "content": "a"}]}),
            json!({"input": [{"role": "user", "content": "a", "phase": "commentary"}]}),
            json!({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "a"}]}]}),
            json!({"input": [{"type": "computer_call", "id": "1"}]}),
        ],
    );
    check(false, &spoilt(&flat(), "name").map(|tool| json!({"tools": [tool]})));
    check(false, &spoilt(&some, "mode").map(|choice| json!({"tools": [flat()], "tool_choice": choice})));
    check(false, &spoilt(&format, "schema").map(|format| json!({"text": {"format": format}})));
    for (item, field) in items().iter().zip(["role", "content", "role", "type", "name", "output"]) {
        // An output needs its call before it.
        let input = |spoilt| json!({"input": [items()[4], spoilt]});
        check(false, &spoilt(item, field).map(input));
    }
}

fn blocks() -> [Value; 4] {
    let cached = json!({"type": "ephemeral"});
    [
        json!({"type": "text", "text": "a", "cache_control": cached, "citations": []}),
        json!({"type": "thinking", "thinking": "hm", "signature": ""}),
        json!({"type": "tool_use", "id": "1", "name": "f", "input": {}, "caller": {"type": "direct"}}),
        json!({
            "type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "a"}],
            "is_error": false, "cache_control": cached, "caller": {"type": "direct"},
        }),
    ]
}

fn conversation([text, thinking, call, result]: [Value; 4]) -> Value {
    json!([
        {"role": "user", "content": "a"},
        {"role": "system", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": [thinking, text, call]},
        {"role": "user", "content": [result, {"type": "text", "text": "a"}]},
    ])
}

#[test]
fn messages_are_described_as_they_are_read() {
    let base = json!({"model": "test", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    let check = |is_taken, bodies: &[Value]| check("MessageRequest", message, &base, is_taken, bodies);
    let tool = json!({
        "type": "custom", "name": "f", "description": "", "input_schema": {"type": "object"}, "strict": true,
        "cache_control": {"type": "ephemeral", "ttl": "1h"}, "allowed_callers": ["direct"],
        "defer_loading": false, "eager_input_streaming": true, "input_examples": [],
    });
    let with = |choice: Value| json!({"tools": [tool], "tool_choice": choice});
    let named = json!({"type": "tool", "name": "f", "disable_parallel_tool_use": true});
    let format = json!({"type": "json_schema", "schema": {"type": "object"}});
    check(
        true,
        &[
            with(json!({"type": "auto"})),
            with(json!({"type": "any", "disable_parallel_tool_use": false})),
            with(json!({"type": "none"})),
            with(named.clone()),
            json!({"tools": [{"name": "f", "input_schema": {}}]}),
            json!({"system": "a"}),
            json!({"system": [{"type": "text", "text": "a"}]}),
            json!({"output_config": {"format": format, "effort": "low"}}),
            json!({"thinking": {"type": "enabled", "budget_tokens": 8, "display": "omitted"}}),
            json!({"thinking": {"type": "disabled"}}),
            json!({"thinking": {"type": "adaptive", "display": "summarized"}}),
            json!({"metadata": {"user_id": "u"}, "cache_control": {"type": "ephemeral"}}),
            json!({"messages": conversation(blocks())}),
        ],
    );
    check(
        false,
        &[
            with(json!("auto")),
            with(json!({"type": "required"})),
            with(json!({"type": "auto", "name": "f"})),
            json!({"tools": [{"type": "bash_20250124", "name": "bash"}]}),
            json!({"tools": [{"name": "f", "input_schema": "a"}]}),
            json!({"tools": [{"name": "f", "input_schema": {}, "input_examples": [{}]}]}),
            json!({"system": [{"type": "image"}]}),
            json!({"output_config": {"effort": "minimal"}}),
            json!({"thinking": {"type": "enabled"}}),
            json!({"thinking": {"type": "disabled", "budget_tokens": 8}}),
            json!({"thinking": {"type": "adaptive", "display": "full"}}),
            json!({"metadata": {"user_id": "u", "team": "t"}}),
            json!({"messages": [{"role": "tool", "content": "a"}]}),
            json!({"messages": [{"role": "system", "content": [blocks()[2]]}]}),
            json!({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}),
            json!({"messages": [{"role": "user", "content": "a", "name": "b"}]}),
        ],
    );
    check(false, &spoilt(&tool, "input_schema").map(|tool| json!({"tools": [tool]})));
    check(false, &spoilt(&named, "name").map(with));
    check(false, &spoilt(&format, "schema").map(|format| json!({"output_config": {"format": format}})));
    for (at, field) in ["text", "thinking", "input", "tool_use_id"].into_iter().enumerate() {
        check(
            false,
            &spoilt(&blocks()[at], field).map(|block| {
                let mut blocks = blocks();
                blocks[at] = block;
                json!({"messages": conversation(blocks)})
            }),
        );
    }
}
