//! What a real scheduler cannot be asked to do to a response.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use troupe_actors::testing::{says, token};
use troupe_protocol::{Fault, RateStatuses, RejectReason, SequenceEvent, StepId};

use super::client::{Reply, Script, TestServer, head, post};
use super::tools::TWO_CALLS;

const PATH: &str = "/v1/responses";

#[actix_web::test]
async fn a_rejection_keeps_its_status() {
    let server = TestServer::start(|_| {
        vec![SequenceEvent::Rejected(RejectReason::QueueFull { limit: 4, rates: RateStatuses::default() })]
    });
    for stream in [false, true] {
        let reply = server.post(PATH, &json!({"input": "hi", "stream": stream})).await;
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (429, &json!("queue_full")));
        assert!(reply.header("retry-after").is_some());
    }
    server.stop().await;
}

/// Asks for a stream, and reads of it what tells the id of its response.
async fn begin(server: &TestServer) -> (TcpStream, String) {
    let request = json!({"input": "hi", "stream": true});
    let mut stream = server.send(&post(PATH, request.to_string().as_bytes())).await;
    let mut read = String::new();
    loop {
        let mut bytes = [0; 256];
        let length = stream.read(&mut bytes).await.unwrap();
        assert!(length > 0, "no id in {read}");
        read += std::str::from_utf8(&bytes[..length]).unwrap();
        if let Some((id, _)) = read.split_once("\"id\":\"resp_").and_then(|(_, rest)| rest.split_once('"')) {
            return (stream, format!("resp_{id}"));
        }
    }
}

async fn ask(server: &TestServer, method: &str, path: &str) -> Reply {
    let reply = server.ask(head(method, path, "content-length: 0\r\n"));
    timeout(Duration::from_secs(120), reply).await.expect("an answer")
}

#[actix_web::test]
async fn a_response_whose_client_has_stopped_reading_is_cancelled() {
    const STALL: Duration = Duration::from_millis(300);
    let mut server = TestServer::start(|_| vec![token(b'x'.into()); 200_000]);
    let (mut stream, id) = begin(&server).await;
    // Until sockets and buffers are full.
    while timeout(STALL, server.seen.recv()).await.is_ok() {}
    let path = format!("{PATH}/{id}");
    let reply = ask(&server, "POST", &format!("{path}/cancel")).await;
    let cancelled = reply.json();
    assert_eq!((reply.status, &cancelled["status"]), (200, &json!("cancelled")), "{}", cancelled["error"]);
    server.cancelled().await;
    assert_eq!(server.get(&path).await.json(), cancelled);
    // Whoever reads on in the end gets all of it.
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    let rest = String::from_utf8(rest).unwrap();
    let told = rest.matches("event: response.output_text.delta").count();
    let text = cancelled["output"][0]["content"][0]["text"].as_str().unwrap();
    assert!((1..200_000).contains(&text.len()) && told.abs_diff(text.len()) < 4, "{told} of {}", text.len());
    assert!(rest.contains("event: response.incomplete"));
    server.idle().await;
    server.stop().await;
}

#[actix_web::test]
async fn a_response_in_progress_is_one_for_every_endpoint() {
    let server = TestServer::start(|_| vec![token(b'x'.into()); 5]);
    let (_stream, id) = begin(&server).await;
    let path = format!("{PATH}/{id}");
    assert_eq!(server.get(&path).await.json()["status"], "in_progress");
    let items = server.get(&format!("{path}/input_items")).await.json();
    assert_eq!(items["data"][0]["content"], json!([{"type": "input_text", "text": "hi"}]), "{items}");
    let next = json!({"input": "and?", "previous_response_id": id});
    for (reply, param) in [
        (ask(&server, "DELETE", &path).await, "response_id"),
        (server.post(PATH, &next).await, "previous_response_id"),
        (server.post(&format!("{PATH}/input_tokens"), &next).await, "previous_response_id"),
    ] {
        let error = reply.json()["error"].take();
        assert_eq!((reply.status, &error["param"]), (400, &json!(param)), "{error}");
        assert!(error["message"].as_str().unwrap().contains("the response is still in progress"), "{error}");
    }
    assert_eq!(ask(&server, "POST", &format!("{path}/cancel")).await.json()["status"], "cancelled");
    assert_eq!(ask(&server, "DELETE", &path).await.json()["deleted"], true);
    assert_eq!(server.get(&path).await.status, 404);
    server.stop().await;
}

#[actix_web::test]
async fn a_failed_response_has_a_code_of_openais_list() {
    let late: Script =
        |_| vec![token(b'a'.into()), SequenceEvent::Failed(Fault::DeadlineExceeded { timeout: 250_000 })];
    let ending: Script = |_| vec![token(b'a'.into()), SequenceEvent::Failed(Fault::Shutdown)];
    let unguided: Script = |_| {
        let fault = Fault::Guide { message: "it is too large".to_owned() };
        vec![token(b'a'.into()), SequenceEvent::Failed(fault)]
    };
    for (script, code, said) in [
        (late, "server_error", "0.25 s"),
        (ending, "server_error", ""),
        (unguided, "invalid_prompt", "it is too large"),
    ] {
        let server = TestServer::start(script);
        let reply = server.post(PATH, &json!({"input": "hi", "stream": true})).await;
        let (_, data) = reply.body.rsplit_once("event: response.failed\ndata: ").expect(&reply.body);
        let error = serde_json::from_str::<Value>(data.trim()).unwrap()["response"]["error"].take();
        assert_eq!(error["code"], code);
        assert!(error["message"].as_str().unwrap().contains(said), "{error}");
        server.stop().await;
    }
}

#[actix_web::test]
async fn a_fault_in_a_stream_is_told_and_kept() {
    let server = TestServer::start(|_| {
        let fault = Fault::Step { step: StepId(7), message: "out of memory".to_owned() };
        vec![token(b'a'.into()), SequenceEvent::Failed(fault)]
    });
    let reply = server.post(PATH, &json!({"input": "hi", "stream": true})).await;
    let last = reply.body.split_terminator("\n\n").last().unwrap();
    let data = last.strip_prefix("event: response.failed\ndata: ").expect(last);
    let response = serde_json::from_str::<Value>(data).unwrap()["response"].take();
    let error = json!({"code": "server_error", "message": "the engine failed in step-7: out of memory"});
    assert_eq!((&response["status"], &response["error"]), (&json!("failed"), &error));
    assert_eq!(response["output"][0]["status"], "incomplete");
    let path = format!("{PATH}/{}", response["id"].as_str().unwrap());
    assert_eq!(server.get(&path).await.json(), response);

    // Without a stream it is an error, and nothing is kept.
    let whole = server.post(PATH, &json!({"input": "hi"})).await;
    assert_eq!((whole.status, &whole.json()["error"]["type"]), (500, &json!("server_error")));
    server.stop().await;
}

#[actix_web::test]
async fn reasoning_and_two_calls_are_items_and_their_outputs_are_taken_back() {
    let mut server = TestServer::calling(|sequence| says(sequence, TWO_CALLS));
    let tool = |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object"}});
    let tools = json!([tool("get_weather"), tool("now")]);
    let whole = server.post(PATH, &json!({"input": "hi", "tools": tools})).await.json();
    let output = whole["output"].as_array().unwrap();
    let kinds: Vec<&str> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"], "{whole}");
    assert_eq!(output[0]["content"], json!([{"type": "reasoning_text", "text": "Two."}]));
    assert_eq!(output[1]["content"][0]["text"], "Let me look.");
    let calls: Vec<_> =
        output[2..].iter().map(|item| (&item["name"], &item["arguments"], &item["status"])).collect();
    let [weather, now, completed] = [json!("get_weather"), json!("now"), json!("completed")];
    let [city, nothing] = [json!("{\"city\": \"Köln\"}"), json!("{}")];
    assert_eq!(calls, [(&weather, &city, &completed), (&now, &nothing, &completed)]);
    let reasoning = "\nTwo.\n</think>".len();
    assert_eq!(whole["usage"]["output_tokens_details"]["reasoning_tokens"], reasoning);
    assert_eq!(whole["tools"], tools);

    let result = |index: usize, text: &str| json!({"type": "function_call_output", "call_id": output[index]["call_id"], "output": text});
    let next = json!({
        "previous_response_id": whole["id"],
        "input": [result(2, "rain"), result(3, "noon")],
        "tools": tools,
    });
    while server.seen.try_recv().is_ok() {}
    assert_eq!(server.post(PATH, &next).await.status, 200);
    let prompt: Vec<u8> = server.admitted().await.prompt.into_iter().map(|token| token as u8).collect();
    let prompt = String::from_utf8(prompt).unwrap();
    for said in
        ["\"name\": \"get_weather\"", "Let me look.", "{\"city\": \"Köln\"}", "tool: rain", "tool: noon"]
    {
        assert!(prompt.contains(said), "no {said:?} in {prompt}");
    }
    let unknown = json!({"input": "hi", "tools": [tool("a b")]});
    assert_eq!(server.post(PATH, &unknown).await.json()["error"]["param"], "tools[0].name");
    server.stop().await;
}
