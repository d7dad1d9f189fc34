//! More clients than slots: they wait their turn, up to a bound.

use std::net::TcpStream;
use std::thread;

use serde_json::{Value, json};

use crate::support::{Answer, CAPITAL, Client, Response, Server, chat, streamed, with};

#[test]
fn sixty_four_clients_at_once_all_get_their_right_text_eight_at_a_time() {
    let server = Server::start(&[]);
    let client = server.client;
    let questions = [CAPITAL, "Name a colour.", "What is two plus two?", "Say hello in French."];
    let requests = questions.map(|question| chat(question, 10));
    let expected = requests.each_ref().map(|request| client.chat(request));

    // Those that run keep all others waiting, so that none is served before the last has come.
    let endless = with(chat("Tell me a long story.", 8000), json!({"ignore_eos": true})).to_string();
    let busy = [(); 8].map(|()| {
        let socket = TcpStream::connect(client.address).unwrap();
        Client::write(&socket, "POST", "/v1/chat/completions", endless.as_bytes());
        socket
    });
    server.until("eight that run", |status| status.running == 8);
    let clients: Vec<_> = (0..64)
        .map(|index| {
            let request = requests[index % 4].clone();
            let request = if index < 32 { request } else { streamed(request) };
            thread::spawn(move || client.chat(&request))
        })
        .collect();
    server.until("all that wait", |status| (status.running, status.waiting) == (8, 64));
    drop(busy);
    let mut most_running = 0;
    while !clients.iter().all(thread::JoinHandle::is_finished) {
        most_running = most_running.max(server.status().running);
    }
    for (index, client) in clients.into_iter().enumerate() {
        assert_eq!(client.join().unwrap(), expected[index % 4], "client {index}");
    }
    assert!((1..=8).contains(&most_running), "{most_running} ran at once");
    server.until_idle();
}

#[test]
fn sequences_that_outgrow_the_kv_memory_together_all_finish_with_their_right_text() {
    let server = Server::start(&["--kv-cache-memory", "8MiB"]);
    let client = server.client;
    let prompts = ["Once upon a time", "The sea is", "A fox is an animal that", "The moon and the sun"];
    let request =
        |prompt: Value| json!({"prompt": prompt, "max_tokens": 100, "temperature": 0, "ignore_eos": true});
    let expected = prompts.map(|prompt| client.complete(&request(prompt.into())));

    // As one request, so that they run at once on a busy machine too.
    let together = client.complete(&request(json!(prompts)));
    assert_eq!(together.texts(), expected.each_ref().map(Answer::text));
    assert!(server.metric("troupe_num_preemptions_total") > 0.0, "there was room for all of them");
    server.until_idle();
}

/// What passed while a long prompt was computed beside four streams that decode.
struct Passed {
    prompt_tokens: u64,
    steps: u64,
    /// Tokens that were generated in those steps: as many were counted within them, and with what came before and
    /// behind, since steps and tokens are not read at one moment.
    least_generated: f64,
    most_generated: f64,
}

/// Four streams that decode, and a prompt of so many sentences beside them, up to its answer. Then each stream goes on.
fn long_prompt_beside_four(flags: &[&str], sentences: usize) -> Passed {
    let server = Server::start(flags);
    let client = server.client;
    let endless = with(streamed(chat("Tell me a long story.", 4000)), json!({"ignore_eos": true}));
    let mut decoding = [(); 4].map(|()| {
        let mut events = client.post("/v1/chat/completions", &endless).events();
        (0..2).for_each(|_| drop(events.data()));
        events
    });
    let generated = || server.metric("troupe_generation_tokens_total");
    let read = || (generated(), server.status().steps, generated());
    let before = read();
    let long = client.chat(&chat(&"A fox ran over the hill to the river. ".repeat(sentences), 1));
    let after = read();
    let passed = Passed {
        prompt_tokens: long.usage["prompt_tokens"].as_u64().unwrap(),
        steps: after.1 - before.1,
        least_generated: after.0 - before.2,
        most_generated: after.2 - before.0,
    };
    server.until("more tokens of streams", |_| generated() > after.2 + 40.0);
    for events in &mut decoding {
        (0..10).for_each(|_| drop(events.data()));
    }
    passed
}

const BUDGET: u64 = 64;

#[test]
fn c121_a_long_prompt_neither_stops_those_that_decode_nor_waits_for_them() {
    let budget = BUDGET.to_string();
    let Passed { prompt_tokens, steps, most_generated, .. } = long_prompt_beside_four(
        &["--max-num-batched-tokens", &budget, "--long-prompt-share-percent", "0"],
        100,
    );
    // Every step holds a token of each of the four, and a piece of the prompt: at most the rest of its budget, and at
    // least one token, but for one step in some thirty that has none.
    let (least, most) = (prompt_tokens.div_ceil(BUDGET - 4), prompt_tokens);
    assert!(least > 10, "{prompt_tokens} tokens");
    assert!((least..most + most / 30 + 4).contains(&steps), "{prompt_tokens} tokens took {steps} steps");
    // Steps that pause for the prompt would be `least`, without a token. Those of the last may not be counted yet.
    println!("{prompt_tokens} tokens took {steps} steps, beside {most_generated} tokens");
    assert!(most_generated >= 4.0 * (steps - least / 2) as f64, "{most_generated} tokens in {steps} steps");
}

#[test]
fn c121_streams_pause_for_a_long_prompt_and_go_on() {
    // Beside streams so little of it would be in a step that it is long whatever a step takes on this machine.
    let flags = ["--max-num-batched-tokens", &BUDGET.to_string(), "--step-growth-percent", "1"];
    let Passed { prompt_tokens, steps, least_generated, .. } = long_prompt_beside_four(&flags, 400);
    // The prompt's own steps hold no token of the four.
    assert!(
        least_generated <= 4.0 * (steps - prompt_tokens / BUDGET / 2) as f64,
        "{least_generated} tokens in {steps} steps"
    );
}

#[test]
fn c101_a_full_queue_is_429_with_retry_after_and_nobody_else_is_harmed() {
    let server = Server::start(&["--max-num-seqs", "2", "--max-queued", "2"]);
    let client = server.client;
    let short = chat(CAPITAL, 32);
    let long = |tokens| with(streamed(chat("Tell me a long story.", tokens)), json!({"ignore_eos": true}));
    let expected = (client.chat(&short), client.chat(&long(150)));

    // They run until they are left, so that the queue is full for as long as is wanted.
    let running = [(); 2].map(|()| client.post("/v1/chat/completions", &long(8000)).events());
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
        Answer::default().follow_to(events, expected.1.text());
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
