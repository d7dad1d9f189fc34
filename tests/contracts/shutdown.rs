//! SIGTERM: nothing new is taken, what was taken is finished, and the process ends.
#![cfg(unix)]

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use crate::support::{Answer, CAPITAL, PATIENCE, Server, chat, streamed, with};

/// More time to drain than anything is waited for: streams that are to finish do so on a busy machine too, and a server
/// that waits for more than its streams is noticed.
const DRAIN: [&str; 2] = ["--drain-timeout-seconds", "600"];

/// Below all that a server may wait for when it ends: the time to drain, and those that clients get to send a request.
/// Whatever it does not wait for takes it some milliseconds.
const SOON: Duration = Duration::from_secs(25);

fn long(tokens: u32) -> serde_json::Value {
    with(streamed(chat("Tell me a long story.", tokens)), json!({"ignore_eos": true}))
}

#[test]
fn c278_streams_finish_new_requests_are_503_and_the_process_ends() {
    let mut server = Server::start(&["--max-num-seqs", "2", DRAIN[0], DRAIN[1]]);
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
    let status = server.exit(PATIENCE).expect("the process ends when its streams have");
    assert!(status.success(), "{status}");
}

#[test]
fn an_idle_server_ends_at_once() {
    let mut server = Server::start(&[]);
    server.client.chat(&chat(CAPITAL, 8));
    // A connection without a request does not keep it.
    let _open = std::net::TcpStream::connect(server.client.address).unwrap();
    server.terminate();
    let status = server.exit(SOON).expect("nothing is left to do");
    assert!(status.success(), "{status}");
}

#[test]
fn a_server_that_is_loading_ends_too() {
    let mut server = Server::loading(&[]);
    server.terminate();
    let status = server.exit(PATIENCE).expect("it ends");
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
    let status = server.exit(SOON).expect("the time to drain is bounded");
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
    let status = server.exit(SOON).expect("the time to drain is bounded for all");
    assert!(status.success(), "{status}");
}

#[test]
fn a_second_signal_means_now() {
    // On a busy machine an echo may come so late that it is none; a server that knows no echo ends in each try.
    assert!((0..5).any(|_| survives_an_echo_and_ends_at_the_next()), "the first signal's echo ends it");
}

/// Sends a signal and its echo, and a second one if the server goes on after those.
fn survives_an_echo_and_ends_at_the_next() -> bool {
    let mut server = Server::start(&DRAIN);
    let mut events = server.client.post("/v1/chat/completions", &long(8000)).events();
    events.data();
    server.terminate();
    server.until("draining", |status| status.word == "draining");
    // Wrappers send a signal to a process and to its group: one right behind the first is its echo.
    server.terminate();
    if server.exit(Duration::from_millis(1500)).is_some() {
        return false;
    }
    assert_eq!(server.status().running, 1);
    server.terminate();
    // It leaves its stream unfinished, and says so.
    let status = server.exit(PATIENCE).expect("it waits for its streams nevertheless");
    assert_eq!(status.code(), Some(1));
    true
}
