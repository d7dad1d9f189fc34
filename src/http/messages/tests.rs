mod answers;

use serde_json::{Value, json};
use troupe_protocol::TenantId;

use super::{error, request};
use crate::http::as_chat;
use crate::http::error::ApiError;
use crate::http::fields::Fields;
use crate::http::reasoning::card_with;
use crate::http::tenants::Tenant;

const PLAIN: &str = "{{ messages[0].content }}";

fn chat_of(more: Value) -> Result<Value, ApiError> {
    chat_for(PLAIN, more)
}

/// For a model with this template.
fn chat_for(template: &str, more: Value) -> Result<Value, ApiError> {
    let mut body = json!({
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request::message(Fields::of(body, "body")?, &card_with(template)).map(Value::Object)
}

#[test]
fn conversations_become_chats() {
    let user = |content: &str| json!({"role": "user", "content": content});
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}});
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    for (body, messages) in [
        (json!({}), json!([user("hi")])),
        (json!({"system": "be brief"}), json!([{"role": "system", "content": "be brief"}, user("hi")])),
        (
            json!({"system": [{"type": "text", "text": "be", "cache_control": {"type": "ephemeral"}}]}),
            json!([{"role": "system", "content": "be"}, user("hi")]),
        ),
        (json!({"system": []}), json!([user("hi")])),
        (
            json!({"messages": [
                user("a"),
                {"role": "system", "content": [{"type": "text", "text": "be brief"}]},
                user("b"),
                {"role": "system", "content": []},
            ]}),
            json!([user("a"), {"role": "system", "content": "be brief"}, user("b")]),
        ),
        (
            json!({"messages": [
                user("a"),
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "", "signature": ""}, {"type": "text", "text": "b"},
                ]},
                user("c"),
            ]}),
            json!([user("a"), {"role": "assistant", "content": "b"}, user("c")]),
        ),
        // Neighbours of one role are one turn.
        (json!({"messages": [user("a"), user("b")]}), json!([{"role": "user", "content": parts}])),
        (
            json!({"messages": [
                user("a"),
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "wait"},
                    {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}},
                    {"type": "tool_use", "id": "2", "name": "f", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": "one"},
                    {"type": "tool_result", "tool_use_id": "2", "is_error": true,
                     "content": [{"type": "text", "text": "two"}]},
                    {"type": "text", "text": "and?"},
                ]},
            ]}),
            json!([
                user("a"),
                {
                    "role": "assistant",
                    "content": "wait",
                    "reasoning_content": "hm",
                    "tool_calls": [call("1", "{\"x\":1}"), call("2", "{}")],
                },
                {"role": "tool", "tool_call_id": "1", "content": "one"},
                {"role": "tool", "tool_call_id": "2", "content": "two"},
                user("and?"),
            ]),
        ),
    ] {
        let chat = chat_of(body.clone()).unwrap();
        assert_eq!(chat["messages"], messages, "{body}");
        assert_eq!(chat.get("continue_final_message"), None);
    }
    let prefilled = json!({"messages": [user("a"), {"role": "assistant", "content": "It is"}]});
    assert_eq!(chat_of(prefilled).unwrap()["continue_final_message"], true);
}

#[test]
fn parameters_become_chats() {
    let tool = json!({"name": "f", "description": "d", "input_schema": {"type": "object"}});
    let function = json!({"name": "f", "description": "d", "parameters": {"type": "object"}});
    for (body, fields) in [
        (json!({"stop_sequences": ["a"]}), json!({"stop": ["a"]})),
        (
            json!({"top_k": 3, "top_p": 0.5, "stream": true}),
            json!({"top_k": 3, "top_p": 0.5, "stream": true}),
        ),
        (json!({"metadata": {"user_id": "u"}, "service_tier": "auto"}), json!({"user": "u"})),
        (json!({"seed": 7, "priority": "batch"}), json!({"seed": 7, "priority": "batch"})),
        (json!({"tools": [tool]}), json!({"tools": [{"type": "function", "function": function}]})),
        (json!({"tool_choice": {"type": "any"}}), json!({"tool_choice": "required"})),
        (
            json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
            json!({"tool_choice": "auto", "parallel_tool_calls": false}),
        ),
        (
            json!({"tool_choice": {"type": "tool", "name": "f"}}),
            json!({"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        ),
        (
            json!({"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}}}),
            json!({
                "reasoning_effort": "low",
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "output", "schema": {}, "strict": true},
                },
            }),
        ),
        (json!({"output_config": {"effort": "max"}}), json!({"reasoning_effort": "max"})),
        (json!({"output_config": {"effort": "high"}}), json!({})),
        (json!({"temperature": 1, "fallbacks": []}), json!({"temperature": 1})),
        (json!({"cache_control": {"type": "ephemeral"}, "system": null}), json!({})),
    ] {
        let mut expected = chat_of(json!({})).unwrap();
        expected.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        assert_eq!(chat_of(body.clone()).unwrap(), expected, "{body}");
    }
}

#[test]
fn thinking_is_switched_by_what_the_template_reads_and_refused_where_it_cannot_be() {
    const ENABLE: &str = "{% if enable_thinking %}<think>{% endif %}{{ messages[0].content }}";
    const THINKING: &str = "{% if thinking %}<think>{% endif %}{{ messages[0].content }}";
    const ALWAYS: &str = "{{ messages[0].content }}<think>";
    let (off, on) = (json!({"type": "disabled"}), json!({"type": "enabled", "budget_tokens": 8}));
    let told = |display: &str| json!({"type": "adaptive", "display": display});
    for (template, thinking, more) in [
        (ENABLE, &off, json!({"chat_template_kwargs": {"enable_thinking": false}})),
        (THINKING, &off, json!({"chat_template_kwargs": {"thinking": false}})),
        (PLAIN, &off, json!({"chat_template_kwargs": {}})),
        (THINKING, &on, json!({"chat_template_kwargs": {"thinking": true}, "thinking_token_budget": 8})),
        (ALWAYS, &on, json!({"chat_template_kwargs": {}, "thinking_token_budget": 8})),
        (ALWAYS, &json!({"type": "adaptive"}), json!({})),
        (ALWAYS, &told("summarized"), json!({"include_reasoning": true})),
        (ALWAYS, &told("omitted"), json!({"include_reasoning": false})),
    ] {
        let mut expected = chat_of(json!({})).unwrap();
        expected.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let chat = chat_for(template, json!({"thinking": thinking})).unwrap();
        assert_eq!(chat, expected, "{template} {thinking}");
    }
    let own = json!({"thinking": off, "chat_template_kwargs": {"x": 1}});
    let variables = json!({"enable_thinking": false, "x": 1});
    assert_eq!(chat_for(ENABLE, own).unwrap()["chat_template_kwargs"], variables);
    let refused = chat_for(ALWAYS, json!({"thinking": off})).unwrap_err();
    let message = "'thinking' is not supported: this model's chat template cannot turn reasoning off";
    assert_eq!(refused.to_string(), message);
}

#[test]
fn an_effort_is_told_to_templates_that_know_one_and_the_default_one_is_none_to_others() {
    const EFFORTFUL: &str = "{{ reasoning_effort }} {{ messages[0].content }}";
    const SWITCH: &str = "{% if enable_thinking %}<think>{% endif %}{{ messages[0].content }}";
    let ask = |template: &str, effort: &str| {
        let chat = chat_for(template, json!({"output_config": {"effort": effort}})).unwrap();
        let Value::Object(fields) = chat else { panic!("{chat}") };
        let tenant = Tenant::unlimited(TenantId::ANONYMOUS);
        let fields =
            [fields, json!({"model": "test"}).as_object().unwrap().clone()].into_iter().flatten().collect();
        let read = as_chat::read(fields, request::NAMES, &card_with(template), &tenant);
        read.map(|chat| Value::Object(chat.conversation.variables)).map_err(|error| error.to_string())
    };
    for (template, effort, variables) in [
        (EFFORTFUL, "high", json!({"reasoning_effort": "high"})),
        (EFFORTFUL, "low", json!({"reasoning_effort": "low"})),
        (SWITCH, "high", json!({})),
        (SWITCH, "low", json!({"enable_thinking": true})),
        (PLAIN, "high", json!({})),
    ] {
        assert_eq!(ask(template, effort), Ok(variables), "{template} {effort}");
    }
    let refused = "'output_config.effort' is not supported: this model's chat template has no setting for it";
    for effort in ["low", "xhigh", "max"] {
        assert_eq!(ask(PLAIN, effort), Err(refused.to_owned()), "{effort}");
    }
}

#[test]
fn a_thread_is_refused_as_clients_fall_back_from() {
    let refused = chat_of(json!({"thread": {"type": "create"}})).unwrap_err();
    let error = json!({
        "type": "invalid_request_error",
        "message": "'thread' is not supported: this server does not implement it",
        "details": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
    });
    assert_eq!(error::to_json(&refused)["error"], error);
    let another = chat_of(json!({"compaction": {}})).unwrap_err();
    assert_eq!(error::to_json(&another)["error"].get("details"), None);
}

#[test]
fn what_is_wrong_is_named_as_its_client_wrote_it() {
    let user = |block: Value| json!({"messages": [{"role": "user", "content": [block]}]});
    let assistant = |block: Value| json!({"messages": [{"role": "assistant", "content": [block]}]});
    for (body, message) in [
        (json!({"max_tokens": null}), "missing required parameter: 'max_tokens'"),
        (json!({"model": null}), "missing required parameter: 'model'"),
        (json!({"messages": []}), "invalid value for 'messages': 0 messages are not between 1 and 4096"),
        (
            json!({"messages": [{"role": "tool", "content": "x"}]}),
            "invalid value for 'messages[0].role': \"tool\" is not one of user, assistant, system",
        ),
        (json!({"messages": [{"role": "user"}]}), "missing required parameter: 'messages[0].content'"),
        (
            json!({"messages": [{"role": "user", "content": []}]}),
            "invalid value for 'messages[0].content': there is no message with anything in it",
        ),
        (
            user(json!({"type": "image", "source": {}})),
            "'messages[0].content[0]' is not supported: blocks of type text and tool_result are, not \"image\"",
        ),
        (user(json!({"type": "text"})), "missing required parameter: 'messages[0].content[0].text'"),
        (
            user(json!({"type": "tool_result", "tool_use_id": "x"})),
            "invalid value for 'messages[0].content[0].tool_use_id': no tool_use block before it has the id \"x\"",
        ),
        (
            assistant(json!({"type": "redacted_thinking", "data": "x"})),
            "'messages[0].content[0]' is not supported: blocks of type text, thinking and tool_use are, not \
             \"redacted_thinking\"",
        ),
        (
            assistant(json!({"type": "tool_use", "id": "1", "name": "f", "input": {}})),
            "invalid value for 'messages[0].content': a tool_use block in the last message has no tool_result",
        ),
        (
            json!({"system": [{"type": "image"}]}),
            "'system[0]' is not supported: blocks of type text are, not \"image\"",
        ),
        (json!({"temperature": 1.5}), "invalid value for 'temperature': 1.5 is not between 0 and 1"),
        (json!({"temperature": -1}), "invalid value for 'temperature': -1 is not between 0 and 1"),
        (
            json!({"output_config": {"effort": "none"}}),
            "invalid value for 'output_config.effort': \"none\" is not one of low, medium, high, xhigh, max",
        ),
        (
            json!({"thinking": {"type": "adaptive", "display": "full"}}),
            "invalid value for 'thinking.display': \"full\" is not one of summarized, omitted",
        ),
        (
            json!({"thinking": {"type": "disabled", "display": "omitted"}}),
            "unrecognized request argument supplied: thinking.display",
        ),
        (
            json!({"tool_choice": "auto"}),
            "invalid type for 'tool_choice': expected an object, but got a string instead",
        ),
        (
            json!({"fallbacks": [{"model": "x"}]}),
            "'fallbacks' is not supported: this server does not implement it, so only [] is accepted",
        ),
        (
            json!({"fallback_credit_token": "x"}),
            "'fallback_credit_token' is not supported: this server does not implement it",
        ),
        (
            json!({"billing_policy": {}}),
            "'billing_policy' is not supported: this server does not implement it",
        ),
        (
            json!({"stop_sequences": "x"}),
            "invalid type for 'stop_sequences': expected an array of strings, but got a string instead",
        ),
        (
            json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
            "'tools[0].type' is not supported: only tools of clients are, not \"web_search_20250305\"",
        ),
        (json!({"tools": [{"name": "f"}]}), "missing required parameter: 'tools[0].input_schema'"),
        (
            json!({"tool_choice": {"type": "required"}}),
            "invalid value for 'tool_choice.type': \"required\" is not one of auto, any, tool, none",
        ),
        (
            json!({"thinking": {"type": "enabled", "budget_tokens": 9}}),
            "invalid value for 'thinking.budget_tokens': 9 is not below max_tokens of 9",
        ),
        (json!({"metadata": {"x": 1}}), "unrecognized request argument supplied: metadata.x"),
        (json!({"container": "c"}), "'container' is not supported: this server does not implement it"),
        (json!({"n": 2}), "unrecognized request argument supplied: n"),
        (json!({"stop": "x"}), "unrecognized request argument supplied: stop"),
    ] {
        assert_eq!(chat_of(body.clone()).unwrap_err().to_string(), message, "{body}");
    }
}
