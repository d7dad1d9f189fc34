//! `POST /v1/responses` and what is kept of it.

use std::path::Path;

use serde_json::{Value, json};

use crate::clients::passes;
use crate::support::{CAPITAL, Client, Response, Server, chat, with};

const PATH: &str = "/v1/responses";

fn ask(input: impl Into<Value>, max_tokens: u32) -> Value {
    json!({"input": input.into(), "max_output_tokens": max_tokens, "temperature": 0})
}

fn ok(response: Response) -> Value {
    let (status, document) = (response.status, response.json());
    assert_eq!(status, 200, "{document}");
    document
}

fn respond(client: &Client, request: &Value) -> Value {
    ok(client.post(PATH, request))
}

fn text(response: &Value) -> &str {
    response["output"][0]["content"][0]["text"].as_str().unwrap()
}

fn id(response: &Value) -> &str {
    response["id"].as_str().unwrap()
}

fn stream(request: &Value) -> Value {
    with(request.clone(), json!({"stream": true}))
}

#[track_caller]
fn assert_refused(response: Response, status: u16, param: Option<&str>, code: &str) {
    let found = response.status;
    let body = response.json();
    assert_eq!(found, status, "{body}");
    assert_eq!(
        (body["error"]["param"].as_str(), body["error"]["code"].as_str()),
        (param, Some(code)),
        "{body}"
    );
}

/// Without ids, times and what the cache held.
fn essence(mut response: Value) -> Value {
    for name in ["id", "created_at"] {
        response.as_object_mut().unwrap().remove(name).expect(name);
    }
    for item in response["output"].as_array_mut().unwrap() {
        item.as_object_mut().unwrap().remove("id").unwrap();
    }
    response["usage"]["input_tokens_details"].take();
    response
}

#[test]
fn a_response_is_what_chat_says_and_a_stream_adds_up_to_it() {
    let server = Server::start(&[]);
    let client = server.client;
    let logprobs = json!({"include": ["message.output_text.logprobs"], "top_logprobs": 2});
    for (input, max_tokens, more, status) in [
        (json!(CAPITAL), 32, json!({}), "completed"),
        (json!(CAPITAL), 3, logprobs, "incomplete"),
        (
            json!([{"role": "user", "content": [{"type": "input_text", "text": CAPITAL}]}]),
            32,
            json!({}),
            "completed",
        ),
        (json!("Repeat: 😀 日本語"), 4, json!({"instructions": "Be brief.", "store": false}), "incomplete"),
    ] {
        let request = with(ask(input.clone(), max_tokens), more.clone());
        let whole = respond(&client, &request);
        assert_eq!((&whole["status"], &whole["object"]), (&json!(status), &json!("response")));
        let events: Vec<Value> = client.post(PATH, &stream(&request)).named_events().collect();
        let numbers: Vec<u64> =
            events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
        let last = events.last().unwrap();
        assert_eq!(last["type"], format!("response.{status}"));
        assert_eq!(essence(last["response"].clone()), essence(whole.clone()), "{input}");
        let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
        let (deltas, tokens): (Vec<_>, Vec<_>) = deltas
            .map(|event| (event["delta"].as_str().unwrap(), event["logprobs"].as_array().unwrap()))
            .unzip();
        assert_eq!(deltas.concat(), text(&whole));
        let part = &whole["output"][0]["content"][0];
        assert_eq!(&tokens.into_iter().flatten().cloned().collect::<Value>(), &part["logprobs"]);
        let expected = if more.get("include").is_some() { 3 } else { 0 };
        assert_eq!(part["logprobs"].as_array().unwrap().len(), expected);

        let question = if input.is_string() { input.as_str().unwrap() } else { CAPITAL };
        let mut messages = vec![json!({"role": "user", "content": question})];
        if let Some(instructions) = more.get("instructions") {
            messages.insert(0, json!({"role": "system", "content": instructions}));
        }
        let answer = client.chat(&with(chat("", max_tokens), json!({"messages": messages})));
        assert_eq!(text(&whole), answer.text());
        assert_eq!(whole["usage"]["total_tokens"], answer.usage["total_tokens"]);
        let count = client.post("/v1/responses/input_tokens", &request).json();
        assert_eq!(count["input_tokens"], answer.usage["prompt_tokens"]);
    }
}

#[test]
fn a_conversation_goes_on_from_what_is_kept() {
    let server = Server::start(&[]);
    let client = server.client;
    let first = respond(&client, &with(ask(CAPITAL, 32), json!({"instructions": "Be brief."})));
    let question = "And of Italy?";
    let more = json!({"previous_response_id": id(&first), "instructions": "Be kind."});
    let second = respond(&client, &with(ask(question, 16), more));
    assert_eq!(second["previous_response_id"], first["id"]);

    // The same conversation, said whole: instructions are not handed on.
    let messages = json!([
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": CAPITAL},
        {"role": "assistant", "content": text(&first)},
        {"role": "user", "content": question},
    ]);
    let answer = client.chat(&with(chat("", 16), json!({"messages": messages})));
    assert_eq!(text(&second), answer.text());
    assert_eq!(second["usage"]["input_tokens"], answer.usage["prompt_tokens"]);
    // And with its first answer by reference.
    let items = json!([
        {"role": "user", "content": CAPITAL},
        {"type": "item_reference", "id": first["output"][0]["id"]},
        {"role": "user", "content": question},
    ]);
    let referred = respond(&client, &with(ask(items, 16), json!({"instructions": "Be kind."})));
    assert_eq!(text(&referred), text(&second));

    let path = format!("{PATH}/{}", id(&second));
    let listed = ok(client.get(&format!("{path}/input_items?order=asc")));
    let texts: Vec<&str> = listed["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, [CAPITAL, text(&first), question]);
    let page = ok(client.get(&format!("{path}/input_items?limit=1")));
    assert_eq!((&page["data"][0], &page["has_more"]), (&listed["data"][2], &json!(true)));

    // A conversation whose beginning is gone cannot be gone on with.
    assert_eq!(ok(client.send("DELETE", &format!("{PATH}/{}", id(&first)), b""))["deleted"], true);
    let gone = with(ask("x", 2), json!({"previous_response_id": id(&second)}));
    let refused = client.post(PATH, &gone);
    assert_refused(refused, 400, Some("previous_response_id"), "previous_response_not_found");
}

#[test]
fn what_is_kept_survives_a_restart_and_what_is_deleted_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("kept");
    let flags = ["--responses-dir", dir.to_str().unwrap()];
    let server = Server::start(&flags);
    let kept = respond(&server.client, &with(ask(CAPITAL, 32), json!({"metadata": {"a": "b"}})));
    let events: Vec<Value> = server.client.post(PATH, &stream(&ask(CAPITAL, 4))).named_events().collect();
    let streamed = events.last().unwrap()["response"].clone();
    let deleted = respond(&server.client, &ask(CAPITAL, 2));
    let unkept = respond(&server.client, &with(ask(CAPITAL, 2), json!({"store": false})));
    let path = |response: &Value| format!("{PATH}/{}", id(response));
    for response in [&kept, &streamed, &deleted] {
        assert_eq!(ok(server.client.get(&path(response))), *response);
    }
    assert_eq!(server.client.send("DELETE", &path(&deleted), b"").status, 200);
    // Killed, not asked to end.
    drop(server);
    assert_private(&dir);
    let server = Server::start(&flags);
    for response in [&kept, &streamed] {
        assert_eq!(ok(server.client.get(&path(response))), *response);
    }
    for response in [&deleted, &unkept] {
        for (method, path) in [
            ("GET", path(response)),
            ("DELETE", path(response)),
            ("GET", format!("{}/input_items", path(response))),
            ("POST", format!("{}/cancel", path(response))),
        ] {
            assert_refused(server.client.send(method, &path, b""), 404, None, "response_not_found");
        }
    }
    let next = with(ask("And of Italy?", 2), json!({"previous_response_id": id(&kept)}));
    assert_eq!(respond(&server.client, &next)["status"], "incomplete");
}

fn assert_private(dir: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in dir.read_dir().unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{}", entry.path().display());
    }
}

#[test]
fn a_running_response_is_cancelled_once() {
    let server = Server::start(&[]);
    let client = server.client;
    let long = with(ask("Tell me a long story.", 8000), json!({"ignore_eos": true}));
    let mut events = client.post(PATH, &stream(&long)).named_events();
    let begun = events.until("response.output_text.delta");
    let path = format!("{PATH}/{}", id(&begun[0]["response"]));
    assert_eq!(ok(client.get(&path))["status"], "in_progress");
    let cancelled = ok(client.send("POST", &format!("{path}/cancel"), b""));
    assert_eq!(cancelled["status"], "cancelled");
    let rest: Vec<Value> = events.collect();
    let last = rest.last().unwrap();
    assert_eq!((&last["type"], &last["response"]), (&json!("response.incomplete"), &cancelled));
    let deltas = begun.iter().chain(&rest).filter(|event| event["type"] == "response.output_text.delta");
    assert_eq!(deltas.map(|event| event["delta"].as_str().unwrap()).collect::<String>(), text(&cancelled));
    server.until("no sequence", |status| (status.running, status.waiting) == (0, 0));
    assert_eq!(ok(client.get(&path)), cancelled);
    let again = client.send("POST", &format!("{path}/cancel"), b"");
    assert_refused(again, 400, Some("response_id"), "invalid_value");

    // One whose client goes away is not kept.
    let mut events = client.post(PATH, &stream(&long)).named_events();
    let begun = events.until("response.output_text.delta");
    drop(events);
    server.until("no sequence", |status| (status.running, status.waiting) == (0, 0));
    let path = format!("{PATH}/{}", id(&begun[0]["response"]));
    assert_refused(client.get(&path), 404, None, "response_not_found");
}

#[test]
fn another_tenant_s_response_does_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("troupe.toml");
    // `printf %s KEY | sha256sum` of the keys `ann-key` and `bob-key`.
    let ann = "21fdbeecb49c56644f6cc4444328f5da14132c8a38fd86aad19b4da9e521a79c";
    let bob = "9b94dc1a51a38769f135edf04033ad7f2f487b6c25929be7a861cfc1ab10cf98";
    let tenant =
        |name: &str, key: &str| format!("[[tenants]]\nname = \"{name}\"\napi_keys_sha256 = [\"{key}\"]\n");
    let dir = folder.path().join("kept");
    let dir = dir.to_str().unwrap();
    let names =
        |first: &str, second: &str| std::fs::write(&file, tenant(first, ann) + &tenant(second, bob)).unwrap();
    names("ann", "bob");
    let flags = ["--config", file.to_str().unwrap(), "--responses-dir", dir];
    let server = Server::start(&flags);
    let send = |server: &Server, key: &str, method: &str, path: &str, body: &Value| {
        server.client.send_as(key, method, path, body.to_string().as_bytes())
    };
    let of_ann = ok(send(&server, "ann-key", "POST", PATH, &ask(CAPITAL, 8)));
    let path = format!("{PATH}/{}", id(&of_ann));
    let next = with(ask("x", 2), json!({"previous_response_id": id(&of_ann)}));
    let item = &of_ann["output"][0]["id"];
    let refer = ask(json!([{"type": "item_reference", "id": item}, {"role": "user", "content": "x"}]), 2);
    for (method, path) in [
        ("GET", path.clone()),
        ("DELETE", path.clone()),
        ("GET", format!("{path}/input_items")),
        ("POST", format!("{path}/cancel")),
    ] {
        let refused = send(&server, "bob-key", method, &path, &json!({}));
        assert_refused(refused, 404, None, "response_not_found");
        assert_eq!(send(&server, "nobody's", method, &path, &json!({})).status, 401);
    }
    let refused = send(&server, "bob-key", "POST", PATH, &next);
    assert_refused(refused, 400, Some("previous_response_id"), "previous_response_not_found");
    assert_refused(send(&server, "bob-key", "POST", PATH, &refer), 400, Some("input[0].id"), "invalid_value");
    for request in [&next, &refer] {
        ok(send(&server, "ann-key", "POST", PATH, request));
    }
    // A response stays its tenant's when others come before it in the file.
    drop(server);
    names("bob", "ann");
    let server = Server::start(&flags);
    let swapped = send(&server, "ann-key", "GET", &path, &json!({}));
    assert_refused(swapped, 404, None, "response_not_found");
    assert_eq!(
        ok(send(&server, "bob-key", "GET", &path, &json!({}))),
        of_ann,
        "it is the tenant's, not the key's"
    );
}

#[test]
fn a_conversation_that_is_too_long_is_refused_or_cut() {
    let server = Server::start(&["--max-model-len", "512"]);
    let client = server.client;
    let filler = "The quick brown fox jumps over the lazy dog. ".repeat(10);
    let mut items: Vec<Value> = (0..12)
        .flat_map(|_| {
            [json!({"role": "user", "content": filler}), json!({"role": "assistant", "content": "Indeed."})]
        })
        .collect();
    items.push(json!({"role": "user", "content": CAPITAL}));
    let request = with(ask(items.clone(), 32), json!({"instructions": "Be brief."}));
    assert_refused(client.post(PATH, &request), 400, Some("input"), "context_length_exceeded");
    let cut = respond(&client, &with(request.clone(), json!({"truncation": "auto"})));
    assert!(text(&cut).contains("Paris"), "{cut}");
    // As many turns as fit, and no more: the same with those turns alone.
    let fits = |turns: usize| {
        let rest = items[items.len() - 1 - 2 * turns..].to_vec();
        client.post(PATH, &with(request.clone(), json!({"input": rest})))
    };
    let turns = (0..12).rev().find(|&turns| fits(turns).status == 200).unwrap();
    assert!((1..12).contains(&turns));
    assert_eq!(cut["usage"]["input_tokens"], ok(fits(turns))["usage"]["input_tokens"]);

    let alone = with(ask(filler.repeat(10), 32), json!({"truncation": "auto"}));
    assert_refused(client.post(PATH, &alone), 400, Some("input"), "context_length_exceeded");
}

#[test]
fn what_cannot_be_served_is_named() {
    let server = Server::start(&[]);
    let client = server.client;
    for (more, status, param, code) in [
        (json!({"input": null}), 400, "input", "missing_required_parameter"),
        (json!({"model": "nobody"}), 404, "model", "model_not_found"),
        (json!({"input": [{"type": "computer_call"}]}), 400, "input[0].type", "unsupported_parameter"),
        (json!({"input": []}), 400, "input", "invalid_value"),
        (json!({"tools": [{"type": "web_search"}]}), 400, "tools[0].type", "unsupported_parameter"),
        (json!({"background": true}), 400, "background", "unsupported_parameter"),
        (json!({"max_output_tokens": 0}), 400, "max_output_tokens", "invalid_value"),
        (json!({"temperature": "hot"}), 400, "temperature", "invalid_type"),
        (json!({"frobnicate": 1}), 400, "frobnicate", "unknown_parameter"),
        (
            json!({"previous_response_id": "resp_0"}),
            400,
            "previous_response_id",
            "previous_response_not_found",
        ),
    ] {
        let request = with(ask(CAPITAL, 8), more);
        for request in [stream(&request), request] {
            assert_refused(client.post(PATH, &request), status, Some(param), code);
        }
    }
    for query in ["stream=true", "starting_after=1"] {
        let name = query.split('=').next();
        assert_refused(client.get(&format!("{PATH}/x?{query}")), 400, name, "unsupported_parameter");
    }
    assert_eq!(client.send("PUT", &format!("{PATH}/x"), b"").status, 405);
    server.until_idle();
}

#[test]
fn the_openai_package_runs_its_flows() {
    passes("responses_client.py", 6);
}
