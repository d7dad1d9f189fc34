//! A client that goes away takes its sequence with it. Time is counted in steps of the engine: an engine with nothing
//! to do takes none, so their number stands still once the sequence is gone.

use std::net::TcpStream;

use serde_json::json;

use crate::support::{CAPITAL, Client, Server, Status, chat, streamed, with};

/// Steps between the status before the socket closed and the end of the sequence: one that was being computed, one
/// that was submitted behind it, and two for the status' and the closing's own way.
const AT_ONCE: u64 = 4;

/// A busy machine may give the server no core for some steps, in which it cannot learn that a socket was closed. So it is
/// enough that one of these tries ends at once; a sequence that outlives its client does so in each.
const TRIES: usize = 20;

const STORY: &str = "Tell me a very long story.";

/// Repeats `leave`, which makes a client go away and answers what the status was before.
fn assert_freed_at_once(server: &Server, leave: impl Fn(usize) -> Status) {
    let mut tries = (0..TRIES).map(|number| {
        let before = leave(number);
        server.until_idle().steps - before.steps
    });
    let steps: Vec<u64> = tries.by_ref().take_while(|&steps| steps > AT_ONCE).collect();
    assert!(steps.len() < TRIES, "steps that passed until the sequence was gone: {steps:?}");
}

/// Sends a request whose answer nobody is going to read.
fn send(client: Client, request: &serde_json::Value) -> TcpStream {
    let socket = TcpStream::connect(client.address).unwrap();
    Client::write(&socket, "POST", "/v1/chat/completions", request.to_string().as_bytes());
    socket
}

#[test]
fn c113_a_stream_closed_halfway_is_cancelled_at_once() {
    let server = Server::start(&[]);
    let endless = with(streamed(chat(STORY, 4000)), json!({"ignore_eos": true}));
    assert_freed_at_once(&server, |number| {
        let mut events = server.client.post("/v1/chat/completions", &endless).events();
        (0..8).for_each(|_| drop(events.data()));
        assert_eq!(server.metric("troupe_requests_cancelled_total"), number as f64);
        // The last before it leaves: steps count from here.
        let before = server.status();
        assert_eq!(before.running, 1);
        assert!(before.blocks_free < before.blocks_total, "{before:?}");
        before
    });
    assert!(server.metric("troupe_requests_cancelled_total") >= 1.0);
    assert!(server.client.chat(&chat(CAPITAL, 32)).text().contains("Paris"));
}

#[test]
fn c113_a_client_that_waits_for_a_whole_answer_and_leaves_is_cancelled_at_once() {
    let server = Server::start(&[]);
    let endless = with(chat(STORY, 4000), json!({"ignore_eos": true, "n": 2}));
    assert_freed_at_once(&server, |_| {
        let steps = server.status().steps;
        let _socket = send(server.client, &endless);
        let before = server.until("some tokens", |status| status.steps >= steps + 4);
        assert_eq!(before.running, 2);
        before
    });
}

#[test]
fn c116_a_client_that_leaves_during_its_prefill_is_cancelled_at_once() {
    let server = Server::start(&["--max-num-batched-tokens", "64"]);
    assert_freed_at_once(&server, |number| {
        // Nothing of it is cached from the try before.
        let question = format!("{number} foxes ran over the hill to the river. ").repeat(600);
        let steps = server.status().steps;
        let _socket = send(server.client, &chat(&question, 16));
        server.until("two chunks", |status| status.steps >= steps + 2)
    });
    assert_eq!(server.metric("troupe_generation_tokens_total"), 0.0, "the prompt was computed to its end");
}

#[test]
fn c118_c268_nothing_is_left_of_clients_that_left() {
    let server = Server::start(&["--max-num-seqs", "2"]);
    let endless = with(streamed(chat(STORY, 4000)), json!({"ignore_eos": true}));
    for _ in 0..5 {
        // Two run, the others wait in the queue.
        let clients: Vec<TcpStream> = (0..6).map(|_| send(server.client, &endless)).collect();
        server.until("a full house", |status| (status.running, status.waiting) == (2, 4));
        drop(clients);
        server.until_idle();
    }
    assert_eq!(server.metric("troupe_requests_cancelled_total"), 30.0);
    // The request that asks.
    assert_eq!(server.metric("troupe_http_requests_active"), 1.0);
}
