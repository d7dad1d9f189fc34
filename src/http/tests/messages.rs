//! What a real scheduler cannot be asked to do to a message.

use serde_json::{Value, json};
use troupe_actors::scheduler::SchedulerStatus;
use troupe_actors::testing::{says, token};
use troupe_protocol::{Fault, RateStatuses, RejectReason, SequenceEvent, StepId};

use super::client::{Model, Reply, Script, TestServer};
use super::tools::{TWO_CALLS, thinks};

const PATH: &str = "/v1/messages";

fn ask(stream: bool) -> Value {
    json!({"model": "test", "max_tokens": 9, "stream": stream, "messages": [{"role": "user", "content": "hi"}]})
}

#[actix_web::test]
async fn refusals_have_anthropics_status_and_type() {
    let full: Script = |_| {
        vec![SequenceEvent::Rejected(RejectReason::QueueFull { limit: 4, rates: RateStatuses::default() })]
    };
    let draining: Script = |_| vec![SequenceEvent::Rejected(RejectReason::Draining)];
    let late: Script = |_| vec![SequenceEvent::Failed(Fault::DeadlineExceeded { timeout: 1000 })];
    let broken: Script =
        |_| vec![SequenceEvent::Failed(Fault::ExecutorLost { message: "it is gone".to_owned() })];
    for (script, status, kind) in [
        (full, 429, "rate_limit_error"),
        (draining, 529, "overloaded_error"),
        (late, 504, "timeout_error"),
        (broken, 500, "api_error"),
    ] {
        let server = TestServer::start(script);
        for stream in [false, true] {
            let reply = server.post(PATH, &ask(stream)).await;
            let body = reply.json();
            assert_eq!((reply.status, &body["error"]["type"]), (status, &json!(kind)), "{body}");
            assert_eq!(reply.header("retry-after").is_some(), status == 429);
            assert_eq!(body["request_id"].as_str(), reply.header("request-id"));
            assert_eq!(reply.header("request-id"), reply.header("x-request-id"));
        }
        server.stop().await;
    }
    let ready = SchedulerStatus { ready: true, ..SchedulerStatus::default() };
    let server = TestServer::with(|sequence| says(sequence, "x"), ready, &Model::Loading);
    for path in [PATH, "/v1/messages/count_tokens"] {
        let reply = server.post(path, &ask(false)).await;
        assert_eq!((reply.status, &reply.json()["error"]["type"]), (529, &json!("overloaded_error")));
    }
    server.stop().await;
}

#[actix_web::test]
async fn a_fault_in_a_stream_is_its_last_event() {
    let server = TestServer::start(|_| {
        let fault = Fault::Step { step: StepId(7), message: "out of memory".to_owned() };
        vec![token(b'a'.into()), SequenceEvent::Failed(fault)]
    });
    let reply = server.post(PATH, &ask(true)).await;
    let last = reply.body.split_terminator("\n\n").last().unwrap();
    let message = "the engine failed in step-7: out of memory";
    let error = json!({"type": "error", "error": {"type": "api_error", "message": message}});
    assert_eq!(last, format!("event: error\ndata: {error}"));
    server.stop().await;
}

/// Data of a stream's events.
fn events(reply: &Reply) -> Vec<Value> {
    let data = reply.body.split_terminator("\n\n").map(|event| event.split_once("\ndata: ").expect(event).1);
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn tools() -> Value {
    let tool = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    json!([tool("get_weather"), tool("now")])
}

#[actix_web::test]
async fn reasoning_and_two_calls_are_blocks_and_their_results_are_taken_back() {
    let mut server = TestServer::calling(|sequence| says(sequence, TWO_CALLS));
    let mut request = ask(false);
    request["tools"] = tools();
    request["max_tokens"] = 500.into();
    let whole = server.post(PATH, &request).await.json();
    let content = whole["content"].as_array().unwrap();
    assert_eq!(content[0], json!({"type": "thinking", "thinking": "Two.", "signature": ""}), "{whole}");
    assert_eq!(content[1], json!({"type": "text", "text": "Let me look."}));
    let calls: Vec<_> = content[2..].iter().map(|block| (&block["name"], &block["input"])).collect();
    let [weather, now] = [json!("get_weather"), json!("now")];
    let [city, nothing] = [json!({"city": "Köln"}), json!({})];
    assert_eq!(calls, [(&weather, &city), (&now, &nothing)]);
    assert_eq!(whole["stop_reason"], "tool_use");
    let thinking = "\nTwo.\n</think>".len();
    assert_eq!(whole["usage"]["output_tokens_details"]["thinking_tokens"], thinking);

    request["stream"] = true.into();
    let events = events(&server.post(PATH, &request).await);
    let input: Vec<String> = [2, 3]
        .map(|index| {
            let deltas = events.iter().filter(|event| event["index"] == index);
            deltas.filter_map(|event| event["delta"]["partial_json"].as_str()).collect()
        })
        .into();
    assert_eq!(
        input.iter().map(|json| serde_json::from_str(json).unwrap()).collect::<Vec<Value>>(),
        [city, nothing]
    );
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");

    let result = |index: usize, text: &str| json!({"type": "tool_result", "tool_use_id": content[index]["id"], "content": text});
    let turns = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": content},
        {"role": "user", "content": [result(2, "rain"), result(3, "noon")]},
    ]);
    request["messages"] = turns;
    let count = server
        .post(
            &format!("{PATH}/count_tokens"),
            &json!({
                "model": "test", "messages": request["messages"], "tools": tools(),
            }),
        )
        .await
        .json();
    while server.seen.try_recv().is_ok() {}
    assert_eq!(server.post(PATH, &request).await.status, 200);
    let prompt = server.admitted().await.prompt;
    assert_eq!(count["input_tokens"], prompt.len());
    let prompt: Vec<u8> = prompt.into_iter().map(|token| token as u8).collect();
    let prompt = String::from_utf8(prompt).unwrap();
    for said in
        ["\"name\": \"get_weather\"", "Let me look.", "{\"city\": \"Köln\"}", "tool: rain", "tool: noon"]
    {
        assert!(prompt.contains(said), "no {said:?} in {prompt}");
    }
    server.stop().await;
}

#[actix_web::test]
async fn a_tool_that_chat_refuses_is_named_as_its_client_wrote_it() {
    let server = TestServer::calling(|sequence| says(sequence, "x"));
    for (tools, choice, named) in [
        (json!([{"name": "a b", "input_schema": {}}]), json!({"type": "auto"}), "'tools[0].name'"),
        (
            json!([{"name": "f", "input_schema": {"type": "string"}}]),
            json!({"type": "auto"}),
            "'tools[0].input_schema",
        ),
        (tools(), json!({"type": "tool", "name": "nobody"}), "'tool_choice.name'"),
    ] {
        let mut request = ask(false);
        (request["tools"], request["tool_choice"]) = (tools, choice);
        let reply = server.post(PATH, &request).await;
        let message = reply.json()["error"]["message"].take();
        assert!(reply.status == 400 && message.as_str().unwrap().contains(named), "{message}");
    }
    server.stop().await;
}

#[actix_web::test]
async fn a_turn_that_is_continued_has_no_format() {
    let server = TestServer::calling(|sequence| says(sequence, "x"));
    let format = json!({"format": {"type": "json_schema", "schema": {"type": "object"}}});
    for (extra, named) in [
        (json!({ "output_config": format }), Some("'output_config.format.schema'")),
        (json!({"tools": tools(), "tool_choice": {"type": "any"}}), Some("'tool_choice'")),
        (json!({"tools": tools()}), None),
    ] {
        let mut request = ask(false);
        request["messages"] =
            json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "{"}]);
        request.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let reply = server.post(PATH, &request).await;
        assert_eq!(reply.status, if named.is_some() { 400 } else { 200 }, "{reply:?}");
        let message = reply.json()["error"]["message"].take();
        assert!(named.is_none_or(|named| message.as_str().unwrap().contains(named)), "{message}");
    }
    server.stop().await;
}

#[actix_web::test]
async fn a_budget_closes_the_thinking() {
    let server = TestServer::calling(thinks);
    let mut request = ask(false);
    request["max_tokens"] = 200.into();
    request["thinking"] = json!({"type": "enabled", "budget_tokens": 50});
    let whole = server.post(PATH, &request).await.json();
    let expected = json!([
        {"type": "thinking", "thinking": "x".repeat(50), "signature": ""},
        {"type": "text", "text": "So."},
    ]);
    assert_eq!((&whole["content"], &whole["stop_reason"]), (&expected, &json!("end_turn")), "{whole}");
    server.stop().await;
    // A model that does not think has no section to bound.
    let server = TestServer::start(|sequence| says(sequence, "x"));
    let refused = server.post(PATH, &request).await;
    let message = refused.json()["error"]["message"].take();
    assert!(
        refused.status == 400 && message.as_str().unwrap().contains("'thinking.budget_tokens'"),
        "{message}"
    );
    server.stop().await;
}
