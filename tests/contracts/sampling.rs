//! Seeds: whose they are decides the text, not who else is served, nor when.

use serde_json::{Value, json};

use crate::support::{Client, Events, Server, chat, streamed, with};

const SEEDED: &str = "Make up a name for a boat.";

/// Without an end of its own, so that two seeds do not come to the same few words.
fn seeded(seed: u64) -> Value {
    with(chat(SEEDED, 24), json!({"temperature": 1, "seed": seed, "ignore_eos": true}))
}

/// Streams that run for long, each of which has begun, and each of which samples in its own way.
fn neighbours(client: Client) -> [Events; 7] {
    let ways = [
        json!({"temperature": 1}),
        json!({"temperature": 1, "seed": 7}),
        json!({"temperature": 2, "top_p": 0.9, "min_p": 0.01}),
        json!({"temperature": 0.5, "top_k": 5}),
        json!({"temperature": 0, "logit_bias": {"1000": 100, "2000": -100}}),
        json!({"temperature": 0, "repetition_penalty": 1.5, "presence_penalty": 2, "frequency_penalty": 2}),
        json!({"temperature": 1, "logprobs": true, "top_logprobs": 20}),
    ];
    ways.map(|way| {
        let request = with(streamed(chat("Tell me a story.", 8000)), json!({"ignore_eos": true}));
        let request = with(request, way);
        let mut events = client.post("/v1/chat/completions", &request).events();
        events.data();
        events.data();
        events
    })
}

#[test]
fn c073_c076_a_seed_gives_the_same_text_alone_in_company_and_after_a_restart() {
    let server = Server::start(&[]);
    let alone = server.client.chat(&seeded(7));
    let greedy = server.client.chat(&chat(SEEDED, 24));
    let others = neighbours(server.client);
    assert_eq!(server.client.chat(&seeded(7)), alone);
    assert_eq!(server.client.chat(&chat(SEEDED, 24)), greedy);
    assert_eq!(server.status().running, 7, "the neighbours were there all the time");
    drop((others, server));

    let server = Server::start(&[]);
    assert_eq!(server.client.chat(&seeded(7)), alone);
    assert_ne!(server.client.chat(&seeded(8)).text(), alone.text());
}

#[test]
fn a_prompt_in_five_chunks_gives_the_same_text_as_in_one() {
    let question = format!("{} What was this about?", "A fox ran over the hill to the river. ".repeat(25));
    let requests = [chat(&question, 24), with(chat(&question, 24), json!({"temperature": 1, "seed": 3}))];
    let [one, five] = ["512", "64"].map(|tokens| {
        let server = Server::start(&["--max-num-batched-tokens", tokens]);
        let answers = requests.each_ref().map(|request| server.client.chat(request));
        let prompt = answers[0].usage["prompt_tokens"].as_u64().unwrap();
        assert!((64 * 4 + 1..=64 * 5).contains(&prompt), "{prompt} tokens do not make five chunks");
        answers
    });
    assert_eq!(one, five);
}

#[test]
fn c075_without_a_seed_texts_differ_and_with_one_choices_are_reproducible() {
    let server = Server::start(&[]);
    // So long that chance does not say the same twice.
    let free = with(chat(SEEDED, 60), json!({"temperature": 1, "n": 4, "ignore_eos": true}));
    let answer = server.client.chat(&free);
    let mut texts = answer.texts();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 4, "choices without a seed repeat each other: {answer:?}");
    assert_ne!(server.client.chat(&free).texts(), answer.texts());

    let seeded = with(free, json!({"seed": 11}));
    let answer = server.client.chat(&seeded);
    assert_ne!(answer.choices[0].text, answer.choices[1].text);
    assert_eq!(server.client.chat(&streamed(seeded)), answer);
}

#[test]
fn c080_next_to_no_randomness_is_none() {
    let server = Server::start(&[]);
    let greedy = server.client.chat(&chat(SEEDED, 16));
    for own in [
        json!({"temperature": 1e-4}),
        json!({"temperature": 2, "top_p": 1e-4}),
        json!({"temperature": 2, "top_k": 1}),
    ] {
        assert_eq!(server.client.chat(&with(chat(SEEDED, 16), own.clone())).text(), greedy.text(), "{own}");
    }
}

/// One for each parameter that only the host's chain knows.
fn host_ways() -> [Value; 8] {
    [
        json!({"typical_p": 0.9}),
        json!({"top_n_sigma": 1.5}),
        json!({"xtc_probability": 0.5, "xtc_threshold": 0.05}),
        json!({"dynatemp_range": 0.5, "dynatemp_exponent": 1.5}),
        json!({"dry_multiplier": 2, "dry_allowed_length": 1, "dry_penalty_last_n": 64}),
        json!({"mirostat": 2, "mirostat_tau": 3, "mirostat_eta": 0.5}),
        json!({"repeat_penalty": 1.3, "repeat_last_n": 8}),
        json!({"mirostat": 2, "dry_multiplier": 1, "logprobs": true, "top_logprobs": 3}),
    ]
}

#[test]
fn every_sampler_gives_the_same_text_alone_and_in_company() {
    let server = Server::start(&[]);
    let requests = host_ways().map(|way| with(seeded(7), way));
    let alone = requests.each_ref().map(|request| server.client.chat(request));
    let plain = server.client.chat(&seeded(7));
    assert!(alone.iter().any(|answer| answer.text() != plain.text()), "no sampler changes anything");
    let others = neighbours(server.client);
    for (request, alone) in requests.iter().zip(&alone) {
        assert_eq!(server.client.chat(request), *alone, "{request}");
        assert_eq!(server.client.chat(&streamed(request.clone())), *alone, "{request}");
    }
    assert_eq!(server.status().running, 7, "the neighbours were there all the time");
    drop(others);
}

#[test]
fn neutral_values_change_nothing() {
    let server = Server::start(&[]);
    let plain = server.client.chat(&seeded(7));
    let order = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"];
    for neutral in [
        json!({"typical_p": 1, "top_n_sigma": -1, "xtc_probability": 0, "dynatemp_range": 0, "mirostat": 0}),
        json!({"dry_multiplier": 0, "repeat_penalty": 1, "repeat_last_n": 64, "min_tokens": 0, "min_keep": 0}),
        json!({"samplers": order}),
        json!({"samplers": "edskypmxt"}),
        // On the host, by a list that holds every token, and by a bound that keeps every logit.
        json!({"allowed_token_ids": (0..49152).collect::<Vec<u32>>()}),
        json!({"top_n_sigma": 100}),
    ] {
        assert_eq!(server.client.chat(&with(seeded(7), neutral.clone())), plain, "{neutral}");
    }
}

#[test]
fn min_tokens_and_allowed_tokens_are_kept_to() {
    let server = Server::start(&[]);
    let short = chat("Answer with one word: what is the capital of France?", 60);
    let free = server.client.chat(&short).usage["completion_tokens"].as_u64().unwrap();
    assert!(free < 40, "{free} tokens");
    let long = server.client.chat(&with(short.clone(), json!({"min_tokens": 40})));
    assert!(long.usage["completion_tokens"].as_u64().unwrap() > 40);
    let only = json!({"allowed_token_ids": [198, 216], "temperature": 1, "max_tokens": 8});
    let answer = server.client.chat(&with(short, only));
    assert!(answer.text().chars().all(char::is_whitespace), "{answer:?}");
}
