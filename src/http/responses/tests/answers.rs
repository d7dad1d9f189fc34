//! What is told of an answer.

use serde_json::{Value, json};
use troupe_actors::session::{FinishReason, Piece};
use troupe_actors::testing::model_card;
use troupe_protocol::{TenantId, Usage};

use super::super::answer::ResponseAnswer;
use super::super::request::NAMES;
use super::read;
use crate::http::error::ApiError;
use crate::http::narrate::{Delta, Ending, Event, Narrator};
use crate::http::openapi::faults;
use crate::http::tenants::Tenant;

fn text(text: &str) -> Delta {
    Delta::Text(Piece { text: text.to_owned(), tokens: Vec::new() })
}

fn finished(reason: FinishReason) -> Ending {
    let usage = Usage { prompt_tokens: 10, cached_tokens: 4, completion_tokens: 3, reasoning_tokens: 2 };
    Ending::Finished { reason, usage, matched_stop: None }
}

async fn narrated(deltas: Vec<Delta>, ending: Ending) -> (Vec<Event>, Value) {
    let card = model_card(64).unwrap();
    let mut request = read(json!({})).unwrap();
    request.chat.insert("messages".to_owned(), json!([{"role": "user", "content": "hi"}]));
    let tenant = Tenant::unlimited(TenantId::ANONYMOUS);
    let chat = crate::http::as_chat::read(request.chat, NAMES, &card, &tenant).unwrap();
    let mut answer = ResponseAnswer::new("resp_1", "m", &chat.generation, request.repeated, None);
    let mut events = answer.open().await;
    events.extend(deltas.into_iter().flat_map(|delta| answer.tell(delta)));
    events.extend(answer.close(ending).await);
    for (number, event) in events.iter().enumerate() {
        assert_eq!(
            (&event.data["type"], &event.data["sequence_number"]),
            (&json!(event.name), &json!(number))
        );
        assert_eq!(faults("ResponseEvent", &event.data), [""; 0], "{}", event.data);
    }
    let document = answer.document();
    assert_eq!(faults("Response", &document), [""; 0], "{document}");
    assert_eq!(events.last().unwrap().data["response"], document);
    (events, document)
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.strip_prefix("response.").unwrap()).collect()
}

#[actix::test]
async fn items_are_told_in_openais_order() {
    let deltas = vec![
        Delta::Reasoning(Piece { text: "hm".to_owned(), tokens: Vec::new() }),
        text("a"),
        text("b"),
        Delta::CallStarted { id: "call_1".into(), name: "f".into() },
        Delta::CallArguments("{\"x\"".into()),
        Delta::CallArguments(":1}".into()),
        Delta::CallFinished,
    ];
    let (events, document) = narrated(deltas, finished(FinishReason::ToolCalls)).await;
    assert_eq!(
        names(&events),
        [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "reasoning_text.delta",
            "reasoning_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ]
    );
    let done: Vec<&Value> = events
        .iter()
        .filter(|event| event.name == "response.output_item.done")
        .map(|e| &e.data["item"])
        .collect();
    assert_eq!(document["output"].as_array().unwrap().iter().collect::<Vec<_>>(), done);
    let output = &document["output"];
    assert_eq!(output[0]["content"], json!([{"type": "reasoning_text", "text": "hm"}]));
    assert_eq!(output[1]["content"][0]["text"], "ab");
    assert_eq!(
        (&output[2]["call_id"], &output[2]["name"], &output[2]["arguments"]),
        (&json!("call_1"), &json!("f"), &json!("{\"x\":1}"))
    );
    assert_eq!(document["status"], "completed");
    assert_eq!(
        document["usage"],
        json!({
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 13,
        })
    );
    for (index, event) in events.iter().enumerate().filter(|(_, event)| event.name.ends_with(".delta")) {
        let item = &output[event.data["output_index"].as_u64().unwrap() as usize];
        assert_eq!(event.data["item_id"], item["id"], "event {index}");
    }
}

#[actix::test]
async fn an_end_before_the_end_is_told() {
    let (events, document) = narrated(vec![text("a")], finished(FinishReason::Length)).await;
    assert_eq!(names(&events).last(), Some(&"incomplete"));
    assert_eq!(document["incomplete_details"], json!({"reason": "max_output_tokens"}));
    assert_eq!(
        (&document["status"], &document["output"][0]["status"]),
        (&json!("incomplete"), &json!("incomplete"))
    );

    let (events, document) = narrated(vec![text("a")], Ending::Failed(ApiError::internal("it broke"))).await;
    assert_eq!(names(&events).last(), Some(&"failed"));
    assert_eq!(document["error"], json!({"code": "server_error", "message": "it broke"}));

    let (events, document) = narrated(vec![text("a")], Ending::Interrupted).await;
    assert_eq!((names(&events).last(), &document["status"]), (Some(&"incomplete"), &json!("cancelled")));

    let (_, document) = narrated(Vec::new(), finished(FinishReason::Stop)).await;
    assert_eq!(document["output"][0]["content"][0]["text"], "", "an answer has a message, if an empty one");

    let call =
        vec![Delta::CallStarted { id: "call_1".into(), name: "f".into() }, Delta::CallArguments("{".into())];
    let (_, document) = narrated(call, finished(FinishReason::Stop)).await;
    assert_eq!(document["output"][0]["status"], "incomplete", "a call that was not ended is none to be made");
}
