//! Forced calls by the real model, which would hardly call by itself: whatever it says, it is calls of the tools that it
//! was given, with arguments that are valid by the word of another validator.

use serde_json::{Value, json};

use crate::support::{Answer, Call, Choice, Event, FORMATS, ToolServer, chat, root, streamed, with};

const QUESTION: &str = "What is the weather in Rome, and what is 2 plus 3?";

fn schema(name: &str) -> Value {
    match name {
        "get_weather" => json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "enum": ["Köln", "Rome", "a \"b\" c"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
            },
            "required": ["city"],
            "additionalProperties": false,
        }),
        "add" => json!({
            "type": "object",
            "properties": {
                "a": {"type": "integer", "minimum": -99, "maximum": 99},
                "b": {"type": "integer", "minimum": -99, "maximum": 99},
                "exact": {"type": "boolean"},
            },
            "required": ["a", "b"],
            "additionalProperties": false,
        }),
        "now" => json!({"type": "object", "properties": {}}),
        other => panic!("nobody offered {other}"),
    }
}

const NAMES: [&str; 3] = ["get_weather", "add", "now"];

fn tools() -> Value {
    let tool = |name| json!({"type": "function", "function": {"name": name, "parameters": schema(name)}});
    NAMES.map(tool).into()
}

fn asked(choice: &Value, more: Value) -> Value {
    let tools = json!({"tools": tools(), "tool_choice": choice});
    with(with(chat(QUESTION, 200), tools), more)
}

fn named(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name}})
}

/// A call names one of these tools, and its arguments are valid.
fn check(call: &Call, names: &[&str]) {
    assert!(names.contains(&call.name.as_str()), "{call:?}");
    let arguments: Value =
        serde_json::from_str(&call.arguments).unwrap_or_else(|error| panic!("{error}: {call:?}"));
    let validator = jsonschema::validator_for(&schema(&call.name)).unwrap();
    assert!(validator.is_valid(&arguments), "{call:?}");
    assert!(call.name != "now" || arguments == json!({}), "{call:?}");
}

/// An answer is calls of these tools and nothing else. One that was cut off may end in a part of a call, of which the
/// beginning may look like content.
fn check_choice(choice: &Choice, names: &[&str]) {
    assert!(!choice.calls.is_empty(), "{choice:?}");
    let whole = match choice.finish_reason.as_str() {
        "tool_calls" => {
            assert_eq!(choice.text, "", "{choice:?}");
            &choice.calls[..]
        }
        "length" => &choice.calls[..choice.calls.len() - 1],
        other => panic!("it ends with {other}: {choice:?}"),
    };
    whole.iter().for_each(|call| check(call, names));
}

/// The answer, which is the same streamed and whole.
fn ask(server: &ToolServer, request: &Value) -> Answer {
    let whole = server.client.chat(request);
    assert_eq!(server.client.chat(&streamed(request.clone())), whole, "{request}");
    whole
}

#[test]
fn a_forced_call_is_a_valid_call_of_an_allowed_tool_in_every_format() {
    for format in FORMATS {
        let server = ToolServer::start(format);
        let two = json!({"type": "allowed_tools", "allowed_tools": {
            "mode": "required", "tools": [named("add"), named("now")],
        }});
        for (choice, names) in [(json!("required"), &NAMES[..]), (two, &NAMES[1..])] {
            let answer = ask(&server, &asked(&choice, json!({})));
            answer.choices.iter().for_each(|choice| check_choice(choice, names));
            // As random as it gets.
            let wild = json!({"temperature": 2, "seed": 7, "n": 4});
            let answer = ask(&server, &asked(&choice, wild));
            answer.choices.iter().for_each(|choice| check_choice(choice, names));

            let one = ask(&server, &asked(&choice, json!({"parallel_tool_calls": false})));
            assert_eq!((one.choices[0].calls.len(), one.finish_reason()), (1, "tool_calls"), "{one:?}");
            check_choice(&one.choices[0], names);
        }
        for name in NAMES {
            let answer = ask(&server, &asked(&named(name), json!({})));
            let calls = &answer.choices[0].calls;
            assert_eq!((calls.len(), answer.finish_reason()), (1, "tool_calls"), "{answer:?}");
            check(&calls[0], &[name]);
        }
        server.until_idle();
    }
}

#[test]
fn two_calls_at_once_are_forced_where_the_answer_may_not_end_with_one() {
    let server = ToolServer::start("hermes");
    let request = asked(&json!("required"), json!({"min_tokens": 60}));
    let answer = ask(&server, &request);
    assert!(answer.choices[0].calls.len() > 1, "{answer:?}");
    check_choice(&answer.choices[0], &NAMES);
}

#[test]
fn a_model_that_reasons_first_is_free_until_it_has_done_so() {
    let server = ToolServer::reasoning("hermes");
    let request = asked(&named("add"), json!({"thinking_token_budget": 12, "max_tokens": 100}));
    let answer = ask(&server, &request);
    let choice = &answer.choices[0];
    assert!(!choice.reasoning.is_empty(), "{answer:?}");
    assert_eq!((choice.calls.len(), answer.finish_reason()), (1, "tool_calls"), "{answer:?}");
    check(&choice.calls[0], &["add"]);

    // An answer that is all reasoning has no call.
    let cut = ask(&server, &asked(&named("add"), json!({"max_tokens": 8})));
    assert_eq!((cut.choices[0].calls.len(), cut.finish_reason()), (0, "length"), "{cut:?}");
}

#[test]
fn the_other_apis_force_calls_in_their_own_words() {
    let server = ToolServer::start("hermes");
    let function = |name: &&str| json!({"type": "function", "name": name, "parameters": schema(name)});
    let functions: Vec<Value> = NAMES.iter().map(function).collect();
    for (choice, names) in [
        (json!("required"), &NAMES[..]),
        (json!({"type": "function", "name": "add"}), &["add"]),
        (
            json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "now"}]}),
            &["now"],
        ),
    ] {
        let request = json!({
            "input": QUESTION, "tools": functions, "tool_choice": choice, "parallel_tool_calls": false,
            "temperature": 0, "max_output_tokens": 200,
        });
        let response = server.client.post("/v1/responses", &request).json();
        assert_eq!(response["status"], "completed", "{response}");
        let output = response["output"].as_array().unwrap();
        assert_eq!((output.len(), &output[0]["type"]), (1, &json!("function_call")), "{response}");
        check(&call_of(&output[0], "arguments"), names);
    }

    let tool = |name: &&str| json!({"name": name, "input_schema": schema(name)});
    let tools: Vec<Value> = NAMES.iter().map(tool).collect();
    for (choice, names) in [
        (json!({"type": "any", "disable_parallel_tool_use": true}), &NAMES[..]),
        (json!({"type": "tool", "name": "now"}), &["now"]),
    ] {
        let request = json!({
            "model": "tools", "messages": [{"role": "user", "content": QUESTION}], "tools": tools, "tool_choice": choice,
            "temperature": 0, "max_tokens": 200,
        });
        let message = server.client.post("/v1/messages", &request).json();
        assert_eq!(message["stop_reason"], "tool_use", "{message}");
        let content = message["content"].as_array().unwrap();
        assert_eq!((content.len(), &content[0]["type"]), (1, &json!("tool_use")), "{message}");
        check(&call_of(&content[0], "input"), names);
    }
}

#[test]
fn the_page_s_example_is_answered_as_the_page_says() {
    let page = std::fs::read_to_string(root().join("docs/tools.md")).unwrap();
    let (_, example) = page.split_once("-d '").unwrap();
    let (request, said) = example.split_once("}'\n").unwrap();
    let request: Value = serde_json::from_str(&format!("{request}}}")).unwrap();
    let said = said.lines().filter_map(|line| line.strip_prefix("    "));
    let said: Vec<Value> = said.map(|line| without_id(serde_json::from_str(line).unwrap())).collect();

    let server = ToolServer::start("hermes");
    let events = server.client.post("/v1/chat/completions", &request).events();
    let heard: Vec<Value> = events
        .filter_map(|event| match event {
            Event::Data(mut chunk) => Some(without_id(chunk["choices"][0].take())),
            Event::Done => None,
        })
        .collect();
    assert_eq!(heard, said);
    let calls = said.iter().filter(|choice| !choice["delta"]["tool_calls"][0]["type"].is_null());
    assert_eq!(calls.count(), 2);
}

/// A choice as the page shows it, but for the id of a call that begins, which is never the same.
fn without_id(mut choice: Value) -> Value {
    if choice["delta"]["tool_calls"][0]["id"].is_string() {
        choice["delta"]["tool_calls"][0]["id"] = Value::Null;
    }
    let fields = choice.as_object_mut().unwrap();
    fields.retain(|name, value| name == "delta" || (name == "finish_reason" && !value.is_null()));
    choice
}

/// A call as an item or a block has it.
fn call_of(item: &Value, arguments: &str) -> Call {
    let arguments = match &item[arguments] {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    Call { name: item["name"].as_str().unwrap().to_owned(), arguments }
}

#[test]
fn a_schema_is_enforced_if_it_is_strict_and_as_far_as_it_can_be_otherwise() {
    let server = ToolServer::start("hermes");
    let function = |strict: bool, parameters: Value| json!({"type": "function", "function": {"name": "f", "strict": strict, "parameters": parameters}});
    let unenforceable = json!({
        "type": "object",
        "properties": {"words": {"type": "array", "uniqueItems": true, "maxItems": 2}, "loud": {"type": "boolean"}},
        "required": ["loud"],
    });
    let request = |tool: Value| {
        let forced = json!({"tools": [tool], "tool_choice": "required", "parallel_tool_calls": false});
        with(chat(QUESTION, 200), forced)
    };
    let response =
        server.client.post("/v1/chat/completions", &request(function(true, unenforceable.clone())));
    assert_eq!(response.status, 400);
    let error = response.json()["error"].take();
    assert_eq!(error["param"], "tools[0].function.parameters", "{error}");
    assert!(error["message"].as_str().unwrap().contains("uniqueItems"), "{error}");

    let answer = ask(&server, &request(function(false, unenforceable)));
    if answer.finish_reason() == "tool_calls" {
        let arguments: Value = serde_json::from_str(&answer.choices[0].calls[0].arguments).unwrap();
        assert!(arguments["loud"].is_boolean(), "{answer:?}");
    }

    // What cannot be enforced of one does not free the others.
    let broken = json!({"type": "object", "properties": {"x": {"not": {}}}});
    let mut tools = tools();
    tools.as_array_mut().unwrap().push(function(false, broken));
    let wild = json!({"tools": tools, "tool_choice": "required", "n": 8, "temperature": 1.5, "seed": 3});
    let answer = ask(&server, &with(chat(QUESTION, 100), wild));
    let calls = answer
        .choices
        .iter()
        .filter(|choice| choice.finish_reason == "tool_calls")
        .flat_map(|choice| &choice.calls);
    let checked: Vec<_> = calls.filter(|call| call.name == "add" || call.name == "get_weather").collect();
    assert!(!checked.is_empty(), "{answer:?}");
    checked.into_iter().for_each(|call| check(call, &NAMES));

    let pattern = json!({
        "type": "object",
        "properties": {"phone": {"type": "string", "pattern": "^[0-9]{3}-[0-9]{4}$"}},
        "required": ["phone"],
        "additionalProperties": false,
    });
    let answer = ask(&server, &request(function(true, pattern.clone())));
    let arguments: Value = serde_json::from_str(&answer.choices[0].calls[0].arguments).unwrap();
    assert!(jsonschema::validator_for(&pattern).unwrap().is_valid(&arguments), "{answer:?}");
}

#[test]
fn a_strict_schema_holds_a_call_that_the_model_makes_by_itself() {
    let server = ToolServer::start("hermes");
    let turn = |city: &str| {
        let function = json!({"name": "get_weather", "arguments": json!({"city": city}).to_string()});
        [
            json!({"role": "user", "content": format!("What is the weather in {city}?")}),
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": function}]}),
            json!({"role": "tool", "tool_call_id": "a", "content": "sunny"}),
            json!({"role": "assistant", "content": "It is sunny."}),
        ]
    };
    // The model does as before, for a city that the schema does not list.
    let asked = json!({"role": "user", "content": "What is the weather in Paris?"});
    let messages: Vec<Value> = [turn("Rome"), turn("Rome")].concat().into_iter().chain([asked]).collect();
    let ask = |strict: bool| {
        let function = json!({"name": "get_weather", "strict": strict, "parameters": schema("get_weather")});
        let request = json!({
            "messages": messages, "tools": [{"type": "function", "function": function}],
            "parallel_tool_calls": false, "temperature": 0, "max_tokens": 100,
        });
        let answer = ask(&server, &request);
        assert_eq!((answer.choices[0].calls.len(), answer.finish_reason()), (1, "tool_calls"), "{answer:?}");
        answer.choices[0].calls[0].clone()
    };
    check(&ask(true), &["get_weather"]);
    assert!(ask(false).arguments.contains("Paris"));
}

/// The tokens of these texts that are one token each.
fn tokens(server: &ToolServer, texts: &[String]) -> Vec<u64> {
    let of = |text: &String| {
        let request = json!({"prompt": text, "add_special_tokens": false});
        let tokens = server.client.post("/tokenize", &request).json()["tokens"].take();
        let [token] = &tokens.as_array().unwrap()[..] else { return None };
        token.as_u64()
    };
    texts.iter().filter_map(of).collect()
}

#[test]
fn beside_a_format_the_model_chooses_between_it_and_a_call() {
    let server = ToolServer::start("hermes");
    let schema = json!({"type": "integer", "minimum": 1, "maximum": 99});
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": true}});
    let ask = |unlikely: &[u64]| {
        let bias: serde_json::Map<_, _> =
            unlikely.iter().map(|token| (token.to_string(), json!(-100))).collect();
        let more = json!({"response_format": format, "logit_bias": bias, "parallel_tool_calls": false});
        ask(&server, &asked(&json!("auto"), more))
    };
    // Either begins in one way, so what may not begin is not chosen.
    let marker = "<tool_call>";
    let begins: Vec<String> = (1..=marker.len()).map(|length| marker[..length].to_owned()).collect();
    let answer = ask(&tokens(&server, &begins));
    let number: u64 = answer.text().parse().unwrap_or_else(|error| panic!("{error}: {answer:?}"));
    assert!((1..=99).contains(&number) && answer.choices[0].calls.is_empty(), "{answer:?}");
    assert_eq!(answer.finish_reason(), "stop");

    let digits: Vec<String> = (0..=9).map(|digit| digit.to_string()).collect();
    let answer = ask(&tokens(&server, &digits));
    assert_eq!((answer.choices[0].calls.len(), answer.finish_reason()), (1, "tool_calls"), "{answer:?}");
    check(&answer.choices[0].calls[0], &NAMES);
}

#[test]
fn a_format_of_the_content_does_not_hinder_a_forced_call_and_one_of_all_is_refused() {
    let server = ToolServer::start("hermes");
    let forced = asked(&named("add"), json!({"response_format": {"type": "json_object"}}));
    let answer = ask(&server, &forced);
    assert_eq!(answer.finish_reason(), "tool_calls");
    check(&answer.choices[0].calls[0], &["add"]);

    let response =
        server.client.post("/v1/chat/completions", &asked(&named("add"), json!({"guided_choice": ["yes"]})));
    assert_eq!(response.status, 400);
    let error = response.json()["error"].take();
    assert_eq!(error["param"], "guided_choice", "{error}");
}
