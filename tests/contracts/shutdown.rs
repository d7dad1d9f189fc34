//! SIGTERM: nothing new is taken, what was taken is finished, and the process ends.
#![cfg(unix)]

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Answer, CAPITAL, PATIENCE, Server, chat, streamed, with};

fn long(tokens: u32) -> serde_json::Value {
    with(streamed(chat("Tell me a long story.", tokens)), json!({"ignore_eos": true}))
}

#[test]
fn c278_streams_finish_new_requests_are_503_and_the_process_ends() {
    let mut server = Server::start(&["--max-num-seqs", "2"]);
    let client = server.client;
    let expected = client.chat(&long(400));
    // Two that run and one that waits: it was taken, so it is served.
    let mut streams = [(); 3].map(|()| client.post("/v1/chat/completions", &long(400)).events());
    let mut begun = [Answer::default(), Answer::default()];
    for (answer, events) in begun.iter_mut().zip(&mut streams) {
        answer.add_chunk(&events.data());
        answer.add_chunk(&events.data());
    }
    server.until("one that waits", |status| (status.running, status.waiting) == (2, 1));

    server.terminate();
    let status = server.until("not ready", |status| status.code == 503);
    assert_eq!(status.word, "draining");
    assert_eq!(client.get("/health").status, 200);
    for request in [chat(CAPITAL, 8), streamed(chat(CAPITAL, 8))] {
        let refused = client.post("/v1/chat/completions", &request);
        assert_eq!(refused.status, 503);
        assert_eq!(refused.json()["error"]["code"], "shutting_down");
    }
    let begun = begun.into_iter().chain([Answer::default()]);
    for (mut answer, events) in begun.zip(streams) {
        answer.follow(events);
        assert_eq!(answer, expected);
    }
    let status = server.exit(Duration::from_secs(10)).expect("the process ends when its streams have");
    assert!(status.success(), "{status}");
}

#[test]
fn an_idle_server_ends_at_once() {
    let mut server = Server::start(&[]);
    server.client.chat(&chat(CAPITAL, 8));
    // A connection without a request does not keep it.
    let _open = std::net::TcpStream::connect(server.client.address).unwrap();
    server.terminate();
    let status = server.exit(Duration::from_secs(2)).expect("nothing is left to do");
    assert!(status.success(), "{status}");
}

#[test]
fn a_server_that_is_loading_ends_too() {
    let mut server = Server::loading(&[]);
    server.terminate();
    let status = server.exit(Duration::from_secs(10)).expect("loading is broken off");
    assert!(status.success(), "{status}");
}

#[test]
fn streams_that_outlast_the_time_to_drain_end_in_an_error() {
    let mut server = Server::start(&["--drain-timeout-seconds", "1"]);
    let mut events = server.client.post("/v1/chat/completions", &long(8000)).events();
    events.data();
    server.terminate();
    let mut answer = Answer::default();
    answer.follow(events);
    let error = answer.error.expect("an answer that is cut short says so");
    assert_eq!(error["code"], "shutting_down", "{error}");
    assert!(!answer.choices[0].text.is_empty());
    let status = server.exit(Duration::from_secs(10)).expect("the time to drain is bounded");
    assert!(status.success(), "{status}");
}

#[test]
fn a_client_that_reads_nothing_does_not_keep_the_server() {
    let mut server = Server::start(&["--drain-timeout-seconds", "1"]);
    let own = json!({"ignore_eos": true, "logprobs": true, "top_logprobs": 20, "n": 8});
    let request = with(streamed(chat("Tell me a long story.", 1000)), own);
    let _unread = server.client.post("/v1/chat/completions", &request);
    let mut half_sent = std::net::TcpStream::connect(server.client.address).unwrap();
    half_sent.write_all(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{").unwrap();
    server.terminate();
    let status = server.exit(Duration::from_secs(10)).expect("the time to drain is bounded for all");
    assert!(status.success(), "{status}");
}

#[test]
fn a_second_signal_means_now() {
    let mut server = Server::start(&[]);
    let mut events = server.client.post("/v1/chat/completions", &long(8000)).events();
    events.data();
    server.terminate();
    server.until("draining", |status| status.word == "draining");
    // Wrappers send a signal to a process and to its group: one right behind the first is its echo.
    let first = Instant::now();
    server.terminate();
    while first.elapsed() < Duration::from_millis(1500) {
        events.data();
    }
    assert_eq!(server.status().running, 1);
    server.terminate();
    assert!(server.exit(PATIENCE / 8).is_some(), "it waits for its streams nevertheless");
}
