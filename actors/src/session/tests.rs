use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::mpsc;
use troupe_protocol::{NewSequence, RejectReason, RequestPart, SamplingParams, SequenceEvent};

use super::*;
use crate::guide::{Grammar, Guide, Vocabulary};
use crate::scheduler::{Observe, SchedulerStatus};
use crate::testing::{END, ScriptedScheduler, Seen, VOCAB_SIZE, byte_tokenizer, says, token};

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
        answer: AnswerKind::Generated,
        stop_tokens: vec![END],
        stop: stop.iter().map(|&stop| stop.to_owned()).collect(),
        reading: None,
        guide: None,
        admission: Admission::default(),
        part: RequestPart::First,
    }
}

fn context(scheduler: Recipient<SchedulerCommand>, client: mpsc::Sender<Output>) -> SessionContext {
    SessionContext { tokenizer: Arc::new(byte_tokenizer().unwrap()), scheduler, client }
}

fn start(stop: &[&str], script: fn(&NewSequence) -> Vec<SequenceEvent>) -> Fixture {
    let (scheduler, seen) = ScriptedScheduler::start(script, SchedulerStatus::default());
    let (client, outputs) = mpsc::channel(CHANNEL);
    Session::start(request(stop), Vec::new(), context(scheduler.clone().recipient(), client));
    Fixture { scheduler, seen, outputs }
}

impl Fixture {
    /// The session's text and how it ended.
    async fn read(&mut self) -> (String, Option<End>) {
        let mut text = String::new();
        while let Some(Output { choice, part }) = self.outputs.recv().await {
            assert_eq!(choice, 3);
            match part {
                Part::Accepted(_) | Part::Prompt(_) => {}
                Part::Text(piece) => text += &piece.text,
                Part::Reasoning(_) | Part::Call(_) => panic!("none is looked for"),
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
async fn a_request_is_taken_or_refused_as_a_whole() {
    let others = || {
        let other = |choice| SessionRequest { choice, part: RequestPart::Choice, ..request(&[]) };
        vec![other(4), other(5)]
    };
    let refused: fn(&NewSequence) -> Vec<SequenceEvent> = |sequence| match sequence.part {
        RequestPart::First => vec![SequenceEvent::Rejected(RejectReason::Draining)],
        RequestPart::Prompt | RequestPart::Choice => says(sequence, "x"),
    };
    let taken: fn(&NewSequence) -> Vec<SequenceEvent> = |sequence| says(sequence, "x");
    for (script, choices) in [(refused, vec![3]), (taken, vec![3, 4, 5])] {
        let (scheduler, _seen) = ScriptedScheduler::start(script, SchedulerStatus::default());
        let (client, mut outputs) = mpsc::channel(CHANNEL);
        Session::start(request(&[]), others(), context(scheduler.recipient(), client));
        let mut ended = Vec::new();
        while let Some(Output { choice, part }) = outputs.recv().await {
            if matches!(part, Part::End(_)) {
                ended.push(choice);
            }
        }
        ended.sort_unstable();
        assert_eq!(ended, choices);
    }
}

#[actix::test]
async fn a_scheduler_that_is_gone_is_a_fault_and_no_hang() {
    let scheduler = Leaves.start();
    assert!(scheduler.send(SchedulerCommand::Drain).await.is_err());
    let (client, mut outputs) = mpsc::channel(CHANNEL);
    Session::start(request(&[]), Vec::new(), context(scheduler.recipient(), client));
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

/// Thinks without end, unless its prompt has the end of it.
fn thinks(sequence: &NewSequence) -> Vec<SequenceEvent> {
    let is_closed = sequence.prompt.ends_with(&CLOSED);
    if is_closed { says(sequence, "So.") } else { says(sequence, &format!("<think>{}", "x".repeat(500))) }
}

const CLOSED: [TokenId; 2] = [b'!' as TokenId, b'/' as TokenId];

#[actix::test]
async fn an_answer_goes_on_as_a_new_sequence_where_its_reasoning_is_closed() {
    let (scheduler, mut seen) = ScriptedScheduler::start(thinks, SchedulerStatus::default());
    let (client, mut outputs) = mpsc::channel(CHANNEL);
    let tags = troupe_parsers::Reasoning { begin: "<think>", end: "!/" };
    let setup = troupe_parsers::Setup { reasoning: Some(tags), ..troupe_parsers::Setup::default() };
    let budget = Some(Budget { tokens: 100, end: CLOSED.to_vec() });
    let reading = Some(Reading { setup, calls: CallLimit::Any, budget, id_seed: 0 });
    let request = SessionRequest { reading, ..request(&[]) };
    Session::start(request, Vec::new(), context(scheduler.recipient(), client));
    let (mut content, mut reasoning, mut end) = (String::new(), String::new(), None);
    while let Some(Output { part, .. }) = outputs.recv().await {
        match part {
            Part::Text(piece) => content += &piece.text,
            Part::Reasoning(piece) => reasoning += &piece.text,
            Part::End(ended) => end = Some(ended),
            Part::Accepted(_) | Part::Prompt(_) | Part::Call(_) => {}
        }
    }
    assert_eq!((content, reasoning), ("So.".to_owned(), "x".repeat(100)));
    let Some(End::Finished { reason, usage, .. }) = end else { panic!("{end:?}") };
    assert_eq!((reason, usage.prompt_tokens, usage.reasoning_tokens), (FinishReason::Stop, 3, 102));
    // "<think>", 100, the two that close it, "So." and the token that ends it.
    assert_eq!(usage.completion_tokens, 7 + 100 + 2 + 3 + 1);
    let mut admitted = Vec::new();
    while let Ok(event) = seen.try_recv() {
        if let Seen::Admitted(sequence) = event {
            admitted.push(sequence);
        }
    }
    let [first, second] = &admitted[..] else { panic!("{admitted:?}") };
    assert_eq!((second.prompt.len(), second.max_tokens), (3 + 109, 1000 - 109));
    assert_eq!((second.sampling.seed, second.cache_salt), (first.sampling.seed, first.cache_salt));
    assert!(second.id != first.id);
}

/// A session whose text is held to `grammar`.
fn start_guided(grammar: &Grammar, stop: &[&str], script: fn(&NewSequence) -> Vec<SequenceEvent>) -> Fixture {
    let tokenizer = Arc::new(byte_tokenizer().unwrap());
    let vocabulary = Arc::new(Vocabulary::new(Arc::clone(&tokenizer), VOCAB_SIZE));
    let guide = Guide::new(&vocabulary, grammar, &[END]).unwrap();
    let (scheduler, seen) = ScriptedScheduler::start(script, SchedulerStatus::default());
    let (client, outputs) = mpsc::channel(CHANNEL);
    let request = SessionRequest { guide: Some(guide), ..request(stop) };
    Session::start(
        request,
        Vec::new(),
        SessionContext { tokenizer, scheduler: scheduler.clone().recipient(), client },
    );
    Fixture { scheduler, seen, outputs }
}

fn finished(text: &str, reason: FinishReason) -> (String, Option<FinishReason>) {
    (text.to_owned(), Some(reason))
}

impl Fixture {
    /// The text, and why it ended.
    async fn read_finished(&mut self) -> (String, Option<FinishReason>) {
        match self.read().await {
            (text, Some(End::Finished { reason, .. })) => (text, Some(reason)),
            (text, _) => (text, None),
        }
    }
}

#[actix::test]
async fn a_guided_session_gives_a_mask_for_each_token_and_ends_with_the_text() {
    let mut fixture = start_guided(&Grammar::json_object(), &[], |sequence| says(sequence, "{\"a\":1}{"));
    assert_eq!(fixture.read_finished().await, finished("{\"a\":1}", FinishReason::Stop));
    fixture.settle().await;
    let Ok(Seen::Admitted(sequence)) = fixture.seen.try_recv() else { panic!("it was not admitted") };
    let mut masks = vec![sequence.mask.unwrap()];
    while let Ok(Seen::Masked(id, generated, mask)) = fixture.seen.try_recv() {
        assert_eq!((id, generated as usize), (sequence.id, masks.len()));
        masks.push(mask);
    }
    // One for each token of the text, and none after the last.
    assert_eq!(masks.len(), 7);
    for (byte, mask) in b"{\"a\":1}".iter().zip(&masks) {
        assert!(mask.allows(TokenId::from(*byte)) && !mask.allows(END));
    }
}

#[actix::test]
async fn a_stop_string_cuts_a_document_and_ends_other_text() {
    let mut document = start_guided(&Grammar::json_object(), &["a"], |sequence| says(sequence, "{\"a\":1}"));
    assert_eq!(document.read_finished().await, finished("{\"", FinishReason::Length));
    let words = Grammar::regex("[a-z ]+").unwrap();
    let mut text = start_guided(&words, &[" c"], |sequence| says(sequence, "a b c"));
    assert_eq!(text.read_finished().await, finished("a b", FinishReason::Stop));
}

#[actix::test]
async fn a_token_outside_its_mask_fails_the_session_and_cancels_the_sequence() {
    let mut fixture =
        start_guided(&Grammar::json_object(), &[], |_| vec![token(u32::from(b'{')), token(u32::from(b'x'))]);
    let (_, end) = fixture.read().await;
    assert!(matches!(end, Some(End::Failed(Fault::Guide { .. }))), "{end:?}");
    fixture.settle().await;
    let seen = std::iter::from_fn(|| fixture.seen.try_recv().ok());
    assert!(seen.into_iter().any(|seen| matches!(seen, Seen::Cancelled(_))));
}
