mod answers;

use serde_json::{Value, json};
use troupe_actors::testing::model_card;
use troupe_protocol::TenantId;

use super::input_items::Page;
use super::items::{self, Messages};
use super::request::{self, NAMES, ResponseRequest};
use crate::http::error::ApiError;
use crate::http::fields::Fields;
use crate::http::tenants::Tenant;

fn read(more: Value) -> Result<ResponseRequest, ApiError> {
    let mut body = json!({"input": "hi"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request::read(Fields::of(body, "body")?)
}

#[test]
fn parameters_become_chats() {
    let function = json!({"name": "f", "parameters": {"type": "object"}, "strict": true});
    let flat = json!({"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": true});
    for (body, chat) in [
        (json!({}), json!({})),
        (
            json!({"store": false, "truncation": "auto", "instructions": "x", "user": "u"}),
            json!({"user": "u"}),
        ),
        (json!({"max_output_tokens": 3, "top_p": 0.5}), json!({"max_completion_tokens": 3, "top_p": 0.5})),
        (json!({"stream": true, "stream_options": {"include_obfuscation": false}}), json!({"stream": true})),
        (json!({"seed": 7, "service_tier": "auto"}), json!({"seed": 7, "service_tier": "auto"})),
        (json!({"text": {"format": {"type": "text"}, "verbosity": "medium"}}), json!({})),
        (
            json!({"text": {"format": {"type": "json_object"}}}),
            json!({"response_format": {"type": "json_object"}}),
        ),
        (
            json!({"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": true}}}),
            json!({"response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {}, "strict": true},
            }}),
        ),
        (json!({"reasoning": {"effort": "low", "summary": "auto"}}), json!({"reasoning_effort": "low"})),
        (
            json!({
                "reasoning": {"context": "auto", "mode": "standard"},
                "prompt_cache_options": {"mode": "implicit"},
            }),
            json!({}),
        ),
        (
            json!({"include": ["message.output_text.logprobs", "reasoning.encrypted_content"]}),
            json!({"logprobs": true, "top_logprobs": 0}),
        ),
        (json!({"top_logprobs": 2}), json!({"logprobs": true, "top_logprobs": 2})),
        (json!({"tools": [flat]}), json!({"tools": [{"type": "function", "function": function}]})),
        (
            json!({"tools": [{
                "name": "f", "type": "function", "parameters": {"type": "object"}, "strict": true, "description": null,
                "allowed_callers": ["direct"], "async": false, "defer_loading": false, "output_schema": null,
            }]}),
            json!({"tools": [{"type": "function", "function": function}]}),
        ),
        (
            json!({"tool_choice": "required", "parallel_tool_calls": false}),
            json!({"tool_choice": "required", "parallel_tool_calls": false}),
        ),
        (
            json!({"tool_choice": {"type": "function", "name": "f"}}),
            json!({"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        ),
        (
            json!({"tool_choice": {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "f"}],
            }}),
            json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": {
                "mode": "auto",
                "tools": [{"type": "function", "function": {"name": "f"}}],
            }}}),
        ),
    ] {
        assert_eq!(Value::Object(read(body.clone()).unwrap().chat), chat, "{body}");
    }
}

#[test]
fn what_is_wrong_is_named_as_its_client_wrote_it() {
    for (body, message) in [
        (json!({"input": null}), "missing required parameter: 'input'"),
        (
            json!({"input": 1}),
            "invalid type for 'input': expected a string or an array of items, but got an integer instead",
        ),
        (
            json!({"background": true}),
            "'background' is not supported: this server does not implement it, so only false is accepted",
        ),
        (json!({"conversation": "c"}), "'conversation' is not supported: this server does not implement it"),
        (json!({"prompt": {"id": "p"}}), "'prompt' is not supported: this server does not implement it"),
        (
            json!({"tools": [{"type": "web_search"}]}),
            "'tools[0].type' is not supported: this server runs no tools, so only \"function\" is, not \"web_search\"",
        ),
        (json!({"tools": [{"type": "function"}]}), "missing required parameter: 'tools[0].name'"),
        (json!({"tools": [{"name": "f"}]}), "missing required parameter: 'tools[0].type'"),
        (
            json!({"tools": [{"type": "function", "name": "f", "defer_loading": true}]}),
            "'tools[0].defer_loading' is not supported: this server does not implement it, so only false is accepted",
        ),
        (
            json!({"tools": [{"type": "function", "name": "f", "async": true}]}),
            "'tools[0].async' is not supported: this server does not implement it, so only false is accepted",
        ),
        (
            json!({"tools": [{"type": "function", "name": "f", "allowed_callers": ["programmatic"]}]}),
            "'tools[0].allowed_callers' is not supported: this server does not implement it, so only [\"direct\"] is \
             accepted",
        ),
        (
            json!({"tools": [{"type": "function", "name": "f", "output_schema": {}}]}),
            "'tools[0].output_schema' is not supported: this server does not implement it",
        ),
        (
            json!({"tools": [{"type": "function", "name": "f", "colour": "red"}]}),
            "unrecognized request argument supplied: tools[0].colour",
        ),
        (
            json!({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": ["f"]}}),
            "invalid type for 'tool_choice.tools[0]': expected an object, but got a string instead",
        ),
        (
            json!({"reasoning": {"mode": "pro"}}),
            "'reasoning.mode' is not supported: this server does not implement it, so only \"standard\" is accepted",
        ),
        (
            json!({"tool_choice": {"type": "file_search"}}),
            "'tool_choice.type' is not supported: this server runs no tools, so only \"function\" is, not \
             \"file_search\"",
        ),
        (
            json!({"include": ["file_search_call.results"]}),
            "'include[0]' is not supported: this server has nothing to include as \"file_search_call.results\"",
        ),
        (
            json!({"reasoning": {"summary": "detailed"}}),
            "'reasoning.summary' is not supported: this server does not implement it, so only \"auto\" is accepted",
        ),
        (
            json!({"text": {"format": {"type": "grammar"}}}),
            "invalid value for 'text.format.type': \"grammar\" is not one of text, json_object, json_schema",
        ),
        (
            json!({"stream_options": {"include_obfuscation": true}}),
            "'stream_options.include_obfuscation' is not supported: this server does not implement it, so only false \
             is accepted",
        ),
        (
            json!({"truncation": "middle"}),
            "invalid value for 'truncation': \"middle\" is not one of auto, disabled",
        ),
        (json!({"messages": []}), "unrecognized request argument supplied: messages"),
        (json!({"max_tokens": 1}), "unrecognized request argument supplied: max_tokens"),
    ] {
        assert_eq!(read(body.clone()).unwrap_err().to_string(), message, "{body}");
    }
}

#[test]
fn what_chat_refuses_is_refused_under_this_apis_name() {
    let card = model_card(64).unwrap();
    let tenant = Tenant::unlimited(TenantId::ANONYMOUS);
    let allowed = |name: &str| {
        json!({
            "tools": [{"type": "function", "name": "f"}],
            "tool_choice": {
                "type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": name}],
            },
        })
    };
    for (more, param) in [
        (json!({"max_output_tokens": 0}), "max_output_tokens"),
        (json!({"temperature": -1}), "temperature"),
        (json!({"top_logprobs": 200}), "top_logprobs"),
        (json!({"metadata": {"a": 1}}), "metadata.a"),
        (json!({"reasoning": {"effort": "vast"}}), "reasoning.effort"),
        (json!({"frequency": 1}), "frequency"),
        (allowed("g"), "tool_choice.tools[0].name"),
    ] {
        let mut chat = read(more.clone()).unwrap().chat;
        chat.insert("messages".to_owned(), json!([{"role": "user", "content": "hi"}]));
        let refused = crate::http::as_chat::read(chat, NAMES, &card, &tenant).unwrap_err();
        assert_eq!(refused.to_json()["error"]["param"], param, "{more}");
    }
}

fn messages(items: &Value) -> Result<Vec<Value>, ApiError> {
    let mut messages = Messages::new(Some("be brief".to_owned()));
    for (index, item) in items.as_array().unwrap().iter().enumerate() {
        let param = format!("input[{index}]");
        messages.add(&param, items::read(&param, item)?)?;
    }
    Ok(messages.finish())
}

#[test]
fn items_become_messages_as_they_come_and_as_they_are_kept() {
    let items = json!([
        {"role": "user", "content": "a"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [
            {"type": "output_text", "text": "wait", "annotations": [], "logprobs": []},
        ]},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{\"x\":1}"},
        {"type": "function_call_output", "call_id": "1", "output": "one"},
        {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "two"}]},
        {"role": "assistant", "content": "b", "phase": "commentary"},
        {"role": "assistant", "content": "c", "phase": null},
        {"role": "developer", "content": [
            {"type": "input_text", "text": "d"},
            {"type": "input_text", "text": "e", "prompt_cache_breakpoint": {"mode": "explicit"}},
        ]},
    ]);
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let expected = json!([
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "a"},
        {
            "role": "assistant",
            "content": "wait",
            "reasoning_content": "hm",
            "tool_calls": [call("1", "f", "{}"), call("2", "g", "{\"x\":1}")],
        },
        {"role": "tool", "tool_call_id": "1", "content": "one"},
        {"role": "tool", "tool_call_id": "2", "content": "two"},
        {"role": "assistant", "content": "b"},
        {"role": "assistant", "content": "c"},
        {"role": "developer", "content": [{"type": "text", "text": "d"}, {"type": "text", "text": "e"}]},
    ]);
    assert_eq!(Value::Array(messages(&items).unwrap()), expected);
    let kept: Value = items.as_array().unwrap().iter().cloned().map(items::to_keep).collect();
    assert_eq!(Value::Array(messages(&kept).unwrap()), expected);
    for item in kept.as_array().unwrap() {
        assert!(item["id"].is_string() && item["type"].is_string(), "{item}");
    }
    assert_eq!(kept[0]["content"], json!([{"type": "input_text", "text": "a"}]));
    assert_eq!(kept[1]["id"], "rs_1");
}

#[test]
fn items_that_cannot_be_used_are_named() {
    for (item, message) in [
        (json!(1), "invalid type for 'input[0]': expected an object, but got an integer instead"),
        (json!({}), "missing required parameter: 'input[0].role'"),
        (
            json!({"role": "tool", "content": "x"}),
            "invalid value for 'input[0].role': \"tool\" is not one of user, assistant, system, developer",
        ),
        (
            json!({"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}),
            "'input[0].content[0].type' is not supported: parts of type input_text, output_text and refusal are, not \
             \"input_image\"",
        ),
        (
            json!({"type": "web_search_call"}),
            "'input[0].type' is not supported: items of type message, reasoning, function_call, function_call_output \
             and item_reference are, not \"web_search_call\"",
        ),
        (
            json!({"type": "function_call_output", "call_id": "x", "output": ""}),
            "invalid value for 'input[0].call_id': no function_call before it has the call_id \"x\"",
        ),
        (
            json!({"type": "reasoning", "summary": [], "encrypted_content": "x"}),
            "'input[0].encrypted_content' is not supported: another server encrypted it",
        ),
        (
            json!({"role": "user", "content": "x", "phase": "y"}),
            "'input[0].phase' is not supported: this server does not implement it",
        ),
    ] {
        assert_eq!(messages(&json!([item.clone()])).unwrap_err().to_string(), message, "{item}");
    }
}

#[test]
fn pages_are_cut_out_in_either_order() {
    let items = || (0..5).map(|number| json!({"id": number.to_string()})).collect();
    let page = |query: &[(&str, &str)]| {
        let query = query.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Page::read(query).and_then(|page| page.of(items()))
    };
    for (query, ids, has_more) in [
        (&[][..], "43210", false),
        (&[("order", "asc")], "01234", false),
        (&[("limit", "2")], "43", true),
        (&[("limit", "2"), ("after", "3")], "21", true),
        (&[("limit", "2"), ("after", "2"), ("order", "asc")], "34", false),
        (&[("after", "0")], "", false),
    ] {
        let page = page(query).unwrap();
        let found: String = page["data"].as_array().unwrap().iter().map(super::id_of).collect();
        assert_eq!((found.as_str(), &page["has_more"]), (ids, &json!(has_more)), "{query:?}");
        assert_eq!(
            page["last_id"].as_str().unwrap_or_default(),
            ids.get(ids.len().saturating_sub(1)..).unwrap()
        );
    }
    for (name, value) in
        [("limit", "0"), ("limit", "101"), ("order", "up"), ("after", "9"), ("before", "1"), ("x", "")]
    {
        let refused = page(&[(name, value)]).unwrap_err();
        assert_eq!(refused.to_json()["error"]["param"], name, "{value}");
    }
}
