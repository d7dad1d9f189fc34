//! Answers that tell one choice in events with names: Responses and Messages, whole or streamed.
//!
//! An API's [`Narrator`] makes the events and, at the end, the document. The whole answer is what the same narrator has
//! after the same outputs, so a stream and a document cannot differ.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;

use actix_web::HttpResponse;
use actix_web::rt::spawn;
use bytes::Bytes;
use futures_util::{Stream, stream};
use serde_json::Value;
use tokio::sync::mpsc::{self, Sender};
use tokio::time::sleep;
use troupe_actors::session::{CallPart, End, FinishReason, Output, Part, Piece};
use troupe_protocol::{RateStatuses, Usage};

use super::answer::{Opening, Running, opening, stream_head};
use super::error::ApiError;
use super::params::Delivery;
use super::rate_headers;
use super::sse::HEARTBEAT;

/// More of a choice.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Delta {
    /// Text for the reader.
    Text(Piece),
    /// Text of the model's reasoning.
    Reasoning(Piece),
    /// A call of a tool begins.
    CallStarted {
        /// Its id.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of the arguments of the call that began last: JSON text.
    CallArguments(String),
    /// That call is whole.
    CallFinished,
    /// That call will never be whole.
    CallBroken,
}

impl From<CallPart> for Delta {
    fn from(part: CallPart) -> Self {
        // Calls come one after the other, so which one it is need not be told.
        match part {
            CallPart::Started { id, name, .. } => Self::CallStarted { id, name },
            CallPart::Arguments { fragment, .. } => Self::CallArguments(fragment),
            CallPart::Finished { .. } => Self::CallFinished,
            CallPart::Broken { .. } => Self::CallBroken,
        }
    }
}

/// How a choice ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending {
    /// As it should.
    Finished {
        /// Why.
        reason: FinishReason,
        /// What it took.
        usage: Usage,
        /// Which of the request's stop strings ended it, if one did.
        matched_stop: Option<usize>,
    },
    /// It could not be completed.
    Failed(ApiError),
    /// Somebody asked for it.
    Interrupted,
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    /// Its name, which its data repeats as `type`.
    pub(super) name: &'static str,
    /// Its data.
    pub(super) data: Value,
}

impl Event {
    /// As it goes over the wire.
    pub(super) fn to_bytes(&self) -> Bytes {
        Bytes::from(format!("event: {}\ndata: {}\n\n", self.name, self.data))
    }
}

/// What one API makes of a choice. Called in this order: `open` if it is streamed, `tell` any number of times, `close`.
pub(super) trait Narrator {
    /// The events that go out with the headers.
    async fn open(&mut self) -> Vec<Event>;
    /// Those that tell more.
    fn tell(&mut self, delta: Delta) -> Vec<Event>;
    /// Those that end the stream.
    async fn close(&mut self, ending: Ending) -> Vec<Event>;
    /// The answer in one document, once it is closed.
    fn document(&mut self) -> Value;
    /// What keeps a silent stream alive.
    fn ping(&self) -> Bytes {
        Bytes::from_static(b": ping\n\n")
    }
    /// Resolves if somebody asks for the end of a stream. It is dropped and asked again as long as the stream goes on.
    async fn interrupted(&mut self) {
        pending().await
    }
}

/// Answers in the way that was asked for.
///
/// # Errors
/// A rejection or fault that comes before anything was sent.
pub(super) async fn respond(
    running: Running,
    narrator: impl Narrator + 'static,
    delivery: Delivery,
) -> Result<HttpResponse, ApiError> {
    match delivery {
        Delivery::Whole => respond_whole(running, narrator).await,
        Delivery::Stream { .. } => respond_stream(running, narrator).await,
    }
}

/// What a part of a session's output means here.
enum Said {
    Accepted(RateStatuses),
    /// Nothing: these APIs do not tell of prompts.
    Nothing,
    More(Delta),
    End(Ending),
}

impl From<Part> for Said {
    fn from(part: Part) -> Self {
        match part {
            Part::Accepted(rates) => Self::Accepted(rates),
            Part::Prompt(_) => Self::Nothing,
            Part::Text(piece) => Self::More(Delta::Text(piece)),
            Part::Reasoning(piece) => Self::More(Delta::Reasoning(piece)),
            Part::Call(part) => Self::More(part.into()),
            Part::End(End::Finished { reason, usage, matched_stop }) => {
                Self::End(Ending::Finished { reason, usage, matched_stop })
            }
            Part::End(End::Rejected(reason)) => Self::End(Ending::Failed(reason.into())),
            Part::End(End::Failed(fault)) => Self::End(Ending::Failed(fault.into())),
        }
    }
}

impl From<Option<Output>> for Said {
    fn from(output: Option<Output>) -> Self {
        match output {
            Some(Output { part, .. }) => part.into(),
            None => Self::End(Ending::Failed(ApiError::internal("a session ended without a word"))),
        }
    }
}

async fn respond_whole(mut running: Running, mut narrator: impl Narrator) -> Result<HttpResponse, ApiError> {
    let mut rates = RateStatuses::default();
    loop {
        match running.outputs.recv().await.into() {
            Said::Accepted(left) => rates = rates.least(left),
            Said::Nothing => {}
            Said::More(delta) => drop(narrator.tell(delta)),
            Said::End(Ending::Failed(error)) => return Err(error),
            Said::End(ending) => {
                narrator.close(ending).await;
                break;
            }
        }
    }
    let mut response = HttpResponse::Ok().json(narrator.document());
    rate_headers::insert(response.headers_mut(), &rates);
    Ok(response)
}

async fn respond_stream(
    mut running: Running,
    mut narrator: impl Narrator + 'static,
) -> Result<HttpResponse, ApiError> {
    let Opening { rates, first } = opening(&mut running).await?;
    let ready = narrator.open().await.iter().map(Event::to_bytes).collect();
    let mut telling = Telling { running, narrator, ready, is_over: false };
    if let Some(output) = first {
        telling.accept(output.part.into()).await;
    }
    let mut response = stream_head().streaming(telling.into_stream());
    rate_headers::insert(response.headers_mut(), &rates);
    Ok(response)
}

/// The most events that wait for a stream's reader beside those of one output.
const UNREAD: usize = 8;

/// A stream that is being told. Dropping it cancels the session.
struct Telling<N> {
    running: Running,
    narrator: N,
    /// Events that are ready, in order. Bounded: one output makes a few.
    ready: VecDeque<Bytes>,
    is_over: bool,
}

impl<N: Narrator + 'static> Telling<N> {
    /// Tells in a task of its own, which ends with the stream: a body is asked for more only while its client reads, and
    /// whoever interrupts an answer does not wait for that.
    fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        let (reader, unread) = mpsc::channel(UNREAD);
        spawn(self.tell_to(reader));
        stream::unfold(unread, |mut unread| async move {
            let bytes = unread.recv().await?;
            Some((Ok(bytes), unread))
        })
    }

    async fn tell_to(mut self, reader: Sender<Bytes>) {
        while !(self.is_over && self.ready.is_empty()) {
            let is_silent = self.ready.is_empty();
            let said = tokio::select! {
                () = reader.closed() => return,
                room = reader.reserve(), if !is_silent => {
                    let Ok(room) = room else { return };
                    if let Some(bytes) = self.ready.pop_front() {
                        room.send(bytes);
                    }
                    continue;
                }
                output = self.running.outputs.recv(), if is_silent => output.into(),
                () = self.narrator.interrupted(), if !self.is_over => Said::End(Ending::Interrupted),
                () = sleep(HEARTBEAT), if is_silent => {
                    self.ready.push_back(self.narrator.ping());
                    continue;
                }
            };
            self.accept(said).await;
        }
    }

    async fn accept(&mut self, said: Said) {
        let events = match said {
            // The headers are out.
            Said::Accepted(_) | Said::Nothing => return,
            Said::More(delta) => self.narrator.tell(delta),
            Said::End(ending) => {
                self.is_over = true;
                self.running.outputs.close();
                self.narrator.close(ending).await
            }
        };
        self.ready.extend(events.iter().map(Event::to_bytes));
    }
}
