//! Requests that cannot be served: each gets its status and the name of what is wrong, at no cost to anybody else.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use serde_json::{Value, json};

use crate::support::{Answer, CAPITAL, Response, Server, chat, streamed, with};

/// What is expected of a refusal: status, `param`, `code`.
type Refusal = (u16, Option<&'static str>, Option<&'static str>);

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

#[test]
fn a_table_of_bad_requests_does_not_cost_a_neighbour_a_token() {
    let server = Server::start(&["--max-model-len", "4096", "--max-body-bytes", "64KiB"]);
    let client = server.client;
    let long = |tokens| with(streamed(chat("Tell me a long story.", tokens)), json!({"ignore_eos": true}));
    let expected = client.chat(&long(200));
    let capital = client.chat(&chat(CAPITAL, 32));

    // It runs until it is left, however long the table takes.
    let mut neighbour = client.post(CHAT, &long(4000)).events();
    let mut answer = Answer::default();
    answer.add_chunk(&neighbour.data());
    for (body, refusal) in bodies() {
        assert_refused(client.send("POST", CHAT, &body), refusal, &String::from_utf8_lossy(&body));
    }
    for (path, fields, refusal) in fields() {
        let base = if path == CHAT { chat(CAPITAL, 8) } else { json!({"prompt": "one", "max_tokens": 8}) };
        assert_refused(client.post(path, &with(base, fields.clone())), refusal, &fields.to_string());
    }
    for (method, path, refusal) in places() {
        assert_refused(client.send(method, path, b""), refusal, path);
    }
    assert_eq!(server.status().running, 1, "the neighbour was served all the time");
    answer.follow_to(neighbour, expected.text());
    assert_eq!(client.chat(&chat(CAPITAL, 32)), capital);
    assert_eq!(server.until_idle().waiting, 0);
}

#[track_caller]
fn assert_refused(response: Response, (status, param, code): Refusal, what: &str) {
    let found = response.status;
    assert_eq!(response.header("content-type"), Some("application/json"), "{what}");
    assert!(response.header("x-request-id").is_some(), "{what}");
    let error = response.json()["error"].take();
    assert_eq!(found, status, "{what}: {error}");
    assert_eq!((error["param"].as_str(), error["code"].as_str()), (param, code), "{what}: {error}");
    let message = error["message"].as_str().unwrap();
    assert!(param.is_none_or(|param| message.contains(param)), "{what}: {message:?} does not name {param:?}");
    assert!(!message.is_empty() && !message.contains("panicked"), "{what}: {message}");
    let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
    assert_eq!(error["type"], kind, "{what}");
}

/// Bodies that are no request at all.
fn bodies() -> Vec<(Vec<u8>, Refusal)> {
    let plain = |body: &str| body.as_bytes().to_vec();
    vec![
        // C013, C033, C015.
        (plain(""), (400, None, None)),
        (plain("{\"messages\": ["), (400, None, None)),
        (plain("{\"messages\": [], }"), (400, None, None)),
        (plain("{\"temperature\": NaN}"), (400, None, None)),
        (plain("{\"temperature\": 1e999}"), (400, None, None)),
        (
            b"{\"messages\": [{\"role\": \"user\", \"content\": \"\xc4\xe3\xba\xc3\"}]}".to_vec(),
            (400, None, None),
        ),
        (plain("[]"), (400, Some("body"), Some("invalid_type"))),
        (plain("{}"), (400, Some("messages"), Some("missing_required_parameter"))),
        ("[".repeat(60_000).into_bytes(), (400, None, None)),
        // C096.
        (vec![b' '; 65_537], (413, None, Some("body_too_large"))),
    ]
}

/// Fields that replace those of a good request.
fn fields() -> Vec<(&'static str, Value, Refusal)> {
    let invalid = |param| (400, Some(param), Some("invalid_value"));
    let wrong_type = |param| (400, Some(param), Some("invalid_type"));
    let unsupported = |param| (400, Some(param), Some("unsupported_parameter"));
    let user = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    vec![
        (CHAT, json!({"model": "nobody"}), (404, Some("model"), Some("model_not_found"))),
        (CHAT, json!({"model": 7}), wrong_type("model")),
        (CHAT, json!({"messages": []}), invalid("messages")),
        (CHAT, json!({"messages": "hello"}), wrong_type("messages")),
        (CHAT, json!({"messages": [1]}), wrong_type("messages[0]")),
        (CHAT, json!({"messages": [{"role": "nobody", "content": "x"}]}), invalid("messages[0].role")),
        (CHAT, user(json!(1)), wrong_type("messages[0].content")),
        (CHAT, user(json!([{"type": "image_url"}])), unsupported("messages[0].content[0]")),
        // A prompt that is longer than the context, alone and together with what is asked for.
        (CHAT, user(json!("fox ".repeat(5000))), (400, Some("messages"), Some("context_length_exceeded"))),
        (CHAT, json!({"max_tokens": 4096}), (400, Some("messages"), Some("context_length_exceeded"))),
        (TEXT, json!({"prompt": vec![1; 4096]}), (400, Some("prompt"), Some("context_length_exceeded"))),
        // Wrong types, and numbers out of range.
        (CHAT, json!({"temperature": -1}), invalid("temperature")),
        (CHAT, json!({"temperature": "1"}), wrong_type("temperature")),
        (CHAT, json!({"temperature": 1e300}), invalid("temperature")),
        (CHAT, json!({"top_p": 1.5}), invalid("top_p")),
        (CHAT, json!({"top_p": -0.5}), invalid("top_p")),
        (CHAT, json!({"min_p": 2}), invalid("min_p")),
        (CHAT, json!({"top_k": -2}), invalid("top_k")),
        (CHAT, json!({"presence_penalty": 100}), invalid("presence_penalty")),
        (CHAT, json!({"repetition_penalty": 0}), invalid("repetition_penalty")),
        (CHAT, json!({"max_tokens": 0}), invalid("max_tokens")),
        (CHAT, json!({"max_tokens": -1}), invalid("max_tokens")),
        (CHAT, json!({"max_tokens": 1.5}), wrong_type("max_tokens")),
        (CHAT, json!({"max_tokens": 1_u64 << 40}), invalid("max_tokens")),
        (CHAT, json!({"n": 0}), invalid("n")),
        (CHAT, json!({"n": 100_000}), invalid("n")),
        (CHAT, json!({"seed": 0.5}), wrong_type("seed")),
        (CHAT, json!({"stop": [1]}), wrong_type("stop[0]")),
        (CHAT, json!({"stream": "yes"}), wrong_type("stream")),
        // C053.
        (CHAT, json!({"stream_options": {"include_usage": true}}), invalid("stream_options")),
        // C091, C093.
        (CHAT, json!({"logit_bias": {"49152": 1}}), invalid("logit_bias")),
        (CHAT, json!({"logit_bias": {"x": 1}}), invalid("logit_bias")),
        (CHAT, json!({"logprobs": true, "top_logprobs": 25}), invalid("top_logprobs")),
        (CHAT, json!({"top_logprobs": 2}), invalid("top_logprobs")),
        // C015: OpenAI's two APIs spell it differently.
        (CHAT, json!({"logprobs": 3}), wrong_type("logprobs")),
        (TEXT, json!({"logprobs": true}), wrong_type("logprobs")),
        // C023, C106, C108, C111: refused by name, never ignored.
        (TEXT, json!({"n": 2, "best_of": 1}), invalid("best_of")),
        (TEXT, json!({"suffix": "x"}), unsupported("suffix")),
        (CHAT, json!({"response_format": {"type": "xml"}}), invalid("response_format.type")),
        (CHAT, json!({"structured_outputs": {"json": ""}}), invalid("structured_outputs.json")),
        (CHAT, json!({"guided_regex": "["}), invalid("guided_regex")),
        (
            CHAT,
            json!({"tools": [{"type": "function"}]}),
            (400, Some("tools[0].function"), Some("missing_required_parameter")),
        ),
        (CHAT, json!({"xtc_probability": 2}), invalid("xtc_probability")),
        (CHAT, json!({"temprature": 1}), (400, Some("temprature"), Some("unknown_parameter"))),
        // C005: a stream that never began is a plain refusal.
        (CHAT, json!({"stream": true, "temperature": -1}), invalid("temperature")),
        // C088.
        (TEXT, json!({"prompt": ""}), invalid("prompt")),
        (TEXT, json!({"prompt": [""]}), invalid("prompt")),
        (TEXT, json!({"prompt": []}), invalid("prompt")),
        (TEXT, json!({"prompt": [[]]}), invalid("prompt")),
        (TEXT, json!({"prompt": null}), (400, Some("prompt"), Some("missing_required_parameter"))),
        (TEXT, json!({"prompt": [49152]}), invalid("prompt[0]")),
        (TEXT, json!({"prompt": [1, "x"]}), wrong_type("prompt[1]")),
    ]
}

/// Methods and paths.
fn places() -> Vec<(&'static str, &'static str, Refusal)> {
    vec![
        ("GET", CHAT, (405, None, None)),
        ("DELETE", "/v1/models", (405, None, None)),
        ("POST", "/ready", (405, None, None)),
        ("GET", "/", (404, None, Some("unknown_url"))),
        ("POST", "/v1/nowhere", (404, None, Some("unknown_url"))),
        ("GET", "/v1/models/nobody", (404, Some("model"), Some("model_not_found"))),
        ("GET", "/v1/models/..%2f..%2fetc", (404, Some("model"), Some("model_not_found"))),
    ]
}

#[test]
fn c096_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent() {
    let server = Server::start(&["--max-body-bytes", "1MiB"]);
    let mut socket = TcpStream::connect(server.client.address).unwrap();
    socket.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000000\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let refused = Response::read(socket).unwrap();
    assert_refused(refused, (413, None, Some("body_too_large")), "a length of a terabyte");

    // One that does not say so is refused once it is.
    let socket = TcpStream::connect(server.client.address).unwrap();
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(1 << 16));
    let mut writer = socket.try_clone().unwrap();
    writer.set_write_timeout(Some(crate::support::PATIENCE)).unwrap();
    writer.write_all(head.as_bytes()).unwrap();
    // An error means that the server has refused it and closed its end already.
    let _ = (0..17).try_for_each(|_| writer.write_all(chunk.as_bytes()));
    let refused = Response::read(socket).unwrap();
    assert_refused(refused, (413, None, Some("body_too_large")), "seventeen chunks of 64 KiB");
    assert!(server.client.chat(&chat(CAPITAL, 32)).text().contains("Paris"));
}

#[test]
fn what_is_not_http_and_what_breaks_off_harms_nobody() {
    let server = Server::start(&[]);
    let half = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{\"messages\"");
    for bytes in
        [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[..], b"GET", &[0; 100], b"\r\n\r\n", half.as_bytes()]
    {
        let mut socket = TcpStream::connect(server.client.address).unwrap();
        socket.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
        socket.write_all(bytes).unwrap();
        // An error means that the server has closed its end already.
        let _ = socket.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        // The server may say something or just close; it does not wait for more.
        let _ = socket.read_to_end(&mut answer);
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
            "{:?}",
            answer.escape_ascii().to_string()
        );
    }
    assert!(server.client.chat(&chat(CAPITAL, 32)).text().contains("Paris"));
    let status = server.until_idle();
    assert_eq!(status.waiting, 0);
}
