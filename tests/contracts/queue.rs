//! More clients than slots: they wait their turn, up to a bound.

use std::net::TcpStream;
use std::thread;

use serde_json::json;

use crate::support::{Answer, CAPITAL, Client, Response, Server, chat, streamed, with};

#[test]
fn sixty_four_clients_at_once_all_get_their_right_text_eight_at_a_time() {
    let server = Server::start(&[]);
    let client = server.client;
    let questions = [CAPITAL, "Name a colour.", "What is two plus two?", "Say hello in French."];
    let requests = questions.map(|question| chat(question, 10));
    let expected = requests.each_ref().map(|request| client.chat(request));

    let clients: Vec<_> = (0..64)
        .map(|index| {
            let request = requests[index % 4].clone();
            let request = if index < 32 { request } else { streamed(request) };
            thread::spawn(move || client.chat(&request))
        })
        .collect();
    let (mut most_running, mut most_waiting) = (0, 0);
    while !clients.iter().all(thread::JoinHandle::is_finished) {
        let status = server.status();
        most_running = most_running.max(status.running);
        most_waiting = most_waiting.max(status.waiting);
    }
    for (index, client) in clients.into_iter().enumerate() {
        assert_eq!(client.join().unwrap(), expected[index % 4], "client {index}");
    }
    assert_eq!(most_running, 8);
    assert!((8..=64).contains(&most_waiting), "{most_waiting} waited");
    server.until_idle();
}

#[test]
fn sequences_that_outgrow_the_kv_memory_together_all_finish_with_their_right_text() {
    let server = Server::start(&["--kv-cache-memory", "8MiB"]);
    let client = server.client;
    let questions = ["Tell me a story.", "Describe the sea.", "What is a fox?", "Write about the moon."];
    let requests = questions.map(|question| with(chat(question, 100), json!({"ignore_eos": true})));
    let expected = requests.each_ref().map(|request| client.chat(request));

    let clients = requests.map(|request| thread::spawn(move || client.chat(&request)));
    assert_eq!(clients.map(|client| client.join().unwrap()), expected);
    assert!(server.metric("troupe_num_preemptions_total") > 0.0, "there was room for all of them");
    server.until_idle();
}

/// Four streams that decode, and a long prompt beside them whose answer has come: its tokens, the steps that passed, and
/// the tokens that were generated meanwhile. Then each stream goes on.
fn long_prompt_beside_four(flags: &[&str]) -> (u64, u64, f64) {
    let server = Server::start(flags);
    let client = server.client;
    let endless = with(streamed(chat("Tell me a long story.", 4000)), json!({"ignore_eos": true}));
    let mut decoding = [(); 4].map(|()| {
        let mut events = client.post("/v1/chat/completions", &endless).events();
        (0..2).for_each(|_| drop(events.data()));
        events
    });
    let generated = || server.metric("troupe_generation_tokens_total");
    let (steps_before, generated_before) = (server.status().steps, generated());
    let long = client.chat(&chat(&"A fox ran over the hill to the river. ".repeat(100), 1));
    let (steps, tokens) = (server.status().steps - steps_before, generated() - generated_before);
    let after = generated();
    server.until("more tokens of streams", |_| generated() > after + 40.0);
    for events in &mut decoding {
        (0..10).for_each(|_| drop(events.data()));
    }
    (long.usage["prompt_tokens"].as_u64().unwrap(), steps, tokens)
}

const BUDGET: u64 = 64;

#[test]
fn c121_a_long_prompt_neither_stops_those_that_decode_nor_waits_for_them() {
    let budget = BUDGET.to_string();
    let (prompt_tokens, steps, generated) =
        long_prompt_beside_four(&["--max-num-batched-tokens", &budget, "--long-prompt-share-percent", "0"]);
    // Every step holds a token of each of the four, and a piece of the prompt: at most the rest of its budget, and at
    // least one token, but for one step in some thirty that has none.
    let (least, most) = (prompt_tokens.div_ceil(BUDGET - 4), prompt_tokens);
    assert!(least > 10, "{prompt_tokens} tokens");
    assert!((least..most + most / 30 + 4).contains(&steps), "{prompt_tokens} tokens took {steps} steps");
    assert!(generated >= 4.0 * (steps - 2) as f64, "{generated} tokens in {steps} steps");
}

#[test]
fn c121_streams_pause_for_a_long_prompt_and_go_on() {
    let (prompt_tokens, steps, generated) =
        long_prompt_beside_four(&["--max-num-batched-tokens", &BUDGET.to_string()]);
    // The prompt's own steps hold no token of the four.
    assert!(
        generated <= 4.0 * (steps - prompt_tokens / BUDGET / 2) as f64,
        "{generated} tokens in {steps} steps"
    );
}

#[test]
fn c101_a_full_queue_is_429_with_retry_after_and_nobody_else_is_harmed() {
    let server = Server::start(&["--max-num-seqs", "2", "--max-queued", "2"]);
    let client = server.client;
    let short = chat(CAPITAL, 32);
    let long = with(streamed(chat("Tell me a long story.", 150)), json!({"ignore_eos": true}));
    let expected = (client.chat(&short), client.chat(&long));

    let running = [(); 2].map(|()| client.post("/v1/chat/completions", &long).events());
    server.until("two that run", |status| status.running == 2);
    let waiting = [(); 2].map(|()| {
        let socket = TcpStream::connect(client.address).unwrap();
        Client::write(&socket, "POST", "/v1/chat/completions", short.to_string().as_bytes());
        socket
    });
    server.until("two that wait", |status| status.waiting == 2);

    for request in [short.clone(), streamed(short.clone())] {
        let refused = client.post("/v1/chat/completions", &request);
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
        let error = refused.json();
        assert_eq!(error["error"]["code"], "queue_full");
        assert_eq!(error["error"]["type"], "rate_limit_error");
    }
    assert_eq!(server.status().waiting, 2, "the refused came while the queue was full");
    for events in running {
        assert_eq!(Answer::of_events(events), expected.1);
    }
    for socket in waiting {
        assert_eq!(Response::read(socket).unwrap().answer(), expected.0);
    }

    // A request of more choices than there is room for is one request: it is taken as a whole, and they take turns.
    let many = client.chat(&with(short, json!({"n": 12})));
    assert_eq!(many.choices.len(), 12);
    assert!(many.choices.iter().all(|choice| choice.text == expected.0.text()), "{many:?}");
    server.until_idle();
}
