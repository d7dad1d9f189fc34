//! `POST /v1/messages`: Anthropic's API, whole and streamed, and its errors.

use std::net::TcpStream;

use serde_json::{Value, json};

use crate::clients::passes;
use crate::support::{CAPITAL, Client, Response, Server, chat, with};

const PATH: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";

fn ask(model: &str, question: &str, max_tokens: u32) -> Value {
    json!({
        "model": model,
        "max_tokens": max_tokens,
        "temperature": 0,
        "messages": [{"role": "user", "content": question}],
    })
}

fn model(server: &Server) -> String {
    server.client.get("/v1/models").json()["data"][0]["id"].as_str().unwrap().to_owned()
}

fn message(response: Response) -> Value {
    let (status, document) = (response.status, response.json());
    assert_eq!(status, 200, "{document}");
    document
}

/// The message that a stream's events add up to.
fn streamed(client: &Client, request: &Value) -> Value {
    let events: Vec<Value> =
        client.post(PATH, &with(request.clone(), json!({"stream": true}))).named_events().collect();
    let [start, middle @ .., delta, stop] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&start["type"], &stop["type"]), (&json!("message_start"), &json!("message_stop")));
    let mut message = start["message"].clone();
    for event in middle {
        let index = event["index"].as_u64().unwrap() as usize;
        let content = message["content"].as_array_mut().unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(index, content.len(), "{events:?}");
                content.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                let text = content[index]["text"].as_str().unwrap().to_owned();
                content[index]["text"] = (text + event["delta"]["text"].as_str().unwrap()).into();
            }
            "content_block_stop" => assert_eq!(index + 1, content.len(), "{events:?}"),
            other => panic!("{other} in {events:?}"),
        }
    }
    for name in ["stop_reason", "stop_sequence"] {
        message[name] = delta["delta"][name].clone();
    }
    message["usage"] = delta["usage"].clone();
    message
}

/// Without its id, and with the tokens of its prompt in one number: what of them was cached depends on who asked before.
fn essence(mut message: Value) -> Value {
    let id = message.as_object_mut().unwrap().remove("id").unwrap();
    assert!(id.as_str().unwrap().starts_with("msg_"));
    let usage = &mut message["usage"];
    let count = |name: &str| usage[name].as_u64().expect(name);
    usage["input_tokens"] = (count("input_tokens") + count("cache_read_input_tokens")).into();
    usage["cache_read_input_tokens"] = 0.into();
    message
}

#[test]
fn a_message_is_what_chat_says_and_a_stream_adds_up_to_it() {
    let server = Server::start(&[]);
    let (client, model) = (server.client, model(&server));
    for (question, max_tokens, more, reason, sequence) in [
        (CAPITAL, 32, json!({}), "end_turn", None),
        (CAPITAL, 3, json!({}), "max_tokens", None),
        (
            CAPITAL,
            32,
            json!({"stop_sequences": ["nowhere", " of France"]}),
            "stop_sequence",
            Some(" of France"),
        ),
        ("Repeat: 😀 日本語", 24, json!({"system": "Be brief.", "top_k": 5}), "end_turn", None),
    ] {
        let request = with(ask(&model, question, max_tokens), more);
        let whole = essence(message(client.post(PATH, &request)));
        assert_eq!(essence(streamed(&client, &request)), whole, "{question}");
        let ended = whole["stop_reason"].as_str().unwrap();
        assert!(ended == reason || (reason == "end_turn" && ended == "max_tokens"), "{whole}");
        assert_eq!(whole["stop_sequence"].as_str(), sequence);
        assert_eq!(
            client.post(COUNT, &without_length(&request)).json()["input_tokens"],
            whole["usage"]["input_tokens"]
        );

        let mut messages = vec![json!({"role": "user", "content": question})];
        if let Some(system) = request.get("system") {
            messages.insert(0, json!({"role": "system", "content": system}));
        }
        let of_chat = json!({"messages": messages, "stop": request.get("stop_sequences"), "top_k": request.get("top_k")});
        let answer = client.chat(&with(chat("", max_tokens), of_chat));
        assert_eq!(whole["content"], json!([{"type": "text", "text": answer.text()}]), "{question}");
        assert_eq!(whole["usage"]["input_tokens"], answer.usage["prompt_tokens"]);
        assert_eq!(whole["usage"]["output_tokens"], answer.usage["completion_tokens"]);
    }
}

fn without_length(request: &Value) -> Value {
    let mut request = request.clone();
    for name in ["max_tokens", "temperature", "stop_sequences", "top_k"] {
        request.as_object_mut().unwrap().remove(name);
    }
    request
}

#[test]
fn a_last_message_of_the_assistant_s_is_continued() {
    let server = Server::start(&[]);
    let (client, model) = (server.client, model(&server));
    let whole = message(client.post(PATH, &ask(&model, CAPITAL, 32)));
    let text = whole["content"][0]["text"].as_str().unwrap();
    let (begin, rest) = text.split_at(text.find(" of").unwrap());
    let prefill = json!([{"role": "user", "content": CAPITAL}, {"role": "assistant", "content": begin}]);
    let continued = message(client.post(PATH, &with(ask(&model, CAPITAL, 32), json!({"messages": prefill}))));
    assert_eq!(continued["content"][0]["text"], rest);
}

#[test]
fn what_the_cache_held_is_told_apart() {
    let server = Server::start(&[]);
    let (client, model) = (server.client, model(&server));
    let request = ask(&model, &"The quick brown fox jumps over the lazy dog. ".repeat(20), 2);
    let usages = [(); 2].map(|()| message(client.post(PATH, &request))["usage"].take());
    let count = |usage: &Value, name: &str| usage[name].as_u64().expect(name);
    assert_eq!(count(&usages[0], "cache_read_input_tokens"), 0);
    let (input, cached) = (count(&usages[1], "input_tokens"), count(&usages[1], "cache_read_input_tokens"));
    assert!(cached > 100, "{usages:?}");
    assert_eq!(input + cached, count(&usages[0], "input_tokens"));
}

#[test]
fn errors_have_anthropics_shape_on_these_paths_and_openais_on_others() {
    let server = Server::start(&["--max-model-len", "256", "--max-body-bytes", "16KiB"]);
    let (client, model) = (server.client, model(&server));
    let with_content = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    for (more, status, kind, named) in [
        (json!({"model": "nobody"}), 404, "not_found_error", "nobody"),
        (json!({"max_tokens": null}), 400, "invalid_request_error", "'max_tokens'"),
        (json!({"max_tokens": 0}), 400, "invalid_request_error", "'max_tokens'"),
        (json!({"max_tokens": 300}), 400, "invalid_request_error", "maximum context length is 256"),
        (json!({"temperature": 1.1}), 400, "invalid_request_error", "'temperature'"),
        (json!({"stop_sequences": [""]}), 400, "invalid_request_error", "'stop_sequences'"),
        (json!({"stop_sequences": [1]}), 400, "invalid_request_error", "'stop_sequences[0]'"),
        (json!({"metadata": {"user_id": 1}}), 400, "invalid_request_error", "'metadata.user_id'"),
        (with_content(json!([{"type": "image"}])), 400, "invalid_request_error", "'messages[0].content[0]'"),
        (with_content(json!("x".repeat(20_000))), 413, "request_too_large", "16384 bytes"),
        (json!({"frobnicate": 1}), 400, "invalid_request_error", "frobnicate"),
    ] {
        let request = with(ask(&model, CAPITAL, 8), more.clone());
        for request in [request.clone(), with(request, json!({"stream": true}))] {
            assert_error(client.post(PATH, &request), status, kind, named);
        }
    }
    assert_error(client.send("POST", PATH, b"{"), 400, "invalid_request_error", "JSON");
    assert_error(client.send("POST", COUNT, b"{}"), 400, "invalid_request_error", "'model'");
    assert_error(client.get(PATH), 400, "invalid_request_error", "POST");
    assert_error(client.get("/v1/messages/batches"), 404, "not_found_error", "/v1/messages/batches");
    let openais = client.post("/v1/chat/completions", &json!({"messages": []})).json();
    assert_eq!(openais["error"]["param"], "messages");
    server.until_idle();
}

#[track_caller]
fn assert_error(response: Response, status: u16, kind: &str, named: &str) {
    let found = response.status;
    let id = response.header("request-id").expect("its id").to_owned();
    assert_eq!(response.header("content-type"), Some("application/json"));
    let body = response.json();
    // A method that a path does not take keeps its own status.
    assert!(found == status || found == 405, "{found}: {body}");
    assert_eq!((&body["type"], &body["error"]["type"]), (&json!("error"), &json!(kind)), "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains(named), "{body} does not name {named}");
    assert_eq!(body["request_id"], id);
}

#[test]
fn a_key_is_taken_from_either_header() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("troupe.toml");
    // `printf %s ann-key | sha256sum`
    let digest = "21fdbeecb49c56644f6cc4444328f5da14132c8a38fd86aad19b4da9e521a79c";
    std::fs::write(&file, format!("[[tenants]]\nname = \"ann\"\napi_keys_sha256 = [\"{digest}\"]\n"))
        .unwrap();
    let server = Server::start(&["--config", file.to_str().unwrap()]);
    let body = ask("SmolLM2-135M-Instruct.Q4_1", CAPITAL, 2).to_string();
    let sent = |headers: &str| {
        let socket = TcpStream::connect(server.client.address).unwrap();
        Client::write_with(&socket, ("POST", PATH), headers, body.as_bytes());
        Response::read(socket).unwrap()
    };
    for headers in [
        "x-api-key: ann-key\r\nanthropic-version: 2023-06-01\r\nanthropic-beta: prompt-caching-2024-07-31\r\n",
        "authorization: Bearer ann-key\r\n",
    ] {
        message(sent(headers));
    }
    for headers in ["", "x-api-key: nobody's\r\n"] {
        assert_error(sent(headers), 401, "authentication_error", "API key");
    }
}

#[test]
fn the_anthropic_package_runs_its_flows() {
    passes("messages_client.py", 6);
}
