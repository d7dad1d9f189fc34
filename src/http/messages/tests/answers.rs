//! What is told of an answer.

use serde_json::{Value, json};
use troupe_actors::session::{FinishReason, Piece};
use troupe_protocol::Usage;

use super::super::answer::{MessageAnswer, Thinking};
use crate::http::error::ApiError;
use crate::http::narrate::{Delta, Ending, Event, Narrator};
use crate::http::openapi::faults;

fn text(text: &str) -> Delta {
    Delta::Text(Piece { text: text.to_owned(), tokens: Vec::new() })
}

fn reasoning(text: &str) -> Delta {
    Delta::Reasoning(Piece { text: text.to_owned(), tokens: Vec::new() })
}

fn finished(reason: FinishReason, matched_stop: Option<usize>) -> Ending {
    let usage = Usage { prompt_tokens: 10, cached_tokens: 4, completion_tokens: 3, reasoning_tokens: 2 };
    Ending::Finished { reason, usage, matched_stop }
}

async fn narrated(deltas: Vec<Delta>, ending: Ending) -> (Vec<Event>, Value) {
    let stops = vec!["x".into(), "y".into()];
    let mut answer = MessageAnswer::new("msg_1".into(), "m".into(), stops, Thinking::Told, 10);
    let mut events = answer.open().await;
    events.extend(deltas.into_iter().flat_map(|delta| answer.tell(delta)));
    events.extend(answer.close(ending).await);
    for event in &events {
        assert_eq!(event.data["type"], event.name);
        assert_eq!(faults("MessageEvent", &event.data), [""; 0], "{}", event.data);
    }
    let document = answer.document();
    if events.last().is_some_and(|event| event.name == "message_stop") {
        assert_eq!(faults("AnthropicMessage", &document), [""; 0], "{document}");
    }
    (events, document)
}

#[actix::test]
async fn blocks_follow_one_another_and_add_up_to_the_document() {
    let deltas = vec![
        reasoning("h"),
        reasoning("m"),
        text("a"),
        text(""),
        text("b"),
        Delta::CallStarted { id: "call_1".into(), name: "f".into() },
        Delta::CallArguments("{\"x\"".into()),
        Delta::CallArguments(":1}".into()),
        Delta::CallFinished,
        Delta::CallStarted { id: "call_2".into(), name: "g".into() },
        Delta::CallArguments("{}".into()),
        Delta::CallFinished,
    ];
    let (events, document) = narrated(deltas, finished(FinishReason::ToolCalls, None)).await;
    let told: Vec<(&str, Option<u64>)> =
        events.iter().map(|event| (event.name, event.data["index"].as_u64())).collect();
    let block = |index, deltas: usize| {
        let delta = std::iter::repeat_n(("content_block_delta", Some(index)), deltas);
        [("content_block_start", Some(index))]
            .into_iter()
            .chain(delta)
            .chain([("content_block_stop", Some(index))])
    };
    let blocks = block(0, 2).chain(block(1, 2)).chain(block(2, 2)).chain(block(3, 1));
    let start = [("message_start", None)];
    let end = [("message_delta", None), ("message_stop", None)];
    assert_eq!(told, start.into_iter().chain(blocks).chain(end).collect::<Vec<_>>());
    assert_eq!(
        document,
        json!({
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "text", "text": "ab"},
                {"type": "tool_use", "id": "call_1", "name": "f", "input": {"x": 1}},
                {"type": "tool_use", "id": "call_2", "name": "g", "input": {}},
            ],
            "stop_reason": "tool_use",
            "stop_sequence": null,
            "usage": {
                "input_tokens": 6,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 4,
                "output_tokens": 3,
                "output_tokens_details": {"thinking_tokens": 2},
                "service_tier": "standard",
            },
        })
    );
    assert_eq!(events[events.len() - 2].data["usage"], document["usage"]);
    assert_eq!(events[0].data["message"]["usage"]["input_tokens"], 10);
}

#[actix::test]
async fn thinking_that_is_omitted_leaves_an_empty_block() {
    let mut answer = MessageAnswer::new("msg_1".into(), "m".into(), Vec::new(), Thinking::Omitted, 10);
    let mut names = Vec::new();
    for delta in [reasoning("h"), reasoning("m"), text("a")] {
        names.extend(answer.tell(delta).iter().map(|event| event.name));
    }
    let block = ["content_block_start", "content_block_stop"];
    assert_eq!(names, [&block[..], &["content_block_start", "content_block_delta"]].concat());
    answer.close(finished(FinishReason::Stop, None)).await;
    let content = json!([
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": "a"},
    ]);
    assert_eq!(answer.document()["content"], content);
}

#[actix::test]
async fn why_a_message_ended_is_told() {
    for (ending, reason, sequence) in [
        (finished(FinishReason::Stop, None), "end_turn", None),
        (finished(FinishReason::Length, None), "max_tokens", None),
        (finished(FinishReason::Stop, Some(1)), "stop_sequence", Some("y")),
    ] {
        let (events, document) = narrated(vec![text("a")], ending).await;
        let expected = json!({"stop_reason": reason, "stop_sequence": sequence});
        assert_eq!(events[events.len() - 2].data["delta"], expected);
        assert_eq!(
            (&document["stop_reason"], &document["stop_sequence"]),
            (&json!(reason), &json!(sequence))
        );
    }
    let call = vec![
        Delta::CallStarted { id: "call_1".into(), name: "f".into() },
        Delta::CallArguments("{\"x".into()),
        Delta::CallBroken,
    ];
    let (_, document) = narrated(call, finished(FinishReason::Length, None)).await;
    assert_eq!((&document["stop_reason"], &document["content"]), (&json!("max_tokens"), &json!([])));
    let call = vec![
        Delta::CallStarted { id: "call_1".into(), name: "f".into() },
        Delta::CallArguments("{\"x\": [1e999, -1E+400, 2e5], \"1e999\\\"1e999\": true, \"y\": ".into()),
        Delta::CallArguments(format!("9{}}}", "0".repeat(400))),
    ];
    let (_, document) = narrated(call, finished(FinishReason::ToolCalls, None)).await;
    let input = json!({"x": [f64::MAX, f64::MIN, 2e5], "1e999\"1e999": true, "y": f64::MAX});
    assert_eq!(document["content"][0]["input"], input, "what no number holds is the largest that one does");
    let (events, _) = narrated(vec![text("a")], Ending::Failed(ApiError::internal("it broke"))).await;
    let error = json!({"type": "error", "error": {"type": "api_error", "message": "it broke"}});
    assert_eq!(events.last().unwrap().data, error);
}
