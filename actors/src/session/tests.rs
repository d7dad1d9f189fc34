use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::mpsc;
use troupe_protocol::{FinishReason, NewSequence, SamplingParams, SequenceEvent};

use super::*;
use crate::scheduler::{Observe, SchedulerStatus};
use crate::testing::{END, ScriptedScheduler, Seen, byte_tokenizer, says, token};

struct Fixture {
    scheduler: Addr<ScriptedScheduler>,
    seen: mpsc::UnboundedReceiver<Seen>,
    outputs: mpsc::Receiver<Output>,
}

fn request(stop: &[&str]) -> SessionRequest {
    SessionRequest {
        choice: 3,
        prompt: vec![1, 2, 3],
        sampling: SamplingParams::greedy(),
        max_tokens: 1000,
        stop_tokens: vec![END],
        stop: stop.iter().map(|&stop| stop.to_owned()).collect(),
        admission: Admission::default(),
    }
}

fn start(stop: &[&str], script: fn(&NewSequence) -> Vec<SequenceEvent>) -> Fixture {
    let (scheduler, seen) = ScriptedScheduler::start(script, SchedulerStatus::default());
    let (client, outputs) = mpsc::channel(CHANNEL);
    Session::start(
        request(stop),
        &Arc::new(byte_tokenizer().unwrap()),
        scheduler.clone().recipient(),
        client,
    );
    Fixture { scheduler, seen, outputs }
}

impl Fixture {
    /// The session's text and how it ended.
    async fn read(&mut self) -> (String, Option<End>) {
        let mut text = String::new();
        while let Some(Output { choice, part }) = self.outputs.recv().await {
            assert_eq!(choice, 3);
            match part {
                Part::Accepted(_) => {}
                Part::Text(piece) => text += &piece.text,
                Part::End(end) => return (text, Some(end)),
            }
        }
        (text, None)
    }

    /// Lets everything that is ready run.
    async fn settle(&self) {
        for _ in 0..CREDIT {
            self.scheduler.send(Observe).await.unwrap();
        }
    }

    async fn cancelled(&mut self) -> bool {
        while let Some(seen) = self.seen.recv().await {
            if matches!(seen, Seen::Cancelled(_)) {
                return true;
            }
        }
        false
    }
}

#[actix::test]
async fn a_whole_text_arrives() {
    let mut fixture = start(&[], |sequence| says(sequence, &"0123456789".repeat(50)));
    let (text, end) = fixture.read().await;
    assert_eq!(text, "0123456789".repeat(50));
    assert!(matches!(end, Some(End::Finished { reason: FinishReason::Stop, .. })), "{end:?}");
    assert_eq!(fixture.outputs.recv().await, None);
}

#[actix::test]
async fn a_slow_client_makes_its_sequence_wait() {
    let mut fixture = start(&[], |_| vec![token(b'x'.into()); 500]);
    let mut granted = 0;
    for taken in 0..500 {
        fixture.settle().await;
        while let Ok(seen) = fixture.seen.try_recv() {
            if let Seen::Granted(_, tokens) = seen {
                granted += tokens as usize;
            }
        }
        assert!(granted <= taken + CHANNEL, "{granted} granted when {taken} were taken");
        assert!(fixture.outputs.recv().await.is_some());
    }
    assert!(granted >= 500 - CREDIT as usize);
}

#[actix::test]
async fn c113_a_client_that_goes_away_cancels_its_sequence() {
    // One that was reading, one that never did, one whose prefill never ends.
    for (script, reads) in [
        ((|_| vec![token(b'x'.into()); 500]) as fn(&NewSequence) -> Vec<SequenceEvent>, 10),
        (|_| vec![token(b'x'.into()); 500], 0),
        (|_| Vec::new(), 0),
    ] {
        let mut fixture = start(&[], script);
        for _ in 0..reads {
            assert!(fixture.outputs.recv().await.is_some());
        }
        fixture.settle().await;
        fixture.outputs.close();
        assert!(fixture.cancelled().await);
    }
}

/// Stops before its first message.
struct Leaves;

impl Actor for Leaves {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}

impl Handler<SchedulerCommand> for Leaves {
    type Result = ();

    fn handle(&mut self, _: SchedulerCommand, _: &mut Context<Self>) {}
}

#[actix::test]
async fn a_scheduler_that_is_gone_is_a_fault_and_no_hang() {
    let scheduler = Leaves.start();
    assert!(scheduler.send(SchedulerCommand::Drain).await.is_err());
    let (client, mut outputs) = mpsc::channel(CHANNEL);
    Session::start(request(&[]), &Arc::new(byte_tokenizer().unwrap()), scheduler.recipient(), client);
    let output = outputs.recv().await.unwrap();
    assert!(matches!(output.part, Part::End(End::Failed(_))), "{output:?}");
}

#[actix::test]
async fn a_stop_string_cancels_the_sequence() {
    let mut fixture = start(&["lo, wor"], |sequence| says(sequence, &"Hello, world. ".repeat(10)));
    let (text, end) = fixture.read().await;
    assert_eq!(text, "Hel");
    assert!(matches!(end, Some(End::Finished { reason: FinishReason::Stop, .. })), "{end:?}");
    assert!(fixture.cancelled().await);
}
