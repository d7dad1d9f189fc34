//! Who is let in, as whom, and what those hear who are not.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt as _;
use troupe_actors::testing::says;
use troupe_config::KeyDigest;
use troupe_protocol::{
    Fault, Priority, Rate, RateStatus, RateStatuses, RejectReason, SequenceEvent, TenantId,
};

use super::client::{Reply, TestServer, head, keyless};
use crate::http::{Directory, Tenant};

const ADMIN: &str = "root";

fn digest(key: &str) -> KeyDigest {
    KeyDigest(Sha256::digest(key).into())
}

/// Tenant 1 with the key `one`, limits of time and priority, and one model; tenant 2 with the key `two`.
fn directory() -> Directory {
    let one = Tenant {
        id: TenantId(1),
        timeout: Some(5_000_000),
        max_priority: Priority::Normal,
        models: vec!["alias".to_owned()],
    };
    let two = Tenant::unlimited(TenantId(2));
    Directory {
        keys: vec![(digest("one"), Arc::new(one)), (digest("two"), Arc::new(two))],
        anonymous: None,
        admin: Some(digest(ADMIN)),
        names: BTreeMap::new(),
    }
}

fn with_headers(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    let mut request = head(method, path, &format!("{headers}content-length: {}\r\n", body.len()));
    request.extend_from_slice(body.as_bytes());
    request
}

async fn complete(server: &TestServer, headers: &str, body: serde_json::Value) -> Reply {
    server.ask(with_headers("POST", "/v1/completions", headers, &body.to_string())).await
}

#[actix_web::test]
async fn a_missing_key_and_a_wrong_one_get_the_same_answer() {
    let server = TestServer::serving(|sequence| says(sequence, "x"), directory());
    let mut answers = Vec::new();
    for headers in [
        "",
        "authorization: Bearer wrong\r\n",
        "authorization: Bearer \r\n",
        "authorization: Basic one\r\n",
        "x-api-key: wrong\r\n",
        "authorization: Bearer root\r\n",
    ] {
        for (method, path) in [
            ("POST", "/v1/chat/completions"),
            ("POST", "/v1/completions"),
            ("POST", "/tokenize"),
            ("POST", "/detokenize"),
            ("GET", "/v1/models"),
            ("GET", "/v1/models/test"),
        ] {
            let reply = server.ask(with_headers(method, path, headers, "")).await;
            assert_eq!(reply.status, 401, "{method} {path} {headers:?}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
            // Every answer has its own time and id.
            let own = |line: &&str| line.starts_with("date: ") || line.starts_with("x-request-id: ");
            let mut head: Vec<&str> = reply.head.lines().filter(|line| !own(line)).collect();
            head.sort_unstable();
            assert_eq!(head.len() + 2, reply.head.lines().count(), "{head:?}");
            answers.push(format!("{}\n\n{}", head.join("\n"), reply.body));
        }
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    assert!(answers[0].contains("\"code\":\"invalid_api_key\""), "{}", answers[0]);
    for path in ["/health", "/ready", "/metrics"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    server.stop().await;
}

#[actix_web::test]
async fn a_request_is_its_tenants_with_what_it_asked_for() {
    let mut server = TestServer::serving(|sequence| says(sequence, "x"), directory());
    let wishes = json!({"prompt": "a", "priority": "batch", "timeout": 1.5, "cache_salt": "s"});
    for headers in ["authorization: Bearer two\r\n", "x-api-key: two\r\n"] {
        assert_eq!(complete(&server, headers, wishes.clone()).await.status, 200);
        let sequence = server.admitted().await;
        assert_eq!((sequence.tenant, sequence.priority), (TenantId(2), Priority::Batch));
        assert_eq!(sequence.timeout, Some(1_500_000));
        assert_ne!(sequence.cache_salt, 0);
    }
    let one = "authorization: Bearer one\r\n";
    for (timeout, expected) in [(json!(null), 5_000_000), (json!(9), 9_000_000)] {
        let body = json!({"prompt": "a", "model": "alias", "timeout": timeout});
        assert_eq!(complete(&server, one, body).await.status, 200);
        let sequence = server.admitted().await;
        assert_eq!((sequence.tenant, sequence.timeout), (TenantId(1), Some(expected)));
        assert_eq!((sequence.priority, sequence.cache_salt), (Priority::Normal, 0));
    }
    server.stop().await;
}

#[actix_web::test]
async fn an_answer_names_the_tier_that_its_tenant_may_have() {
    let server = TestServer::serving(|sequence| says(sequence, "x"), directory());
    let chat = json!({"messages": [{"role": "user", "content": "hi"}]});
    for (path, body) in [
        ("/v1/completions", json!({"prompt": "a"})),
        ("/v1/chat/completions", chat),
        ("/v1/responses", json!({"input": "hi"})),
    ] {
        for (key, tier, answered) in [
            ("one", "priority", "default"),
            ("one", "auto", "default"),
            ("one", "flex", "flex"),
            ("two", "priority", "priority"),
        ] {
            let mut body = body.clone();
            (body["model"], body["service_tier"]) = (json!("alias"), json!(tier));
            let headers = format!("x-api-key: {key}\r\n");
            let reply = server.ask(with_headers("POST", path, &headers, &body.to_string())).await;
            assert_eq!(
                (reply.status, &reply.json()["service_tier"]),
                (200, &json!(answered)),
                "{path} {key}"
            );
        }
    }
    server.stop().await;
}

#[actix_web::test]
async fn a_model_outside_a_tenants_list_is_one_that_does_not_exist() {
    let server = TestServer::serving(|sequence| says(sequence, "x"), directory());
    let one = "x-api-key: one\r\n";
    let ask = async |model: &str| complete(&server, one, json!({"prompt": "a", "model": model})).await;
    let (other, unknown) = (ask("test").await, ask("nonesuch").await);
    assert_eq!((other.status, unknown.status), (404, 404));
    assert_eq!(other.body.replace("test", "nonesuch"), unknown.body);
    assert_eq!(
        complete(&server, one, json!({"prompt": "a"})).await.status,
        404,
        "the default is not its own"
    );
    let get = async |path: &str| server.ask(with_headers("GET", path, one, "")).await;
    assert_eq!(get("/v1/models").await.json()["data"][0]["id"], "alias");
    assert_eq!((get("/v1/models/alias").await.status, get("/v1/models/test").await.status), (200, 404));
    server.stop().await;
}

const RATES: RateStatuses = RateStatuses {
    requests: Some(RateStatus { limit: 60, remaining: 3, reset: 57_000_000 }),
    tokens: Some(RateStatus { limit: 1000, remaining: 0, reset: 360_000_000 }),
};

const RATE_HEADERS: [(&str, &str); 6] = [
    ("x-ratelimit-limit-requests", "60"),
    ("x-ratelimit-remaining-requests", "3"),
    ("x-ratelimit-reset-requests", "57s"),
    ("x-ratelimit-limit-tokens", "1000"),
    ("x-ratelimit-remaining-tokens", "0"),
    ("x-ratelimit-reset-tokens", "6m0s"),
];

fn assert_rate_headers(reply: &Reply) {
    for (name, value) in RATE_HEADERS {
        assert_eq!(reply.header(name), Some(value), "{name}");
    }
}

/// What was accepted with these rates, and what it says.
fn accepted(rates: RateStatuses, events: Vec<SequenceEvent>) -> Vec<SequenceEvent> {
    [vec![SequenceEvent::Accepted(rates)], events].concat()
}

#[actix_web::test]
async fn answers_say_what_the_tenants_limits_leave() {
    // Of several sequences, each leaves less than the one before it. The last ones come first here.
    let server = TestServer::start(|sequence| {
        let before = sequence.sampling.seed as u32;
        let mut rates = RATES;
        if let Some(requests) = &mut rates.requests {
            requests.remaining += before;
            requests.reset -= u64::from(before) * 1_000_000;
        }
        accepted(rates, says(sequence, "x"))
    });
    for body in [
        json!({"prompt": "a", "seed": 0}),
        json!({"prompt": "a", "n": 3, "seed": 0}),
        json!({"prompt": "a", "n": 3, "seed": 0, "stream": true}),
    ] {
        let reply = server.post("/v1/completions", &body).await;
        assert_eq!(reply.status, 200, "{body}");
        if body["stream"].is_null() {
            assert_rate_headers(&reply);
        }
        assert_eq!(reply.header("x-ratelimit-limit-tokens"), Some("1000"), "{body}");
        assert_eq!(reply.header("retry-after"), None, "{body}");
    }
    let messages = json!([{"role": "user", "content": "hi"}]);
    for stream in [false, true] {
        let body = json!({"messages": messages, "seed": 0, "stream": stream});
        assert_rate_headers(&server.post("/v1/chat/completions", &body).await);
    }
    server.stop().await;
}

#[actix_web::test]
async fn an_answer_tells_no_limit_that_its_tenant_does_not_have() {
    let server =
        TestServer::start(|sequence| accepted(RateStatuses { requests: None, ..RATES }, says(sequence, "x")));
    for stream in [false, true] {
        let reply = server.post("/v1/completions", &json!({"prompt": "a", "stream": stream})).await;
        for (name, value) in RATE_HEADERS {
            let expected = name.ends_with("-tokens").then_some(value);
            assert_eq!((reply.status, reply.header(name)), (200, expected), "{name}");
        }
    }
    server.stop().await;
}

#[actix_web::test]
async fn a_stream_whose_first_token_is_far_away_tells_its_limits_too() {
    let mut server = TestServer::start(|_| accepted(RATES, Vec::new()));
    let body = json!({"prompt": "a", "stream": true}).to_string();
    let mut stream = server.send(&with_headers("POST", "/v1/completions", "", &body)).await;
    server.admitted().await;
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        assert!(stream.read_buf(&mut head).await.unwrap() > 0, "the head was cut short");
    }
    let head = String::from_utf8(head).unwrap();
    for (name, value) in RATE_HEADERS {
        assert!(head.contains(&format!("{name}: {value}\r\n")), "{name}: {head}");
    }
    drop(stream);
    server.cancelled().await;
    server.stop().await;
}

#[actix_web::test]
async fn a_rate_limit_is_429_and_says_when_to_come_back() {
    let server = TestServer::start(|_| {
        let reason = RejectReason::RateLimited {
            rate: Rate::Tokens,
            per_minute: 1000,
            retry_after: 1_000_001,
            rates: RATES,
        };
        vec![SequenceEvent::Rejected(reason)]
    });
    for stream in [false, true] {
        let reply = server.post("/v1/completions", &json!({"prompt": "a", "stream": stream})).await;
        assert_eq!((reply.status, reply.header("retry-after")), (429, Some("2")));
        assert_rate_headers(&reply);
        let error = &reply.json()["error"];
        assert_eq!(
            (&error["code"], &error["type"]),
            (&json!("rate_limit_exceeded"), &json!("rate_limit_error"))
        );
        assert_eq!(error["message"], "the tenant's limit of 1000 tokens a minute is reached");
    }
    server.stop().await;
}

#[actix_web::test]
async fn a_tenants_full_queue_is_429_and_a_deadline_504() {
    // The prompt says after how many tenths of a second the rates would allow it.
    let full = TestServer::start(|sequence| {
        let retry_after = (u64::from(sequence.prompt[0]) - 48) * 100_000;
        let rates = if retry_after == 0 { RateStatuses::default() } else { RATES };
        vec![SequenceEvent::Rejected(RejectReason::TenantQueueFull { limit: 4, retry_after, rates })]
    });
    for (prompt, seconds) in [("0", "1"), ("7", "1"), ("C", "2")] {
        let reply = full.post("/v1/completions", &json!({"prompt": prompt})).await;
        assert_eq!((reply.status, reply.header("retry-after")), (429, Some(seconds)), "{prompt}");
        assert_eq!(reply.json()["error"]["code"], "queue_full");
        if prompt == "0" {
            assert_eq!(reply.header("x-ratelimit-limit-requests"), None, "it has no such limit");
        } else {
            assert_rate_headers(&reply);
        }
    }
    full.stop().await;

    let server =
        TestServer::start(|_| vec![SequenceEvent::Failed(Fault::DeadlineExceeded { timeout: 250_000 })]);
    for stream in [false, true] {
        let reply = server.post("/v1/completions", &json!({"prompt": "a", "stream": stream})).await;
        let error = &reply.json()["error"];
        assert_eq!((reply.status, &error["code"]), (504, &json!("timeout")));
        assert_eq!(error["message"], "the request did not finish within its timeout of 0.25 s");
    }
    server.stop().await;

    let server = TestServer::start(|sequence| {
        let mut events = says(sequence, "begun");
        events.pop();
        events.push(SequenceEvent::Failed(Fault::DeadlineExceeded { timeout: 250_000 }));
        events
    });
    let reply = server.post("/v1/completions", &json!({"prompt": "a", "stream": true})).await;
    let events = reply.events();
    assert_eq!((reply.status, &events.last().unwrap()["error"]["code"]), (200, &json!("timeout")));
    server.stop().await;
}

#[actix_web::test]
async fn the_scheduler_is_shown_to_operators_only() {
    let path = "/admin/scheduler";
    let none = TestServer::serving(|_| Vec::new(), keyless());
    let reply = none.ask(head("GET", path, "authorization: Bearer root\r\n")).await;
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (404, &json!("unknown_url")));
    none.stop().await;

    let server = TestServer::serving(|_| Vec::new(), directory());
    for headers in ["", "authorization: Bearer one\r\n"] {
        let reply = server.ask(head("GET", path, headers)).await;
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (401, &json!("invalid_api_key")));
    }
    // This scheduler has no engine yet, so it has nothing to show.
    let reply = server.ask(head("GET", path, "authorization: Bearer root\r\n")).await;
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (503, &json!("model_not_ready")));
    server.stop().await;
}
