//! Streams: their framing, and that they say what the whole answer says.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use troupe_protocol::{
    Fault, NewSequence, RateStatuses, RejectReason, SampledToken, SequenceEvent, StepId, TokenLogprobs,
};

use super::client::{Reply, TestServer, post};
use troupe_actors::testing::{says, token};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn chat(extra: &Value) -> Value {
    with(json!({"messages": [{"role": "user", "content": "hi"}]}), extra)
}

pub(super) fn with(mut body: Value, extra: &Value) -> Value {
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

pub(super) fn streamed_text(reply: &Reply) -> String {
    let events = reply.events();
    let choices = events.iter().flat_map(|event| event["choices"].as_array().unwrap());
    let texts =
        choices.filter_map(|choice| choice["text"].as_str().or_else(|| choice["delta"]["content"].as_str()));
    texts.collect()
}

#[actix_web::test]
async fn c006_c008_c010_c011_a_chat_stream_has_the_frames_that_clients_expect() {
    let server = TestServer::start(|sequence| says(sequence, "Hé!"));
    let options = json!({"stream": true, "stream_options": {"include_usage": true}});
    let reply = server.post(CHAT, &chat(&options)).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("cache-control"), Some("no-cache"));
    assert_eq!(reply.header("x-accel-buffering"), Some("no"));
    let events = reply.events();
    for event in &events {
        assert!(event["created"].is_u64() && event["created"] == events[0]["created"], "{event}");
        assert_eq!((&event["id"], &event["model"]), (&events[0]["id"], &json!("test")));
        assert_eq!(event["object"], "chat.completion.chunk");
    }
    let choices: Vec<_> = events.iter().map(|event| event["choices"].clone()).collect();
    let choice = |delta: Value, reason: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}]);
    let expected = [
        choice(json!({"role": "assistant", "content": ""}), json!(null)),
        choice(json!({"content": "H"}), json!(null)),
        choice(json!({"content": "é"}), json!(null)),
        choice(json!({"content": "!"}), json!(null)),
        choice(json!({}), json!("stop")),
        json!([]),
    ];
    assert_eq!(choices, expected);
    let (last, chunks) = events.split_last().unwrap();
    assert!(chunks.iter().all(|event| event.get("usage") == Some(&Value::Null)));
    let usage = json!({
        "prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14, "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    });
    assert_eq!(last["usage"], usage);
    let plain = server.post(CHAT, &chat(&json!({"stream": true}))).await;
    assert!(plain.events().iter().all(|event| event.get("usage").is_none()));
    server.stop().await;
}

#[actix_web::test]
async fn c025_c038_c051_a_stream_says_what_the_whole_answer_says() {
    let server = TestServer::start(|sequence| says(sequence, "  \n\nA 😀 b\t\n c. own fox. The end"));
    for extra in
        [json!({}), json!({"stop": "own fox"}), json!({"stop": ["x", "\n\n"]}), json!({"stop": "never"})]
    {
        let whole = server.post(CHAT, &chat(&extra)).await.json();
        let options = json!({"stream": true, "stream_options": {"include_usage": true}});
        let stream = server.post(CHAT, &chat(&with(extra.clone(), &options))).await;
        assert_eq!(whole["choices"][0]["message"]["content"], streamed_text(&stream), "{extra}");
        assert_eq!(whole["usage"], stream.events().last().unwrap()["usage"], "{extra}");
        assert_eq!(whole["object"], "chat.completion");
        assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    }
    server.stop().await;
}

#[actix_web::test]
async fn a_stream_over_http_1_0_ends_with_its_connection_and_has_no_chunks() {
    let server = TestServer::start(|sequence| says(sequence, "Hé!"));
    let body = chat(&json!({"stream": true})).to_string();
    for connection in ["close", "keep-alive"] {
        let head = format!(
            "POST {CHAT} HTTP/1.0\r\nconnection: {connection}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let reply = server.ask(head.into_bytes()).await;
        assert_eq!((reply.status, reply.header("transfer-encoding")), (200, None), "{reply:?}");
        assert_ne!(reply.header("connection"), Some("keep-alive"));
        assert_eq!(streamed_text(&reply), "Hé!");
    }
    server.stop().await;
}

fn fails_halfway(_: &NewSequence) -> Vec<SequenceEvent> {
    let fault = Fault::Step { step: StepId(7), message: "out of memory".to_owned() };
    vec![token(b'a'.into()), SequenceEvent::Failed(fault)]
}

#[actix_web::test]
async fn c003_c016_a_fault_is_told_and_ends_the_answer() {
    let server = TestServer::start(fails_halfway);
    let events = server.post(CHAT, &chat(&json!({"stream": true, "n": 2}))).await.events();
    let errors: Vec<_> = events.iter().filter(|event| event.get("error").is_some()).collect();
    assert_eq!(errors, [events.last().unwrap()], "{events:?}");
    assert_eq!(errors[0]["error"]["type"], "server_error");
    let whole = server.post(CHAT, &chat(&json!({}))).await;
    assert_eq!(whole.status, 500);
    assert_eq!(whole.json()["error"]["message"], "the engine failed in step-7: out of memory");
    server.stop().await;
}

#[actix_web::test]
async fn what_no_longer_fits_is_told_as_the_servers_fault() {
    fn fault() -> SequenceEvent {
        let (prompt_tokens, max_tokens) = (9, 100);
        SequenceEvent::Failed(Fault::NoLongerFits { prompt_tokens, max_tokens, max_model_len: 64 })
    }
    let message = "the engine came back with a context of 64 tokens, too small for the prompt of 9 and max_tokens of 100 \
                   that it had taken: the server's fault, not the request's";
    // Before it was taken, before anything was said, and after.
    let scripts: [(super::client::Script, bool); 3] = [
        (|_| vec![fault()], false),
        (|_| vec![SequenceEvent::Accepted(RateStatuses::default()), fault()], true),
        (|_| vec![token(b'a'.into()), fault()], true),
    ];
    for (script, is_open) in scripts {
        let server = TestServer::start(script);
        let whole = server.post(CHAT, &chat(&json!({}))).await;
        let expected = json!({"message": message, "type": "server_error", "param": null, "code": null});
        assert_eq!((whole.status, &whole.json()["error"]), (500, &expected));
        let stream = server.post(CHAT, &chat(&json!({"stream": true}))).await;
        if is_open {
            assert_eq!((stream.status, &stream.events().last().unwrap()["error"]), (200, &expected));
        } else {
            assert_eq!((stream.status, &stream.json()["error"]), (500, &expected));
        }
        server.stop().await;
    }
}

/// Takes sequences of an even seed and has no room for others.
fn takes_the_even(sequence: &NewSequence) -> Vec<SequenceEvent> {
    vec![match sequence.sampling.seed % 2 {
        0 => SequenceEvent::Accepted(RateStatuses::default()),
        _ => SequenceEvent::Rejected(RejectReason::QueueFull { limit: 4, rates: RateStatuses::default() }),
    }]
}

#[actix_web::test]
async fn a_stream_opens_when_all_its_choices_are_taken_and_a_rejection_of_the_last_is_still_a_429() {
    let mut server = TestServer::start(takes_the_even);
    let refused = server.post(CHAT, &chat(&json!({"stream": true, "n": 2, "seed": 0}))).await;
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (429, &json!("queue_full")));
    server.cancelled().await;

    // The one that is taken says nothing: head and role come all the same.
    let body = chat(&json!({"stream": true, "seed": 0})).to_string();
    let mut stream = server.send(&post(CHAT, body.as_bytes())).await;
    let mut bytes = Vec::new();
    while !bytes.windows(11).any(|window| window == b"\"assistant\"") {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "{}", String::from_utf8_lossy(&bytes));
    }
    assert!(bytes.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&bytes));
    drop(stream);
    server.cancelled().await;
    server.stop().await;
}

#[actix_web::test]
async fn c101_a_rejection_keeps_its_status_in_a_stream_too() {
    let full = |_: &NewSequence| {
        vec![SequenceEvent::Rejected(RejectReason::QueueFull { limit: 4, rates: RateStatuses::default() })]
    };
    let draining = |_: &NewSequence| vec![SequenceEvent::Rejected(RejectReason::Draining)];
    let cut_off = |_: &NewSequence| vec![SequenceEvent::Failed(Fault::Shutdown)];
    let scripts: [(super::client::Script, u16, &str); 3] =
        [(full, 429, "queue_full"), (draining, 503, "shutting_down"), (cut_off, 503, "shutting_down")];
    for (script, status, code) in scripts {
        let server = TestServer::start(script);
        for extra in [json!({}), json!({"stream": true}), json!({"n": 3})] {
            let reply = server.post(CHAT, &chat(&extra)).await;
            assert_eq!((reply.status, &reply.json()["error"]["code"]), (status, &json!(code)), "{extra}");
            assert_eq!(reply.header("retry-after").is_some(), status == 429);
        }
        server.stop().await;
    }
}

/// Says the seed's last digit: enough to tell choices and prompts apart.
fn says_prompt_and_seed(sequence: &NewSequence) -> Vec<SequenceEvent> {
    let prompt = char::from(sequence.prompt[0] as u8);
    says(sequence, &format!("{prompt}{}", sequence.sampling.seed % 10))
}

#[actix_web::test]
async fn c028_choices_are_ordered_prompt_by_prompt() {
    let server = TestServer::start(says_prompt_and_seed);
    let body = json!({"prompt": ["a", [98], "c"], "n": 2, "seed": 4});
    let body = with(json!({"prompt": ["a", "b", "c"]}), &with(body, &json!({"prompt": ["a", "b", "c"]})));
    let whole = server.post(TEXT, &body).await.json();
    let choices = whole["choices"].as_array().unwrap();
    let texts: Vec<_> = choices.iter().map(|choice| choice["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["a4", "a5", "b4", "b5", "c4", "c5"]);
    assert!(choices.iter().enumerate().all(|(index, choice)| choice["index"] == index));
    assert_eq!(whole["usage"]["prompt_tokens"], 3);
    assert_eq!(whole["usage"]["completion_tokens"], 18);
    let events = server.post(TEXT, &with(body, &json!({"stream": true}))).await.events();
    for (index, text) in texts.iter().enumerate() {
        let chunks =
            events.iter().map(|event| &event["choices"][0]).filter(|choice| choice["index"] == index);
        assert_eq!(&chunks.clone().filter_map(|choice| choice["text"].as_str()).collect::<String>(), text);
        assert_eq!(chunks.filter(|choice| !choice["finish_reason"].is_null()).count(), 1);
    }
    server.stop().await;
}

fn says_with_logprobs(sequence: &NewSequence) -> Vec<SequenceEvent> {
    let mut events = says(sequence, "aé");
    for event in &mut events {
        if let SequenceEvent::Token(SampledToken { id, logprobs }) = event {
            *logprobs =
                Some(TokenLogprobs { chosen: -0.25, top: vec![(*id, -0.25), (0xf0, -2.0), (0xf1, -3.0)] });
        }
    }
    events
}

#[actix_web::test]
async fn c068_c070_chat_logprobs_are_a_list_of_tokens() {
    let server = TestServer::start(says_with_logprobs);
    let extra = json!({"logprobs": true, "top_logprobs": 3});
    let whole = server.post(CHAT, &chat(&extra)).await.json();
    let content = whole["choices"][0]["logprobs"]["content"].clone();
    assert_eq!(content.as_array().unwrap().len(), 3);
    assert_eq!(content[0]["token"], "a");
    assert_eq!((&content[0]["bytes"], &content[0]["logprob"]), (&json!([97]), &json!(-0.25)));
    assert_eq!(content[1]["bytes"], json!([0xc3]));
    let top = content[1]["top_logprobs"].as_array().unwrap();
    assert_eq!(
        top.iter().map(|top| &top["bytes"]).collect::<Vec<_>>(),
        [&json!([0xc3]), &json!([0xf0]), &json!([0xf1])]
    );
    let events = server.post(CHAT, &chat(&with(extra, &json!({"stream": true})))).await.events();
    let streamed = events.iter().filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array());
    assert_eq!(&Value::Array(streamed.flatten().cloned().collect()), &content);
    server.stop().await;
}

#[actix_web::test]
async fn c071_completions_logprobs_are_parallel_lists() {
    let server = TestServer::start(says_with_logprobs);
    let whole = server.post(TEXT, &json!({"prompt": "x", "logprobs": 3})).await.json();
    let logprobs = &whole["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"], json!(["a", "bytes:\\xc3", "bytes:\\xa9"]));
    assert_eq!(logprobs["token_logprobs"], json!([-0.25, -0.25, -0.25]));
    assert_eq!(logprobs["text_offset"], json!([0, 1, 1]));
    assert_eq!(logprobs["top_logprobs"][0], json!({"a": -0.25, "bytes:\\xf0": -2.0, "bytes:\\xf1": -3.0}));
    server.stop().await;
}

#[actix_web::test]
async fn c048_a_stop_string_ends_the_continuation_of_token_ids_too() {
    let server = TestServer::start(|sequence| says(sequence, "a brown fox jumps"));
    for stop in [json!("own fox"), json!(["x j", "never"])] {
        let extra = json!({"stop": stop});
        let by_text = server.post(TEXT, &with(json!({"prompt": "hello"}), &extra)).await.json();
        let ids = with(json!({"prompt": [104, 101, 108, 108, 111]}), &extra);
        let by_ids = server.post(TEXT, &ids).await.json();
        assert_eq!(by_ids["choices"], by_text["choices"], "{extra}");
        assert_eq!(by_ids["choices"][0]["finish_reason"], "stop", "{extra}");
        let text = by_ids["choices"][0]["text"].as_str().unwrap();
        assert!(
            !text.is_empty() && "a brown fox jumps".starts_with(text) && !text.contains("fox j"),
            "{text}"
        );
        assert_eq!(streamed_text(&server.post(TEXT, &with(ids, &json!({"stream": true}))).await), text);
    }
    server.stop().await;
}

#[actix_web::test]
async fn an_echo_precedes_the_text_in_streams_too() {
    let server = TestServer::start(|sequence| says(sequence, " world"));
    for prompt in [json!("hello"), json!([104, 101, 108, 108, 111])] {
        let body = json!({"prompt": prompt, "echo": true});
        let whole = server.post(TEXT, &body).await.json();
        assert_eq!(whole["choices"][0]["text"], "hello world");
        let stream = server.post(TEXT, &with(body, &json!({"stream": true}))).await;
        assert_eq!(streamed_text(&stream), "hello world");
    }
    server.stop().await;
}
