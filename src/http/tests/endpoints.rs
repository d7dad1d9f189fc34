//! What reaches the scheduler, and the endpoints that do not generate.

use serde_json::json;
use troupe_actors::scheduler::SchedulerStatus;
use troupe_actors::testing::{END, VOCAB_SIZE, says};
use troupe_protocol::{
    FinishReason, NewSequence, Priority, SampledToken, SequenceEvent, TokenLogprobs, Usage,
};

use super::client::{CONTEXT, Model, TestServer, head, post};

#[actix_web::test]
async fn c075_c076_seeds_are_as_given_or_fresh() {
    let mut server = TestServer::start(|sequence| says(sequence, "x"));
    let mut seeds = async |body| {
        assert_eq!(server.post("/v1/completions", &body).await.status, 200);
        [server.admitted().await.sampling.seed, server.admitted().await.sampling.seed]
    };
    assert_eq!(seeds(json!({"prompt": "a", "n": 2, "seed": 7})).await, [7, 8]);
    assert_eq!(seeds(json!({"prompt": ["a", "a"], "seed": 7})).await, [7, 7]);
    assert_eq!(seeds(json!({"prompt": "a", "n": 2, "seed": -1})).await, [u64::MAX, 0]);
    assert_eq!(seeds(json!({"prompt": "a", "n": 2, "seed": u64::MAX})).await, [u64::MAX, 0]);
    let [first, second] = seeds(json!({"prompt": ["a", "a"]})).await;
    let [third, _] = seeds(json!({"prompt": ["a", "a"]})).await;
    assert!(first != second && first != third);
    server.stop().await;
}

/// Says more, and less likely tokens, the higher its seed.
fn less_likely_with_each_seed(sequence: &NewSequence) -> Vec<SequenceEvent> {
    let seed = sequence.sampling.seed;
    let logprobs = Some(TokenLogprobs { chosen: -(seed as f32), top: Vec::new() });
    let token = |id: u8| SequenceEvent::Token(SampledToken { id: id.into(), logprobs: logprobs.clone() });
    let mut events: Vec<_> = (0..=seed).map(|_| token(b'a')).collect();
    let usage = Usage { prompt_tokens: 1, completion_tokens: seed as u32 + 1, ..Usage::default() };
    events.push(SequenceEvent::Finished { reason: FinishReason::Stop, usage });
    events
}

#[actix_web::test]
async fn the_best_of_several_are_the_likeliest() {
    let server = TestServer::start(less_likely_with_each_seed);
    for (n, best_of, texts, tokens) in
        [(1, 1, vec!["a"], 1), (1, 3, vec!["a"], 6), (2, 3, vec!["a", "aa"], 6)]
    {
        // Seeds of the choices count up from the request's.
        let body = json!({"prompt": "x", "n": n, "best_of": best_of, "seed": 0});
        let answer = server.post("/v1/completions", &body).await.json();
        let choices = answer["choices"].as_array().unwrap();
        assert_eq!(choices.iter().map(|choice| choice["text"].as_str().unwrap()).collect::<Vec<_>>(), texts);
        assert_eq!(
            choices.iter().map(|choice| choice["index"].as_u64().unwrap()).collect::<Vec<_>>(),
            (0..n).collect::<Vec<_>>()
        );
        assert_eq!(choices[0]["logprobs"], json!(null));
        assert_eq!(answer["usage"]["completion_tokens"], tokens, "{answer}");
        assert_eq!(answer["usage"]["prompt_tokens"], 1);
    }
    let body = json!({"prompt": ["x", "y"], "best_of": 2, "seed": 0});
    let answer = server.post("/v1/completions", &body).await.json();
    assert_eq!(answer["choices"].as_array().unwrap().len(), 2);
    server.stop().await;
}

#[actix_web::test]
async fn a_suffix_stands_behind_the_gap() {
    let status = SchedulerStatus { ready: true, ..SchedulerStatus::default() };
    let mut server = TestServer::with(|sequence| says(sequence, "b"), status, &Model::Filling);
    let [prefix, suffix, middle] = [0, 1, 2].map(|index| VOCAB_SIZE + index);
    let filled = [prefix, 'a'.into(), suffix, 'c'.into(), middle];
    for (prompt, after, expected) in [
        (json!("a"), json!("c"), &filled[..]),
        (json!([97]), json!("c"), &filled[..]),
        (json!("a"), json!(""), &['a'.into()]),
    ] {
        let body = json!({"prompt": prompt, "suffix": after, "echo": true});
        let answer = server.post("/v1/completions", &body).await.json();
        assert_eq!(answer["choices"][0]["text"], "ab");
        assert_eq!(server.admitted().await.prompt, expected, "{body}");
    }
    server.stop().await;
}

#[actix_web::test]
async fn a_service_tier_is_a_priority_and_comes_back() {
    let mut server = TestServer::start(|sequence| says(sequence, "x"));
    for (tier, priority, answered) in [
        (json!(null), Priority::Normal, json!(null)),
        (json!("auto"), Priority::Normal, json!("default")),
        (json!("flex"), Priority::Batch, json!("flex")),
        (json!("priority"), Priority::Interactive, json!("priority")),
    ] {
        let mut body = json!({"messages": [{"role": "user", "content": "hi"}], "service_tier": tier});
        let whole = server.post("/v1/chat/completions", &body).await.json();
        assert_eq!((&whole["service_tier"], server.admitted().await.priority), (&answered, priority));
        body["stream"] = json!(true);
        let events = server.post("/v1/chat/completions", &body).await.events();
        assert!(events.iter().all(|event| event["service_tier"] == answered), "{events:?}");
        server.admitted().await;
    }
    server.stop().await;
}

#[actix_web::test]
async fn c080_c083_c085_c090_defaults_are_neutral_and_max_tokens_is_the_rest_of_the_context() {
    let mut server = TestServer::start(|sequence| says(sequence, "x"));
    server.post("/v1/completions", &json!({"prompt": "abc"})).await;
    let sequence = server.admitted().await;
    assert_eq!(sequence.prompt, [97, 98, 99]);
    assert_eq!(sequence.max_tokens, CONTEXT - 3);
    assert_eq!(sequence.stop_tokens, [END]);
    let sampling = &sequence.sampling;
    assert!(!sampling.has_penalties());
    assert_eq!((sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p), (1.0, 1.0, 0, 0.0));
    let body = json!({"prompt": "abc", "ignore_eos": true, "stop_token_ids": [1], "max_tokens": 5, "temperature": 1e-4});
    server.post("/v1/completions", &body).await;
    let sequence = server.admitted().await;
    assert_eq!((sequence.stop_tokens, sequence.max_tokens), (vec![1], 5));
    assert!(sequence.sampling.is_greedy());
    server.stop().await;
}

#[actix_web::test]
async fn c061_the_context_that_is_advertised_is_the_one_that_is_enforced() {
    let server = TestServer::start(|sequence| says(sequence, "x"));
    let listed = server.get("/v1/models").await.json();
    assert_eq!(listed["data"][0]["id"], "test");
    let limit = listed["data"][0]["max_model_len"].as_u64().unwrap() as usize;
    for (length, status) in [(limit - 1, 200), (limit, 400)] {
        let reply = server.post("/v1/completions", &json!({"prompt": "x".repeat(length)})).await;
        assert_eq!(reply.status, status, "{length}");
    }
    server.stop().await;
}

#[actix_web::test]
async fn models_are_found_by_id_and_alias() {
    let server = TestServer::start(|sequence| says(sequence, "x"));
    for id in ["test", "alias"] {
        assert_eq!(server.get(&format!("/v1/models/{id}")).await.json()["id"], "test");
        let body = json!({"model": id, "prompt": "a"});
        assert_eq!(server.post("/v1/completions", &body).await.json()["model"], "test");
    }
    server.stop().await;
}

#[actix_web::test]
async fn a_model_has_what_anthropics_clients_read() {
    let server = TestServer::start(|sequence| says(sequence, "x"));
    let listed = server.get("/v1/models").await.json();
    let ends = ["object", "first_id", "last_id", "has_more"].map(|name| &listed[name]);
    assert_eq!(ends, [&json!("list"), &json!("test"), &json!("test"), &json!(false)]);
    let model = &listed["data"][0];
    assert_eq!((&model["type"], &model["display_name"]), (&json!("model"), &json!("test")));
    let time = chrono::DateTime::parse_from_rfc3339(model["created_at"].as_str().unwrap()).unwrap();
    assert_eq!(time.timestamp() as u64, model["created"].as_u64().unwrap());
    assert_eq!(server.get("/v1/models/test").await.json(), *model);
    server.stop().await;
}

#[actix_web::test]
async fn tokenize_and_detokenize_are_each_others_reverse() {
    let server = TestServer::start(|_| Vec::new());
    let text = "é…😊<|end|>";
    let reply = server.post("/tokenize", &json!({"prompt": text, "add_special_tokens": false})).await.json();
    assert_eq!(reply["count"], text.len() - "<|end|>".len() + 1);
    assert_eq!(reply["max_model_len"], CONTEXT);
    let back = server.post("/detokenize", &json!({"tokens": reply["tokens"]})).await.json();
    assert_eq!(back["prompt"], text);
    let chat = json!({"messages": [{"role": "user", "content": "<|end|>"}], "return_token_strs": true});
    let reply = server.post("/tokenize", &chat).await.json();
    assert_eq!(reply["count"], "user: <|end|>\n".len(), "a control token in a message is text");
    assert_eq!(reply["token_strs"][0], "u");
    server.stop().await;
}

#[actix_web::test]
async fn c275_c276_ready_is_not_alive() {
    let ready = SchedulerStatus { ready: true, ..SchedulerStatus::default() };
    for (status, model, code, word) in [
        (ready, Model::Loaded, 200, "ready"),
        (ready, Model::Loading, 503, "loading"),
        (SchedulerStatus { ready: false, ..ready }, Model::Loaded, 503, "not stepping"),
        (SchedulerStatus { draining: true, ..ready }, Model::Loaded, 503, "draining"),
    ] {
        let server = TestServer::with(|_| Vec::new(), status, &model);
        assert_eq!(server.get("/health").await.status, 200);
        let reply = server.get("/ready").await;
        assert_eq!((reply.status, &reply.json()["status"]), (code, &json!(word)));
        if matches!(model, Model::Loading) {
            for reply in [server.get("/v1/models").await, server.post("/v1/completions", &json!({})).await] {
                assert_eq!((reply.status, &reply.json()["error"]["code"]), (503, &json!("model_not_ready")));
            }
        }
        server.stop().await;
    }
}

#[actix_web::test]
async fn a_plain_request_id_is_given_back_and_another_replaced() {
    let server = TestServer::start(|_| Vec::new());
    let head_reply = server.ask(head("HEAD", "/health", "")).await;
    assert_eq!((head_reply.status, head_reply.body.as_str()), (200, ""));
    let long = "x".repeat(129);
    for (sent, echoed) in
        [("abc-1:2.3", true), ("a b", false), (long.as_str(), false), ("\"><script>", false)]
    {
        let reply = server.ask(head("GET", "/health", &format!("x-request-id: {sent}\r\n"))).await;
        let id = reply.header("x-request-id").unwrap();
        assert_eq!(id == sent, echoed, "{sent}");
        assert!(echoed || id.starts_with("req-"), "{id}");
    }
    server.stop().await;
}

#[actix_web::test]
async fn a_bad_request_costs_its_neighbours_nothing() {
    let server = TestServer::start(|sequence| says(sequence, "fine"));
    let bad = server.ask(post("/v1/completions", b"{\"prompt\": [[["));
    let body = json!({"prompt": "a"});
    let (bad, good) = futures_util::future::join(bad, server.post("/v1/completions", &body)).await;
    assert_eq!((bad.status, good.status), (400, 200));
    assert_eq!(good.json()["choices"][0]["text"], "fine");
    server.stop().await;
}

#[actix_web::test]
async fn the_document_and_its_page_come_from_this_server_alone() {
    let server = TestServer::start(|_| Vec::new());
    let document = server.get("/openapi.json").await;
    assert_eq!(document.header("content-type"), Some("application/json"));
    assert_eq!(document.json()["openapi"], "3.1.0");
    let moved = server.get("/docs").await;
    assert_eq!((moved.status, moved.header("location")), (308, Some("docs/")));
    let page = server.get("/docs/").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html")));
    assert!(!page.body.contains("//"), "a page that links to another host: {}", page.body);
    let settings = server.get("/docs/swagger-initializer.js").await;
    assert!(settings.body.contains("../openapi.json"), "{}", settings.body);
    assert!(settings.body.contains(r#""validatorUrl": "none""#), "{}", settings.body);
    assert_eq!(server.get("/docs/nothing").await.json()["error"]["code"], "unknown_url");
    server.stop().await;
}
