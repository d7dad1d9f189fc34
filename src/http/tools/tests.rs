use troupe_actors::guide::Grammar;
use troupe_actors::testing::{calling_card, model_card};

use super::*;

/// What comes of a body, for a model that calls tools.
fn of(body: &Value) -> Result<Toolbox, ApiError> {
    let card = calling_card(64).unwrap();
    read(&mut Fields::of(body.clone(), "body").unwrap(), &card.output, None)
}

fn function(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
}

fn names(toolbox: &Toolbox) -> Vec<&str> {
    toolbox.callable.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn what_may_be_called_is_what_the_choice_leaves() {
    let tools = json!([function("f"), function("g-1")]);
    let allowed = json!({"type": "allowed_tools", "allowed_tools": {
        "mode": "auto", "tools": [{"type": "function", "function": {"name": "g-1"}}],
    }});
    for (choice, defined, callable) in [
        (json!(null), 2, vec!["f", "g-1"]),
        (json!("auto"), 2, vec!["f", "g-1"]),
        (json!("none"), 0, vec![]),
        // The model reads of all, so that its prompt stays the same.
        (allowed, 2, vec!["g-1"]),
    ] {
        let toolbox = of(&json!({"tools": tools, "tool_choice": choice})).unwrap();
        assert_eq!((toolbox.definitions.len(), names(&toolbox)), (defined, callable), "{choice}");
    }
    for body in [
        json!({}),
        json!({"tools": []}),
        json!({"tools": null, "tool_choice": "none", "parallel_tool_calls": false}),
    ] {
        assert_eq!(of(&body), Ok(Toolbox::default()), "{body}");
    }
    for (parallel, calls) in
        [(json!(null), CallLimit::Any), (json!(true), CallLimit::Any), (json!(false), CallLimit::One)]
    {
        assert_eq!(of(&json!({"tools": tools, "parallel_tool_calls": parallel})).unwrap().calls, calls);
    }
}

#[test]
fn a_template_gets_whole_definitions_without_what_is_not_its_affair() {
    let tools = json!([
        {"type": "function", "function": {"name": "now", "strict": true}, "strict": false},
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "return": {}}},
        {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}, "response": {}}, "strict": null},
    ]);
    let definitions = of(&json!({ "tools": tools })).unwrap().definitions;
    let expected = json!([
        {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "return": {}}},
        {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}, "response": {}}},
    ]);
    assert_eq!(Value::Array(definitions), expected);
}

#[test]
fn what_is_wrong_with_a_tool_is_named() {
    let with = |key: &str, value: Value| {
        let mut tool = function("f");
        tool["function"][key] = value;
        json!({"tools": [function("g"), tool]})
    };
    let beside = |key: &str, value: Value| {
        let mut tool = function("f");
        tool[key] = value;
        json!({"tools": [tool]})
    };
    let many: Vec<Value> = (0..=MAX_TOOLS).map(|index| function(&format!("f{index}"))).collect();
    let big = json!({"type": "object", "description": "x".repeat(MAX_SCHEMA_BYTES)});
    for (body, param, code) in [
        (json!({"tools": {}}), "tools", "invalid_type"),
        (json!({ "tools": many }), "tools", "invalid_value"),
        (json!({"tools": ["f"]}), "tools[0]", "invalid_type"),
        (json!({"tools": [{"function": {}}]}), "tools[0].type", "missing_required_parameter"),
        (json!({"tools": [{"type": "web_search"}]}), "tools[0].type", "unsupported_parameter"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].function", "missing_required_parameter"),
        (json!({"tools": [{"type": "function", "function": 5}]}), "tools[0].function", "invalid_type"),
        (
            json!({"tools": [{"type": "function", "function": {}}]}),
            "tools[0].function.name",
            "missing_required_parameter",
        ),
        (with("name", json!("")), "tools[1].function.name", "invalid_value"),
        (with("name", json!("a b")), "tools[1].function.name", "invalid_value"),
        (with("name", json!("é")), "tools[1].function.name", "invalid_value"),
        (with("name", json!("x".repeat(MAX_NAME + 1))), "tools[1].function.name", "invalid_value"),
        (with("name", json!("g")), "tools[1].function.name", "invalid_value"),
        (with("description", json!(5)), "tools[1].function.description", "invalid_type"),
        (with("strict", json!("yes")), "tools[1].function.strict", "invalid_type"),
        (with("parameters", json!([])), "tools[1].function.parameters", "invalid_type"),
        (with("parameters", json!({"type": "array"})), "tools[1].function.parameters.type", "invalid_value"),
        (with("parameters", big), "tools[1].function.parameters", "invalid_value"),
        (with("foo", json!(1)), "tools[1].function.foo", "unknown_parameter"),
        (beside("foo", json!(1)), "tools[0].foo", "unknown_parameter"),
        (beside("strict", json!(true)), "tools[0].strict", "invalid_value"),
        (beside("strict", json!("yes")), "tools[0].strict", "invalid_type"),
        (json!({"parallel_tool_calls": 1}), "parallel_tool_calls", "invalid_type"),
    ] {
        let error = of(&body).unwrap_err().to_json();
        assert_eq!(
            (&error["error"]["param"], &error["error"]["code"]),
            (&json!(param), &json!(code)),
            "{body}"
        );
    }
}

#[test]
fn what_is_wrong_with_a_choice_is_named() {
    let allowed = |mode: &str, tools: Value| json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}});
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    for (choice, param, code) in [
        (json!(1), "tool_choice", "invalid_type"),
        (json!("any"), "tool_choice", "invalid_value"),
        (named("h"), "tool_choice.function.name", "invalid_value"),
        (json!({"type": "function"}), "tool_choice.function", "missing_required_parameter"),
        (
            json!({"type": "function", "function": {}}),
            "tool_choice.function.name",
            "missing_required_parameter",
        ),
        (json!({"function": {"name": "f"}}), "tool_choice.type", "missing_required_parameter"),
        (json!({"type": "custom"}), "tool_choice.type", "unsupported_parameter"),
        (json!({"type": "allowed_tools"}), "tool_choice.allowed_tools", "missing_required_parameter"),
        (allowed("auto", json!([])), "tool_choice.allowed_tools.tools", "invalid_value"),
        (
            allowed("auto", json!([named("h")])),
            "tool_choice.allowed_tools.tools[0].function.name",
            "invalid_value",
        ),
        (allowed("all", json!([named("f")])), "tool_choice.allowed_tools.mode", "invalid_value"),
        (
            json!({"type": "function", "function": {"name": "f"}, "name": "f"}),
            "tool_choice.name",
            "unknown_parameter",
        ),
        (
            json!({"type": "function", "function": {"name": "f", "strict": true}}),
            "tool_choice.function.strict",
            "unknown_parameter",
        ),
        (
            json!({"type": "allowed_tools", "mode": "auto", "allowed_tools": {"mode": "auto", "tools": [named("f")]}}),
            "tool_choice.mode",
            "unknown_parameter",
        ),
        (
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named("f")], "foo": 1}}),
            "tool_choice.allowed_tools.foo",
            "unknown_parameter",
        ),
        (
            allowed("auto", json!([{"type": "function", "function": {"name": "f"}, "foo": 1}])),
            "tool_choice.allowed_tools.tools[0].foo",
            "unknown_parameter",
        ),
        (
            allowed("auto", json!([{"type": "custom", "function": {"name": "f"}}])),
            "tool_choice.allowed_tools.tools[0].type",
            "unsupported_parameter",
        ),
        (
            allowed("required", json!([named("h")])),
            "tool_choice.allowed_tools.tools[0].function.name",
            "invalid_value",
        ),
    ] {
        let error = of(&json!({"tools": [function("f")], "tool_choice": choice})).unwrap_err().to_json();
        assert_eq!(
            (&error["error"]["param"], &error["error"]["code"]),
            (&json!(param), &json!(code)),
            "{choice}"
        );
    }
    let error = of(&json!({"tool_choice": "required"})).unwrap_err();
    assert_eq!(error.to_string(), "invalid value for 'tool_choice': it is allowed only with tools");
}

#[test]
fn a_choice_that_has_to_call_holds_the_answer_to_calls() {
    let tools = json!([function("f"), function("g-1")]);
    let named = json!({"type": "function", "function": {"name": "g-1"}});
    let allowed = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}});
    for (choice, parallel, callable, calls) in [
        (json!("required"), true, vec!["f", "g-1"], CallLimit::Any),
        (json!("required"), false, vec!["f", "g-1"], CallLimit::One),
        (allowed, true, vec!["g-1"], CallLimit::Any),
        // One tool by its name is one call.
        (named, true, vec!["g-1"], CallLimit::One),
    ] {
        let body = json!({"tools": tools, "tool_choice": choice, "parallel_tool_calls": parallel});
        let toolbox = of(&body).unwrap();
        assert_eq!((names(&toolbox), toolbox.calls), (callable.clone(), calls), "{choice}");
        assert_eq!(toolbox.definitions.len(), 2, "{choice}");
        // Quoted once in JSON, once more in Lark, and as Rust shows it.
        let grammar = format!("{:?}", toolbox.format.expect("it is forced")).replace('\\', "");
        let is_there = |name: &str| grammar.contains(&format!("{{\"name\": \"{name}\""));
        for name in ["f", "g-1"] {
            assert_eq!(is_there(name), callable.contains(&name), "{grammar}");
        }
    }
    assert_eq!(of(&json!({"tools": tools})).unwrap().format, None);
}

#[test]
fn a_strict_schema_holds_the_calls_of_a_free_answer_where_they_begin_with_a_marker() {
    let tool = |strict: bool| json!({"type": "function", "function": {"name": "f", "strict": strict}});
    let tokenizer = model_card(64).unwrap().tokenizer;
    for (format, tools, is_held) in [
        ("hermes", json!([tool(true), function("g")]), true),
        ("hermes", json!([tool(false), function("g")]), false),
        ("llama3", json!([tool(true)]), false),
        ("harmony", json!([tool(true)]), false),
    ] {
        let output = OutputSyntax::choose(format, "none", None, &tokenizer).unwrap();
        let read = read(&mut Fields::of(json!({ "tools": tools }), "body").unwrap(), &output, None).unwrap();
        assert_eq!(read.format.is_some(), is_held, "{format}: {tools}");
    }
}

#[test]
fn a_format_leaves_room_for_calls_where_they_are_told_from_it() {
    let tokenizer = model_card(64).unwrap().tokenizer;
    let json = || Format::new("response_format", Grammar::json_object(), None);
    let text = || Format::new("guided_regex", Grammar::regex("[a-z]+").unwrap(), None);
    let tools = json!([function("f")]);
    let other = || {
        let schema = json!({"type": "object", "properties": {"a": {}}, "required": ["a"]});
        Format::new("response_format", Grammar::json_schema(schema).unwrap(), None)
    };
    let (start, marked) = (Some(CallPlace::Start), Some(CallPlace::MarkedStart));
    for (format, asked, tools, choice, place) in [
        ("hermes", json(), &tools, "auto", marked),
        ("qwen3_coder", json(), &tools, "auto", marked),
        ("hermes", json(), &tools, "none", None),
        ("hermes", json(), &json!([]), "auto", None),
        ("hermes", text(), &tools, "auto", None),
        // Any object may look like a call without a marker.
        ("llama3", json(), &tools, "auto", marked),
        ("llama3", other(), &tools, "auto", start),
        ("pythonic", json(), &tools, "auto", start),
        ("firefunction", json(), &tools, "auto", marked),
        // Its vocabulary has none of the tokens around messages.
        ("harmony", json(), &tools, "auto", None),
    ] {
        let output = OutputSyntax::choose(format, "none", None, &tokenizer).unwrap();
        let body = json!({"tools": tools, "tool_choice": choice});
        let read = read(&mut Fields::of(body, "body").unwrap(), &output, Some(asked.clone())).unwrap();
        let case = format!("{format}, {asked:?}, {tools}, {choice}");
        let held = read.format.as_ref().expect("it is held to the format at least");
        assert_eq!(*held != asked, place.is_some(), "{case}");
        assert_eq!(read.place, place.unwrap_or_default(), "{case}");
        // In an answer that holds no calls, none are looked for.
        assert_eq!(!read.callable.is_empty(), place.is_some(), "{case}");
    }
}

#[test]
fn a_schema_that_has_to_be_enforced_and_cannot_be_is_refused() {
    let qwen = OutputSyntax::choose("qwen3_coder", "none", None, &model_card(64).unwrap().tokenizer).unwrap();
    let hermes = calling_card(64).unwrap().output;
    let elsewhere = json!({"type": "object", "properties": {"a": {"$ref": "http://x/y"}}});
    let pattern = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^x$"}}});
    let unwritable = json!({"type": "object", "properties": {"a>b": {"type": "boolean"}}});
    let named_so = json!({"type": "object", "properties": {"pattern": {"type": "string"}}});
    for (output, schema, strict, param) in [
        (&hermes, &elsewhere, true, Some("tools[0].function.parameters")),
        (&hermes, &elsewhere, false, None),
        (&hermes, &pattern, true, None),
        (&qwen, &pattern, true, Some("tools[0].function.strict")),
        (&qwen, &pattern, false, None),
        (&qwen, &named_so, true, None),
        (&qwen, &unwritable, true, Some("tools[0].function.strict")),
        (&hermes, &unwritable, true, None),
    ] {
        let function = json!({"name": "f", "strict": strict, "parameters": schema});
        let body = json!({"tools": [{"type": "function", "function": function}], "tool_choice": "required"});
        let read = read(&mut Fields::of(body, "body").unwrap(), output, None);
        let refused = read.err().map(|error| error.to_json()["error"]["param"].clone());
        assert_eq!(refused, param.map(Value::from), "{schema}");
    }
}

#[test]
fn a_model_that_calls_no_tools_takes_none() {
    let card = model_card(64).unwrap();
    let of = |choice: &str| {
        let body = json!({"tools": [function("f")], "tool_choice": choice});
        read(&mut Fields::of(body, "body").unwrap(), &card.output, None)
    };
    assert_eq!(of("none"), Ok(Toolbox::default()));
    for choice in ["auto", "required"] {
        let error = of(choice).unwrap_err().to_json();
        assert_eq!(
            (&error["error"]["param"], &error["error"]["code"]),
            (&json!("tools"), &json!("unsupported_parameter"))
        );
    }
}
