//! What a stream does while nothing flows. The clock is tokio's own, which runs ahead when all wait.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use troupe_actors::session::{End, FinishReason, Output, Part, Piece};
use troupe_protocol::Usage;

use crate::http::answer::{Bill, Choice, Keep, Running, Shape};
use crate::http::sse::EventStream;

/// The least that a stream can be made of.
struct Bare;

impl Shape for Bare {
    fn opening(&mut self, _: u32) -> Option<Value> {
        None
    }

    fn chunk(&mut self, _: u32, piece: Piece) -> Value {
        json!(piece.text)
    }

    fn closing(&mut self, _: u32, _: FinishReason) -> Value {
        json!("end")
    }

    fn usage_chunk(&mut self, _: Usage) -> Value {
        json!("usage")
    }

    fn document(&mut self, _: Vec<Choice>, _: Usage) -> Value {
        json!("whole")
    }
}

fn output(part: Part) -> Output {
    Output { choice: 0, part }
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_kept_alive_by_comments() {
    let (client, outputs) = mpsc::channel(1);
    let running = Running { outputs, choices: 1, bill: Bill::new(1), keep: Keep::All };
    let mut stream = EventStream::new(running, None, Bare, false);
    let start = Instant::now();
    for beat in 1..=3 {
        assert_eq!(stream.next().await.unwrap().unwrap(), ": ping\n\n");
        assert_eq!(start.elapsed(), Duration::from_secs(15 * beat));
    }
    let piece = Piece { text: "a".to_owned(), tokens: Vec::new() };
    client.send(output(Part::Text(piece))).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "data: \"a\"\n\n");
    let end = End::Finished { reason: FinishReason::Stop, usage: Usage::default(), matched_stop: None };
    client.send(output(Part::End(end))).await.unwrap();
    let rest: Vec<_> = stream.map(Result::unwrap).collect().await;
    assert_eq!(rest, ["data: \"end\"\n\n", "data: [DONE]\n\n"]);
}

#[tokio::test]
async fn c003_a_session_that_vanishes_ends_its_stream() {
    let (client, outputs) = mpsc::channel(1);
    let running = Running { outputs, choices: 1, bill: Bill::new(1), keep: Keep::All };
    let stream = EventStream::new(running, None, Bare, true);
    drop(client);
    let events: Vec<_> = stream.map(Result::unwrap).collect().await;
    assert_eq!(events.len(), 2);
    assert!(events[0].starts_with(b"data: {\"error\":"), "{events:?}");
    assert_eq!(events[1], "data: [DONE]\n\n");
}
