//! Completions that tell how likely their prompts are.

use serde_json::{Value, json};
use troupe_protocol::{NewSequence, SampledToken, SequenceEvent, TokenLogprobs};

use super::client::TestServer;
use super::streams::{streamed_text, with};
use troupe_actors::testing::says;

const TEXT: &str = "/v1/completions";

/// Tells of the prompt that each token is less likely than the one before, in two parts, then says "ok".
fn tells_of_its_prompt(sequence: &NewSequence) -> Vec<SequenceEvent> {
    let mut events = says(sequence, "ok");
    for event in &mut events {
        if let SequenceEvent::Token(SampledToken { logprobs, .. }) = event {
            *logprobs = sequence.sampling.logprobs.map(|_| TokenLogprobs { chosen: -0.5, top: vec![] });
        }
    }
    let Some(count) = sequence.sampling.prompt_logprobs else { return events };
    let logprobs = |(at, &id): (usize, &u32)| TokenLogprobs {
        chosen: -(at as f32),
        top: (0..u32::from(count)).map(|rank| (id + rank, -(at as f32) - rank as f32)).collect(),
    };
    let mut told: Vec<_> = sequence.prompt.iter().enumerate().skip(1).map(logprobs).collect();
    let rest = told.split_off(told.len() / 2);
    let at = events.iter().position(|event| matches!(event, SequenceEvent::Token(_))).unwrap();
    let before = [
        SequenceEvent::Started { cached_tokens: 0 },
        SequenceEvent::Prompt(told),
        SequenceEvent::Prompt(rest),
    ];
    events.splice(at..at, before);
    events
}

/// The lists of all chunks, put together.
fn streamed_logprobs(events: &[Value]) -> Value {
    let mut all = json!({"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []});
    for chunk in events.iter().filter_map(|event| event["choices"][0]["logprobs"].as_object()) {
        for (name, list) in chunk {
            let list = list.as_array().unwrap().iter().cloned();
            all[name].as_array_mut().unwrap().extend(list);
        }
    }
    all
}

#[actix_web::test]
async fn an_echo_with_logprobs_tells_of_the_prompt_and_of_the_answer() {
    let server = TestServer::start(tells_of_its_prompt);
    let body = json!({"prompt": "h\u{e9}y", "echo": true, "logprobs": 1, "max_tokens": 2});
    let whole = server.post(TEXT, &body).await.json();
    assert_eq!(whole["choices"][0]["text"], "h\u{e9}yok");
    let logprobs = &whole["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"], json!(["h", "bytes:\\xc3", "bytes:\\xa9", "y", "o", "k"]));
    assert_eq!(logprobs["text_offset"], json!([0, 1, 1, 2, 3, 4]));
    assert_eq!(
        logprobs["token_logprobs"].as_array().unwrap()[..4],
        [json!(null), json!(-1.0), json!(-2.0), json!(-3.0)]
    );
    assert_eq!(logprobs["top_logprobs"][0], json!(null));
    assert_eq!(logprobs["top_logprobs"][3], json!({"y": -3.0}));

    let reply = server.post(TEXT, &with(body, &json!({"stream": true}))).await;
    assert_eq!(streamed_text(&reply), "h\u{e9}yok");
    assert_eq!(&streamed_logprobs(&reply.events()), logprobs);
    server.stop().await;
}

#[actix_web::test]
async fn without_a_token_to_generate_the_answer_is_the_prompt() {
    let mut server = TestServer::start(tells_of_its_prompt);
    let body = json!({"prompt": ["abc", "xy"], "echo": true, "logprobs": 0, "max_tokens": 0});
    let whole = server.post(TEXT, &body).await.json();
    for (choice, text) in whole["choices"].as_array().unwrap().iter().zip(["abc", "xy"]) {
        assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!(text), &json!("length")));
        assert_eq!(choice["logprobs"]["tokens"].as_array().unwrap().len(), text.len());
        assert_eq!(choice["logprobs"]["top_logprobs"].as_array().unwrap()[..2], [json!(null), json!({})]);
    }
    let usage = &whole["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(5), &json!(0)));
    // The engine cannot but generate one.
    assert_eq!(server.admitted().await.max_tokens, 1);
    let reply = server.post(TEXT, &with(body, &json!({"stream": true, "prompt": "abc"}))).await;
    assert_eq!(streamed_text(&reply), "abc");
    assert_eq!(streamed_logprobs(&reply.events())["token_logprobs"], json!([null, -1.0, -2.0]));
    server.stop().await;
}

#[actix_web::test]
async fn prompts_are_scored_for_nobody_else() {
    let mut server = TestServer::start(tells_of_its_prompt);
    for (body, prompt_logprobs, tokens) in [
        (json!({"prompt": "ab", "echo": true}), None, None),
        (json!({"prompt": "ab", "logprobs": 2}), None, Some(2)),
        (json!({"prompt": "ab", "logprobs": 2, "echo": true}), Some(2), Some(4)),
    ] {
        let answer = server.post(TEXT, &body).await.json();
        assert_eq!(server.admitted().await.sampling.prompt_logprobs, prompt_logprobs, "{body}");
        let told = answer["choices"][0]["logprobs"]["tokens"].as_array().map(Vec::len);
        assert_eq!(told, tokens, "{answer}");
    }
    server.stop().await;
}
