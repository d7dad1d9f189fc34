//! `POST /v1/chat/completions`: one conversation, one answer, in either form.

use serde_json::{Value, json};

use crate::support::{CAPITAL, Event, Server, chat, streamed, with};

#[test]
fn the_capital_of_france_is_paris_streamed_or_not() {
    let server = Server::start(&[]);
    let whole = server.client.chat(&chat(CAPITAL, 32));
    assert!(whole.text().contains("Paris"), "{whole:?}");
    assert_eq!(whole.finish_reason(), "stop");
    assert_eq!(server.client.chat(&streamed(chat(CAPITAL, 32))), whole);
}

#[test]
fn c025_c051_a_stream_adds_up_to_the_whole_answer_with_the_same_usage() {
    let server = Server::start(&[]);
    for (question, max_tokens) in [
        ("Write a poem of two lines about the sea, with a line break.", 40),
        ("Repeat: 😀 😃 日本語 é", 40),
        ("Write a Python function that adds two numbers.", 60),
        (CAPITAL, 1),
    ] {
        let whole = server.client.chat(&chat(question, max_tokens));
        let stream = server.client.chat(&streamed(chat(question, max_tokens)));
        assert_eq!(stream, whole, "{question}");
        assert!(!whole.text().is_empty(), "{question}");
        let count = |name: &str| whole.usage[name].as_u64().unwrap();
        assert_eq!(count("total_tokens"), count("prompt_tokens") + count("completion_tokens"));
        assert!(count("completion_tokens") <= u64::from(max_tokens), "{whole:?}");
    }
}

#[test]
fn c006_c008_c010_c011_frames_of_a_stream() {
    let server = Server::start(&[]);
    let events: Vec<Event> =
        server.client.post("/v1/chat/completions", &streamed(chat(CAPITAL, 32))).events().collect();
    let (done, chunks) = events.split_last().unwrap();
    assert_eq!(*done, Event::Done);
    let chunks: Vec<&Value> = chunks
        .iter()
        .map(|event| match event {
            Event::Data(chunk) => chunk,
            Event::Done => panic!("[DONE] before the end"),
        })
        .collect();
    let [first, middle @ .., last, usage] = &chunks[..] else { panic!("{chunks:?}") };

    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert!(chunk["created"].is_u64(), "{chunk}");
        for shared in ["id", "created", "model"] {
            assert_eq!(chunk[shared], first[shared]);
        }
    }
    assert_eq!(first["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert!(middle.len() > 3, "{chunks:?}");
    for chunk in middle {
        let choice = &chunk["choices"][0];
        let fields: Vec<&String> = choice["delta"].as_object().unwrap().keys().collect();
        assert_eq!(fields, ["content"], "{chunk}");
        assert_ne!(choice["delta"]["content"], "", "{chunk}");
    }
    for chunk in [first].into_iter().chain(middle) {
        assert_eq!(chunk["choices"][0].get("finish_reason"), Some(&Value::Null), "{chunk}");
        assert_eq!(chunk.get("usage"), Some(&Value::Null), "{chunk}");
    }
    assert_eq!(last["choices"][0]["delta"], json!({}));
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(usage["choices"], json!([]));
    assert!(usage["usage"]["completion_tokens"].as_u64() > Some(1), "{usage}");
}

#[test]
fn c055_c056_c090_c130_limits_and_counts() {
    let server = Server::start(&["--max-model-len", "128"]);
    // Exactly as many tokens as allowed, and the same prompt counts the same every time.
    let story = "Tell me a long story about a fox.";
    let long = server.client.chat(&chat(story, 20));
    assert_eq!((long.finish_reason(), &long.usage["completion_tokens"]), ("length", &json!(20)));
    let again = server.client.chat(&chat(story, 7));
    assert_eq!((again.finish_reason(), &again.usage["completion_tokens"]), ("length", &json!(7)));
    assert_eq!(again.usage["prompt_tokens"], long.usage["prompt_tokens"]);
    assert!(long.text().starts_with(again.text()), "{again:?} does not begin {long:?}");

    // Without a limit an answer ends where it ends.
    let mut free = chat(CAPITAL, 1);
    free.as_object_mut().unwrap().remove("max_tokens");
    assert_eq!(server.client.chat(&free).finish_reason(), "stop");

    // Or where the context does.
    free["ignore_eos"] = true.into();
    let to_the_end = server.client.chat(&free);
    assert_eq!((to_the_end.finish_reason(), &to_the_end.usage["total_tokens"]), ("length", &json!(128)));

    // Choices share the prompt, and its tokens are counted once.
    let twice = server.client.chat(&with(chat(story, 7), json!({"n": 2})));
    assert_eq!(twice.texts(), [again.text(); 2]);
    assert_eq!(
        (&twice.usage["prompt_tokens"], &twice.usage["completion_tokens"]),
        (&again.usage["prompt_tokens"], &json!(14))
    );
}

#[test]
fn c038_c041_a_stop_string_over_token_borders_ends_the_text_before_it() {
    let server = Server::start(&[]);
    let whole = server.client.chat(&chat(CAPITAL, 32));
    let (before, stop) = whole.text().split_once("of").map(|(before, _)| (before, "of France i")).unwrap();
    assert!(whole.text().contains(stop), "{whole:?}");
    let request = with(chat(CAPITAL, 32), json!({"stop": ["not in it", stop]}));
    let stopped = server.client.chat(&request);
    assert_eq!((stopped.text(), stopped.finish_reason()), (before, "stop"));
    assert_eq!(server.client.chat(&streamed(request)), stopped);

    // What looked like a stop string and was none is given out, once.
    let request = with(chat(CAPITAL, 32), json!({"stop": "of France is London"}));
    assert_eq!(server.client.chat(&streamed(request)).text(), whole.text());
}

#[test]
fn c065_c066_c070_log_probabilities_are_each_token_s_own() {
    let server = Server::start(&[]);
    let request = with(chat(CAPITAL, 32), json!({"logprobs": true, "top_logprobs": 20}));
    let whole = server.client.chat(&request);
    let tokens = &whole.choices[0].logprobs;
    let text: Vec<u8> = tokens.iter().flat_map(bytes).collect();
    assert_eq!(String::from_utf8(text).unwrap(), whole.text());
    for token in tokens {
        let top = token["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 20);
        assert_eq!((&top[0]["token"], &top[0]["logprob"]), (&token["token"], &token["logprob"]), "greedy");
        let sum: f64 = top.iter().map(|token| token["logprob"].as_f64().unwrap().exp()).sum();
        assert!(sum > 0.5 && sum < 1.0 + 1e-4, "{sum}: {token}");
    }
    assert!(tokens.windows(2).all(|pair| pair[0]["top_logprobs"] != pair[1]["top_logprobs"]), "{tokens:?}");
    assert_eq!(server.client.chat(&streamed(request)), whole);
}

fn bytes(token: &Value) -> Vec<u8> {
    token["bytes"].as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8).collect()
}
