//! Tenants: who is let in, what a limit, a deadline and a reload do, and what an operator sees.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Answer, CAPITAL, Response, Server, chat, streamed, with};

const CHAT: &str = "/v1/chat/completions";

/// `printf %s KEY | sha256sum` of the keys `ann-key`, `bob-key` and `admin-key`.
const ANN: &str = "21fdbeecb49c56644f6cc4444328f5da14132c8a38fd86aad19b4da9e521a79c";
const BOB: &str = "9b94dc1a51a38769f135edf04033ad7f2f487b6c25929be7a861cfc1ab10cf98";
const ADMIN: &str = "69a5265506c94c77b787a7d7377b7685a0eff82e33920a71e7ee22cd6154953e";

/// A configuration file of a test's own.
struct File {
    _folder: TempDir,
    path: PathBuf,
}

impl File {
    /// Tenant `ann` with further lines, tenant `bob`, and an operator.
    fn new(of_ann: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = Self { path: folder.path().join("troupe.toml"), _folder: folder };
        file.write(of_ann, "");
        file
    }

    fn write(&self, of_ann: &str, more: &str) {
        let text = format!(
            "[admin]\nkey_sha256 = \"{ADMIN}\"\n{more}\n\
             [[tenants]]\nname = \"ann\"\napi_keys_sha256 = [\"{ANN}\"]\n{of_ann}\n\
             [[tenants]]\nname = \"bob\"\napi_keys_sha256 = [\"{BOB}\"]\nweight = 3\n"
        );
        fs::write(&self.path, text).unwrap();
    }

    fn serve(&self) -> Server {
        Server::start(&["--config", self.path.to_str().unwrap()])
    }
}

fn ask(server: &Server, key: &str, request: &Value) -> Response {
    server.client.send_as(key, "POST", CHAT, request.to_string().as_bytes())
}

fn long(max_tokens: u32) -> Value {
    with(streamed(chat("Tell me a long story.", max_tokens)), json!({"ignore_eos": true}))
}

#[test]
fn a_wrong_key_and_a_missing_one_are_answered_alike_and_probes_need_none() {
    let server = File::new("").serve();
    let request = chat(CAPITAL, 8);
    let refused = [
        server.client.post(CHAT, &request),
        ask(&server, "nobody's", &request),
        ask(&server, "admin-key", &request),
    ];
    let bodies = refused.map(|response| {
        assert_eq!((response.status, response.header("www-authenticate")), (401, Some("Bearer")));
        response.text()
    });
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    assert!(bodies[0].contains("\"invalid_api_key\""), "{}", bodies[0]);
    for path in ["/health", "/ready", "/metrics"] {
        assert_eq!(server.client.get(path).status, 200, "{path}");
    }
    let answers = ["ann-key", "bob-key"].map(|key| ask(&server, key, &request).answer());
    assert_eq!(answers[0].text(), answers[1].text(), "an answer is the same whoever asks");
}

#[test]
fn a_tenant_at_its_limit_is_told_when_to_come_back_and_others_are_served() {
    let server = File::new("requests_per_minute = 2\ntokens_per_minute = 160").serve();
    let request = chat(CAPITAL, 8);
    let number = |response: &Response, name: &str| response.header(name).expect(name).parse::<u64>().unwrap();
    for (request, status, requests_left) in
        [(request.clone(), 200, 1), (streamed(request.clone()), 200, 0), (request.clone(), 429, 0)]
    {
        let response = ask(&server, "ann-key", &request);
        assert_eq!(response.status, status);
        assert_eq!(number(&response, "x-ratelimit-limit-requests"), 2);
        assert_eq!(number(&response, "x-ratelimit-remaining-requests"), requests_left);
        assert_eq!(number(&response, "x-ratelimit-limit-tokens"), 160);
        assert!(number(&response, "x-ratelimit-remaining-tokens") < 160);
        for name in ["x-ratelimit-reset-requests", "x-ratelimit-reset-tokens"] {
            assert!(response.header(name).expect(name).ends_with('s'), "{name}");
        }
        if status == 200 {
            assert_eq!(response.header("retry-after"), None);
            response.answer();
        }
    }
    let refused = ask(&server, "ann-key", &request);
    assert!((1..=30).contains(&number(&refused, "retry-after")), "two a minute are one in 30 s");
    let error = &refused.json()["error"];
    assert_eq!((&error["code"], &error["type"]), (&json!("rate_limit_exceeded"), &json!("rate_limit_error")));
    assert_eq!(error["message"], "the tenant's limit of 2 requests a minute is reached");
    let unlimited = ask(&server, "bob-key", &request);
    assert_eq!(unlimited.header("x-ratelimit-limit-requests"), None, "it has no limits to tell");
    unlimited.answer();
}

#[test]
fn an_unknown_priority_is_400_and_the_known_ones_are_served() {
    let server = Server::start(&[]);
    let asked =
        |priority: Value| server.client.post(CHAT, &with(chat(CAPITAL, 2), json!({"priority": priority})));
    for priority in ["interactive", "normal", "batch"] {
        assert_eq!(asked(json!(priority)).status, 200, "{priority}");
    }
    for priority in [json!("urgent"), json!(1), json!("Batch")] {
        let refused = asked(priority.clone());
        assert_eq!(refused.status, 400, "{priority}");
        assert_eq!(refused.json()["error"]["param"], "priority", "{priority}");
    }
}

#[test]
fn a_request_ends_at_its_deadline_whether_something_was_sent_or_not() {
    let server = File::new("timeout_seconds = 1").serve();
    let whole = with(chat("Tell me a long story.", 8000), json!({"ignore_eos": true}));
    for (key, request) in [("bob-key", with(whole.clone(), json!({"timeout": 0.5}))), ("ann-key", whole)] {
        let late = ask(&server, key, &request);
        let (status, error) = (late.status, late.json()["error"].clone());
        assert_eq!((status, &error["code"]), (504, &json!("timeout")), "{error}");
    }
    // A busy machine may take longer for the first token, before which there is no stream.
    let begun = [3, 10, 30].into_iter().find_map(|seconds| {
        let response = ask(&server, "bob-key", &with(long(8000), json!({"timeout": seconds})));
        (response.status == 200).then(|| response.events())
    });
    let answer = Answer::of_events(begun.expect("a stream"));
    assert_eq!(answer.error.expect("it is cut short")["code"], "timeout");
    server.until("no sequence", |status| (status.running, status.waiting) == (0, 0));
}

#[test]
fn a_hangup_changes_limits_while_a_stream_goes_on() {
    let file = File::new("requests_per_minute = 1");
    let server = file.serve();
    let request = chat(CAPITAL, 2);
    let expected = ask(&server, "bob-key", &long(400)).answer();
    // It runs until it is left, however long the rest takes.
    let mut events = ask(&server, "ann-key", &long(8000)).events();
    let mut answer = Answer::default();
    answer.add_chunk(&events.data());
    assert_eq!(ask(&server, "ann-key", &request).status, 429);

    fs::write(&file.path, "[[tenants]]\nname = \"ann\"\nwieght = 1\n").unwrap();
    server.hang_up();
    let line = server.until_logged("the configuration stays as it is");
    assert!(line.contains("`wieght`"), "{line}");
    assert_eq!(ask(&server, "ann-key", &request).status, 429);

    file.write("", "[server]\nmax_body_bytes = \"1MiB\"");
    server.hang_up();
    let line = server.until_logged("need a restart");
    assert!(line.contains("server.max_body_bytes") && !line.contains("port"), "{line}");
    server.until_logged("the configuration was read again");
    assert_eq!(server.status().running, 1, "the stream still runs");
    assert_eq!(ask(&server, "ann-key", &request).status, 200);
    answer.follow_to(events, expected.text());
}

#[test]
fn a_hangup_does_not_open_a_server_that_asks_for_keys() {
    let file = File::new("");
    let server = file.serve();
    fs::write(&file.path, "").unwrap();
    server.hang_up();
    let line = server.until_logged("the configuration holds no API keys");
    assert!(line.contains("WARN") && line.contains("only a restart opens the server"), "{line}");
    let request = chat(CAPITAL, 2);
    assert_eq!(server.client.post(CHAT, &request).status, 401);
    ask(&server, "ann-key", &request).answer();
}

#[test]
fn an_operator_sees_tenants_blocks_and_each_sequence_on_a_line() {
    const PATH: &str = "/admin/scheduler";
    let server = File::new("max_running = 1").serve();
    for key in ["ann-key", "nobody's"] {
        assert_eq!(server.client.send_as(key, "GET", PATH, b"").status, 401);
    }
    let mut streams = [(); 2].map(|()| ask(&server, "bob-key", &long(8000)).events());
    // The first chunk names the role, and may come before a step does.
    streams.iter_mut().for_each(|events| drop((events.data(), events.data())));
    let text = server.client.send_as("admin-key", "GET", PATH, b"").text();
    assert_eq!(text.lines().filter(|line| line.contains("\"sequence\"")).count(), 2, "{text}");
    let page: Value = serde_json::from_str(&text).unwrap();
    let tenant =
        |name: &str| page["tenants"].as_array().unwrap().iter().find(|t| t["tenant"] == name).unwrap();
    let (ann, bob) = (tenant("ann"), tenant("bob"));
    assert_eq!((&bob["running"], &bob["accepted"], &bob["weight"]), (&json!(2), &json!(2), &json!(3)));
    assert_eq!((&ann["running"], &ann["max_running"]), (&json!(0), &json!(1)));
    assert_eq!(page["sequences"][0]["tenant"], "bob");
    assert_eq!(page["queues"], json!({"waiting": 0, "running": 2}));
    let blocks = page["blocks"].as_object().unwrap();
    let sum: u64 = blocks.iter().filter(|(name, _)| *name != "total").map(|(_, n)| n.as_u64().unwrap()).sum();
    assert_eq!(blocks["total"], sum, "{text}");

    let closed = Server::start(&[]);
    let unknown = closed.client.send_as("admin-key", "GET", PATH, b"");
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (404, &json!("unknown_url")));
}
