use serde_json::json;
use troupe_actors::testing::calling_card;
use troupe_protocol::TenantId;

use super::*;

fn body(fields: &Value) -> Fields {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    Fields::of(body, "body").unwrap()
}

/// What comes of a chat request with these fields, for a model that calls tools.
fn of(fields: &Value) -> Result<ChatRequest, ApiError> {
    let tenant = Tenant::unlimited(TenantId::ANONYMOUS);
    read(body(fields), &calling_card(64).unwrap(), &tenant, 0)
}

/// The parameter and the message of the error that it meets.
fn refusal(fields: &Value) -> (String, String) {
    let Err(error) = of(fields) else { panic!("{fields} is accepted") };
    (error.to_json()["error"]["param"].as_str().unwrap_or_default().to_owned(), error.to_string())
}

/// A conversation whose second message is of the assistant's, with these fields.
fn assistant(fields: Value) -> Value {
    let mut message = json!({"role": "assistant"});
    message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"messages": [{"role": "user", "content": "hi"}, message]})
}

fn calling(call: Value) -> Value {
    assistant(json!({"tool_calls": [call]}))
}

#[test]
fn what_is_wrong_with_a_turn_of_the_assistant_s_is_named() {
    let function = |fields: Value| calling(json!({"id": "a", "type": "function", "function": fields}));
    let with = |arguments: Value| function(json!({"name": "f", "arguments": arguments}));
    for (fields, param, expected) in [
        (assistant(json!({})), "content", "missing required parameter: 'messages[1].content'"),
        (assistant(json!({"content": null, "tool_calls": []})), "content", "missing required parameter"),
        (assistant(json!({"content": "x", "refusal": 1})), "refusal", "invalid type"),
        (assistant(json!({"content": [{"type": "refusal"}]})), "content[0].refusal", "missing required"),
        (
            assistant(json!({"content": "x", "function_call": {"name": "f", "arguments": "{}"}})),
            "function_call",
            "'messages[1].function_call' is not supported: tool_calls has taken its place",
        ),
        (calling(json!({})), "tool_calls[0].function", "missing required parameter"),
        (calling(json!({"type": 1})), "tool_calls[0].type", "invalid type"),
        (calling(json!({"id": 1})), "tool_calls[0].id", "invalid type"),
        (
            calling(json!({"type": "custom", "custom": {"name": "f", "input": "x"}})),
            "tool_calls[0].type",
            "'messages[1].tool_calls[0].type' is not supported: calls of type \"function\" are, not \"custom\"",
        ),
        (calling(json!({"function": "f"})), "tool_calls[0].function", "invalid type"),
        (function(json!({"arguments": "{}"})), "tool_calls[0].function.name", "missing required"),
        (function(json!({"name": "f"})), "tool_calls[0].function.arguments", "missing required"),
        (with(json!(1)), "tool_calls[0].function.arguments", "invalid type"),
        (
            with(json!("{\"a\": ")),
            "tool_calls[0].function.arguments",
            "invalid value for 'messages[1].tool_calls[0].function.arguments': it is not the text of a JSON object",
        ),
        (with(json!("[]")), "tool_calls[0].function.arguments", "invalid value"),
    ] {
        let (named, message) = refusal(&fields);
        assert_eq!(named, format!("messages[1].{param}"), "{fields}");
        assert!(message.starts_with(expected), "{fields}: {message}");
    }
}

#[test]
fn a_result_names_its_call() {
    let result = |id: Value| json!({"messages": [{"role": "tool", "content": "x", "tool_call_id": id}]});
    for (id, expected) in [
        (json!(null), "missing required parameter: 'messages[0].tool_call_id'"),
        (
            json!(1),
            "invalid type for 'messages[0].tool_call_id': expected a string, but got an integer instead",
        ),
    ] {
        assert_eq!(refusal(&result(id)).1, expected);
    }
    assert!(of(&result(json!("of no call"))).is_ok());
}

#[test]
fn what_an_assistant_declined_is_what_it_said() {
    let [no, text] = [json!({"type": "text", "text": "no"}), json!({"type": "text", "text": "a"})];
    for (fields, content) in [
        (json!({"content": null, "refusal": "no"}), json!("no")),
        (json!({"refusal": "no"}), json!("no")),
        (json!({"content": [{"type": "refusal", "refusal": "no"}]}), json!([no])),
        (json!({"content": "a", "refusal": "no"}), json!([text, no])),
        (json!({"content": [text], "refusal": "no"}), json!([text, no])),
        (json!({"content": "a", "refusal": null}), json!("a")),
    ] {
        let message = of(&assistant(fields.clone())).unwrap().conversation.messages.remove(1);
        assert_eq!(message["content"], content, "{fields}");
        assert!(message.get("refusal").is_none_or(Value::is_null), "{message}");
    }
    let user = json!({"messages": [{"role": "user", "content": [{"type": "refusal", "refusal": "no"}]}]});
    assert_eq!(refusal(&user).0, "messages[0].content[0]");
}

#[test]
fn a_turn_may_be_calls_or_thoughts_alone() {
    let call = |function: Value| json!({"tool_calls": [{"function": function}]});
    for fields in [
        json!({"content": ""}),
        json!({"reasoning_content": "hm"}),
        call(json!({"name": "f", "arguments": ""})),
        call(json!({"name": "f", "arguments": "{\"a\": 1}"})),
        call(json!({"name": "f", "arguments": {"a": 1}})),
    ] {
        assert_eq!(of(&assistant(fields.clone())).err(), None, "{fields}");
    }
}

/// A response that was cut off is kept with the beginning of its call, and can be gone on from.
#[test]
fn a_translated_conversation_may_hold_a_call_that_was_cut_off() {
    let tenant = Tenant::unlimited(TenantId::ANONYMOUS);
    let cut = calling(json!({"type": "function", "function": {"name": "f", "arguments": "{\"a\": "}}));
    assert!(read_translated(body(&cut), &calling_card(64).unwrap(), &tenant, 0).is_ok());
}

#[test]
fn a_message_that_is_continued_has_text_and_no_calls() {
    let calls = json!([{"function": {"name": "f", "arguments": "{}"}}]);
    let continued = |fields: Value| {
        let mut request = assistant(fields);
        request["continue_final_message"] = true.into();
        request
    };
    for (fields, reason) in [
        (json!({"tool_calls": calls}), "the last message ends in tool_calls, which nothing can follow"),
        (
            json!({"content": "x", "tool_calls": calls}),
            "the last message ends in tool_calls, which nothing can follow",
        ),
        (json!({"reasoning_content": "hm"}), "the last message has no content to go on with"),
        (json!({"content": []}), "the last message has no content to go on with"),
    ] {
        let (param, message) = refusal(&continued(fields.clone()));
        assert_eq!(param, "continue_final_message", "{fields}");
        assert_eq!(message, format!("invalid value for '{param}': {reason}"), "{fields}");
    }
    for fields in [json!({"content": ""}), json!({"content": "x", "tool_calls": []})] {
        let read = of(&continued(fields)).unwrap();
        assert_eq!(read.conversation.ending, Ending::ContinueFinalMessage);
    }
}

#[test]
fn an_answer_that_continues_a_message_has_no_format() {
    let tool = |strict: bool| json!([{"type": "function", "function": {"name": "f", "strict": strict}}]);
    let continued = |fields: &Value| {
        let mut request = assistant(json!({"content": "{\"a\": "}));
        request["continue_final_message"] = true.into();
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        request
    };
    let schema = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {}}});
    for (fields, param) in [
        (json!({"response_format": {"type": "json_object"}}), "response_format"),
        (json!({ "response_format": schema }), "response_format.json_schema.schema"),
        (json!({"response_format": {"type": "json_object"}, "tools": tool(false)}), "response_format"),
        (json!({"guided_regex": "a"}), "guided_regex"),
        (json!({"structured_outputs": {"choice": ["a"]}}), "structured_outputs.choice"),
        (json!({"tools": tool(false), "tool_choice": "required"}), "tool_choice"),
    ] {
        let (named, message) = refusal(&continued(&fields));
        assert_eq!(named, param, "{fields}");
        assert!(message.contains("continues the last message"), "{message}");
        assert_eq!(of(&fields).err(), None, "{fields}");
    }
    // Its text is free up to a call.
    for fields in [json!({"response_format": {"type": "text"}}), json!({"tools": tool(true)})] {
        assert_eq!(of(&continued(&fields)).err(), None, "{fields}");
    }
}

#[test]
fn variables_that_the_request_decides_by_its_fields_are_refused() {
    let clock = "it tells the server's clock";
    for (name, reason) in [
        ("messages", "the request's own field messages is the one for it"),
        ("tools", "the request's own field tools is the one for it"),
        ("documents", "the request's own field documents is the one for it"),
        ("add_generation_prompt", "the request's own field add_generation_prompt is the one for it"),
        ("continue_final_message", "the request's own field continue_final_message is the one for it"),
        ("strftime_now", clock),
    ] {
        let (param, message) = refusal(&json!({"chat_template_kwargs": {"x": 1, name: false}}));
        assert_eq!(param, format!("chat_template_kwargs.{name}"));
        assert_eq!(message, format!("invalid value for '{param}': {reason}"));
    }
    let fine = json!({"chat_template_kwargs": {"enable_thinking": false, "tools": null}});
    assert_eq!(of(&fine).unwrap().conversation.variables["enable_thinking"], false);
}

#[test]
fn allowed_tokens_and_a_format_are_not_asked_for_together() {
    let strict = json!([{"type": "function", "function": {"name": "f", "strict": true}}]);
    for (fields, format) in [
        (json!({"guided_choice": ["a"]}), "guided_choice"),
        (json!({"response_format": {"type": "json_object"}}), "response_format"),
        (json!({"tools": strict, "tool_choice": "required"}), "tool_choice"),
        (json!({ "tools": strict }), "tools"),
    ] {
        assert_eq!(of(&fields).err(), None, "{fields}");
        let mut both = fields.clone();
        both["allowed_token_ids"] = json!([5]);
        let expected = format!("invalid value for 'allowed_token_ids': it contradicts {format}");
        assert_eq!(refusal(&both), ("allowed_token_ids".to_owned(), expected), "{fields}");
    }
    assert_eq!(of(&json!({"allowed_token_ids": [5], "response_format": {"type": "text"}})).err(), None);
}

#[test]
fn what_asks_for_nothing_more_passes() {
    for (fields, is_fine) in [
        (json!({"prompt_cache_options": {}}), true),
        (json!({"prompt_cache_options": {"mode": "implicit"}}), true),
        (json!({"prompt_cache_options": {"mode": "explicit"}}), false),
        (json!({"moderation": {"model": "omni-moderation-latest"}}), false),
    ] {
        let refused = of(&fields).err().map(|error| error.to_json()["error"]["code"].clone());
        assert_eq!(refused, (!is_fine).then(|| json!("unsupported_parameter")), "{fields}");
    }
}
